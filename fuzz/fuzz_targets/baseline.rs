//! Whatever the line, a baseline program's answer is read or refused.
#![no_main]

use optloop::runner::baseline::{Done, Failure, Hello, Prepared, Sampled, answer, parse_answer};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    match answer(line) {
        Ok(value) => {
            let _ = parse_answer::<Hello>(value.clone());
            let _ = parse_answer::<Prepared>(value.clone());
            let _ = parse_answer::<Sampled>(value.clone());
            let _ = parse_answer::<Done>(value);
        }
        Err(Failure::Refused(why) | Failure::Disconnected(why)) => assert!(!why.contains('\n'), "{why:?}"),
    }
});
