//! Tests on made-up families.

use super::*;
use crate::domain::device::regime::Regime;
use crate::ops;
use rand::SeedableRng;
use rand::rngs::SmallRng;

const PARAMETERS: [&str; 6] = ["P1", "P2", "P3", "P4", "P5", "P6"];

fn family(constraint: &str) -> Family {
    let parameter = |name: &str| {
        format!("[params.{name}]\nvalues = [1, 2, 3, 4, 5, 6, 7, 8]\ndefault = 1\nabout = \"a\"\nexpect = [1, 1]\n")
    };
    let manifest = format!(
        "name = \"f\"\nabout = \"a\"\nop = \"attention\"\ndtypes = [\"f16\"]\nrequires_sm = 80\nconstants = []\n{}\n\
         [derived]\nSUM = \"P1 + P2 + P3 + P4 + P5 + P6\"\n[[constraint]]\nexpr = \"{constraint}\"\nwhy = \"made up\"\n\
         [[launch]]\nkernel = \"k\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = []\n",
        PARAMETERS.map(parameter).concat()
    );
    Family::parse(&manifest, String::new()).unwrap()
}

fn with_space<T>(constraint: &str, test: impl FnOnce(Space<'_>) -> T) -> T {
    let dims = ["B", "H", "Sq", "Sk", "D"].map(|name| (name.to_owned(), 8)).into_iter();
    let case = Case { name: "c".into(), dims: dims.chain([("CAUSAL".to_owned(), 0)]).collect(), regime: Regime::Warm };
    assert!(ops::find("attention").is_ok());
    let (family, device) = (family(constraint), DeviceInfo::of_arch("sm_90a").unwrap());
    test(Space { family: &family, case: &case, dtype: Dtype::F16, device: &device })
}

#[test]
fn valid_defaults_are_the_start() {
    with_space("SUM >= 6", |space| assert_eq!(space.start().unwrap(), Some(space.family.defaults())));
}

#[test]
fn otherwise_the_start_is_the_valid_configuration_that_is_few_steps_away() {
    with_space("SUM == 9 && P1 >= 3", |space| {
        let start = space.start().unwrap().unwrap();
        assert_eq!(start.values().sum::<i64>(), 9);
        assert!(start["P1"] >= 3);
    });
}

/// Only two configurations of 262,144 are valid: uniform draws would take minutes.
#[test]
fn rare_configurations_are_found() {
    with_space("P1 == P2 && P2 == P3 && P3 == P4 && P4 == P5 && P5 == P6 && P1 >= 7", |space| {
        let mut rng = SmallRng::seed_from_u64(1);
        let found: std::collections::HashSet<i64> =
            (0..20).map(|_| space.random(&mut rng).unwrap().unwrap()["P1"]).collect();
        assert_eq!(found, [7, 8].into());
        assert_eq!(space.start().unwrap().unwrap()["P6"], 7);
    });
}

/// The sum is at its bound, so a value fits only if one or two other parameters make room for it.
#[test]
fn other_parameters_give_way_to_a_value_as_little_as_they_can() {
    with_space("SUM == 12 && P6 == 1 && (P1 + P2) % 2 == 0", |space| {
        let from: Params = PARAMETERS.iter().map(|name| (name.to_string(), 1)).collect();
        let from = with(&with(&from, "P2", 3), "P3", 5);
        assert!(space.contains(&from).unwrap());
        let near = |parameter: &str, value| {
            let configuration = space.nearest_with(&from, parameter, value).unwrap();
            configuration.map(|configuration| PARAMETERS.map(|name| configuration[name]))
        };
        assert_eq!(near("P3", 5), Some([1, 3, 5, 1, 1, 1]), "nothing to do");
        assert_eq!(near("P4", 3), Some([1, 1, 5, 3, 1, 1]), "one gives way");
        assert_eq!(near("P1", 2), Some([2, 2, 5, 1, 1, 1]), "the one that satisfies both constraints");
        assert_eq!(near("P1", 3), Some([3, 1, 5, 1, 1, 1]), "rather than two");
        assert_eq!(near("P5", 8), None, "three would have to");
    });
}

/// Two parameters of a thousand values have a million pairs. To collect them first took gigabytes.
#[test]
fn room_for_a_value_is_sought_without_listing_every_pair() {
    let values = format!("{:?}", (1..=1000).collect::<Vec<i64>>());
    let more = ["P7", "P8"].map(|name| {
        format!("[params.{name}]\nvalues = {values}\ndefault = 1\nabout = \"a\"\nexpect = [1, 1]\n[params.P6]")
    });
    let text = family("SUM == 6").manifest;
    let text = more.iter().fold(text, |text, more| text.replacen("[params.P6]", more, 1));
    let text = text.replace("SUM == 6", "SUM == 6 && P7 == P8 + 500 * (P8 - 1)");
    let wide = Family::parse(&text, String::new()).unwrap();
    with_space("true", |space| {
        let space = Space { family: &wide, ..space };
        let from = wide.defaults();
        let near = space.nearest_with(&from, "P7", 502).unwrap().unwrap();
        assert_eq!((near["P7"], near["P8"]), (502, 2));
        assert_eq!(space.nearest_with(&from, "P7", 3).unwrap(), None);
    });
}

#[test]
fn a_family_that_cannot_compute_a_case_says_which_constraint_excludes_it() {
    let excluded = |constraint: &str| with_space(constraint, |space| space.excluded().unwrap());
    let made_up = Some(vec!["made up".to_owned()]);
    assert_eq!(excluded("D == 64"), made_up, "the dimensions alone decide: D is 8");
    assert_eq!(excluded("D == 64 && P1 > 3"), made_up, "whatever the parameters");
    assert_eq!(excluded("P1 > 3"), None, "the defaults are not valid, but others are");
    assert_eq!(excluded("P1 > 100"), made_up, "no value satisfies it");
    assert_eq!(excluded("P1 + P2 > 1000"), made_up);
}

#[test]
fn an_empty_space_is_distinguished_from_a_wrong_manifest() {
    with_space("P1 > 100", |space| {
        assert_eq!(space.start().unwrap(), None);
        assert_eq!(space.random(&mut SmallRng::seed_from_u64(1)).unwrap(), None);
        assert!(space.why_not(&space.family.defaults()).unwrap().contains("made up"));
    });
    with_space("P1 / 0 > 1", |space| assert!(space.start().unwrap_err().to_string().contains("Division by zero")));
    with_space("P1 + X > 0", |space| assert!(space.start().unwrap_err().to_string().contains("X")));
}

#[test]
fn many_configurations_are_checked_as_single_ones_are() {
    let constraints = ["SUM % 3 == 0 && P1 <= D && P2 * 8 <= smem_limit", "if P1 > P2 { true } else { P3 > 4 }"];
    for constraint in constraints {
        with_space(constraint, |space| {
            let (mut checker, mut rng) = (space.checker(), SmallRng::seed_from_u64(1));
            for _ in 0..200 {
                let values: Vec<i64> = PARAMETERS.iter().map(|_| rng.random_range(1..=8)).collect();
                let single = space.contains(&space.family.configuration(&values)).unwrap();
                assert_eq!(checker.allows(&values).unwrap(), single, "{constraint}: {values:?}");
            }
        });
    }
    with_space("P1 / (P2 - 1) > 0", |space| {
        assert!(space.checker().allows(&[1; 6]).unwrap_err().to_string().contains("Division by zero"));
    });
}
