//! Formats figures the same way in reports and on the command line.

use crate::domain::family::plan::Preparation;
pub use crate::domain::text::counted::counted;

/// The text in place of a missing figure.
pub const NOTHING: &str = "-";

/// Formats microseconds with as many digits as are useful.
pub fn us(us: f64) -> String {
    match us.abs() {
        size if size < 10.0 => format!("{us:.3}"),
        size if size < 1000.0 => format!("{us:.2}"),
        _ => format!("{us:.1}"),
    }
}

/// Formats a speed-up: `1.25×`, and `1.003×` where two decimals would say that nothing changed.
pub fn times(ratio: f64) -> String {
    let is_near_one = format!("{ratio:.2}") == "1.00" && (ratio - 1.0).abs() >= 0.0005;
    match ratio {
        _ if is_near_one => format!("{ratio:.3}×"),
        small if small < 0.1 => format!("{ratio:.4}×"),
        _ if ratio < 100.0 => format!("{ratio:.2}×"),
        _ => format!("{ratio:.0}×"),
    }
}

/// Formats a ratio of times from two runs, whose noise is in the third decimal: `1.25×`, `1.00×`.
pub fn of_two_runs(ratio: f64) -> String {
    if (0.1..100.0).contains(&ratio) { format!("{ratio:.2}×") } else { times(ratio) }
}

/// Formats a speed-up with the three decimals of [`ratio`] where two would hide how large it is: `1.006×`, `1.14×`.
pub fn fine(ratio: f64) -> String {
    if (0.9..1.095).contains(&ratio) { format!("{ratio:.3}×") } else { times(ratio) }
}

/// Returns the words that several names begin with, up to and including a hyphen. Empty for one name, or without any.
pub fn common_prefix<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, others)) = names.split_first() else { return "" };
    let ends = first.char_indices().filter(|(_, letter)| *letter == '-').map(|(place, _)| &first[..=place]);
    let is_common = |prefix: &&str| others.iter().all(|name| name.starts_with(*prefix));
    let differ = others.iter().any(|name| name != first);
    ends.take_while(is_common).last().filter(|_| differ).unwrap_or_default()
}

/// Formats a ratio with its interval: `1.256× (1.241 to 1.256)`. Comparisons resolve differences below 1%. A value without
/// an interval, such as a modelled one, has the same ends.
pub fn ratio(estimate: f64, lo: f64, hi: f64) -> String {
    let show = |ratio: f64| if ratio < 10.0 { format!("{ratio:.3}") } else { format!("{ratio:.1}") };
    let interval = if lo == hi { String::new() } else { format!(" ({} to {})", show(lo), show(hi)) };
    format!("{}×{interval}", show(estimate))
}

/// Formats the two ends of a range, or one of them where both read the same.
pub fn either(lo: String, hi: String) -> String {
    if lo == hi { lo } else { format!("{lo} to {hi}") }
}

/// Formats the possible gain of a cause. A rule that cannot tell the gain gives 1.
pub fn gain(gain: f64) -> String {
    if gain > 1.0 { times(gain) } else { "not known".to_owned() }
}

/// Says what was prepared before a time: `weights were prepared once (12.10 us, 25.166 MB), which is not in the time`.
pub fn prepared(preparation: &Preparation) -> String {
    let time = preparation.ns.map_or_else(String::new, |ns| format!("{} us, ", us(ns / 1e3)));
    format!("weights were prepared once ({time}{:.3} MB), which is not in the time", preparation.bytes as f64 / 1e6)
}

/// Formats a change: `+6.3%`.
pub fn change(ratio: f64) -> String {
    format!("{:+.1}%", (ratio - 1.0) * 100.0)
}

/// Formats a share: `42%`, and with more digits where they matter: `1.2%`, `0.02%`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.005 => "<0.01%".to_owned(),
        percent if percent < 1.0 => format!("{percent:.2}%"),
        percent if percent < 10.0 => format!("{percent:.1}%"),
        percent => format!("{percent:.0}%"),
    }
}

/// Formats money: `$0.93`, and `$0.0041` for less than a cent.
pub fn usd(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Formats a number with two digits that mean something, in groups of three: `120,000`.
pub fn two_digits(number: f64) -> String {
    let unit = 10_f64.powf(number.max(1.0).log10().floor() - 1.0).max(1.0);
    let whole = format!("{:.0}", (number / unit).round() * unit);
    let places = whole.char_indices().map(|(place, digit)| (whole.len() - place, digit));
    let with_commas = places.flat_map(|(left, digit)| [Some(digit), (left % 3 == 1 && left > 1).then_some(',')]);
    with_commas.flatten().collect()
}

/// Formats a duration: `55 min`, `4 h 5 min`, `12.5 s`. Below ten minutes it stays in seconds, so that parts of a short
/// session add up.
pub fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    if seconds < 600.0 {
        format!("{} s", (seconds * 10.0).round() / 10.0)
    } else if minutes < 60 {
        format!("{minutes} min")
    } else if minutes.is_multiple_of(60) {
        format!("{} h", minutes / 60)
    } else {
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

/// Formats a relative error: `1.2e-4`.
pub fn relative_error(error: f64) -> String {
    if error == 0.0 { "0".to_owned() } else { format!("{error:.1e}") }
}

/// Says on how many of some cases: `On 2 of the 3 cases`, or `On all 3 cases`.
pub fn on_cases(some: usize, all: usize) -> String {
    match all {
        1 => "On the only case".to_owned(),
        _ if some == all => format!("On all {all} cases"),
        _ => format!("On {some} of the {all} cases"),
    }
}

/// Begins a text with a capital letter, as a sentence does.
pub fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Formats a rate: `26313`, `7.2`.
pub fn gflops(rate: f64) -> String {
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_two_digits() {
        assert_eq!(
            [1.0, 99.4, 1_234.0, 124_999.0, 1_250_001.0].map(two_digits),
            ["1", "99", "1,200", "120,000", "1,300,000"]
        );
    }

    #[test]
    fn names_share_the_words_before_a_hyphen() {
        assert_eq!(common_prefix(&["attention-mma", "attention-wgmma", "attention-mma"]), "attention-");
        assert_eq!(common_prefix(&["gemm-tf32-mma", "gemm-tf32-rows"]), "gemm-tf32-");
        assert_eq!([common_prefix(&["attention-mma"; 2]), common_prefix(&["tiled", "split-k"])], [""; 2]);
    }

    #[test]
    fn figures_have_the_digits_that_help() {
        assert_eq!([us(1.2345), us(85.678), us(23_900.04)], ["1.234", "85.68", "23900.0"]);
        assert_eq!([times(1.254), times(0.0151), times(240.2)], ["1.25×", "0.0151×", "240×"]);
        assert_eq!([of_two_runs(1.003), of_two_runs(0.05), of_two_runs(240.2)], ["1.00×", "0.0500×", "240×"]);
        assert_eq!([times(1.003), times(0.996), times(1.0002), times(1.0)], ["1.003×", "0.996×", "1.00×", "1.00×"]);
        assert_eq!(
            [ratio(1.2557, 1.2412, 1.26), ratio(41.23, 40.0, 42.0), ratio(1.8821, 1.8819, 1.8823)],
            ["1.256× (1.241 to 1.260)", "41.2× (40.0 to 42.0)", "1.882× (1.882 to 1.882)"]
        );
        assert_eq!(ratio(1.5, 1.5, 1.5), "1.500×", "a value without an interval");
        assert_eq!([fine(1.006), fine(1.14), fine(0.998), fine(0.5)], ["1.006×", "1.14×", "0.998×", "0.50×"]);
        assert_eq!([change(1.0625), change(0.98)], ["+6.2%", "-2.0%"]);
        assert_eq!([percent(0.000_2), percent(0.012), percent(0.88)], ["0.02%", "1.2%", "88%"]);
        assert_eq!([usd(0.0), usd(0.004_12), usd(11.15)], ["$0.00", "$0.0041", "$11.15"]);
        assert_eq!(
            [duration(12.54), duration(150.0), duration(3300.0), duration(14_400.0), duration(3900.0)],
            ["12.5 s", "150 s", "55 min", "4 h", "1 h 5 min"]
        );
        assert_eq!([0, 1, 2].map(|number| counted(number, "session")), ["0 sessions", "1 session", "2 sessions"]);
        assert_eq!([relative_error(1.23e-4), gflops(7.21), gflops(26_312.6)], ["1.2e-4", "7.2", "26313"]);
    }
}
