//! docs/family.md documents everything that a manifest may have.

use super::{Family, MAPPED};
use crate::domain::expr::{Bindings, Expr};
use crate::domain::op::{Dims, Dtype};
use crate::ops;

const PAGE: &str = include_str!("../../../../docs/family.md");

/// Returns the section that prompts contain.
fn for_prompts() -> &'static str {
    let (_, rest) = PAGE.split_once("<!-- prompt -->").unwrap();
    let (section, rest) = rest.split_once("<!-- /prompt -->").unwrap();
    assert!(!rest.contains("prompt -->"), "there is one section");
    section
}

/// Returns the names that mistakes list as the known ones: keys and values.
fn listed(mistakes: &[String]) -> Vec<String> {
    let known = mistakes.iter().filter_map(|mistake| mistake.split_once(", expected "));
    // The hint after the names repeats one of them.
    let names = known.flat_map(|(_, names)| names.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

/// Every table has an unknown key, and everything that is chosen from a list has an unknown value.
const UNKNOWN: &str = r#"
zzz = 1
dtypes = ["zzz"]
[params.A]
zzz = 1
mechanism = "zzz"
helps = { spills = "zzz" }
[[constraint]]
zzz = 1
[[workspace]]
zzz = 1
initial = "zzz"
[[tensor_map]]
zzz = 1
[[launch]]
zzz = 1
"#;

#[test]
fn the_page_has_every_key_and_every_value() {
    let mistakes = Family::parse_with_op(UNKNOWN, String::new(), ops::find).unwrap_err();
    let listed = listed(&mistakes);
    for known in ["tensor_map", "headers", "helps", "why", "elements", "swizzle", "programmatic", "when"] {
        assert!(listed.iter().any(|name| name == known), "{known} is not among {listed:?}");
    }
    for known in ["f16", "more", "data_reuse", "undefined"] {
        assert!(listed.iter().any(|name| name == known), "{known} is not among {listed:?}");
    }
    for name in &listed {
        let forms = [format!("`{name}`"), format!("`\"{name}\"`"), format!("[{name}]"), format!("[{name}.")];
        assert!(forms.iter().any(|form| PAGE.contains(form)), "docs/family.md does not have {name}");
        let optional = ["headers", "opening", "unspecified", "several", "transfer", "algorithm", "less"];
        assert!(
            optional.contains(&name.as_str()) || for_prompts().contains(name.as_str()),
            "the section for prompts does not have {name}"
        );
    }
}

#[test]
fn the_page_has_every_name_that_an_op_or_a_device_gives() {
    let mut names: Vec<String> =
        ["elem_bytes", "smem_limit", "max_threads", "sms", "sm", "DTYPE"].map(str::to_owned).into();
    for op in ops::ALL {
        let dims: Dims = op.all_dims().into_iter().map(|dim| (dim.name.to_owned(), 8)).collect();
        names.push(op.name().to_owned());
        names.extend(dims.keys().cloned());
        names.extend(op.scalars(&dims).into_iter().map(|(name, _)| name.to_owned()));
        let letters: Vec<&str> = dims.keys().map(String::as_str).filter(|name| *name != "CAUSAL").collect();
        for tensor in op.tensors(&dims, Dtype::F16) {
            let begin = format!("{}[", tensor.name);
            let shape =
                |(at, _): (usize, &str)| PAGE[at + begin.len()..].split_once(']').unwrap().0.split([',', '/', '+']);
            let mut shapes = PAGE.match_indices(&begin).map(shape);
            let is_there = shapes.any(|mut shape| {
                shape.all(|dim| {
                    let dim = dim.trim_start_matches(char::is_numeric);
                    letters.contains(&dim) || dim.is_empty()
                })
            });
            assert!(is_there, "docs/family.md does not have the shape of {}", tensor.name);
        }
    }
    for name in names {
        assert!(PAGE.contains(&format!("`{name}`")), "docs/family.md does not have {name}");
        assert!(for_prompts().contains(&name), "the section for prompts does not have {name}");
    }
}

#[test]
fn the_operators_and_functions_of_the_page_exist() {
    let bindings: Bindings = [("A", 7), ("B", 2)].map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let int = |text: &str| Expr::parse(text).and_then(|expr| expr.int(&bindings)).unwrap();
    assert_eq!(["A + B", "A - B", "A * B", "A / B", "A % B", "-A / B"].map(int), [9, 5, 14, 3, 1, -3]);
    assert_eq!(["A ** B", "A << B", "A >> B", "A & B", "A | B", "A ^ B"].map(int), [49, 28, 1, 2, 7, 5]);
    assert_eq!(["ceil_div(A, B)", "round_up(A, B)", "min(A, B)", "max(A, B)"].map(int), [4, 8, 2, 7]);
    assert_eq!(int("if A > 0 && !(B == 2) || is_pow2(A) { A } else { B }"), 2);
}

#[test]
fn the_section_for_prompts_is_short() {
    let section = for_prompts();
    assert!(section.len() <= 15 * 512, "it has {} bytes", section.len());
    assert_eq!(section.matches("```").count(), 4, "a manifest and a template");
}

/// A check of the test itself: it would find a key that the page lacks.
#[test]
fn a_key_that_is_known_is_listed() {
    let manifest = MAPPED.replace("swizzle = 128", "zzz = 128");
    let mistakes = Family::parse_with_op(&manifest, String::new(), ops::find).unwrap_err();
    assert_eq!(listed(&mistakes), ["name", "tensor", "sizes", "strides", "box", "swizzle", "when"]);
}
