//! Whatever the bytes, a stream of frames ends: with messages, or with an error of one sentence.
#![no_main]

use optloop::runner::frames::read;
use optloop::runner::messages::WorkerReply;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut stream = bytes;
    loop {
        match read::<WorkerReply>(&mut stream) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
});
