//! Comparisons of the numbers of a kernel with those of an oracle.

/// How far numbers are from exact ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Squares {
    /// The sum of the squares of the differences.
    pub error: f64,
    /// The sum of the squares of the exact numbers.
    pub scale: f64,
    /// The numbers that were compared.
    pub count: usize,
}

/// Compares numbers with exact ones, where these are no larger than `most` in magnitude, and not NaN.
pub fn squares(values: &[f64], exact: &[f64], most: f64) -> Squares {
    let mut found = Squares { error: 0.0, scale: 0.0, count: 0 };
    for (value, exact) in values.iter().zip(exact).filter(|(_, exact)| exact.abs() <= most) {
        let difference = value - exact;
        found.error += difference * difference;
        found.scale += exact * exact;
        found.count += 1;
    }
    found
}

/// Tells whether any number is larger than `most` in magnitude, or NaN. Every number is read, so that the loop has no branch.
pub fn any_is_beyond(values: &[f64], most: f64) -> bool {
    values.iter().fold(false, |any, value| any | is_beyond(*value, most))
}

fn is_beyond(value: f64, most: f64) -> bool {
    value.is_nan() || value.abs() > most
}

/// Tells whether all numbers are equal.
pub fn are_equal(values: &[f64], others: &[f64]) -> bool {
    values.iter().zip(others).all(|(value, other)| value == other)
}

/// Tells whether all numbers have the same bits.
pub fn have_equal_bits(values: &[f64], others: &[f64]) -> bool {
    values.iter().zip(others).all(|(value, other)| value.to_bits() == other.to_bits())
}

/// Tells whether both numbers of every pair are finite, and both or neither are zero.
pub fn are_finite_and_zero_alike(values: &[f64], others: &[f64]) -> bool {
    let is_alike = |(a, b): (&f64, &f64)| a.is_finite() && b.is_finite() && (*a == 0.0) == (*b == 0.0);
    values.iter().zip(others).all(is_alike)
}

/// Which magnitudes of exact numbers a kernel may return as finite or infinite ones.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Larger ones may be infinite, as NaN may.
    pub may_be_infinite: f64,
    /// Larger ones must be infinite, as NaN must.
    pub must_be_infinite: f64,
    /// Larger ones need not be, nor NaN, if there is such a limit.
    pub is_specified: Option<f64>,
}

/// Counts the numbers that are finite where they must not be, and those that are not where they must be.
pub fn misplaced(values: &[f64], exact: &[f64], limits: Limits) -> (usize, usize) {
    let (mut hidden, mut leaked) = (0, 0);
    for (value, exact) in values.iter().zip(exact) {
        let magnitude = exact.abs();
        let is_specified = limits.is_specified.is_none_or(|most| magnitude <= most);
        hidden += usize::from(is_specified && value.is_finite() && is_beyond(*exact, limits.must_be_infinite));
        leaked += usize::from(!value.is_finite() && magnitude <= limits.may_be_infinite);
    }
    (hidden, leaked)
}

/// Counts the elements of so many bytes of which every byte is `byte`.
pub fn filled(bytes: &[u8], size: usize, byte: u8) -> usize {
    bytes.chunks_exact(size).filter(|element| element.iter().all(|own| *own == byte)).count()
}

/// Tells whether any number is infinite.
pub fn any_is_infinite(values: &[f32]) -> bool {
    values.iter().fold(false, |any, value| any | value.is_infinite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_and_nan_are_compared_with_nothing() {
        let found = squares(&[1.0, 5.0, 7.0, 2.0], &[2.0, f64::NAN, -1e9, 4.0], 1e6);
        assert_eq!(found, Squares { error: 5.0, scale: 20.0, count: 2 });
        assert!(any_is_beyond(&[1.0, f64::NAN], 1e6) && !any_is_beyond(&[1e6, -1e6], 1e6));
        let limits = Limits { may_be_infinite: 99.0, must_be_infinite: 101.0, is_specified: None };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let (values, exact) = ([1.0, 1.0, 1.0, inf, nan, inf, inf], [102.0, 100.0, nan, 100.0, 1.0, -98.0, -102.0]);
        assert_eq!(misplaced(&values, &exact, limits), (2, 2));
        assert_eq!(misplaced(&values, &exact, Limits { is_specified: Some(101.5), ..limits }), (0, 2));
        assert_eq!(filled(&[255, 255, 255, 0, 255, 255, 255], 2, 255), 2);
        assert!(are_finite_and_zero_alike(&[0.0, 2.0], &[-0.0, 3.0]) && !are_finite_and_zero_alike(&[0.0], &[1.0]));
        assert!(are_equal(&[0.0], &[-0.0]) && !have_equal_bits(&[0.0], &[-0.0]));
    }
}
