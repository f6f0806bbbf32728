//! A compiler that runs out of memory or dies is an outcome of the source.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use optloop::domain::variant::{Variant, VariantHash};
use optloop::runner::compile::{CompileError, CompileLimits, Compiler};
use optloop::runner::toolchain::Toolchain;

use super::{hasty, said};
use crate::common::TEMPLATE;

/// An array of a hundred million numbers, in ten lines.
fn exploding() -> String {
    let ten = |of: &str| [of; 10].join(",");
    let lines = (1..8).map(|n| format!("#define A{n} {}\n", ten(&format!("A{}", n - 1))));
    format!("#define A0 {}\n{}__device__ int big[] = {{A7}};\n", ten("1"), lines.collect::<String>())
}

/// Constants that take hours to find.
const ENDLESS: &str = "
template <int N, int M> struct Fork { static constexpr int n = Fork<N - 1, 2 * M>::n + Fork<N - 1, 2 * M + 1>::n; };
template <int M> struct Fork<0, M> { static constexpr int n = 1; };
constexpr int forked = Fork<24, 1>::n;
";

fn variant(source: &str) -> Variant {
    let hash = VariantHash::of(source);
    Variant { family: String::new(), params: [].into_iter().collect(), hash, source: source.to_owned() }
}

fn refusal(compiler: &Compiler, source: &str) -> String {
    match compiler.compile(&variant(source)) {
        Err(CompileError::Rejected { log }) => log,
        other => panic!("{:?}", other.map(|artifact| artifact.key)),
    }
}

#[test]
fn a_source_that_takes_all_memory_is_given_up_and_the_next_one_compiles() {
    let exe = env!("CARGO_BIN_EXE_optloop").into();
    let limits = CompileLimits { timeout: Duration::from_secs(60), memory_bytes: 600_000_000 };
    let compiler = Compiler::new(exe, Toolchain::find_or_fetch().unwrap(), "sm_90a", &[], limits).unwrap();
    let log = refusal(&compiler, &exploding());
    assert!(log.contains("out of memory") || log.contains("compile.memory_gb"), "{log}");
    // Not a result from the cache.
    let honest = format!("extern \"C\" __global__ void k{}() {{}}", std::process::id());
    assert!(compiler.compile(&variant(&honest)).is_ok());
}

#[test]
fn a_compiler_that_dies_or_writes_to_the_wrong_pipe_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("compiler");
    let optloop = env!("CARGO_BIN_EXE_optloop");
    // The system kills a process that uses more than a second of CPU time.
    let text = format!("#!/bin/sh\necho 'a notice of the linker' >&2\nulimit -t 1\nexec {optloop} \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let patience = Duration::from_secs(60);
    let compiler = Compiler::new(script, Toolchain::find_or_fetch().unwrap(), "sm_90a", &[], patience).unwrap();
    let log = refusal(&compiler, ENDLESS);
    assert!(log.starts_with("the compiler ended (signal: "), "{log}");
    assert!(log.ends_with("(compile.memory_gb); its last message: a notice of the linker"), "{log}");
    assert!(compiler.probe().is_ok());
}

#[test]
fn a_source_that_breaks_a_rule_is_refused_and_on_record() {
    let sandbox = hasty();
    let nosy = "<% if TILE == 16 %>#include \"/etc/passwd\"\n<% endif %>";
    sandbox.write("templates/kernels/toy/kernel.cu.tera", &format!("{nosy}{TEMPLATE}"));
    let output = sandbox.session("20", &["--case", "s64"]);
    assert!(output.status.success(), "{}", said(&output));
    let rows = sandbox.succeeds(&["history", "--outcome", "rejected_by_compiler", "--json"]);
    assert!(rows.contains("`/etc/passwd` is not one of the headers that a kernel may include"), "{rows}");
    let watch = "unsigned long long now; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));";
    sandbox.replace(
        "templates/kernels/toy/kernel.cu.tera",
        "    o[blockIdx.x",
        &format!("    {watch}\n    o[blockIdx.x"),
    );
    let said = sandbox.optloop(&["compile", "--workload", "small"]);
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("it reads the clock %globaltimer"), "{said}");
}
