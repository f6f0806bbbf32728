//! What is wrong with a manifest is reported at once.

use super::{Family, MAPPED};
use crate::ops;

/// Lists the mistakes of a manifest for an op that is known.
fn mistakes(manifest: &str) -> String {
    let mistakes = Family::parse_with_op(manifest, String::new(), ops::find).unwrap_err();
    assert!(mistakes.iter().all(|mistake| !mistake.contains(char::is_control)), "{mistakes:?}");
    mistakes.join("\n")
}

/// Lists the mistakes of the manifest of these tests after a few changes.
fn after(changes: &[(&str, &str)]) -> String {
    mistakes(&changes.iter().fold(MAPPED.to_owned(), |manifest, (from, to)| {
        assert!(manifest.contains(from), "{from}");
        manifest.replacen(from, to, 1)
    }))
}

#[test]
fn a_manifest_without_mistakes_has_none_and_keeps_its_text() {
    let family = Family::parse_with_op(MAPPED, "// nothing".to_owned(), ops::find).unwrap();
    assert_eq!((family.manifest.as_str(), family.template.as_str()), (MAPPED, "// nothing"));
    assert_eq!(family.plan_entries(), (2, 1));
}

#[test]
fn every_unknown_missing_or_mistyped_key_is_reported() {
    let manifest = r#"
        name = "many"
        abuot = "A misspelled key."
        op = "attention"
        dtypes = ["f16", "bf61"]
        requires_sm = "sm_90"
        constants = ["D"]
        [params.BC]
        values = [64, 128.0]
        default = 64
        about = "keys a tile"
        mechanism = "tile"
        [params.STAGES]
        values = [2, 3]
        default = 2
        helps = { latency-bound = "higher" }
        range = [1, 2]
        [params]
        WARPS = 4
        [derived]
        HALF = 32
        [[constraint]]
        expr = "BC <= Sk"
        [[workspace]]
        name = "parts"
        dtype = "f32"
        elements = "B * H"
        initial = "poison"
        [launch]
        kernel = "attend"
    "#;
    insta::assert_snapshot!(mistakes(manifest), @r#"
    line 1: missing field `about`
    line 5: unknown variant `bf61`, expected one of `f16`, `bf16`, `f32`, `f64`, `e4m3`, `e5m2`, `i8`, `u8`, `i32`, `u32`, `i64`, `bool` (did you mean `bf16`?)
    line 6: must be a whole number from 0, but is the text "sm_90"
    line 19: must be a table, but is a number
    line 9: must be a whole number, but is 128.0
    line 8: missing field `expect`
    line 12: unknown variant `tile`, expected one of `tile_size`, `work_split`, `threads`, `occupancy`, `pipelining`, `memory_access`, `data_reuse`, `arithmetic`, `scheduling`, `several`, `transfer`, `algorithm`, `unspecified` (did you mean `tile_size`?)
    line 13: missing field `about`
    line 13: missing field `expect`
    line 16: unknown variant `higher`, expected `more` or `less`
    line 17: unknown field `range`, expected one of `values`, `default`, `about`, `expect`, `helps`, `mechanism`
    line 21: must be a text, but is 32
    line 22: missing field `why`
    line 28: unknown variant `poison`, expected `undefined` or `zero`
    line 29: `launch` is one table: write [[launch]], with two brackets on either side
    line 3: unknown field `abuot`, expected one of `name`, `about`, `op`, `dtypes`, `compute`, `requires_sm`, `constants`, `headers`, `params`, `derived`, `constraint`, `opening`, `workspace`, `tensor_map`, `launch` (did you mean `about`?)
    "#);
}

#[test]
fn every_bad_name_is_reported() {
    let changes = [
        ("name = \"mapped\"", "name = \"My Family\""),
        ("constants = [\"D\"]", "constants = [\"D\", \"S\", \"BC\"]"),
        (
            "[[workspace]]",
            "[params.\"B-C\"]\nvalues = [1]\ndefault = 1\nabout = \"\"\nexpect = [1, 1]\n\
             [params.H]\nvalues = [1]\ndefault = 1\nabout = \"\"\nexpect = [1, 1]\n\
             [derived]\nsms = \"132\"\nBC = \"64\"\nSk = \"1\"\n[[workspace]]\nname = \"q\"\ndtype = \"f32\"\nelements = \"1\"\n\
             [[workspace]]",
        ),
        ("name = \"k_map\"", "name = \"partial\""),
        ("kernel = \"second\"", "kernel = \"add up\""),
    ];
    insta::assert_snapshot!(after(&changes), @"
    name `My Family`: use 1 to 64 of a-z, 0-9 and `-`, because it is a folder name
    `B-C`: use 1 to 64 letters, digits and `_`, because it is used in the source
    `add up`: use 1 to 64 letters, digits and `_`, because it is used in the source
    `sms` is a reserved name: rename your value
    `BC` is both a parameter and derived: rename one
    `partial` names two things: give the workspace or tensor map another name
    parameter `H` hides the dimension of that name: rename it
    derived value `Sk` hides the dimension of that name: rename it
    `q`: the op or the device has something of that name: give the workspace or tensor map another
    `constants` names `S`, which is not a dimension of attention (did you mean `Sk`?)
    `constants` names `BC`, which is not a dimension of attention (did you mean `B`?)
    launch argument `k_map` names nothing (did you mean `k`?)
    ");
}

#[test]
fn every_invalid_value_is_reported() {
    let changes = [
        ("dtypes = [\"f16\", \"f32\"]", "dtypes = []"),
        ("values = [64, 512]", "values = [64, 64, 512]"),
        ("default = 64", "default = 32"),
        ("expect = [1.0, 1.0]", "expect = [2.0, 1.0]\nmechanism = \"transfer\""),
        ("swizzle = 128", "swizzle = 48"),
        ("strides = [\"D\", \"D / 2\", \"Sk * D\"]", ""),
        ("grid = [\"B * H\"]", "grid = []\nprogrammatic = true"),
        ("block = [\"128\"]", "block = [\"1\", \"1\", \"1\", \"1\"]"),
    ];
    insta::assert_snapshot!(after(&changes), @"
    parameter `BC`: its default 32 is not among its values
    parameter `BC`: a value occurs twice
    parameter `BC`: `expect` must be [low, high] with 0 < low <= high
    parameter `BC`: `transfer` is not a mechanism of a parameter
    tensor map `k_map`: give one to five `sizes`, as many for `box`, and one stride fewer, innermost first
    tensor map `k_map`: swizzle 48 is not 0, 32, 64 or 128
    launch `first`: `grid` needs one to three extents
    launch `first`: `block` needs one to three extents
    `dtypes` is empty: list the element types that the kernel supports
    launch `first`: the first launch of a plan cannot be programmatic, because no launch precedes it
    ");
}

#[test]
fn every_mistake_in_an_expression_is_reported() {
    let changes = [
        (
            "[[workspace]]",
            "[derived]\nTILES = \"ceildiv(Sk, BC)\"\nALL = \"TILE * H\"\nSMEM = \"LATER * 2\"\nLATER = \"BC +\"\n\
             [[constraint]]\nexpr = \"BC + 1\"\nwhy = \"\"\n[[constraint]]\nexpr = \"BC <= 64 && STAGES > 1\"\nwhy = \"\"\n\
             [[workspace]]",
        ),
        ("elements = \"B * H\"", "elements = \"B * HEADS\"\nwhen = \"SPLITS > 1\""),
        ("\"Sk\", \"2\"", "\"SK\", \"2 2\""),
        ("grid = [\"B * H\"]", "grid = [\"b * H\"]\nshared = \"smem_limt\"\ncluster = [\"B == 1\"]"),
    ];
    insta::assert_snapshot!(after(&changes), @"
    expression `ceildiv(Sk, BC)`: Function not found: ceildiv (i64, i64) (line 1, position 1) (did you mean `ceil_div`?)
    expression `BC +`: Script is incomplete (line 1, position 5)
    expression `BC + 1`: gives a i64, not true or false
    expression `2 2`: Unexpected '2' (line 1, position 3)
    expression `B == 1`: gives a bool, not an integer
    derived value `SMEM` uses `LATER`, which is not defined before it: move it up
    expression `TILE * H`: there is no `TILE` (did you mean `TILES`?)
    expression `BC <= 64 && STAGES > 1`: there is no `STAGES` (did you mean `PAGES`?)
    expression `B * HEADS`: there is no `HEADS` (did you mean `H`?)
    expression `SPLITS > 1`: there is no `SPLITS`
    expression `SK`: there is no `SK`
    expression `smem_limt`: there is no `smem_limt` (did you mean `smem_limit`?)
    expression `b * H`: there is no `b`
    ");
}

#[test]
fn every_unknown_argument_is_reported() {
    let changes = [
        ("tensor = \"k\"", "tensor = \"keys\""),
        ("args = [\"k_map\", \"partial\"]", "args = [\"kmap\", \"partial\", \"scal\", \"Sk\", \"BC\", \"sms\"]"),
        ("args = [\"partial\", \"o\"]", "args = [\"partials\", \"out\"]"),
    ];
    insta::assert_snapshot!(after(&changes), @"
    tensor map `k_map`: there is no tensor or workspace `keys` (did you mean `k`?)
    launch argument `kmap` names nothing (did you mean `k_map`?)
    launch argument `scal` names nothing (did you mean `scale`?)
    launch argument `partials` names nothing (did you mean `partial`?)
    launch argument `out` names nothing (did you mean `o`?)
    ");
}

/// A name of an entry that could not be read may be what another entry means.
#[test]
fn consequential_mistakes_are_not_reported() {
    insta::assert_snapshot!(after(&[("[[workspace]]", "[[workspaces]]")]), @"line 13: unknown field `workspaces`, expected one of `name`, `about`, `op`, `dtypes`, `compute`, `requires_sm`, `constants`, `headers`, `params`, `derived`, `constraint`, `opening`, `workspace`, `tensor_map`, `launch` (did you mean `workspace`?)");
    insta::assert_snapshot!(after(&[("name = \"k_map\"", "nmae = \"k_map\"")]), @"
    line 17: missing field `name`
    line 18: unknown field `nmae`, expected one of `name`, `tensor`, `sizes`, `strides`, `box`, `swizzle`, `when` (did you mean `name`?)
    ");
    insta::assert_snapshot!(after(&[("dtype = \"f32\"", "")]), @"line 13: missing field `dtype`");
    insta::assert_snapshot!(after(&[("op = \"attention\"", "op = \"atention\"")]), @"op `atention` is not known (did you mean `attention`?); there are: attention, gemm, linear, linear-w4, grouped-linear, top-k, delta-attention");
}

#[test]
fn a_manifest_without_its_op_is_checked_as_far_as_that_goes() {
    let manifest = MAPPED.replace("B * H", "HEADS").replace("swizzle", "swizle").replace("\"Sk\"", "\"Sk -\"");
    insta::assert_snapshot!(Family::parse(&manifest, String::new()).unwrap_err(), @"expression `Sk -`: Script is incomplete (line 1, position 5); line 23: unknown field `swizle`, expected one of `name`, `tensor`, `sizes`, `strides`, `box`, `swizzle`, `when` (did you mean `swizzle`?)");
    insta::assert_snapshot!(Family::parse("name = ", String::new()).unwrap_err(), @"line 1: string values must be quoted, expected literal string");
    insta::assert_snapshot!(Family::parse("", String::new()).unwrap_err(), @"line 1: missing field `name`; line 1: missing field `about`; line 1: missing field `op`; line 1: missing field `dtypes`; line 1: missing field `requires_sm`; line 1: missing field `constants`; line 1: missing field `params`; it has no [[launch]]: add at least one");
}

#[test]
fn a_text_with_many_mistakes_reports_only_some_of_them() {
    let args = (0..20_000).map(|n| format!("\"NO{n}\"")).collect::<Vec<_>>().join(", ");
    let manifest = MAPPED.replacen("args = [\"k_map\", \"partial\"]", &format!("args = [{args}]"), 1);
    let told = mistakes(&manifest);
    assert_eq!(told.lines().count(), 33);
    assert!(told.ends_with("there are more mistakes"), "{told}");
}

#[test]
fn a_manifest_that_is_too_large_is_refused_with_the_limit() {
    let parameter = |name: usize, values: usize| {
        let values: Vec<usize> = (1..=values).collect();
        format!("[params.P{name}]\nvalues = {values:?}\ndefault = 1\nabout = \"a\"\nexpect = [1, 1]\n[[workspace]]")
    };
    let with = |added: &str| after(&[("[[workspace]]", added)]);
    let parameters: String = (0..64).map(|name| parameter(name, 2).replace("[[workspace]]", "")).collect();
    insta::assert_snapshot!(with(&format!("{parameters}[[workspace]]")), @"it has 65 parameters, and at most 64 are supported: leave some out");
    insta::assert_snapshot!(with(&parameter(1, 2047)), @"it has 2049 values of parameters, and at most 2048 are supported: leave some out");
    let constraint = "[[constraint]]\nexpr = \"BC > 0\"\nwhy = \"made up\"\n";
    insta::assert_snapshot!(with(&format!("{}[[workspace]]", constraint.repeat(257))), @"it has 257 constraints and derived values, and at most 256 are supported: leave some out");
    let long = constraint.replace("BC > 0", &format!("BC > 0{}", " + 0".repeat(50))).repeat(80);
    insta::assert_snapshot!(with(&format!("{long}[[workspace]]")), @"it has 16535 bytes of expressions, and at most 16384 are supported: leave some out");
    let launch = "[[launch]]\nkernel = \"k\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = []\n".repeat(61);
    insta::assert_snapshot!(with(&format!("{launch}[[workspace]]")), @"it has 65 launches, workspaces, tensor maps and openings, and at most 64 are supported: leave some out");
}
