//! Whatever the text, the rules of sources say yes, or no in one sentence.
#![no_main]

use optloop::runner::source_rules::{check_ptx, check_source};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for checked in [check_source(text), check_ptx(text)] {
        if let Err(problem) = checked {
            let problem = problem.to_string();
            assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}");
        }
    }
});
