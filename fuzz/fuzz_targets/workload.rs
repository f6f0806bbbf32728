//! Whatever the text, a workload is read or refused in one sentence, and its names are safe.
#![no_main]

use optloop::domain::device::DeviceInfo;
use optloop::domain::workload::Workload;
use optloop::ops;
use optloop_fuzz::expect_one_sentence;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Workload::parse(text, ops::find) {
        Ok(workload) => {
            for name in workload.cases.iter().map(|case| case.name.as_str()).chain([workload.name.as_str()]) {
                assert!(!name.is_empty() && !name.contains(['/', '\\', '.']) && !name.starts_with('-'), "{name:?}");
            }
            for case in &workload.cases {
                assert!(workload.op.flop(&case.dims) > 0.0);
                workload.op.tensors(&case.dims, workload.dtype);
            }
            let _ = workload.lightest(1e9).on(&DeviceInfo::of_arch("sm_90a").expect("it is known"));
        }
        Err(problem) => expect_one_sentence(&problem),
    }
});
