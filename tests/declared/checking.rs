//! `optloop check` on a project's own op: its oracle runs with consent only, and is checked itself.

use super::{call, project};

const ORACLE: &str = "kernels/ops/rms-norm/oracle.py";

/// Checks the workload on a virtual GPU, after a line was added to the oracle.
fn with_line(line: &str) -> String {
    let sandbox = project();
    sandbox.replace(ORACLE, "    return", &format!("    {line}\n    return"));
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual", "--trust"]);
    format!("{code} {found}")
}

#[test]
fn an_oracle_runs_with_consent_only_and_the_rest_is_checked_without() {
    let sandbox = project();
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"
    1 note   small: nothing was run, because you have not trusted the oracle of
           workload `small`'s op, `python3 kernels/ops/rms-norm/oracle.py`:
           `optloop trust` shows it and asks
    ");
    let (code, found, _) = call(&sandbox, &["check", "small", "--device", "virtual", "--trust"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"0 ok     rms-norm-rows on small: right on r4n64, r8n500");
}

#[test]
fn an_oracle_that_sleeps_ends_with_the_time_of_the_session_that_it_holds_up() {
    let sandbox = project();
    sandbox.replace(ORACLE, "    return", "    import time; time.sleep(40)\n    return");
    sandbox.write("config.toml", "[worker]\nlaunch_timeout = '1s'\n");
    let start = ["start", "--workload", "small", "--device", "fake", "--trust", "--budget", "1s"];
    let mut start = sandbox.command(&start);
    let output = start.env("PYTHONPATH", super::numpy()).env("OPTLOOP_PROGRESS_MS", "2000").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines.iter().any(|line| line.starts_with("calling the oracle of op `rms-norm`: a call for ")
            && (line.ends_with(" (--budget ends it after 5 s)") || line.ends_with(" (--budget ends it after 6 s)"))),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2), "{said}");
    insta::assert_snapshot!(lines.last().unwrap(), @"error: calling the oracle of op `rms-norm` took over 6s, which is all that a session of 1s (--budget) has with its grace period: make it faster, or give the session more time");
    assert!(!sandbox.path(".optloop/optloop.db").exists(), "nothing was begun");
}

/// The inputs of the second case would have 515 GB.
#[test]
fn a_case_that_does_not_fit_into_the_memory_is_refused_before_it_is_drawn() {
    let sandbox = project();
    let more = |number: u32| format!("\n[tensors.x{number}]\nrole = \"input\"\nshape = [\"R\", \"N\"]\n");
    let op = "kernels/ops/rms-norm/op.toml";
    let text = std::fs::read_to_string(sandbox.path(op)).unwrap();
    sandbox.write(op, &format!("{text}{}", (0..60).map(more).collect::<String>()));
    sandbox.replace("kernels/workloads/small.toml", "R = 8\nN = 500", "R = 262144\nN = 8192");
    sandbox.write("config.toml", "[virtual]\nmax_gflop = 1e6\n");
    let said = super::refused(&sandbox);
    assert!(said.starts_with("error: case `r8n500`: its inputs and outputs need 1048.0 GB of memory"), "{said}");
    assert!(said.ends_with(" GB free: reduce its dimensions, or leave it out"), "{said}");
}

#[test]
fn what_an_oracle_does_wrong_is_shown_with_its_line() {
    insta::assert_snapshot!(with_line("print('hello')"), @"
    0 ok     rms-norm-rows on small: right on r4n64, r8n500
    note   small: the oracle of op `rms-norm` prints, which is not shown elsewhere:
           hello
    ");
    insta::assert_snapshot!(with_line("raise ValueError('no')"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` failed: ValueError: no
           (oracle.py, line 5)
    ");
    insta::assert_snapshot!(with_line("x = x + np.random.rand()"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` returned two results
           for the same inputs: it must depend on its arguments alone, so remove
           random numbers and state
    ");
    insta::assert_snapshot!(with_line("import os; os._exit(3)"), @"
    1 wrong  small: case `r4n64`: the oracle of op `rms-norm` failed: it ended with
           exit code 3, and without an error message
    ");
    // A wrapper of Python may say more.
    assert!(with_line("import os; os.kill(os.getpid(), 11)").contains("signal 11 (SIGSEGV)"));
    // It disagrees with the kernel.
    let said = with_line("w = 2 * w");
    assert!(said.starts_with("1 wrong  rms-norm-rows on small: wrong: relative error"), "{said}");
    let said = said.replace("\n       ", " ");
    assert!(said.contains("; element 0 of row 0 is ") && said.contains(" by the kernel and "), "{said}");
}

/// Its blocks add to one number in any order.
#[test]
fn a_kernel_that_adds_with_atomics_is_run_until_its_output_differs() {
    let sandbox = project();
    let kernel = "__global__ void total(const float* x, float* y, int n) {\n    int at = blockIdx.x * 32 + threadIdx.x;\n    \
                  float sum = at < n ? x[at] : 0.f;\n    \
                  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);\n    \
                  if (threadIdx.x == 0) atomicAdd(y, sum);\n}\n";
    sandbox.write("mine/total.cu", kernel);
    sandbox.write("mine/total.py", "def oracle(x):\n    return x.sum()\n");
    let add = "add mine/total.cu --oracle mine/total.py --shape x=n --shape y=1 --zero y --contents x=uniform:0:1 \
               --case n=5000 --grid ceil_div(n,32) --block 32";
    let (code, _, said) = call(&sandbox, &add.split_whitespace().collect::<Vec<_>>());
    assert_eq!(code, 0, "{said}");
    let (code, found, _) = call(&sandbox, &["check", "total", "--device", "virtual", "--trust"]);
    insta::assert_snapshot!(format!("{code} {found}"), @"
    1 wrong  total on total: wrong: the same inputs gave a different output when it
           was timed: it adds floating-point numbers with atomics, so the sum
           depends on the order in which blocks and warps run; let each block write
           its part, and the last block add the parts in a fixed order, as
           examples/sum of optloop does, or let a tensor differ within bounds
           (--atomic-sums of optloop add) (n5000)
    ");
}

/// The second output has the same bytes in every run, or the ticket of each block in its last bits.
#[test]
fn only_a_tensor_whose_sums_are_free_may_differ_from_run_to_run() {
    let sandbox = project();
    let kernel = "__device__ unsigned tickets;\n#define TICKETS 0\n\
                  __global__ void total(const float* x, const float* w, float* y, float* z, int n) {\n    \
                  int at = blockIdx.x * 32 + threadIdx.x;\n    if (at < n) z[at] = x[at];\n    \
                  float sum = at < n ? x[at] * w[at] : 0.f;\n    \
                  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);\n    \
                  if (threadIdx.x) return;\n    atomicAdd(y, sum);\n    \
                  if (TICKETS) z[at] = x[at] * (1 + 1.2e-7f * (atomicAdd(&tickets, 1u) % 4));\n}\n";
    sandbox.write(
        "mine/total.py",
        "def oracle(x: 'n', w: 'n') -> ('1', 'n'):\n    return (x * w).sum(keepdims=True), x\n",
    );
    let add = "add mine/total.cu --oracle mine/total.py --zero y --case n=5000 --grid ceil_div(n,32) --block 32 --force \
               --contents x=uniform:0:1 --contents w=uniform:0:1";
    let checked = |kernel: &str, bound: &str| {
        sandbox.write("mine/total.cu", kernel);
        let options = add.split_whitespace().chain(["--atomic-sums", bound]);
        let (code, told, said) = call(&sandbox, &options.collect::<Vec<_>>());
        assert_eq!(code, 0, "{said}");
        assert!(told.contains("two runs may differ in y, and in nothing else (`optloop docs correctness`)"), "{told}");
        let (code, found, _) = call(&sandbox, &["check", "total", "--device", "virtual", "--trust"]);
        format!("{code} {}", found.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    insta::assert_snapshot!(checked(kernel, "y=products"), @"0 ok total on total: right on n5000");
    let tickets = kernel.replace("TICKETS 0", "TICKETS 1");
    insta::assert_snapshot!(checked(&tickets, "y"), @"1 wrong total on total: wrong: the same inputs gave a different output when it was timed: it adds floating-point numbers with atomics, so the sum depends on the order in which blocks and warps run; let each block write its part, and the last block add the parts in a fixed order, as examples/sum of optloop does, or let a tensor differ within bounds (--atomic-sums of optloop add) (n5000)");
    sandbox.replace("mine/total.py", "(x * w)", "-(x * w)");
    insta::assert_snapshot!(checked(kernel, "y=products"), @r#"1 wrong total: case `n5000`: the elements of `y` are declared as sums of products of inputs, but the oracle returns less for the absolute values of the inputs: declare atomic_sums = "tolerance" (--atomic-sums y)"#);
}
