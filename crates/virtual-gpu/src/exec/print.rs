//! `printf` of a kernel: its format and arguments as text.

use super::lanes::LANES;
use super::warp::Warp;
use crate::counters::MAX_PRINTED;
use crate::program::LOCAL_WINDOW;

/// The arguments of one lane: values in its local memory, each aligned to its size.
struct Arguments<'w> {
    warp: &'w Warp,
    lane: usize,
    at: u64,
}

impl Arguments<'_> {
    /// Returns the next argument of 4 or 8 bytes. None outside of local memory.
    fn next(&mut self, bytes: u64) -> Option<u64> {
        let at = self.at.next_multiple_of(bytes);
        self.at = at + bytes;
        let first = at.checked_sub(LOCAL_WINDOW)? / 4;
        let word = |index: u64| {
            let index = usize::try_from(index).ok()?.checked_mul(LANES)?;
            self.warp.local.get(index + self.lane).map(|&word| u64::from(word))
        };
        let low = word(first)?;
        Some(if bytes == 8 { low | word(first + 1)? << 32 } else { low })
    }
}

/// A conversion specification, such as `%-8.3lld`.
#[derive(Debug, Default)]
struct Specification {
    left: bool,
    zeros: bool,
    sign: &'static str,
    alternative: bool,
    width: usize,
    precision: Option<usize>,
    /// Whether an integer has 64 bits.
    long: bool,
    conversion: char,
}

/// Returns what a lane prints, and how many arguments its format names. `arguments` is the generic address of the
/// arguments, `text_at` reads texts.
pub(super) fn printed(
    (warp, lane): (&Warp, usize),
    format: &str,
    arguments: u64,
    text_at: impl Fn(u64) -> Option<String>,
) -> (String, u32) {
    let mut arguments = Arguments { warp, lane, at: arguments };
    let (mut text, mut count) = (String::new(), 0);
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let specification = specification(&mut rest, &mut arguments);
        if specification.conversion == '%' {
            text.push('%');
            continue;
        }
        count += 1;
        let value = value(&specification, &mut arguments, &text_at);
        text.push_str(&value.unwrap_or_else(|| "?".to_owned()));
    }
    (text, count)
}

fn specification(rest: &mut std::str::Chars<'_>, arguments: &mut Arguments<'_>) -> Specification {
    let mut specification = Specification::default();
    let mut in_precision = false;
    for character in rest.by_ref() {
        match character {
            '-' => specification.left = true,
            '+' => specification.sign = "+",
            ' ' if specification.sign.is_empty() => specification.sign = " ",
            '#' => specification.alternative = true,
            '.' => (in_precision, specification.precision) = (true, Some(0)),
            '0' if !in_precision && specification.width == 0 => specification.zeros = true,
            '0'..='9' | '*' => {
                let number = if in_precision {
                    specification.precision.get_or_insert_default()
                } else {
                    &mut specification.width
                };
                *number = match character.to_digit(10) {
                    Some(digit) => (*number * 10 + digit as usize).min(MAX_PRINTED),
                    None => (arguments.next(4).unwrap_or(0) as usize).min(MAX_PRINTED),
                };
            }
            'l' | 'j' | 'z' | 't' => specification.long = true,
            ' ' | 'h' => {}
            conversion => {
                specification.conversion = conversion;
                break;
            }
        }
    }
    specification
}

fn value(
    specification: &Specification,
    arguments: &mut Arguments<'_>,
    text_at: impl Fn(u64) -> Option<String>,
) -> Option<String> {
    let bytes = if specification.long { 8 } else { 4 };
    let radix = |value: u64| match specification.conversion {
        'x' => format!("{}{value:x}", if specification.alternative { "0x" } else { "" }),
        'X' => format!("{}{value:X}", if specification.alternative { "0X" } else { "" }),
        'o' => format!("{value:o}"),
        _ => value.to_string(),
    };
    Some(match specification.conversion {
        'd' | 'i' => {
            let bits = arguments.next(bytes)?;
            let value = if bytes == 8 { bits as i64 } else { i64::from(bits as u32 as i32) };
            let sign = if value < 0 { "-" } else { specification.sign };
            pad(specification, sign, &digits(specification, value.unsigned_abs().to_string()), true)
        }
        'u' | 'x' | 'X' | 'o' => pad(specification, "", &digits(specification, radix(arguments.next(bytes)?)), true),
        'c' => pad(specification, "", &char::from(arguments.next(4)? as u8).to_string(), false),
        'p' => pad(specification, "", &format!("{:#x}", arguments.next(8)?), false),
        's' => {
            let text = text_at(arguments.next(8)?)?;
            let most = specification.precision.unwrap_or(usize::MAX);
            pad(specification, "", &text.chars().take(most).collect::<String>(), false)
        }
        _ => {
            let value = f64::from_bits(arguments.next(8)?);
            let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { specification.sign };
            pad(specification, sign, &float(specification, value.abs()), value.is_finite())
        }
    })
}

/// Adds leading zeros up to the precision.
fn digits(specification: &Specification, digits: String) -> String {
    format!("{digits:0>width$}", width = specification.precision.unwrap_or(0))
}

/// Writes a number that is not negative, as `%f`, `%e` or `%g` do.
fn float(specification: &Specification, value: f64) -> String {
    let precision = specification.precision.unwrap_or(6);
    if !value.is_finite() {
        return if value.is_nan() { "nan" } else { "inf" }.to_owned();
    }
    match specification.conversion {
        'f' | 'F' => format!("{value:.precision$}"),
        'e' | 'E' => exponential(value, precision),
        _ => {
            let significant = precision.max(1);
            let scientific = exponential(value, significant - 1);
            let exponent: i32 = scientific.rsplit('e').next().and_then(|it| it.parse().ok()).unwrap_or(0);
            if exponent < -4 || exponent >= significant as i32 {
                let (number, exponent) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
                return format!("{}e{exponent}", trimmed(number));
            }
            trimmed(&format!("{value:.places$}", places = (significant as i32 - 1 - exponent).max(0) as usize))
                .to_owned()
        }
    }
}

/// Writes a number with an exponent of at least two digits.
fn exponential(value: f64, precision: usize) -> String {
    let written = format!("{value:.precision$e}");
    let (number, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{number}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Removes the zeros at the end of a fraction.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn pad(specification: &Specification, sign: &str, text: &str, is_number: bool) -> String {
    let missing = specification.width.saturating_sub(sign.len() + text.chars().count());
    if specification.left {
        format!("{sign}{text}{}", " ".repeat(missing))
    } else if specification.zeros && is_number && (specification.precision.is_none() || text.contains('.')) {
        format!("{sign}{}{text}", "0".repeat(missing))
    } else {
        format!("{}{sign}{text}", " ".repeat(missing))
    }
}
