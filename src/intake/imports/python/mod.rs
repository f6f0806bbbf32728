//! Expressions of Python, in which other tools write conditions, sizes and lists of values.

mod parser;
mod values;
mod written;

pub(super) use parser::parse;

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Python {
    Number(i64),
    Text(String),
    Name(String),
    /// `p["x"]`, `ProblemSize[0]`
    Item(Box<Python>, Box<Python>),
    List(Vec<Python>),
    /// `[4 * i for i in range(8)]`
    Each {
        item: Box<Python>,
        name: String,
        over: Box<Python>,
    },
    Call(String, Vec<Python>),
    Not(Box<Python>),
    Negative(Box<Python>),
    Power(Box<Python>, Box<Python>),
    /// An operator of numbers, or `&&` or `||`.
    Both(&'static str, Box<Python>, Box<Python>),
    /// `1 < a <= 4`, `a in [1, 2]`
    Compared(Box<Python>, Vec<(&'static str, Python)>),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::expr::Expr;

    fn condition(text: &str) -> String {
        let items = |name: &str, place: usize| (name == "ProblemSize").then(|| ["M", "N"][place].to_owned());
        match parse(text).and_then(|parsed| parsed.condition(&items)) {
            Ok(written) => {
                Expr::parse(&written).unwrap_or_else(|error| panic!("{text}: {error}"));
                written
            }
            Err(problem) => format!("error: {problem}"),
        }
    }

    #[test]
    fn conditions_become_expressions_that_mean_the_same() {
        let texts = [
            "block_size_x*block_size_y<=1024",
            "32 <= a * b < 1024 and not (c == 0 or d)",
            "p[\"x\"] % p['y'] == 0",
            "a in [1, 2, 4] and b not in (3, 5)",
            "a // (b - (c - d)) ** 2 > max(1, -e)",
            "2 * a ** 3 % b == 0",
            "a % ((b * c) / d) == 0 && !(e == 1 || f != 2)",
            "ProblemSize[1] % a == 0",
            "(a > 1) + (b > 1) == 1",
            "True",
            "a if b else c",
            "a.bit_length() > 2",
            "a ** b > 1",
            "math(a)",
            "a @ b",
            "a in b",
            "'x' == a",
            "(a",
            "1.5 * a > 2",
        ];
        insta::assert_snapshot!(texts.map(condition).join("\n"), @"
        block_size_x * block_size_y <= 1024
        32 <= a * b && a * b < 1024 && !(c == 0 || d != 0)
        x % y == 0
        (a == 1 || a == 2 || a == 4) && b != 3 && b != 5
        a / ((b - (c - d)) * (b - (c - d))) > max(1, -e)
        2 * (a * a * a) % b == 0
        a % (b * c / d) == 0 && !(e == 1 || f != 2)
        N % a == 0
        (if a > 1 { 1 } else { 0 }) + (if b > 1 { 1 } else { 0 }) == 1
        1 != 0
        error: `if` is not supported here
        error: `.` is not supported here
        error: `**` is supported with a power from 1 to 8 only
        error: the function `math` is not supported
        error: `@` is not supported
        error: `in` is supported with a list only
        error: the string `x` is no number
        error: the end is not supported here, `)` is expected
        error: `1.5` is not a whole number
        ");
    }

    #[test]
    fn lists_of_values_are_worked_out() {
        let values = |text: &str| match parse(text).and_then(|parsed| parsed.values()) {
            Ok(values) => format!("{values:?}"),
            Err(problem) => format!("error: {problem}"),
        };
        let texts = [
            "[16, 32, 64,]",
            "list(range(1, 8, 2))",
            "[32 * i for i in range(1, 4)]",
            "[2**i - 1 for i in range(4)]",
            "[2**64]",
            "[]",
            "(1, 2)",
            "[1.0, True]",
            "range(1, 10**8)",
            "[\"a\"]",
            "[0.5]",
            "5",
            "range(9, 1, -1)",
        ];
        insta::assert_snapshot!(texts.map(values).join("\n"), @"
        [16, 32, 64]
        [1, 3, 5, 7]
        [32, 64, 96]
        [0, 1, 3, 7]
        error: 2 ** 64 is no whole number of 64 bits
        []
        [1, 2]
        [1, 1]
        error: a list may have up to 100000 values
        error: the string `a` is no number
        error: `0.5` is not a whole number
        error: it is not a list of whole numbers
        error: `range` is supported with a step above 0 only
        ");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[ab01 +*/%(),<>=!.'\\[\\]-]{0,60}|\\PC{0,40}") {
            if let Ok(parsed) = parse(&text) {
                let _ = (parsed.condition(&|_, _| None), parsed.number(&|_, _| None), parsed.values(), parsed.divides());
            }
        }
    }

    #[test]
    fn long_and_deep_texts_are_refused() {
        let said = |text: &str| parse(text).err().map(String::from).unwrap_or_default();
        assert_eq!(said(&"(".repeat(10_000)), "it is nested too deeply");
        assert!(!said(&"a[0]".repeat(10_000)).is_empty());
        for part in ["1 + ", "1 ** ", "not ", "1 < "] {
            assert_eq!(said(&part.repeat(10_000)), "it is too long", "{part}");
        }
    }
}
