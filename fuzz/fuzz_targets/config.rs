//! Whatever the text, `config.toml` is read or refused in one sentence, and what is read can be used.
#![no_main]

use optloop::config::Config;
use optloop_fuzz::expect_one_sentence;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Config::parse(text) {
        Ok(config) => {
            config.measuring();
            config.worker_timeouts();
            config.compile_limits();
            config.parallel_compilations();
        }
        Err(problem) => expect_one_sentence(&problem),
    }
});
