//! Kernels with whole numbers only: packed words, hashes and counts use the whole range of their types, and results must be
//! equal.

use super::{call, project};

/// Adds a kernel with its oracle, and checks it on a virtual GPU. Some texts of the kernel may be replaced.
fn checked(name: &str, kernel: &str, oracle: (&str, &str), options: &str) -> String {
    let sandbox = project();
    let (ending, oracle) = oracle;
    sandbox.write(&format!("mine/{name}.cu"), kernel);
    sandbox.write(&format!("mine/oracle.{ending}"), oracle);
    let add = format!("add mine/{name}.cu --oracle mine/oracle.{ending} {options} --case n=1000 --block 128");
    let arguments: Vec<&str> = add.split_whitespace().collect();
    let (code, _, said) = call(&sandbox, &[&arguments[..], &["--grid", "ceil_div(n,128)"]].concat());
    assert_eq!(code, 0, "{said}");
    let (code, found, _) = call(&sandbox, &["check", name, "--device", "virtual", "--trust"]);
    format!("{code} {}", found.replace("\n       ", " "))
}

/// Eight numbers of 4 bits are packed in a word. `WRONG` swaps the last two.
const UNPACK: &str = "__global__ void unpack(const int* packed, float* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) for (int k = 0; k < 8; ++k) y[8 * i + k] = (packed[i] >> (4 * PLACE)) & 15;
}\n";

const UNPACK_ORACLE: &str = "import numpy as np\n
def oracle(packed):
    return ((packed[:, None] >> (4 * np.arange(8))) & 15).reshape(-1)\n";

#[test]
fn every_bit_of_a_packed_word_counts() {
    let with = |place: &str| {
        let options = "--shape packed=n --shape y=8*n --contents packed=integers:-2147483648:2147483647";
        checked("unpack", &UNPACK.replace("PLACE", place), ("py", UNPACK_ORACLE), options)
    };
    assert_eq!(with("k").trim(), "0 ok     unpack on unpack: right on n1000");
    let said = with("(k < 6 ? k : 13 - k)");
    assert!(said.starts_with("1 wrong  unpack on unpack: wrong: relative error"), "{said}");
}

/// A multiplicative hash. `as_double` computes it as many a port to Python would.
const HASH: &str = "__global__ void hash(const unsigned* key, const long long* salt, long long* y, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = MIX;
}\n";

const HASH_ORACLE: &str = "def oracle(key, salt):
    return salt * 6364136223846793005 + key\n";

const HASH_ORACLE_IN_CUDA: &str =
    "__global__ void oracle(const long long* key, const long long* salt, long long* y, long long n) {
    long long i = blockIdx.x * 128ll + threadIdx.x;
    if (i < n) y[i] = (long long)((unsigned long long)salt[i] * 6364136223846793005ull + (unsigned long long)key[i]);
}\n";

#[test]
fn integers_of_64_bits_and_without_a_sign_are_compared_exactly() {
    let options = "--shape key=n --shape salt=n --shape y=n --contents key=integers:0:4294967295 \
                   --contents salt=integers:-9223372036854775808:9223372036854775807";
    let in_cuda = format!("{options} --oracle-grid ceil_div(n,128) --oracle-block 128");
    let right = "(long long)((unsigned long long)salt[i] * 6364136223846793005ull + key[i])";
    let with = |mix: &str| checked("hash", &HASH.replace("MIX", mix), ("py", HASH_ORACLE), options);
    assert_eq!(with(right).trim(), "0 ok     hash on hash: right on n1000");
    let cuda = checked("hash", &HASH.replace("MIX", right), ("cu", HASH_ORACLE_IN_CUDA), &in_cuda);
    assert_eq!(cuda.trim(), "0 ok     hash on hash: right on n1000");
    // Wrong in the last bit only, which no float shows.
    let said = with(&format!("{right} ^ (i == 77)"));
    assert!(
        said.starts_with(
            "1 wrong  hash on hash: wrong: whole numbers that are computed from whole numbers must be equal; element"
        ),
        "{said}"
    );
    // Where the key has its highest bit.
    let said = with(&right.replace("key[i]", "(int)key[i]"));
    assert!(said.contains("must be equal"), "{said}");
}

/// Bytes and truth values in, a byte, a truth value and a count out.
const BYTES: &str = "__global__ void bytes(const unsigned char* a, const bool* keep, unsigned char* y, bool* odd, unsigned* wide, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    y[i] = keep[i] ? a[i] + ADDED : 0;
    odd[i] = a[i] & 1;
    wide[i] = a[i] * 16843009u;
}\n";

const BYTES_ORACLE: &str = "import numpy as np\n
def oracle(a, keep):
    return np.where(keep, (a + 200) % 256, 0), a & 1, a * 16843009\n";

#[test]
fn bytes_truth_values_and_words_without_a_sign_are_outputs() {
    let options = "--shape a=n --shape keep=n --shape y=n --shape odd=n --shape wide=n";
    let with = |added: &str| checked("bytes", &BYTES.replace("ADDED", added), ("py", BYTES_ORACLE), options);
    assert_eq!(with("200").trim(), "0 ok     bytes on bytes: right on n1000");
    // Off by one where the byte is large.
    let said = with("(a[i] > 200 ? 201 : 200)");
    assert!(said.contains("must be equal; element"), "{said}");
}
