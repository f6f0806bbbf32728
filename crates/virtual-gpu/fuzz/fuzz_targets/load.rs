//! The loader returns for any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = virtual_gpu::ptx::load("fuzz.ptx", text);
});
