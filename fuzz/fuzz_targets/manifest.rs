//! Whatever the text, a family's manifest is read or refused in one sentence, and a plan is filled in or refused, too.
#![no_main]

use std::sync::LazyLock;

use optloop::domain::device::DeviceInfo;
use optloop::domain::family::Family;
use optloop::domain::op::Dtype;
use optloop::domain::device::regime::Regime;
use optloop::domain::workload::Case;
use optloop::ops;
use optloop::runner::render::render;
use optloop_fuzz::expect_one_sentence;

static DEVICE: LazyLock<DeviceInfo> = LazyLock::new(|| DeviceInfo::of_arch("sm_90a").expect("it is known"));

static CASE: LazyLock<Case> = LazyLock::new(|| {
    let dims = [("B", 2), ("H", 3), ("Sq", 65), ("Sk", 129), ("D", 64), ("CAUSAL", 1)];
    let dims = dims.map(|(name, size)| (name.to_owned(), size)).into_iter().collect();
    Case { name: "case".into(), dims, regime: Regime::Warm }
});

libfuzzer_sys::fuzz_target!(|text: &str| {
    let family = match Family::parse(text, "constexpr int D = <$ D $>;".to_owned()) {
        Ok(family) => family,
        Err(problem) => return expect_one_sentence(&problem),
    };
    let params = family.defaults();
    let op = ops::find("attention").expect("it is known");
    if let Ok(plan) = family.plan(&params, &CASE, op, Dtype::F16, &DEVICE) {
        for launch in &plan.launches {
            assert!(launch.grid.iter().chain(&launch.block).all(|extent| *extent > 0), "{launch:?}");
            launch.ctas();
        }
    }
    let _ = render(&family, &family.specialization(&CASE), Dtype::F16, &params);
});
