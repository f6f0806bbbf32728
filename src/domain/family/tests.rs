//! Tensor maps, programmatic launches and `when` in a manifest: what is filled in, and the messages of what is refused.

mod mistakes;
mod page;

use super::Family;
use crate::domain::device::DeviceInfo;
use crate::domain::device::regime::Regime;
use crate::domain::family::plan::{Arg, LaunchPlan};
use crate::domain::op::Dtype;
use crate::domain::workload::Case;
use crate::error::Error;
use crate::ops;

/// Two heads of 100 keys, a tile of `BC` of them at a time.
const MAPPED: &str = r#"
name = "mapped"
about = "For these tests: nothing of it is ever executed."
op = "attention"
dtypes = ["f16", "f32"]
requires_sm = 90
constants = ["D"]
[params.BC]
values = [64, 512]
default = 64
about = "keys a tile"
expect = [1.0, 1.0]
[[workspace]]
name = "partial"
dtype = "f32"
elements = "B * H"
[[tensor_map]]
name = "k_map"
tensor = "k"
sizes = ["D / 2", "Sk", "2", "B * H"]
strides = ["D", "D / 2", "Sk * D"]
box = ["D / 2", "BC", "2", "1"]
swizzle = 128
[[launch]]
kernel = "first"
grid = ["B * H"]
block = ["128"]
args = ["k_map", "partial"]
[[launch]]
kernel = "second"
grid = ["B * H"]
block = ["128"]
programmatic = true
args = ["partial", "o"]
"#;

/// Fills in the launch plan of a manifest after a few changes.
fn plan_for(changes: &[(&str, &str)], dtype: Dtype, params: &[(&str, i64)]) -> Result<LaunchPlan, Error> {
    let manifest = changes.iter().fold(MAPPED.to_owned(), |manifest, (from, to)| {
        assert!(manifest.contains(from), "{from}");
        manifest.replacen(from, to, 1)
    });
    let family = Family::parse(&manifest, String::new())?;
    let dims = [("B", 1), ("H", 2), ("Sq", 100), ("Sk", 100), ("D", 128), ("CAUSAL", 0)];
    let dims = dims.map(|(name, size)| (name.to_owned(), size)).into_iter().collect();
    let case = Case { name: "c".into(), dims, regime: Regime::Warm };
    let mut configuration = family.defaults();
    configuration.extend(params.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    let (op, device) = (ops::find("attention").unwrap(), DeviceInfo::of_arch("sm_90a").unwrap());
    family.plan(&configuration, &case, op, dtype, &device).map_err(Error::new)
}

fn plan(from: &str, to: &str) -> Result<LaunchPlan, Error> {
    plan_for(&[(from, to)], Dtype::F16, &[])
}

fn refused(from: &str, to: &str) -> String {
    plan(from, to).unwrap_err().into()
}

#[test]
fn a_map_is_filled_in_with_bytes_where_the_driver_wants_bytes() {
    let plan = plan_for(&[], Dtype::F16, &[]).unwrap();
    let Arg::TensorMap(map) = &plan.launches[0].args[0] else { panic!("{plan:?}") };
    assert_eq!((map.name.as_str(), map.tensor.as_str(), map.dtype), ("k_map", "k", Dtype::F16));
    assert_eq!(map.sizes, [64, 100, 2, 2]);
    assert_eq!(map.stride_bytes, [256, 128, 25600]);
    assert_eq!(map.box_sizes, [64, 64, 2, 1]);
    assert_eq!(map.swizzle_bytes, 128);
}

#[test]
fn a_launch_is_programmatic_only_where_it_says_so() {
    let launches = plan_for(&[], Dtype::F16, &[]).unwrap().launches;
    assert_eq!(launches.iter().map(|launch| launch.programmatic).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_map_of_one_dimension_has_no_strides_and_may_do_without_a_swizzle() {
    let flat = [
        (r#"sizes = ["D / 2", "Sk", "2", "B * H"]"#, r#"sizes = ["B * H * Sk * D"]"#),
        (r#"strides = ["D", "D / 2", "Sk * D"]"#, ""),
        (r#"box = ["D / 2", "BC", "2", "1"]"#, r#"box = ["256"]"#),
        ("swizzle = 128", ""),
    ];
    let plan = plan_for(&flat, Dtype::F32, &[]).unwrap();
    let Arg::TensorMap(map) = &plan.launches[0].args[0] else { panic!("{plan:?}") };
    assert_eq!((map.sizes.as_slice(), map.swizzle_bytes), ([25600].as_slice(), 0));
    assert!(map.stride_bytes.is_empty());
}

#[test]
fn a_map_may_describe_a_workspace() {
    let described = [
        (r#"elements = "B * H""#, r#"elements = "B * H * Sk * D""#),
        (r#"tensor = "k""#, r#"tensor = "partial""#),
        (r#"sizes = ["D / 2", "Sk", "2", "B * H"]"#, r#"sizes = ["D", "Sk"]"#),
        (r#"strides = ["D", "D / 2", "Sk * D"]"#, r#"strides = ["D"]"#),
        (r#"box = ["D / 2", "BC", "2", "1"]"#, r#"box = ["32", "BC"]"#),
    ];
    let plan = plan_for(&described, Dtype::F16, &[]).unwrap();
    let Arg::TensorMap(map) = &plan.launches[0].args[0] else { panic!("{plan:?}") };
    assert_eq!((map.dtype, map.stride_bytes.as_slice()), (Dtype::F32, [512].as_slice()));
    let small = plan_for(&described[1..], Dtype::F16, &[]).unwrap_err();
    insta::assert_snapshot!(small, @"tensor map `k_map`: it reaches element 12800 of `partial`, which has 2");
    let left_out = (r#"elements = "B * H""#, "when = \"BC > 64\"\nelements = \"B * H * Sk * D\"");
    let left_out = plan_for(&[&[left_out], &described[1..]].concat(), Dtype::F16, &[]).unwrap_err();
    insta::assert_snapshot!(left_out, @"tensor map `k_map`: workspace `partial` is omitted if `BC > 64` is false: give the map the same `when`");
}

#[test]
fn a_map_of_the_wrong_shape_is_refused() {
    insta::assert_snapshot!(refused(r#"sizes = ["D / 2", "Sk", "2", "B * H"]"#, "sizes = []"), @"tensor map `k_map`: give one to five `sizes`, as many for `box`, and one stride fewer, innermost first");
    insta::assert_snapshot!(refused(r#"box = ["D / 2", "BC", "2", "1"]"#, r#"box = ["D / 2"]"#), @"tensor map `k_map`: give one to five `sizes`, as many for `box`, and one stride fewer, innermost first");
    insta::assert_snapshot!(refused(r#"strides = ["D", "#, r#"strides = ["#), @"tensor map `k_map`: give one to five `sizes`, as many for `box`, and one stride fewer, innermost first");
    insta::assert_snapshot!(refused("swizzle = 128", "swizzle = 48"), @"tensor map `k_map`: swizzle 48 is not 0, 32, 64 or 128");
    insta::assert_snapshot!(refused("swizzle = 128", "swizle = 128"), @"line 23: unknown field `swizle`, expected one of `name`, `tensor`, `sizes`, `strides`, `box`, `swizzle`, `when` (did you mean `swizzle`?)");
}

#[test]
fn a_map_that_the_driver_would_refuse_is_refused_with_the_reason() {
    insta::assert_snapshot!(refused(r#"tensor = "k""#, r#"tensor = "kk""#), @"tensor map `k_map`: there is no tensor or workspace `kk` (did you mean `k`?)");
    insta::assert_snapshot!(refused(r#"strides = ["D""#, r#"strides = ["D + 1""#), @"tensor map `k_map`: a stride of 258 bytes is not a multiple of 16");
    insta::assert_snapshot!(refused(r#"strides = ["D""#, r#"strides = ["D - Sk - 28""#), @"tensor map `k_map`: stride `D - Sk - 28` = 0, not 1 to 549755813887");
    insta::assert_snapshot!(refused(r#"box = ["D / 2""#, r#"box = ["4""#), @"tensor map `k_map`: a box's rows of 8 bytes are not a multiple of 16");
    insta::assert_snapshot!(refused(r#"box = ["D / 2""#, r#"box = ["D""#), @"tensor map `k_map`: a box's rows of 256 bytes are longer than its swizzle of 128");
    insta::assert_snapshot!(plan_for(&[], Dtype::F32, &[]).unwrap_err(), @"tensor map `k_map`: a box's rows of 256 bytes are longer than its swizzle of 128");
    insta::assert_snapshot!(plan_for(&[], Dtype::F16, &[("BC", 512)]).unwrap_err(), @"tensor map `k_map`: box `BC` = 512, not 1 to 256");
    insta::assert_snapshot!(refused(r#""2", "B * H"]"#, r#""2", "B * H + 1"]"#), @"tensor map `k_map`: it reaches element 38400 of `k`, which has 25600");
    insta::assert_snapshot!(refused(r#""Sk * D"]"#, r#""1 << 38"]"#), @"tensor map `k_map`: it reaches element 274877919744 of `k`, which has 25600");
}

#[test]
fn a_parameter_helps_only_against_causes_that_a_rule_finds() {
    let helps = |rule: &str| format!("expect = [1.0, 1.0]\nhelps = {{ {rule} = \"more\" }}");
    assert!(plan("expect = [1.0, 1.0]", &helps("bank-conflicts")).is_ok());
    insta::assert_snapshot!(refused("expect = [1.0, 1.0]", &helps("bank-conflict")), @"parameter `BC`: `helps` names `bank-conflict`, which is not a rule of the diagnosis (did you mean `bank-conflicts`?)");
}

#[test]
fn openings_apply_by_dimensions_and_set_values_that_parameters_have() {
    let family = |when: &str, set: &str| {
        let opening = format!("[[opening]]\nwhen = \"{when}\"\nset = {{ {set} }}\n[[workspace]]");
        Family::parse(&MAPPED.replacen("[[workspace]]", &opening, 1), String::new())
    };
    let found = |when: &str| {
        let dims = [("B", 1), ("H", 2), ("Sq", 100), ("Sk", 100), ("D", 128), ("CAUSAL", 0)];
        let dims = dims.map(|(name, size)| (name.to_owned(), size)).into_iter().collect();
        let case = Case { name: "c".into(), dims, regime: Regime::Warm };
        let device = DeviceInfo::of_arch("sm_90a").unwrap();
        family(when, "BC = 512").unwrap().openings_for(&case, Dtype::F16, &device).unwrap()
    };
    assert_eq!(found("Sk >= 100").len(), 1);
    assert_eq!(found("Sk >= 100")[0]["BC"], 512);
    assert!(found("Sk > BC").is_empty());
    assert_eq!(
        family("sm > 0", "BC = 96").unwrap_err(),
        "an opening sets `BC` to 96, which is not among its values".into()
    );
    assert_eq!(family("sm > 0", "BR = 64").unwrap_err(), "an opening sets `BR`, which is not a parameter".into());
}

/// A family from before the op had an optional dimension must not be tried where it would be wrong.
#[test]
fn a_family_takes_an_optional_dimension_only_if_it_names_it() {
    let with = |manifest: &str, key_heads: Option<i64>, plans: bool| {
        let family = Family::parse_with_op(manifest, String::new(), ops::find).unwrap();
        let dims = [("B", 1), ("H", 2), ("Sq", 100), ("Sk", 100), ("D", 128), ("CAUSAL", 0)];
        let dims = dims.into_iter().chain(key_heads.map(|heads| ("Hkv", heads)));
        let dims = dims.map(|(name, size)| (name.to_owned(), size)).collect();
        let case = Case { name: "c".into(), dims, regime: Regime::Warm };
        let device = DeviceInfo::of_arch("sm_90a").unwrap();
        let (op, params) = (ops::find("attention").unwrap(), family.defaults());
        family.check(&params, &case, Dtype::F16, &device).map_err(|error| error.to_string())?;
        match plans {
            true => family.plan(&params, &case, op, Dtype::F16, &device).map(drop).map_err(|error| error.to_string()),
            false => Ok(()),
        }
    };
    let takes = |manifest: &str, key_heads: Option<i64>| with(manifest, key_heads, false);
    let named = MAPPED.replacen("elements = \"B * H\"", "elements = \"B * Hkv\"", 1);
    assert_eq!([takes(MAPPED, None), takes(&named, None), takes(&named, Some(1))], [Ok(()), Ok(()), Ok(())]);
    insta::assert_snapshot!(takes(MAPPED, Some(1)).unwrap_err(), @"`Hkv == H` does not hold: The family does not name Hkv, the number of heads of keys and values.");
    let always = MAPPED.replacen(r#"args = ["k_map""#, r#"args = ["sink", "k_map""#, 1);
    insta::assert_snapshot!(with(&always, None, true).unwrap_err(), @"launch argument `sink` is a tensor that this case does not have: write `sink?` if the kernel has it where a case does");
    let sometimes = always.replacen("sink", "sink?", 1);
    assert_eq!(with(&sometimes, None, true), Ok(()));
    let other = always.replacen("sink", "q?", 1);
    insta::assert_snapshot!(with(&other, None, true).unwrap_err(), @"launch argument `q?`: only a tensor, tensor map or workspace that some cases lack may have a question mark");
    let map = always.replacen(r#""sink", "k_map""#, r#""k_map?""#, 1);
    let left_out = map.replacen("[[tensor_map]]", "[[tensor_map]]\nwhen = \"Sk == 1\"", 1);
    assert_eq!([&map, &left_out].map(|manifest| with(manifest, None, true)), [Ok(()), Ok(())]);
}

#[test]
fn a_name_means_one_thing() {
    insta::assert_snapshot!(refused(r#"name = "k_map""#, r#"name = "BC""#), @"`BC` names two things: give the workspace or tensor map another name");
    insta::assert_snapshot!(refused(r#"name = "k_map""#, r#"name = "partial""#), @"`partial` names two things: give the workspace or tensor map another name");
    insta::assert_snapshot!(refused(r#"name = "k_map""#, r#"name = "sms""#), @"`sms` is a reserved name: rename your value");
    insta::assert_snapshot!(refused(r#"name = "k_map""#, r#"name = "k""#), @"`k`: the op or the device has something of that name: give the workspace or tensor map another");
    insta::assert_snapshot!(refused(r#"name = "k_map""#, r#"name = "Sk""#), @"`Sk`: the op or the device has something of that name: give the workspace or tensor map another");
    insta::assert_snapshot!(refused(r#"args = ["k_map""#, r#"args = ["k_mpa""#), @"launch argument `k_mpa` names nothing (did you mean `k_map`?)");
}

#[test]
fn the_first_launch_waits_for_earlier_work() {
    insta::assert_snapshot!(refused("kernel = \"first\"", "kernel = \"first\"\nprogrammatic = true"), @"launch `first`: the first launch of a plan cannot be programmatic, because no launch precedes it");
}

/// The keys are split at `BC` = 512 only. Then the plan has scratch memory and a second kernel that adds up.
const SPLIT: [(&str, &str); 4] = [
    ("elements = \"B * H\"", "elements = \"B * H\"\nwhen = \"BC > 64\""),
    ("kernel = \"second\"", "kernel = \"second\"\nwhen = \"BC > 64\""),
    ("args = [\"k_map\", \"partial\"]", "when = \"BC > 64\"\nargs = [\"q\", \"partial\"]"),
    (
        "[[launch]]",
        "[[launch]]\nkernel = \"whole\"\ngrid = [\"B * H\"]\nblock = [\"128\"]\nwhen = \"BC == 64\"\nargs = [\"k_map\", \"o\"]\n[[launch]]",
    ),
];

fn kernels(plan: &LaunchPlan) -> Vec<&str> {
    plan.launches.iter().map(|launch| launch.kernel.as_str()).collect()
}

#[test]
fn a_plan_omits_entries_that_the_configuration_does_not_need() {
    let whole = plan_for(&SPLIT, Dtype::F16, &[("BC", 64)]).unwrap();
    assert_eq!((kernels(&whole), whole.workspaces.len()), (vec!["whole"], 0));
    let split = plan_for(&SPLIT, Dtype::F16, &[("BC", 512)]).unwrap();
    assert_eq!((kernels(&split), split.workspaces.len()), (vec!["first", "second"], 1));
}

/// The numbers of an omitted entry may be invalid: this map's box has 512 keys, the scratch memory no elements.
#[test]
fn omitted_entries_are_not_filled_in() {
    let map = ("swizzle = 128", "swizzle = 128\nwhen = \"BC == 64\"");
    let memory = ("elements = \"B * H\"", "elements = \"(BC - 64) * H\"\nwhen = \"BC - 64\"");
    let uses = ("args = [\"k_map\", \"partial\"]", "when = \"BC == 64\"\nargs = [\"k_map\", \"o\"]");
    let alone =
        ("programmatic = true\nargs = [\"partial\", \"o\"]", "when = \"BC != 64\"\nargs = [\"partial\", \"o\"]");
    let plan = |bc| plan_for(&[map, memory, uses, alone], Dtype::F16, &[("BC", bc)]).unwrap();
    assert_eq!((kernels(&plan(64)), kernels(&plan(512))), (vec!["first"], vec!["second"]));
    assert_eq!((plan(64).workspaces.len(), plan(512).workspaces[0].bytes), (0, 448 * 2 * 4));
}

#[test]
fn a_plan_that_lacks_a_required_entry_is_refused() {
    insta::assert_snapshot!(refused("elements = \"B * H\"", "elements = \"B * H\"\nwhen = \"BC > 64\""), @"launch argument `partial` is omitted if `BC > 64` is false: give the launch the same `when`");
    insta::assert_snapshot!(refused("swizzle = 128", "swizzle = 128\nwhen = \"0\""), @"launch argument `k_map` is omitted if `0` is false: give the launch the same `when`");
    insta::assert_snapshot!(refused("kernel = \"first\"", "kernel = \"first\"\nwhen = \"BC > 64\""), @"launch `second`: the first launch of a plan cannot be programmatic, because no launch precedes it");
    insta::assert_snapshot!(refused("kernel = \"first\"", "kernel = \"first\"\nwhen = \"SPLITS > 1\""), @"expression `SPLITS > 1`: Variable not found: SPLITS (line 1, position 1)");
    insta::assert_snapshot!(refused("kernel = \"first\"", "kernel = \"first\"\nwhen = \"BC >\""), @"expression `BC >`: Script is incomplete (line 1, position 5)");
    let none = [
        ("kernel = \"first\"", "kernel = \"first\"\nwhen = \"false\""),
        ("kernel = \"second\"", "kernel = \"second\"\nwhen = \"false\""),
    ];
    insta::assert_snapshot!(plan_for(&none, Dtype::F16, &[]).unwrap_err(), @"every [[launch]] prepares weights or is omitted by its `when`: at least one must remain");
}
