//! Whatever a whole frame holds, it is a message that can be sent on, or an error.
#![no_main]

use optloop::runner::frames::encode;
use optloop::runner::messages::{WorkerReply, WorkerRequest};

libfuzzer_sys::fuzz_target!(|payload: &[u8]| {
    if let Ok(reply) = rmp_serde::from_slice::<WorkerReply>(payload) {
        encode(&reply).expect("what was read can be written");
    }
    if let Ok(request) = rmp_serde::from_slice::<WorkerRequest>(payload) {
        encode(&request).expect("what was read can be written");
    }
});
