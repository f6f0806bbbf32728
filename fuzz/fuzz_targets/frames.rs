//! Whatever the bytes, a stream of frames ends: with messages, or with an error.
#![no_main]

use optloop::runner::frames::{decode, encode, read_frame};
use optloop::runner::worker::protocol::{Reply, Request};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut stream = bytes;
    while let Ok(Some(_)) = read_frame::<Reply>(&mut stream) {}
    if let Ok(reply) = decode::<Reply>(bytes) {
        encode(&reply).expect("what was read can be written");
    }
    let _ = decode::<Request>(bytes);
});
