//! Untrusted sources, templates and compiler options cannot read or write files, or block a session.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{self, Sandbox};
use tempfile::TempDir;

const TEMPLATE: &str = "templates/kernels/toy/kernel.cu.tera";
const SECRET: &str = "hunter2_is_in_this_file";

/// A project whose template begins with some text. Its cache is its own, so every source is compiled.
fn with_template(begin: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(TEMPLATE, &format!("{begin}\n{}", common::TEMPLATE));
    sandbox
}

/// Compiles the project's families and returns all output.
fn compile(sandbox: &Sandbox) -> String {
    let output = sandbox.optloop(&["compile", "--arch", "sm_80", "--workload", "small"]);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn a_source_cannot_find_out_which_files_exist() {
    // The rules for sources cannot see this word before the preprocessor has put it together.
    let asks = |path: &str| {
        let line =
            format!("#define PASTE(a, b) a##b\n#if PASTE(__has_, include)(\"{path}\")\n#error it is there\n#endif");
        compile(&with_template(&line)).contains("it is there")
    };
    assert!(asks("cuda_fp16.h"), "the question is understood");
    for path in ["/etc/passwd", "/etc/hostname", "/proc/self/environ", "../etc/passwd"] {
        assert!(!asks(path), "{path}");
    }
}

#[test]
fn a_quoted_include_reads_neither_the_project_nor_its_links() {
    let (sandbox, outside) = (with_template("#include \"cuda/leak.h\""), TempDir::new().unwrap());
    fs::write(outside.path().join("leak.h"), format!("#error {SECRET}\n")).unwrap();
    symlink(outside.path(), sandbox.path("cuda")).unwrap();
    let said = compile(&sandbox);
    assert!(!said.contains(SECRET) && said.contains("leak.h"), "{said}");
}

#[test]
fn options_of_the_project_cannot_name_files() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("in.h"), format!("#error {SECRET}\n")).unwrap();
    let path = |name: &str| outside.path().join(name).display().to_string();
    for option in [
        format!("--time={}", path("time.csv")),
        format!("--create-pch={}", path("out.pch")),
        format!("--pre-include={}", path("in.h")),
        format!("--ptxas-options=-optf={}", path("in.h")),
        format!("-I{}", outside.path().display()),
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("config.toml", &format!("[compile]\noptions = [\"{option}\"]\n"));
        let said = sandbox.fails(&["compile", "--arch", "sm_80", "--workload", "small"]);
        assert!(
            said.starts_with("2 error: PROJECT/config.toml: compile.options: the compiler option `")
                && !said.contains(SECRET),
            "{said}"
        );
    }
    let left: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["in.h"]);
}

#[test]
fn options_of_a_winner_cannot_name_files() {
    let (sandbox, outside) = (Sandbox::new(), TempDir::new().unwrap());
    assert!(sandbox.session("30", &[]).status.success());
    let (sidecar, written) = (format!("{}/s128.json", common::FAKE_WINNERS), outside.path().join("time.csv"));
    sandbox.replace(&sidecar, "\"--use_fast_math\"", &format!("\"--time={}\"", written.display()));
    let said = sandbox.fails(&["bench", &sidecar, "--device", "fake"]);
    assert!(said.contains("the compiler option `--time="), "{said}");
    assert!(!written.exists());
}

#[test]
fn an_endless_template_times_out() {
    let loops = "<% for a in range(end=100000) %><% for b in range(end=100000) %><% endfor %><% endfor %>";
    let said = with_template(loops).fails(&["compile", "--arch", "sm_80", "--workload", "small"]);
    insta::assert_snapshot!(said, @"2 error: family `toy`: its template does not render: the renderer took over 5s (the limit for rendering a template)");
}

#[test]
fn a_template_that_fills_the_memory_is_given_up() {
    let doubles = format!("<% set s = \"0123456789abcdef\" %>{}", "<% set s = s ~ s %>".repeat(40));
    let said = with_template(&doubles).fails(&["compile", "--arch", "sm_80", "--workload", "small"]);
    assert!(said.starts_with("2 error: family `toy`: its template does not render: the renderer ended ("), "{said}");
    assert!(said.contains("it may have 1.00 GB of memory (the limit for rendering a template)"), "{said}");
}

#[test]
fn headers_of_a_family_are_part_of_its_source() {
    let sandbox = with_template("#include \"tile.h\"\nstatic_assert(TILE_OF_HEADER == 16);");
    sandbox.replace("templates/kernels/toy/family.toml", "op = ", "headers = [\"include\"]\nop = ");
    sandbox.write("templates/kernels/toy/include/tile.h", "#pragma once\nconstexpr int TILE_OF_HEADER = 16;\n");
    let first = sandbox.succeeds(&["compile", "--arch", "sm_80", "--workload", "small", "--json"]);
    sandbox.write("templates/kernels/toy/include/tile.h", "#pragma once\nconstexpr int TILE_OF_HEADER = 8 + 8;\n");
    let second = sandbox.succeeds(&["compile", "--arch", "sm_80", "--workload", "small", "--json"]);
    assert_ne!(first, second, "the hash of a variant covers its headers");
}
