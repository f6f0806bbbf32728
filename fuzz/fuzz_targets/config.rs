//! Whatever the text, `config.toml` is read or refused in one sentence, and what is read can be used.
#![no_main]

use optloop::config::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Config::parse(text) {
        Ok(config) => {
            config.policy();
            config.step_timeout();
            config.compile_limits();
            config.parallel_compilations();
        }
        Err(problem) => assert!(!problem.is_empty() && !problem.contains('\n'), "{problem:?}"),
    }
});
