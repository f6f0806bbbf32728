//! Workloads: an op, a dtype, a tolerance and the cases to make fast. They are data, in `kernels/workloads/*.toml`.

use serde::{Deserialize, Serialize};

use super::compute::Compute;
use super::device::DeviceInfo;
use super::device::regime::{self, Regime};
use super::ids::CaseName;
use super::op::{Dims, Dtype, Op};
use super::text::names::{did_you_mean, is_file_name};
use super::text::toml_text;
use crate::error::{Error, error};

mod baseline_key;

pub use baseline_key::{BaselineKey, EXPRESSION, MODULE};

/// Keys that were renamed in optloop 0.2.
const RENAMED: [(&str, &str); 1] = [("reference", "initial_kernel")];

/// The most cases. Shipped workloads have up to 18. A session examines every family on each of them before it starts.
const MAX_CASES: usize = 512;

/// What to compute, on which shapes, and how exactly.
#[derive(Clone)]
pub struct Workload {
    /// Name; the file is called `<name>.toml`.
    pub name: String,
    /// A description in one sentence.
    pub about: String,
    /// The op that every case computes.
    pub op: &'static dyn Op,
    /// Element type of every tensor.
    pub dtype: Dtype,
    /// The precision in which kernels may multiply.
    pub compute: Compute,
    /// How far an output may be from the float64 oracle.
    pub tolerance: Tolerance,
    /// The family whose default configuration starts every session: the kernel to beat. None if there is no kernel yet: the
    /// first correct variant of a case is its initial kernel then.
    pub initial_kernel: Option<String>,
    /// The program that times what a user would use instead; none if the workload names none.
    pub baseline: Option<BaselineKey>,
    /// The shapes, in the order of the file.
    pub cases: Vec<Case>,
}

/// One concrete shape of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Name, unique in its workload and safe as a file name.
    pub name: CaseName,
    /// Size of every dimension of the op.
    pub dims: Dims,
    /// State of the caches in which the case is timed.
    #[serde(default)]
    pub regime: Regime,
}

/// The largest errors that count as correct, both relative to the scale of the output.
///
/// Errors are never compared element by element with an absolute threshold: all zeros would pass on long sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// `‖out − ref‖₂ / ‖ref‖₂` over the whole output.
    pub relative_l2: f64,
    /// The same for the worst single row, so that averaging cannot hide an error in few rows.
    pub worst_row: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    name: String,
    about: String,
    op: String,
    dtype: Dtype,
    #[serde(default)]
    compute: Compute,
    tolerance: Tolerance,
    initial_kernel: Option<String>,
    baseline: Option<BaselineKey>,
    #[serde(default)]
    regime: Regime,
    #[serde(default)]
    dims: Dims,
    #[serde(rename = "case")]
    cases: Vec<CaseFile>,
}

#[derive(Deserialize)]
struct CaseFile {
    name: CaseName,
    regime: Option<Regime>,
    #[serde(flatten)]
    dims: Dims,
}

impl Workload {
    /// Parses and validates a workload file. The error has a sentence for each mistake, all in one line, without the
    /// file's name.
    pub fn parse(text: &str, find_op: impl Fn(&str) -> Result<&'static dyn Op, Error>) -> Result<Self, Error> {
        toml_text::parse_lines(text)
            .map_err(|problem| toml_text::renamed_key(text, &RENAMED).unwrap_or(problem.into()))
            .and_then(|file| Self::of(file, find_op).map_err(|mistakes| mistakes.join("; ")))
            .map_err(|problem| Error::new(toml_text::one_line(problem)))
    }

    /// Returns a hash of what all cases have in common: op, dtype, compute mode, tolerance and
    /// initial kernel.
    pub fn content_hash(&self) -> String {
        let Tolerance { relative_l2, worst_row } = self.tolerance;
        // The default mode is left out, as it was before there were others.
        let compute = if self.compute.is_dtype() { String::new() } else { format!(" {}", self.compute.name()) };
        let described = format!(
            "{} {}{compute} {relative_l2:e} {worst_row:e} {}",
            self.op.identity(),
            self.dtype.name(),
            self.initial_kernel.as_deref().unwrap_or_default()
        );
        blake3::hash(described.as_bytes()).to_hex().to_string()
    }

    /// Tells whether a family is that of the initial kernel.
    pub fn starts_from(&self, family: &str) -> bool {
        self.initial_kernel.as_deref() == Some(family)
    }

    /// Tells whether a session may take a correct variant of a family for the initial kernel of a case.
    pub fn may_start_from(&self, family: &str) -> bool {
        self.initial_kernel.is_none() || self.starts_from(family)
    }

    /// Validates a file. The error has a sentence for each mistake.
    fn of(file: WorkloadFile, find_op: impl Fn(&str) -> Result<&'static dyn Op, Error>) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        if !is_file_name(&file.name) {
            mistakes.push(format!(
                "name `{}`: use 1 to 64 of a-z, 0-9 and `-`, because it is used as a folder name",
                file.name
            ));
        }
        let op = find_op(&file.op).map_err(|problem| mistakes.push(problem.into())).ok();
        if let Some(op) = op.filter(|op| !op.dtypes().contains(&file.dtype)) {
            let known: Vec<&str> = op.dtypes().iter().map(|dtype| dtype.name()).collect();
            let dtype = file.dtype.name();
            let hint = if file.dtype.is_kept_as_bits() { ", or give each of its tensors a `dtype`" } else { "" };
            mistakes.push(format!("op `{}` has no oracle for {dtype}: use {}{hint}", file.op, known.join(", ")));
        }
        mistakes.extend(file.compute.check(file.dtype).err().map(String::from));
        mistakes.extend(file.baseline.as_ref().and_then(|baseline| baseline.check().err().map(String::from)));
        if file.cases.is_empty() {
            mistakes.push("it has no [[case]]: add at least one".to_owned());
        }
        if file.cases.len() > MAX_CASES {
            let count = file.cases.len();
            return Err(vec![format!("it has {count} cases, and at most {MAX_CASES} are supported: leave some out")]);
        }
        let mut cases: Vec<Case> = Vec::with_capacity(file.cases.len());
        let mut names: Vec<CaseName> = Vec::with_capacity(file.cases.len());
        for case in file.cases {
            if names.contains(&case.name) {
                mistakes.push(format!("case `{}` occurs twice: rename one", case.name));
            }
            names.push(case.name.clone());
            let regime = case.regime.unwrap_or(file.regime);
            match op.map(|op| Case::validated(case.name, regime, file.dims.clone(), case.dims, op)) {
                Some(Ok(case)) => cases.push(case),
                Some(Err(mistake)) => mistakes.push(mistake.into()),
                None => {}
            }
        }
        let Tolerance { relative_l2, worst_row } = file.tolerance;
        // Only whole numbers are exact.
        let is_valid = |most: f64| most > 0.0 && most < 0.5 || most == 0.0 && file.dtype.is_integer();
        if !(is_valid(relative_l2) && is_valid(worst_row)) {
            mistakes.push("tolerance: both values must be between 0 and 0.5".to_owned());
        }
        match op {
            Some(op) if mistakes.is_empty() => Ok(Self {
                name: file.name,
                about: file.about,
                op,
                dtype: file.dtype,
                compute: file.compute,
                tolerance: file.tolerance,
                initial_kernel: file.initial_kernel,
                baseline: file.baseline,
                cases,
            }),
            _ => Err(mistakes),
        }
    }

    /// Finds a case by name; the error names the nearest one.
    pub fn case(&self, name: &str) -> Result<&Case, Error> {
        self.cases.iter().find(|case| case.name == name).ok_or_else(|| {
            let hint = did_you_mean(name, self.cases.iter().map(|case| case.name.as_str()));
            let known: Vec<_> = self.cases.iter().map(|case| case.name.as_str()).collect();
            error!("workload `{}` has no case `{name}`{hint}; it has: {}", self.name, known.join(", "))
        })
    }

    /// Keeps only the named cases, in the workload's order. No names keep all cases.
    pub fn select(mut self, names: &[CaseName]) -> Result<Self, Error> {
        for name in names {
            self.case(name)?;
        }
        if !names.is_empty() {
            self.cases.retain(|case| names.contains(&case.name));
        }
        Ok(self)
    }

    /// Keeps op, dtype, compute mode and tolerance, and replaces the cases with a single other one.
    pub fn with_case(mut self, name: &str, regime: Regime, dims: Dims) -> Result<Self, Error> {
        self.cases = vec![Case::validated(name.into(), regime, Dims::new(), dims, self.op)?];
        Ok(self)
    }

    /// Adapts the regimes of the cases to a device. A device that models its times supports warm caches only. The error
    /// names a case that cannot be timed cold there.
    pub fn on(mut self, device: &DeviceInfo) -> Result<Self, Error> {
        for case in &mut self.cases {
            case.regime = case.regime.on(device);
            if case.regime == Regime::Cold {
                let bytes = self.op.bytes(&case.dims, self.dtype) as u64;
                regime::sets(bytes, device).map_err(|problem| error!("case `{}`: {problem}", case.name))?;
            }
        }
        Ok(self)
    }

    /// Keeps the cases with the least work, as many as have at most `most_flop` together but at least one. They stay in
    /// the workload's order.
    pub fn lightest(mut self, most_flop: f64) -> Self {
        let flop = |case: &Case| self.op.executed_flop(&case.dims);
        let mut by_work: Vec<&Case> = self.cases.iter().collect();
        by_work.sort_by(|a, b| flop(a).total_cmp(&flop(b)));
        let mut sum = 0.0;
        let affordable = by_work.iter().take_while(|case| {
            sum += flop(case);
            sum <= most_flop
        });
        let most = affordable.count().max(1);
        let kept: Vec<CaseName> = by_work[..most].iter().map(|case| case.name.clone()).collect();
        self.cases.retain(|case| kept.contains(&case.name));
        self
    }
}

impl Case {
    fn validated(name: CaseName, regime: Regime, shared: Dims, own: Dims, op: &dyn Op) -> Result<Self, Error> {
        if !is_file_name(&name) {
            return Err(error!(
                "case name `{name}`: use 1 to 64 of a-z, 0-9 and `-`, because it is used as a file name"
            ));
        }
        let mut dims = shared;
        dims.extend(own);
        let known = op.all_dims();
        for dim in dims.keys() {
            if !known.iter().any(|spec| spec.name == dim) {
                let hint = did_you_mean(dim, known.iter().map(|spec| spec.name));
                return Err(error!("case `{name}`: op `{}` has no dimension `{dim}`{hint}", op.name()));
            }
        }
        for (place, spec) in known.iter().enumerate() {
            let (lowest, highest) = spec.range;
            match dims.get(spec.name) {
                None if place >= op.dims().len() => {}
                None => return Err(error!("case `{name}` lacks `{}`, {}", spec.name, spec.about)),
                Some(value) if !(lowest..=highest).contains(value) => {
                    return Err(error!(
                        "case `{name}`: `{}` = {value} is out of range {lowest} to {highest}",
                        spec.name
                    ));
                }
                Some(_) => {}
            }
        }
        for optional in op.optional_dims() {
            if dims.get(optional.dim.name).copied() == optional.default.of(&dims) {
                dims.shift_remove(optional.dim.name);
            }
        }
        op.check(&dims).map_err(|problem| error!("case `{name}`: {problem}"))?;
        Ok(Self { name, dims, regime })
    }
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload").field("name", &self.name).field("op", &self.op.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;

    const VALID: &str = r#"
        name = "w"
        about = "A test workload."
        op = "attention"
        dtype = "f16"
        initial_kernel = "attention-scalar"
        tolerance = { relative_l2 = 1e-3, worst_row = 4e-3 }
        dims = { D = 64, CAUSAL = 0 }
        [[case]]
        name = "small"
        B = 1
        H = 1
        Sq = 4
        Sk = 4
    "#;

    fn error(from: &str, to: &str) -> String {
        assert!(VALID.contains(from));
        Workload::parse(&VALID.replacen(from, to, 1), ops::find).unwrap_err().into()
    }

    #[test]
    fn a_case_takes_shared_dimensions_and_overrides_them() {
        let workload = Workload::parse(&VALID.replace("Sk = 4", "Sk = 4\nD = 4"), ops::find).unwrap();
        assert_eq!(workload.cases[0].dims["D"], 4);
        assert_eq!(workload.cases[0].dims["CAUSAL"], 0);
    }

    #[test]
    fn a_case_never_has_the_default_of_an_optional_dimension() {
        let dims = |own: &str| {
            let text = VALID.replace("H = 1", &format!("H = 6\n{own}"));
            Workload::parse(&text, ops::find).unwrap().cases[0].dims.clone()
        };
        assert_eq!(dims("Hkv = 6"), dims(""));
        assert_eq!(dims("Hkv = 2")["Hkv"], 2);
        insta::assert_snapshot!(error("H = 1", "H = 6\nHkv = 4"), @"case `small`: H = 6 must be a multiple of Hkv = 4");
        insta::assert_snapshot!(error("H = 1", "H = 6\nHkv = 0"), @"case `small`: `Hkv` = 0 is out of range 1 to 65536");
    }

    #[test]
    fn a_case_is_timed_in_its_own_regime_else_in_the_workloads_else_warm() {
        let regimes = |shared: &str, own: &str| -> Vec<Regime> {
            let text = VALID.replace("tolerance =", &format!("{shared}\ntolerance ="));
            let second = "[[case]]\nname = \"second\"\nB = 1\nH = 1\nSq = 4\nSk = 4\n";
            let workload = Workload::parse(&format!("{text}\n{second}{own}\n"), ops::find).unwrap();
            workload.cases.iter().map(|case| case.regime).collect()
        };
        assert_eq!(regimes("", ""), [Regime::Warm, Regime::Warm]);
        assert_eq!(regimes("", "regime = \"cold\""), [Regime::Warm, Regime::Cold]);
        assert_eq!(regimes("regime = \"cold\"", ""), [Regime::Cold, Regime::Cold]);
        assert_eq!(regimes("regime = \"cold\"", "regime = \"warm\""), [Regime::Cold, Regime::Warm]);
    }

    #[test]
    fn the_lightest_cases_are_kept_in_order_and_one_in_any_case() {
        let case = |name: &str, s: i64| format!("[[case]]\nname = \"{name}\"\nB = 1\nH = 1\nSq = {s}\nSk = {s}\n");
        let cases = [case("large", 64), case("tiny", 2), case("middle", 8)].concat();
        let workload = Workload::parse(&format!("{VALID}\n{cases}"), ops::find).unwrap();
        let kept = |flop: f64| -> Vec<String> {
            workload.clone().lightest(flop).cases.into_iter().map(|case| case.name.to_string()).collect()
        };
        // An element counts as 32 FLOP: 16,384, 32,768, 65,536 and 1,048,576.
        assert_eq!(kept(2e5), ["small", "tiny", "middle"]);
        assert_eq!(kept(1e9), ["small", "large", "tiny", "middle"]);
        assert_eq!(kept(1.0), ["tiny"]);
    }

    #[test]
    fn mistakes_are_one_sentence_with_a_remedy() {
        insta::assert_snapshot!(error("Sk = 4", "Skk = 4"), @"case `small`: op `attention` has no dimension `Skk` (did you mean `Sk`?)");
        insta::assert_snapshot!(error("Sk = 4", ""), @"case `small` lacks `Sk`, the number of keys");
        insta::assert_snapshot!(error("B = 1", "B = 0"), @"case `small`: `B` = 0 is out of range 1 to 65536");
        insta::assert_snapshot!(error("\"small\"", "\"../etc\""), @"case name `../etc`: use 1 to 64 of a-z, 0-9 and `-`, because it is used as a file name");
        insta::assert_snapshot!(error("\"attention\"", "\"atention\""), @"op `atention` is not known (did you mean `attention`?); there are: attention, gemm, linear, linear-w4, grouped-linear, top-k, delta-attention");
        insta::assert_snapshot!(error("dtype = \"f16\"", "dtype = \"f61\""), @"line 5: unknown variant `f61`, expected one of `f16`, `bf16`, `f32`, `f64`, `e4m3`, `e5m2`, `i8`, `u8`, `i32`, `u32`, `i64`, `bool` (did you mean `f64`?)");
        insta::assert_snapshot!(error("tolerance =", "regime = \"hot\"\ntolerance ="), @"line 7: unknown variant `hot`, expected `warm` or `cold`");
        insta::assert_snapshot!(error("B = 1", "B = 1\nregime = \"hot\""), @"line 12: unknown variant `hot`, expected `warm` or `cold`");
        insta::assert_snapshot!(error("1e-3", "0.0"), @"tolerance: both values must be between 0 and 0.5");
        let cases: String =
            (0..512).map(|at| format!("[[case]]\nname = \"c{at}\"\nB = 1\nH = 1\nSq = 4\nSk = 4\n")).collect();
        insta::assert_snapshot!(Workload::parse(&format!("{VALID}\n{cases}"), ops::find).unwrap_err(), @"it has 513 cases, and at most 512 are supported: leave some out");
        insta::assert_snapshot!(error("A test workload.", "A test\\nworkload."), @"line 3: `about` has a line break: write it on one line");
        let several = VALID.replace("1e-3", "0.0").replace("B = 1", "B = 0").replace("\"w\"", "\"W\"");
        insta::assert_snapshot!(Workload::parse(&several, ops::find).unwrap_err(), @"name `W`: use 1 to 64 of a-z, 0-9 and `-`, because it is used as a folder name; case `small`: `B` = 0 is out of range 1 to 65536; tolerance: both values must be between 0 and 0.5");
        insta::assert_snapshot!(error("initial_kernel = ", "reference = "), @"the key `reference` was renamed to `initial_kernel` in optloop 0.2: change it");
        insta::assert_snapshot!(error("dtype", "dtpye"), @"line 5: unknown field `dtpye`, expected one of `name`, `about`, `op`, `dtype`, `compute`, `tolerance`, `initial_kernel`, `baseline`, `regime`, `dims`, `case` (did you mean `dtype`?)");
    }

    #[test]
    fn the_compute_mode_is_part_of_the_workloads_identity() {
        let parsed = |dtype: &str| {
            let text = VALID.replace("dtype = \"f16\"", dtype);
            Workload::parse(&text, ops::find)
        };
        let plain = parsed("dtype = \"f32\"").unwrap();
        let default = parsed("dtype = \"f32\"\ncompute = \"dtype\"").unwrap();
        let tf32 = parsed("dtype = \"f32\"\ncompute = \"tf32\"").unwrap();
        assert_eq!((plain.compute, tf32.compute), (Compute::Dtype, Compute::Tf32));
        assert_eq!(plain.content_hash(), default.content_hash());
        assert_ne!(plain.content_hash(), tf32.content_hash());
        insta::assert_snapshot!(parsed("dtype = \"bf16\"\ncompute = \"tf32\"").unwrap_err(), @r#"compute = "tf32" is a way to multiply f32, not bf16: remove it, or use dtype = "f32""#);
        insta::assert_snapshot!(parsed("dtype = \"f32\"\ncompute = \"tf23\"").unwrap_err(), @"line 6: unknown variant `tf23`, expected `dtype` or `tf32` (did you mean `tf32`?)");
    }

    #[test]
    fn an_unknown_case_is_answered_with_the_nearest() {
        let workload = Workload::parse(VALID, ops::find).unwrap();
        insta::assert_snapshot!(workload.select(&["smal".into()]).unwrap_err(), @"workload `w` has no case `smal` (did you mean `small`?); it has: small");
    }
}
