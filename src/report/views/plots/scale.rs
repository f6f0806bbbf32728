//! Axes: what they span, and where their marks are.

/// Whether a step along an axis adds or multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// A step adds.
    Linear,
    /// A step multiplies.
    Log,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// Its scale.
    pub(super) scale: Scale,
    /// Where it begins, in the units of the figures.
    pub(super) from: f64,
    /// Where it ends.
    pub(super) to: f64,
    /// Its name with the unit.
    pub(super) label: String,
}

/// The share of the axis that stays free at both ends.
const MARGIN: f64 = 0.04;

/// Least factor between the ends of a logarithmic axis, so that noise does not fill it.
const MIN_FACTOR: f64 = 1.1;

impl Axis {
    /// Makes a logarithmic axis that spans all positive values. Without one, it spans 1 to 10.
    pub(super) fn log(values: impl IntoIterator<Item = f64>, label: impl Into<String>) -> Self {
        let (from, to) = span(values.into_iter().filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let middle = (from * to).sqrt();
        let half = (to / from).max(MIN_FACTOR).sqrt();
        let room = half.powf(1.0 + 2.0 * MARGIN);
        Self { scale: Scale::Log, from: middle / room, to: middle * room, label: label.into() }
    }

    /// Makes a linear axis from zero to the largest value. Without one, it ends at 1.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>, label: impl Into<String>) -> Self {
        let to = span(values).map_or(0.0, |(_, to)| to);
        let to = if to > 0.0 { to * (1.0 + MARGIN) } else { 1.0 };
        Self { scale: Scale::Linear, from: 0.0, to, label: label.into() }
    }

    /// Makes an axis of rows, numbered from 0.
    pub(super) fn rows(count: usize) -> Self {
        Self { scale: Scale::Linear, from: -0.5, to: count as f64 - 0.5, label: String::new() }
    }

    /// Returns the place of a value on an axis that adds.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).ln(),
        }
    }

    /// Returns both ends as places.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.place(self.from), self.place(self.to))
    }

    /// Returns the values to mark: at most `most`, round ones.
    pub(super) fn marks(&self, most: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear(self.from, self.to, most),
            Scale::Log => logarithmic(self.from, self.to, most),
        }
    }
}

/// Returns the smallest and the largest finite value.
fn span(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let known = values.into_iter().filter(|value| value.is_finite());
    known.fold(None, |span, value| {
        Some(span.map_or((value, value), |(from, to): (f64, f64)| (from.min(value), to.max(value))))
    })
}

/// Returns multiples of 1, 2 or 5 times a power of ten.
fn linear(from: f64, to: f64, most: usize) -> Vec<f64> {
    let raw = (to - from) / most.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|unit| unit * power).find(|step| *step >= raw * (1.0 - 1e-9));
    let step = step.unwrap_or(raw);
    let first = (from / step - 1e-9).ceil() as i64;
    // Multiplied and not added up, so that 0.3 is 0.3.
    let marks = (first..).map(|count| count as f64 * step).take_while(|mark| *mark <= to + step * 1e-9);
    marks.take(most + 2).map(|mark| if mark == 0.0 { 0.0 } else { mark }).collect()
}

/// Returns powers of ten, with as many values in between as fit. A short axis has linear marks.
fn logarithmic(from: f64, to: f64, most: usize) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let within = |units: &[f64], every: i32| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        let marks = powers.flat_map(|power| units.iter().map(move |unit| unit * 10_f64.powi(power)));
        marks.filter(|mark| (from..=to).contains(mark)).collect()
    };
    let decades = (to / from).log10();
    if decades < 0.7 {
        return linear(from, to, most);
    }
    let finest = [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]].into_iter().map(|units| within(units, 1));
    if let Some(marks) = finest.into_iter().find(|marks| marks.len() <= most) {
        return marks;
    }
    let every = (decades / most.max(1) as f64).ceil().max(1.0) as i32;
    within(&[1.0], every)
}

/// Formats the value of a mark with as few digits as it needs, and with a prefix if it is large: `0.5`, `20`, `3 k`.
pub(super) fn mark(value: f64) -> String {
    let prefixes = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")];
    let large = prefixes.into_iter().find(|(scale, _)| value.abs() >= *scale * (1.0 - 1e-9));
    let (scale, prefix) = large.map_or((1.0, ""), |(scale, prefix)| (if scale == 1e4 { 1e3 } else { scale }, prefix));
    // Six significant digits hide what floating point adds.
    let digits = 5 - (value / scale).abs().max(1e-9).log10().floor() as i32;
    let text = format!("{:.*}", digits.clamp(0, 9) as usize, value / scale);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axis: &Axis, most: usize) -> String {
        axis.marks(most).into_iter().map(mark).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn marks_are_round_and_few() {
        let log = |values: [f64; 2]| Axis::log(values, "us");
        assert_eq!(shown(&log([1.7, 262.0]), 5), "3 10 30 100 300");
        assert_eq!(shown(&log([1.7, 262.0]), 8), "2 5 10 20 50 100 200");
        assert_eq!(shown(&log([2.0, 3.0]), 5), "2 2.5 3", "one decade would have a single mark");
        assert_eq!(shown(&log([50.0, 50.0]), 4), "48 50 52", "one value");
        assert_eq!(shown(&log([1e-3, 1e15]), 4), "1 100 k 10 G 1 P");
        assert_eq!(shown(&Axis::from_zero([7.0, 418.0], "s"), 5), "0 100 200 300 400");
        assert_eq!(shown(&Axis::from_zero([0.0], "s"), 5), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(shown(&Axis::from_zero([0.41], "$"), 5), "0 0.1 0.2 0.3 0.4");
    }

    #[test]
    fn no_value_lies_outside_its_axis() {
        let axis = Axis::log([1.5, f64::NAN, 0.0, -3.0, f64::INFINITY, 90.0], "us");
        assert!(axis.from < 1.5 && axis.to > 90.0 && axis.from > 1.0 && axis.to < 120.0, "{axis:?}");
        assert_eq!(Axis::log([], "us"), Axis::log([1.0, 10.0], "us"));
        let (from, to) = axis.ends();
        assert!(from < axis.place(1.5) && axis.place(90.0) < to);
    }

    #[test]
    fn a_mark_has_no_more_digits_than_it_needs() {
        let shown = [0.1 + 0.2, 1.0, 2500.0, 12_000.0, 3e12, 0.0, -0.5, 1e-6].map(mark);
        assert_eq!(shown, ["0.3", "1", "2500", "12 k", "3 T", "0", "-0.5", "0.000001"]);
    }
}
