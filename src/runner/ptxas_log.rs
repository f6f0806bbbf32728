//! Parses registers, spills and shared memory from the report that `--ptxas-options=-v` adds to NVRTC's log.

use crate::domain::code::artifact::KernelResources;

/// Returns the resources of every kernel, in the report's order.
pub fn parse(log: &str) -> Vec<KernelResources> {
    let mut kernels: Vec<KernelResources> = Vec::new();
    for line in log.lines() {
        if let Some(name) = between(line, "Compiling entry function '", "'") {
            kernels.push(KernelResources { name: name.to_owned(), ..KernelResources::default() });
        }
        let Some(kernel) = kernels.last_mut() else { continue };
        if line.contains("bytes stack frame") {
            kernel.stack_bytes = number_before(line, " bytes stack frame");
            kernel.spill_store_bytes = number_before(line, " bytes spill stores");
            kernel.spill_load_bytes = number_before(line, " bytes spill loads");
        }
        if line.contains("Used ") {
            kernel.registers = number_before(line, " registers");
            kernel.shared_bytes = number_before(line, " bytes smem");
        }
    }
    kernels
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &line[line.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

/// Returns the number directly before `unit`, or 0.
fn number_before(line: &str, unit: &str) -> u32 {
    let digits = |text: &str| text.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    line.find(unit).and_then(|end| digits(&line[..end])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_two_kernels_gives_both() {
        let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'combine' for 'sm_90a'
ptxas info    : Function properties for combine
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
ptxas info    : Compiling entry function 'partial' for 'sm_90a'
ptxas info    : Function properties for partial
    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 49152 bytes smem, 400 bytes cmem[0]
";
        insta::assert_debug_snapshot!(parse(log), @r#"
        [
            KernelResources {
                name: "combine",
                registers: 40,
                shared_bytes: 0,
                stack_bytes: 0,
                spill_store_bytes: 0,
                spill_load_bytes: 0,
                instructions: None,
            },
            KernelResources {
                name: "partial",
                registers: 255,
                shared_bytes: 49152,
                stack_bytes: 16,
                spill_store_bytes: 24,
                spill_load_bytes: 32,
                instructions: None,
            },
        ]
        "#);
        assert!(parse("").is_empty());
    }
}
