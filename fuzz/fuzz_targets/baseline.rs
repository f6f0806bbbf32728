//! Whatever the line, a baseline program's answer is read or refused.
#![no_main]

use optloop::runner::baseline::{Failure, Hello, Prepared, Released, Sampled, answer, meant};

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    match answer(line) {
        Ok(value) => {
            let _ = meant::<Hello>(value.clone());
            let _ = meant::<Prepared>(value.clone());
            let _ = meant::<Sampled>(value.clone());
            let _ = meant::<Released>(value);
        }
        Err(Failure::Refused(why) | Failure::Gone(why)) => assert!(!why.contains('\n'), "{why:?}"),
    }
});
