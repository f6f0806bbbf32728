//! Whatever the text, a sidecar is read or refused in one sentence; what is read can be written and read again.
#![no_main]

use optloop::domain::sidecar::Sidecar;
use optloop_fuzz::expect_one_sentence;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Sidecar::parse(text) {
        Ok(sidecar) => {
            sidecar.plan();
            sidecar.measurement.timing();
            let again = Sidecar::parse(&sidecar.to_json().expect("it can be written"));
            assert!(again.is_ok(), "{again:?}");
        }
        Err(problem) => expect_one_sentence(&problem),
    }
});
