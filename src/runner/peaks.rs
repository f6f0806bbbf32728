//! Measures the peaks of a device with micro-benchmarks that do one thing as fast as the device can.
//!
//! Kernels rarely reach peaks derived from the advertised clocks. A floor from measured peaks shows how much can
//! really be gained.

pub mod probes;

use std::fmt::Display;

use self::probes::{Effort, Peak, PeakKernel, probes};
use super::compile::Compiler;
use super::messages::TimeRequest;
use super::worker::Worker;
use crate::domain::device::Peaks;
use crate::domain::statistics::timing::Timing;
use crate::domain::variant::{Params, Variant, VariantHash};
use crate::error::{Result, error};

/// Samples of a probe. The fastest counts, because a rate reached once can be reached.
const SAMPLES: usize = 20;

/// The shortest sample, in nanoseconds. The start of a replay takes some microseconds and does not matter at this
/// length.
const MIN_SAMPLE_NS: f64 = 5e6;

/// The largest plausible ratio of a measured rate to the derived one. Above it, the clock or the count of work is
/// wrong.
const MAX_SHARE_OF_DERIVED: f64 = 1.05;

/// The smallest ratio of a measured rate to the derived one, for arithmetic and memory. Below it, the device was not
/// alone. Consumer GPUs sum in FP32 at half the rate of their kind, which must pass. L2 has no such limit: its derived
/// peak, 64 bytes a clock and multiprocessor, is far from what any L2 delivers to all multiprocessors at once.
const MIN_SHARE_OF_DERIVED: f64 = 0.4;

/// Measures the peaks of the worker's device, which must otherwise be idle. Takes some seconds.
///
/// An implausible rate is replaced by the derived one, and [`Peaks::source`] says so.
pub async fn measure(worker: &mut Worker, compiler: &Compiler) -> Result<Peaks> {
    let mut rates = Vec::new();
    for probe in probes(worker.info(), Effort::FULL) {
        let timing = time(worker, compiler, &probe).await?;
        let fastest_ns = timing.samples_ns.iter().copied().fold(f64::INFINITY, f64::min);
        rates.push((probe.figure, probe.work / fastest_ns * 1e9));
    }
    Ok(combine(&worker.info().peaks, &rates))
}

async fn time(worker: &mut Worker, compiler: &Compiler, probe: &PeakKernel) -> Result<Timing> {
    let kernel = probe.plan.launches.first().map_or("", |launch| launch.kernel.as_str());
    let failed = |problem: &dyn Display| error!("the peaks of the device were not measured: `{kernel}`: {problem}");
    let (compiler, variant) = (compiler.clone(), variant(probe));
    let compiled = tokio::task::spawn_blocking(move || compiler.compile(&variant)).await;
    let artifact = compiled.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    let (plan, samples, min_sample_ns) = (probe.plan.clone(), SAMPLES, MIN_SAMPLE_NS);
    let request = TimeRequest { artifact, plan, problem: None, samples, min_sample_ns, seed: 0 };
    worker.time(request).await.map_err(|error| failed(&error))
}

/// Returns a probe's source as a variant for the compiler.
pub fn variant(probe: &PeakKernel) -> Variant {
    let source = probe.source.to_owned();
    Variant { family: "peaks".to_owned(), params: Params::new(), hash: VariantHash::of(&source), source }
}

/// Combines the rates of probes with derived peaks where a rate is missing or implausible.
fn combine(derived: &Peaks, rates: &[(Peak, f64)]) -> Peaks {
    let mut notes = Vec::new();
    let mut pick = |figure: Peak, name: &str, derived: f64, least: f64| {
        let of_figure = rates.iter().filter(|(of, _)| *of == figure).map(|(_, rate)| *rate);
        let Some(fastest) = of_figure.max_by(f64::total_cmp) else {
            notes.push(format!("{name} derived, because no kernel measures it"));
            return derived;
        };
        let share = fastest / derived;
        if (least..=MAX_SHARE_OF_DERIVED).contains(&share) {
            return fastest;
        }
        notes.push(format!("{name} derived, because the measured value was {share:.2} times as high"));
        derived
    };
    let f16_flops = pick(Peak::F16, "FP16 rate", derived.f16_flops, MIN_SHARE_OF_DERIVED);
    let memory_bytes_per_s = pick(Peak::Memory, "memory bandwidth", derived.memory_bytes_per_s, MIN_SHARE_OF_DERIVED);
    let l2_bytes_per_s = pick(Peak::L2, "L2 bandwidth", derived.l2_bytes_per_s, 0.0);
    let fastest = |figure| rates.iter().filter(|(of, _)| *of == figure).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let f32_flops = Peaks::f32_peak(fastest(Peak::Fma).min(derived.f32_flops), f16_flops);
    // Clocks do not determine the cost of a launch, so there is no derived value to compare with.
    let launches_per_s = fastest(Peak::Launch);
    let launch_ns = if launches_per_s > 0.0 { 1e9 / launches_per_s } else { derived.launch_ns };
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    let source = format!("measured on this device{notes}");
    Peaks { f16_flops, f32_flops, memory_bytes_per_s, l2_bytes_per_s, launch_ns, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The derived peaks of an H200.
    fn derived() -> Peaks {
        Peaks::derived(90, 132, 1_980_000.0, 3_201_000.0, 6144.0)
    }

    const RATES: [(Peak, f64); 7] = [
        (Peak::Memory, 4.1e12),
        (Peak::Memory, 4.3e12),
        (Peak::Memory, 4.0e12),
        (Peak::L2, 5.5e12),
        (Peak::Fma, 65e12),
        (Peak::F16, 900e12),
        (Peak::Launch, 1.25e6),
    ];

    #[test]
    fn of_each_figure_the_fastest_probe_counts() {
        let peaks = combine(&derived(), &RATES);
        let expected = Peaks {
            f16_flops: 900e12,
            f32_flops: 300e12,
            memory_bytes_per_s: 4.3e12,
            l2_bytes_per_s: 5.5e12,
            launch_ns: 800.0,
            source: "measured on this device".to_owned(),
        };
        assert_eq!(peaks, expected);
    }

    #[test]
    fn implausible_rates_are_derived_and_the_source_says_so() {
        let mut rates = RATES;
        rates[1].1 = 9.8e12;
        rates[5].1 = 90e12;
        let peaks = combine(&derived(), &rates);
        assert_eq!((peaks.memory_bytes_per_s, peaks.f16_flops), (derived().memory_bytes_per_s, derived().f16_flops));
        assert_eq!(peaks.l2_bytes_per_s, 5.5e12);
        insta::assert_snapshot!(peaks.source, @"measured on this device; FP16 rate derived, because the measured value was 0.08 times as high; memory bandwidth derived, because the measured value was 1.99 times as high");
    }

    #[test]
    fn peaks_without_a_probe_are_derived() {
        let peaks = combine(&derived(), &RATES[..5]);
        assert_eq!((peaks.f16_flops, peaks.launch_ns), (derived().f16_flops, 900.0));
        insta::assert_snapshot!(peaks.source, @"measured on this device; FP16 rate derived, because no kernel measures it");
    }
}
