//! Every kernel of the conformance set gives the same results on the virtual GPU as on a real one.
//!
//! conformance/record.py recorded the expected data; conformance/expected/expected.json names the GPU. A case without
//! data fails. `CONFORMANCE_CASES=text` runs only the cases whose name contains the text.

mod compare;
mod counters;
mod execute;
mod suite;
mod tables;

use std::panic::{AssertUnwindSafe, catch_unwind};

use compare::{bits, show, width};
use suite::{Case, File, folder};
use virtual_gpu::ptx;

/// Differences shown per section.
const SHOWN: usize = 3;

/// Returns the differences, one line per section with up to [`SHOWN`] elements.
fn differences(case: &Case, expected: &[u8], got: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut start = 0;
    for section in &case.out {
        let (kind, width) = (section.kind.as_str(), width(&section.kind));
        let element = |data: &[u8], i: usize| bits(&data[start + i * width..][..width]);
        let wrong: Vec<usize> = (0..section.count)
            .filter(|&i| !section.rule.accepts(kind, element(expected, i), element(got, i)))
            .collect();
        if !wrong.is_empty() {
            let shown: Vec<String> = wrong
                .iter()
                .take(SHOWN)
                .map(|&i| {
                    let (expected, got) = (show(kind, element(expected, i)), show(kind, element(got, i)));
                    format!("element {i} expected {expected} got {got}")
                })
                .collect();
            let (label, count) = (&section.label, section.count);
            lines.push(format!("`{label}`: {} of {count} differ: {}", wrong.len(), shown.join("; ")));
        }
        start += section.count * width;
    }
    lines
}

/// Runs the cases of a file and fails with all differences.
fn check(ptx: &str) {
    let (manifest, recorded) = suite::load();
    let file: &File = manifest.files.iter().find(|file| file.ptx == ptx).expect("cases.json has the file");
    let text = std::fs::read_to_string(folder().join("kernels").join(ptx)).expect("the PTX text is there");
    let module = ptx::load(ptx, &text).unwrap_or_else(|error| panic!("{error}"));
    let only = std::env::var("CONFORMANCE_CASES").unwrap_or_default();
    let mut failed = Vec::new();
    for case in file.cases.iter().filter(|case| case.name.contains(&only)) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let expected = recorded.output(&manifest, file, &text, case)?;
            let (got, _) = execute::run(&module, &manifest, case)?;
            Ok::<_, String>(differences(case, expected, &got))
        }));
        let lines = match result {
            Ok(Ok(lines)) => lines,
            Ok(Err(message)) => vec![message],
            Err(_) => vec!["panicked (message above)".to_owned()],
        };
        failed.extend(lines.into_iter().map(|line| format!("{ptx}/{}: {line}", case.name)));
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}

/// One test per file of kernels, and one that checks that no file is missing.
macro_rules! files {
    ($($name:ident: $file:literal),* $(,)?) => {
        $(#[test] fn $name() { check($file); })*

        #[test]
        fn every_file_has_a_test() {
            let named = [$($file),*];
            let (manifest, _) = suite::load();
            for file in &manifest.files {
                assert!(named.contains(&file.ptx.as_str()), "{} has no test", file.ptx);
            }
        }
    };
}

files! {
    integers_of_16_bits: "int16.ptx",
    integers_of_32_bits: "int32.ptx",
    integers_of_64_bits: "int64.ptx",
    carries: "carry.ptx",
    floats_of_32_bits: "f32.ptx",
    floats_of_64_bits: "f64.ptx",
    comparisons: "compare.ptx",
    half_floats: "f16.ptx",
    brain_floats: "bf16.ptx",
    approximations: "approx.ptx",
    conversions: "cvt.ptx",
    warp_instructions: "warp.ptx",
    matrix_moves: "matrix.ptx",
    matrix_products: "mma.ptx",
    control_flow: "control.ptx",
    memory: "memory.ptx",
    asynchronous_copies: "async.ptx",
    clusters: "cluster.ptx",
    warpgroup_products: "wgmma.ptx",
    scalar_attention: "attention_scalar.ptx",
    scalar_attention_in_single_precision: "attention_scalar_f32.ptx",
    split_attention: "attention_split.ptx",
    attention_on_tensor_cores: "attention_mma.ptx",
    bank_conflicts: "banks.ptx",
    tensor_copies: "tensor.ptx",
}

/// The rules distinguish what they should; otherwise a test that accepts everything would pass, too.
#[test]
fn rules_tell_apart() {
    let rule = |text: &str| serde_json::from_str::<compare::Rule>(text).expect("a rule");
    let (one, next, nan, other_nan) = (0x3f80_0000, 0x3f80_0001, 0x7fc0_0000, 0x7fff_ffff);
    let exact = rule(r#""exact""#);
    assert!(
        exact.accepts("f32", one, one) && !exact.accepts("f32", one, next) && !exact.accepts("f32", nan, other_nan)
    );
    let none = rule(r#"{"ulp": 0}"#);
    assert!(none.accepts("f32", nan, other_nan) && !none.accepts("f32", one, next) && !none.accepts("f32", nan, one));
    let close = rule(r#"{"ulp": 1}"#);
    assert!(close.accepts("f32", one, next) && close.accepts("f32", next, one) && !close.accepts("f32", one, next + 1));
    // The sign of zero counts, and nothing is close to infinity.
    assert!(!close.accepts("f32", 0, 0x8000_0000) && close.accepts("f16", 1, 0));
    let loose = rule(r#"{"rel": 0.5, "abs": 1e-3}"#);
    assert!(loose.accepts("f16", 0x3c00, 0x3e00) && !loose.accepts("f16", 0x3c00, 0x4000));
    assert!(!loose.accepts("f32", 0x7f80_0000, 0x7f7f_ffff) && !loose.accepts("f32", one, 0x7f80_0000));
    assert!(!loose.accepts("u32", 1000, 1001), "integers are exact");
}

/// The loader accepts every text of this crate, or reports all unknown forms at once.
#[test]
fn every_text_loads() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut errors = Vec::new();
    for folder in ["conformance/kernels", "tests/kernels"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "ptx") {
                let text = std::fs::read_to_string(&path).expect("a text");
                let name = path.file_name().expect("a name").to_string_lossy();
                errors.extend(ptx::load(&name, &text).err().map(|error| error.to_string()));
            }
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
