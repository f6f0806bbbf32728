//! Says in words what the times of a scaling table mean.

use super::contract::{ScalingPoint, ScalingTime};
use super::format::{times, us};

/// The factor below which two times count as the same here.
const SAME: f64 = 1.15;

/// The share of the work's growth from which a time grows with the work.
const WITH_THE_WORK: f64 = 0.75;

/// The least growth of the work from which a reading is made.
const MIN_WORK: f64 = 2.0;

/// The share of the smallest time that a fixed part must have to be told.
const MUCH_FIXED: f64 = 0.2;

/// What a reading is about.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    /// The size that varies.
    pub(super) varies: &'a str,
    /// Whether its entries are independent of each other.
    pub(super) independent: bool,
    /// Multiprocessors of the device.
    pub(super) sms: u64,
    /// Whether the times are those of the first kernel, of which a cause is sought.
    pub(super) is_first: bool,
}

/// Returns what the times of one kernel, or of the best ones, say. None for fewer than two times, or too little growth
/// of the work.
pub(super) fn reading(
    points: &[ScalingPoint],
    of: fn(&ScalingPoint) -> Option<ScalingTime>,
    subject: Subject<'_>,
) -> Option<String> {
    let timed: Vec<(&ScalingPoint, ScalingTime)> =
        points.iter().filter_map(|point| Some((point, of(point)?))).collect();
    let (first, last) = (timed.first()?, timed.last()?);
    let (work, time) = (last.0.work / first.0.work, last.1.us / first.1.us);
    if timed.len() < 2 || work < MIN_WORK {
        return None;
    }
    let head = format!("{} the work for {} the time", factor(work), times(time));
    let tail = if subject.independent { over_independent(&timed, subject) } else { over_size(&timed, subject) };
    Some(format!("{head}: {tail}"))
}

fn over_independent(timed: &[(&ScalingPoint, ScalingTime)], subject: Subject<'_>) -> String {
    let Subject { varies, sms, is_first, .. } = subject;
    let (first, last) = (timed[0], timed[timed.len() - 1]);
    let (work, time) = (last.0.work / first.0.work, last.1.us / first.1.us);
    let blocks =
        |one: &ScalingTime| one.blocks.map_or_else(String::new, |blocks| format!(" ({blocks} blocks on {sms} SMs)"));
    let not_serial = if is_first {
        format!(" This rules out serialisation over {varies}: the time would have grown {}.", factor(work))
    } else {
        String::new()
    };
    if time <= SAME {
        return format!("the GPU is idle, not busy; more entries run beside the first{}.{not_serial}", blocks(&last.1));
    }
    if time < WITH_THE_WORK * work {
        let flat = timed.iter().rev().find(|(_, one)| one.us <= SAME * first.1.us).unwrap_or(&first);
        return match flat.0.value == first.0.value {
            true => format!("slower than the work, as the GPU fills up{}.{not_serial}", blocks(&last.1)),
            false => {
                let until = format!("flat up to {varies} = {}{}", flat.0.value, blocks(&flat.1));
                let next = timed.iter().find(|(point, _)| point.value > flat.0.value).unwrap_or(&last);
                format!("{until}, and slower at {}{}.{not_serial}", next.0.value, blocks(&next.1))
            }
        };
    }
    match (first.1.blocks, last.1.blocks) {
        (Some(few), Some(as_few)) if few == as_few => {
            format!("the grid does not grow with {varies}, so the entries are computed one after another.")
        }
        (Some(many), _) if many >= sms => {
            "the GPU is full from the smallest case on, so time grows with the work.".to_owned()
        }
        _ => "time grows with the work although the first case leaves SMs idle: look for a shared resource.".to_owned(),
    }
}

fn over_size(timed: &[(&ScalingPoint, ScalingTime)], subject: Subject<'_>) -> String {
    let Subject { varies, is_first, .. } = subject;
    let (first, last) = (timed[0], timed[timed.len() - 1]);
    let size = last.0.value as f64 / first.0.value as f64;
    let (work, time) = (last.0.work / first.0.work, last.1.us / first.1.us);
    if time <= SAME {
        return format!("the time does not depend on {varies}; launch and first loads are all of it.");
    }
    let (fixed_us, step_us) = line(timed);
    let each = format!("each step of {varies} costs {}", short_time(step_us));
    // Two points are always on a line.
    let is_straight = timed.len() > 2
        && timed.iter().all(|(point, one)| {
            let on_line = fixed_us + step_us * point.value as f64;
            (one.us / on_line).max(on_line / one.us) <= SAME
        });
    if is_straight && work > SAME * size {
        let fixed = if fixed_us >= MUCH_FIXED * first.1.us {
            format!("{} us are fixed, and {each}", us(fixed_us))
        } else {
            each
        };
        let causes = if is_first { " The causes below say what may make a step slow." } else { "" };
        return format!(
            "{fixed}, whatever the size. The work of a step grows and its time does not, so a block does its steps one \
             after another, and more blocks run beside it. Bandwidth or arithmetic would grow with the work.{causes}"
        );
    }
    if time >= WITH_THE_WORK * work {
        return "time grows with the work.".to_owned();
    }
    let power = |growth: f64| growth.ln() / size.ln();
    format!(
        "time grows with the power {:.1} of {varies}, but the work with {:.1}, so the smaller cases leave much of the GPU idle.",
        power(time),
        power(work)
    )
}

/// Returns the straight line through the times by least squares: microseconds at size 0, and for each unit.
fn line(timed: &[(&ScalingPoint, ScalingTime)]) -> (f64, f64) {
    let count = timed.len() as f64;
    let mean = |of: &dyn Fn(&(&ScalingPoint, ScalingTime)) -> f64| timed.iter().map(of).sum::<f64>() / count;
    let (size, time) = (mean(&|one| one.0.value as f64), mean(&|one| one.1.us));
    let spread = mean(&|one| (one.0.value as f64 - size).powi(2));
    let step = mean(&|one| (one.0.value as f64 - size) * (one.1.us - time)) / spread;
    (time - step * size, step)
}

/// Formats a time that may be much less than a microsecond.
fn short_time(time_us: f64) -> String {
    if time_us < 0.1 { format!("{:.1} ns", time_us * 1e3) } else { format!("{} us", us(time_us)) }
}

/// Formats a factor of work: `64 times`.
fn factor(factor: f64) -> String {
    if factor >= 10.0 { format!("{factor:.0} times") } else { format!("{factor:.1} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads times of an H200 (2026-11-22): size, work, microseconds and blocks.
    fn read(points: &[(i64, f64, f64, u64)], varies: &str, independent: bool) -> String {
        let points: Vec<ScalingPoint> = points
            .iter()
            .map(|&(value, work, us, blocks)| {
                let time = ScalingTime { us, us_per_unit: us / value as f64, blocks: Some(blocks) };
                ScalingPoint { case: "c".into(), value, work, first: Some(time), best: None }
            })
            .collect();
        let subject = Subject { varies, independent, sms: 132, is_first: true };
        reading(&points, |point| point.first, subject).unwrap()
    }

    #[test]
    fn a_kernel_that_leaves_the_gpu_idle_takes_no_longer_for_more_heads() {
        let told = read(&[(1, 1.0, 518.0, 2), (16, 16.0, 518.0, 32), (64, 64.0, 522.0, 128)], "B × H", true);
        insta::assert_snapshot!(told, @"64 times the work for 1.01× the time: the GPU is idle, not busy; more entries run beside the first (128 blocks on 132 SMs). This rules out serialisation over B × H: the time would have grown 64 times.");
    }

    /// The bug of the third version in the first notebooks: a grid without batch and heads.
    #[test]
    fn a_grid_that_does_not_grow_is_told_from_a_full_gpu() {
        let serial = read(&[(8, 1.0, 6.8, 8), (64, 8.0, 54.0, 8), (128, 16.0, 117.2, 8)], "B × H", true);
        let full = read(&[(8, 1.0, 6.8, 512), (64, 8.0, 54.0, 4096), (128, 16.0, 109.0, 8192)], "B × H", true);
        let filling = read(&[(1, 1.0, 3.0, 4), (16, 16.0, 3.1, 64), (64, 64.0, 9.0, 256)], "B × H", true);
        insta::assert_snapshot!([serial, full, filling].join("\n"), @"
        16 times the work for 17.24× the time: the grid does not grow with B × H, so the entries are computed one after another.
        16 times the work for 16.03× the time: the GPU is full from the smallest case on, so time grows with the work.
        64 times the work for 3.00× the time: flat up to B × H = 16 (64 blocks on 132 SMs), and slower at 64 (256 blocks on 132 SMs). This rules out serialisation over B × H: the time would have grown 64 times.
        ");
    }

    #[test]
    fn a_chain_of_dependent_steps_costs_the_same_for_each_key() {
        let times = [(64, 1.0, 262.0, 1), (128, 4.0, 517.0, 2), (256, 16.0, 1026.0, 4), (512, 64.0, 2043.0, 8)];
        let fixed = [(64, 1.0, 2.1, 1), (128, 4.0, 2.4, 2), (256, 16.0, 2.93, 4), (512, 64.0, 4.09, 8)];
        let flat = [(64, 1.0, 2.1, 1), (128, 4.0, 2.1, 2), (256, 16.0, 2.2, 4)];
        let told = [&times[..], &fixed, &flat].map(|points| read(points, "Sq = Sk", false));
        insta::assert_snapshot!(told.join("\n"), @"
        64 times the work for 7.80× the time: each step of Sq = Sk costs 3.975 us, whatever the size. The work of a step grows and its time does not, so a block does its steps one after another, and more blocks run beside it. Bandwidth or arithmetic would grow with the work. The causes below say what may make a step slow.
        64 times the work for 1.95× the time: 1.818 us are fixed, and each step of Sq = Sk costs 4.4 ns, whatever the size. The work of a step grows and its time does not, so a block does its steps one after another, and more blocks run beside it. Bandwidth or arithmetic would grow with the work. The causes below say what may make a step slow.
        16 times the work for 1.05× the time: the time does not depend on Sq = Sk; launch and first loads are all of it.
        ");
    }

    #[test]
    fn large_cases_grow_with_the_work() {
        let times = [(1024, 1.0, 20.0, 512), (2048, 4.0, 78.0, 1024), (4096, 16.0, 300.0, 2048)];
        insta::assert_snapshot!(read(&times, "Sq = Sk", false), @"16 times the work for 15.00× the time: time grows with the work.");
        let two = [(128, 1.0, 523.0, 64), (256, 4.0, 1173.0, 256)];
        insta::assert_snapshot!(read(&two, "Sq = Sk", false), @"4.0 times the work for 2.24× the time: time grows with the power 1.2 of Sq = Sk, but the work with 2.0, so the smaller cases leave much of the GPU idle.");
    }
}
