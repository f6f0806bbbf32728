//! For any bytes, a parser returns its result or one sentence. The fuzz targets in fuzz/ check the same for longer.

use crate::common;
use optloop::config::Config;
use optloop::domain::expr::{Bindings, Expr};
use optloop::domain::family::Family;
use optloop::domain::sidecar::Sidecar;
use optloop::domain::workload::Workload;
use optloop::ops;
use optloop::runner::baseline::{Failure, Hello, Prepared, Sampled, answer, parse_answer};
use optloop::runner::frames::{encode, read};
use optloop::runner::messages::WorkerReply;
use optloop::runner::source_rules::{check_ptx, check_source};
use proptest::prelude::*;
use proptest::sample::Index;

const CONFIG: &str = include_str!("../fuzz/corpus/config/seed-shipped");
const SIDECAR: &str = include_str!("../fuzz/corpus/sidecar/seed-winner");
const SOURCE: &str = include_str!("../fuzz/corpus/source_rules/seed-cu");
const PREPARED: &str = include_str!("../fuzz/corpus/baseline/seed-prepared");

/// Inputs that often upset parsers.
const SNIPPETS: [&str; 16] = [
    "\n",
    "\0",
    "\"",
    "'''",
    "[[",
    "]]",
    "{",
    "=",
    "-9223372036854775808",
    "1e999",
    "nan",
    "..",
    "/*",
    "\\",
    "\u{feff}",
    "é",
];

/// One change of a text.
#[derive(Debug, Clone)]
enum Edit {
    Insert(Index, Index),
    Delete(Index, usize),
    Repeat(Index, usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        any::<(Index, Index)>().prop_map(|(at, snippet)| Edit::Insert(at, snippet)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Edit::Delete(at, length)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
    ];
    prop::collection::vec(edit, 1..5)
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for edit in edits {
        let at = |index: &Index| index.index(text.len() + 1);
        match edit {
            Edit::Insert(index, snippet) => {
                let at = at(index);
                text.splice(at..at, snippet.get(&SNIPPETS).chars());
            }
            Edit::Delete(index, length) => {
                let at = at(index);
                text.drain(at..(at + length).min(text.len()));
            }
            Edit::Repeat(index, length) => {
                let at = at(index);
                let again = text[at..(at + length).min(text.len())].to_vec();
                text.splice(at..at, again);
            }
        }
    }
    text.into_iter().collect()
}

/// Parses a text as every possible kind of input. Every error must be one sentence.
fn parses_or_says_why(text: &str) {
    let problems = [
        Config::parse(text).err().map(String::from),
        Workload::parse(text, ops::find).err().map(String::from),
        Family::parse(text, String::new()).err().map(String::from),
        Sidecar::parse(text).err().map(String::from),
        check_source(text).err().map(String::from),
        check_ptx(text).err().map(String::from),
        read_as_answers(text.as_bytes()),
    ];
    for problem in problems.into_iter().flatten() {
        assert!(!problem.is_empty() && !problem.contains(char::is_control), "{problem:?}");
    }
}

fn read_as_answers(line: &[u8]) -> Option<String> {
    let read = answer(line).and_then(|answer| {
        parse_answer::<Hello>(answer.clone())?;
        parse_answer::<Prepared>(answer.clone())?;
        parse_answer::<Sampled>(answer)
    });
    read.err().map(|(Failure::Refused(why) | Failure::Disconnected(why))| why)
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_in_one_sentence(text in any::<String>()) {
        parses_or_says_why(&text);
    }

    #[test]
    fn a_valid_file_with_a_few_changes_is_read_or_refused_in_one_sentence(which in 0..6_usize, edits in edits()) {
        let valid = [CONFIG, common::WORKLOAD, common::MANIFEST, SIDECAR, SOURCE, PREPARED][which];
        parses_or_says_why(&edited(valid, &edits));
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(line in any::<Vec<u8>>()) {
        read_as_answers(&line);
    }

    #[test]
    fn a_changed_frame_is_an_error(at in any::<Index>(), bit in 0..8_u32) {
        let reply = WorkerReply::Step { case: "b1h1s64".into(), doing: "launch".to_owned() };
        let mut frame = encode(&reply).unwrap();
        let whole = read::<WorkerReply>(&mut frame.as_slice());
        prop_assert!(matches!(whole, Ok(Some(_))), "a whole one is read");
        let at = at.index(frame.len());
        frame[at] ^= 1 << bit;
        let error = read::<WorkerReply>(&mut frame.as_slice()).unwrap_err().to_string();
        prop_assert!(!error.is_empty() && !error.contains(char::is_control));
    }
}

/// The unchanged files are valid, or nothing would be tested.
#[test]
fn the_default_configurations_are_valid() {
    Config::parse(CONFIG).unwrap();
    Workload::parse(common::WORKLOAD, ops::find).unwrap();
    Family::parse(common::MANIFEST, String::new()).unwrap();
    Sidecar::parse(SIDECAR).unwrap();
    check_source(SOURCE).unwrap();
    assert!(answer(PREPARED.as_bytes()).and_then(parse_answer::<Prepared>).is_ok());
}

/// An expression over the names of [`bindings`].
#[derive(Debug, Clone)]
enum Tree {
    Number(i64),
    Name(&'static str),
    Minus(Box<Tree>),
    Binary(&'static str, Box<Tree>, Box<Tree>),
    Call(&'static str, Box<Tree>, Box<Tree>),
}

const NAMES: [(&str, i64); 6] = [("A", 7), ("B", -3), ("ZERO", 0), ("BIG", i64::MAX), ("SMALL", i64::MIN), ("D", 64)];

fn trees() -> impl Strategy<Value = Tree> {
    let names = prop::sample::select(NAMES.map(|(name, _)| name).to_vec());
    let leaf = prop_oneof![prop_oneof![0..200_i64, Just(i64::MAX)].prop_map(Tree::Number), names.prop_map(Tree::Name),];
    let binary = prop::sample::select(vec!["+", "-", "*", "/", "%"]);
    let calls = prop::sample::select(vec!["min", "max", "ceil_div", "round_up"]);
    leaf.prop_recursive(5, 40, 2, move |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|of| Tree::Minus(Box::new(of))),
            (binary.clone(), two.clone()).prop_map(|(op, (l, r))| Tree::Binary(op, Box::new(l), Box::new(r))),
            (calls.clone(), two).prop_map(|(name, (l, r))| Tree::Call(name, Box::new(l), Box::new(r))),
        ]
    })
}

fn text(tree: &Tree) -> String {
    match tree {
        Tree::Number(number) => number.to_string(),
        Tree::Name(name) => (*name).to_owned(),
        Tree::Minus(of) => format!("-({})", text(of)),
        Tree::Binary(op, left, right) => format!("({} {op} {})", text(left), text(right)),
        Tree::Call(name, left, right) => format!("{name}({}, {})", text(left), text(right)),
    }
}

/// The value of the expression, computed with wide numbers. None if any step has no value, or none that fits.
fn value(tree: &Tree) -> Option<i128> {
    let fits = |value: i128| i64::try_from(value).is_ok().then_some(value);
    let ceil_div = |a: i128, b: i128| (b > 0).then(|| a.div_euclid(b) + i128::from(a.rem_euclid(b) != 0));
    match tree {
        Tree::Number(number) => Some(i128::from(*number)),
        Tree::Name(wanted) => NAMES.iter().find(|(name, _)| name == wanted).map(|(_, value)| i128::from(*value)),
        Tree::Minus(of) => fits(-value(of)?),
        Tree::Binary(op, left, right) | Tree::Call(op, left, right) => {
            let (a, b) = (value(left)?, value(right)?);
            fits(match *op {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                // The remainder of the smallest number by -1 is 0, but no processor computes it.
                "%" if b == -1 && a == i128::from(i64::MIN) => return None,
                "/" => a.checked_div(b)?,
                "%" => a.checked_rem(b)?,
                "min" => a.min(b),
                "max" => a.max(b),
                "ceil_div" => ceil_div(a, b)?,
                _ => ceil_div(a, b)? * b,
            })
        }
    }
}

fn bindings() -> Bindings {
    NAMES.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

proptest! {
    #[test]
    fn an_expression_has_the_value_of_its_tree(tree in trees()) {
        let text = text(&tree);
        let found = Expr::parse(&text).and_then(|expr| expr.int(&bindings()));
        prop_assert_eq!(found.as_ref().ok().copied().map(i128::from), value(&tree), "{} gives {:?}", text, found);
    }

    #[test]
    fn a_comparison_says_which_is_larger(left in trees(), right in trees(), strict in any::<bool>()) {
        let text = format!("{} {} {}", text(&left), if strict { "<" } else { "<=" }, text(&right));
        let found = Expr::parse(&text).and_then(|expr| expr.boolean(&bindings())).ok();
        let expected = value(&left).zip(value(&right)).map(|(a, b)| a < b || (!strict && a == b));
        prop_assert_eq!(found, expected, "{}", text);
    }
}

#[test]
fn expressions_are_bounded_in_depth_and_work() {
    let error = |text: &str| Expr::parse(text).and_then(|expr| expr.int(&bindings())).unwrap_err().to_string();
    let complex = "exceeds maximum complexity";
    for text in [
        format!("{}A{}", "(".repeat(5000), ")".repeat(5000)),
        format!("{}A", "- ".repeat(5000)),
        format!("A{}", " + A".repeat(5000)),
        format!("{}A{}", "min(A, ".repeat(5000), ")".repeat(5000)),
    ] {
        assert!(error(&text).contains(complex), "{:.60}", text);
    }
    // 2^14 leaves, but no deeper than 14.
    let wide = (0..14).fold("A".to_owned(), |half, _| format!("({half} + {half})"));
    assert!(error(&wide).contains("Too many operations"), "{}", &error(&wide)[error(&wide).len() - 200..]);
    for text in ["[A]", "A[0]", "#{a: A}", "A.a", "|a| a"] {
        assert!(Expr::parse(text).is_err(), "{text}");
    }
}
