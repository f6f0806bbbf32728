//! Ops that a project declares: `kernels/ops/<name>/op.toml` and an oracle outside of optloop.
//!
//! Names and expressions live as long as the process, like those of optloop's own ops. There are as many as a project
//! has ops, each some hundred bytes.

mod array_file;
mod compared;
mod contents;
mod expression;
mod launch;
mod manifest;
mod probes;
mod property;
mod rows;
mod scales;
mod shapes;
mod sides;
mod special;
mod tensor;

use numerics::compare::are_finite_and_zero_alike;

use self::launch::LaunchRule;
use self::property::Property;
use self::tensor::TensorRule;
use crate::domain::expr::Expr;
use crate::domain::op::oracle::{Oracle, OracleCall};
use crate::domain::op::{
    AtomicSums, Axis, CheckLimits, DeclaredSource, DimSpec, Dims, Dtype, FarShape, Op, OpSource, Probe, TensorSpec,
    multiplied,
};
use crate::error::{Error, error};

/// How much longer a Python function takes than an oracle in Rust, which uses every core: a softmax of 2048 x 8192 elements
/// in numpy does 0.13 GFLOP/s (one core of the machine that builds optloop, 2026-11-24). A virtual GPU that executes an
/// oracle in CUDA is slow, too. A real one is not, so there the checks could compare more rows.
const ORACLE_SLOWDOWN: f64 = 50.0;

/// An op that a project declares. See docs/workload.md.
pub struct Declared {
    name: &'static str,
    dims: &'static [DimSpec],
    tensors: Vec<TensorRule>,
    scalars: Vec<(&'static str, f64)>,
    flop: Expr,
    /// The first dimension of the output and of some inputs. What an index of it computes depends on no other index.
    independent: Option<&'static str>,
    /// What the oracle must do with changed inputs.
    properties: Vec<Property>,
    /// How an oracle in CUDA is launched.
    launch: Option<LaunchRule>,
    source: DeclaredSource,
    oracle: Box<dyn Oracle>,
}

impl Declared {
    /// Parses and checks an op. The error has a sentence for each mistake.
    pub fn parse(source: DeclaredSource, oracle: Box<dyn Oracle>) -> Result<Self, Vec<String>> {
        manifest::read(source, oracle)
    }

    /// Returns the name of the oracle's file in the op's folder, or the mistakes of a manifest.
    pub fn oracle_file(manifest: &str) -> Result<String, Vec<String>> {
        manifest::oracle_file(manifest)
    }

    /// Returns the names of the files in the op's folder that inputs come from, or the mistakes of a manifest.
    pub fn input_files(manifest: &str) -> Result<Vec<String>, Vec<String>> {
        manifest::input_files(manifest)
    }

    /// Refuses sizes for which the oracle cannot be launched.
    fn check_launch(&self, dims: &Dims) -> Result<(), Error> {
        let Some(launch) = &self.launch else { return Ok(()) };
        launch.check(dims)?;
        let Some(dim) = self.independent else { return Ok(()) };
        // Of an independent dimension, the oracle may get a single index.
        let mut one = dims.clone();
        one[dim] = 1;
        launch
            .check(&one)
            .map_err(|problem| error!("{problem}, where `{dim}` is 1: a check may compute one index alone"))
    }

    /// Returns the dimension that could be independent: the first extent of every output, and of inputs only the first.
    fn leading(&self) -> Option<&'static str> {
        let leads = |dim: &str| {
            let has_elsewhere = |rule: &TensorRule| rule.shape.iter().skip(1).any(|expr| expr.names().contains(dim));
            let is_first = |rule: &TensorRule| rule.begins_with(dim) || !rule.shape[0].names().contains(dim);
            let of_outputs =
                self.tensors.iter().filter(|rule| rule.role.is_written()).all(|rule| rule.begins_with(dim));
            of_outputs && self.tensors.iter().all(|rule| is_first(rule) && !has_elsewhere(rule))
        };
        self.dims.iter().map(|dim| dim.name).find(|dim| leads(dim))
    }

    /// Computes rows of each output from some indices of the independent dimension, and from nothing else.
    fn of_indices(
        &self,
        (dims, dim): (&Dims, &str),
        inputs: &[Vec<f32>],
        (indices, rows): (&[usize], Vec<Vec<usize>>),
        is_stretched: bool,
    ) -> Result<Vec<f64>, Error> {
        let count = dims[dim] as usize;
        let mut part = dims.clone();
        part[dim] = indices.len() as i64;
        let rules = self.tensors.iter().filter(|rule| rule.role.is_read());
        let cut = |values: &Vec<f32>| -> Vec<f32> {
            let one = values.len() / count;
            indices.iter().flat_map(|index| &values[index * one..(index + 1) * one]).copied().collect()
        };
        let cuts: Vec<Option<Vec<f32>>> =
            rules.zip(inputs).map(|(rule, values)| rule.begins_with(dim).then(|| cut(values))).collect();
        let values = cuts.iter().zip(inputs).map(|(cut, whole)| cut.as_deref().unwrap_or(whole)).collect();
        self.compute(&part, values, rows, is_stretched)
    }

    /// Computes rows of each output.
    fn compute(
        &self,
        dims: &Dims,
        values: Vec<&[f32]>,
        rows: Vec<Vec<usize>>,
        is_stretched: bool,
    ) -> Result<Vec<f64>, Error> {
        let outputs = self.outputs(dims, Dtype::F32).into_iter().zip(rows).collect();
        let inputs = self.inputs(dims, Dtype::F32).into_iter().zip(values).collect();
        let failed = |problem: Error| problem.within(format_args!("the oracle of op `{}` failed", self.name));
        let launch = self.launch.as_ref().map(|launch| launch.of(dims)).transpose().map_err(failed)?;
        let call = OracleCall { dims, scalars: &self.scalars, inputs, outputs, launch, is_stretched };
        self.oracle.compute(&call).map_err(failed)
    }

    /// Computes rows, numbered through all outputs. With an independent dimension, only the indices that have one of the rows are computed.
    fn computed(
        &self,
        dims: &Dims,
        inputs: &[Vec<f32>],
        rows: &[usize],
        is_stretched: bool,
    ) -> Result<Vec<f64>, Error> {
        let outputs = self.outputs(dims, Dtype::F32);
        let rows = of_each(&outputs, rows);
        let Some(dim) = self.independent else {
            return self.compute(dims, inputs.iter().map(Vec::as_slice).collect(), rows, is_stretched);
        };
        let count = dims[dim] as usize;
        let rows_of_one: Vec<usize> = outputs.iter().map(|output| output.rows() / count).collect();
        let of_output = |(rows, rows_of_one): (&Vec<usize>, &usize)| -> Vec<usize> {
            rows.iter().map(|row| row / rows_of_one).collect()
        };
        let mut indices: Vec<usize> = rows.iter().zip(&rows_of_one).flat_map(of_output).collect();
        indices.sort_unstable();
        indices.dedup();
        let place = |row: usize, rows_of_one: usize| {
            let index = indices.binary_search(&(row / rows_of_one)).expect("every row's index is computed");
            index * rows_of_one + row % rows_of_one
        };
        let places = rows.into_iter().zip(rows_of_one);
        let places = places.map(|(rows, of_one)| rows.into_iter().map(|row| place(row, of_one)).collect()).collect();
        self.of_indices((dims, dim), inputs, (&indices, places), is_stretched)
    }
}

impl Op for Declared {
    fn name(&self) -> &'static str {
        self.name
    }

    fn source(&self) -> OpSource {
        OpSource::Declared(Box::new(self.source.clone()))
    }

    fn identity(&self) -> String {
        let files: String = self.source.files.iter().map(|file| format!("\0{}", file.hash)).collect();
        let text = format!("{}\0{}{files}", self.source.manifest, self.source.oracle);
        format!("{} {}", self.name, blake3::hash(text.as_bytes()).to_hex())
    }

    fn dims(&self) -> &'static [DimSpec] {
        self.dims
    }

    fn check(&self, dims: &Dims) -> Result<(), Error> {
        for rule in &self.tensors {
            rule.check(dims)?;
        }
        self.check_launch(dims)?;
        match self.flop.int(dims) {
            Ok(0..) => Ok(()),
            Ok(flop) => Err(error!("`flop` is {flop}, but must be at least 0")),
            Err(error) => Err(error!("`flop`: {error}")),
        }
    }

    /// Those that the oracle can be called with: it is not told the workload's, so a tensor that is passed in another form than
    /// as floats needs one of its own.
    fn dtypes(&self) -> &'static [Dtype] {
        let untyped = || self.tensors.iter().filter(|rule| rule.dtype.is_none());
        let fits = |dtype: &Dtype| match (untyped().any(|rule| rule.role.is_read()), untyped().next()) {
            (true, _) => !dtype.is_kept_as_bits(),
            (false, Some(_)) => *dtype != Dtype::I64,
            (false, None) => true,
        };
        &Dtype::ALL[..Dtype::ALL.iter().take_while(|dtype| fits(dtype)).count()]
    }

    fn tensors(&self, dims: &Dims, dtype: Dtype) -> Vec<TensorSpec> {
        self.tensors.iter().map(|rule| rule.spec(dims, dtype)).collect()
    }

    fn scalars(&self, _dims: &Dims) -> Vec<(&'static str, f64)> {
        self.scalars.clone()
    }

    fn flop(&self, dims: &Dims) -> f64 {
        self.flop.int(dims).unwrap_or(0) as f64
    }

    fn oracle_flop(&self, dims: &Dims) -> f64 {
        ORACLE_SLOWDOWN * self.work(dims)
    }

    fn scaled(&self, dims: &Dims) -> Vec<Dims> {
        shapes::scaled(dims)
    }

    fn resized(&self, dims: &Dims, axis: Axis, factor: f64) -> Option<Dims> {
        match axis {
            Axis::Independent => multiplied(dims, self.independent?, factor),
            Axis::Sequential => None,
        }
    }

    fn probes(&self) -> &'static [Probe] {
        &probes::PROBES
    }

    fn probe_of_length(&self) -> Option<&'static Probe> {
        Some(&probes::EXTREMES)
    }

    fn hidden(&self, dims: &Dims, least: CheckLimits, seed: u64) -> Vec<Dims> {
        shapes::hidden(self, dims, least, seed)
    }

    fn remainders(&self, dims: &Dims, seed: u64) -> Vec<Dims> {
        shapes::remainders(self, dims, seed)
    }

    fn huge(&self, dims: &Dims, seed: u64) -> Option<Dims> {
        shapes::huge(self, dims, seed)
    }

    fn far(&self, dims: &Dims, dtype: Dtype) -> Option<FarShape> {
        let (dim, is_assumed) = match self.independent {
            Some(dim) => (dim, false),
            None => (self.leading()?, true),
        };
        let shape = FarShape::along(self, &shapes::small(self, dims), dim, dtype)?;
        Some(FarShape { is_assumed, ..shape })
    }

    fn atomic_sums(&self, output: &str) -> Option<AtomicSums> {
        self.tensors.iter().find(|rule| rule.name == output)?.atomic_sums
    }

    fn selects(&self, output: &str) -> Option<&str> {
        self.tensors.iter().find(|rule| rule.name == output)?.selects.as_deref()
    }

    fn oracle_uses_device(&self) -> bool {
        self.oracle.uses_device()
    }

    fn oracle(&self, dims: &Dims, inputs: &[Vec<f32>], rows: &[usize]) -> Result<Vec<f64>, Error> {
        self.computed(dims, inputs, rows, false)
    }

    /// All elements along a dimension, or all of an input for each of the outputs. The floating-point operations are often unknown.
    fn longest_sum(&self, dims: &Dims, dtype: Dtype) -> f64 {
        let most = |tensors: Vec<TensorSpec>| tensors.iter().map(TensorSpec::elements).max().unwrap_or(1) as f64;
        let dependent = dims.iter().filter(|(name, _)| self.independent != Some(name.as_str()));
        let longest = dependent.map(|(_, size)| *size as f64).fold(1.0, f64::max);
        longest.max(most(self.inputs(dims, dtype)) / most(self.outputs(dims, dtype)))
    }

    fn bears(&self, dims: &Dims, dtype: Dtype, inputs: &[Vec<f32>], (rows, exact): (&[usize], &[f64])) -> bool {
        let Ok(stretched) = self.computed(dims, inputs, rows, true) else { return false };
        let outputs = self.outputs(dims, dtype);
        let of_rows = outputs.iter().zip(of_each(&outputs, rows));
        let mut at = 0;
        of_rows.into_iter().all(|(output, rows)| {
            let own = at..at + rows.len() * output.row_len();
            at = own.end;
            // What is divided by a number that has overflowed is zero.
            output.dtype.is_integer() || are_finite_and_zero_alike(&stretched[own.clone()], &exact[own])
        })
    }
}

/// Numbers the rows of each output by itself.
fn of_each(outputs: &[TensorSpec], rows: &[usize]) -> Vec<Vec<usize>> {
    let mut first = 0;
    let of_one = |output: &TensorSpec| {
        let own = first..first + output.rows();
        first = own.end;
        rows.iter().filter(|row| own.contains(row)).map(|row| row - own.start).collect()
    };
    outputs.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::domain::op::Values;
    use crate::ops::draw;

    const ROW_SUM: &str = r#"
        name = "row-shift"
        about = "Adds the mean of a row to each of its elements."
        oracle = "oracle.py"
        independent = "R"
        flop = "2 * R * N"
        [dims.R]
        about = "rows"
        [dims.N]
        about = "columns"
        range = [1, 4096]
        [scalars]
        eps = 0.5
        [tensors.x]
        role = "input"
        shape = ["R", "N"]
        [tensors.w]
        role = "input"
        shape = ["N"]
        [tensors.y]
        role = "output"
        shape = ["R", "N"]
    "#;

    /// Adds the mean of a row, the weight of a column and the scalar. It checks what it is called with.
    struct RowShift;

    impl Oracle for RowShift {
        fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
            let (rows, columns) = (call.dims["R"] as usize, call.dims["N"] as usize);
            let [(x, values), (_, weights)] = &call.inputs[..] else { return Err(Error::new("two inputs")) };
            assert_eq!((&x.shape[..], values.len(), weights.len()), (&[rows, columns][..], rows * columns, columns));
            let [(y, wanted)] = &call.outputs[..] else { return Err(Error::new("one output")) };
            assert_eq!((&y.shape[..], call.scalars), (&[rows, columns][..], &[("eps", 0.5)][..]));
            let row = |row: &[f32]| -> Vec<f64> {
                let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / columns as f64;
                row.iter().zip(*weights).map(|(x, w)| f64::from(*x) + mean + f64::from(*w) + 0.5).collect()
            };
            Ok(wanted.iter().flat_map(|at| row(&values[at * columns..][..columns])).collect())
        }
    }

    fn declared(manifest: &str) -> Result<Declared, Error> {
        let source = DeclaredSource {
            manifest: manifest.to_owned(),
            oracle: String::new(),
            python: String::new(),
            files: Vec::new(),
        };
        Declared::parse(source, Box::new(RowShift)).map_err(|mistakes| Error::of_all(&mistakes))
    }

    fn dims(r: i64, n: i64) -> Dims {
        [("R", r), ("N", n)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    #[test]
    fn chosen_rows_are_the_rows_of_the_whole() {
        let op = declared(ROW_SUM).unwrap();
        let dims = dims(20, 3);
        let inputs = vec![(0..60).map(|i| i as f32).collect(), vec![10.0, 20.0, 30.0]];
        let whole = op.oracle(&dims, &inputs, &(0..20).collect::<Vec<_>>()).unwrap();
        assert_eq!(whole[..3], [11.5, 22.5, 33.5]);
        let some = op.oracle(&dims, &inputs, &[19, 0, 7]).unwrap();
        assert_eq!(some, [&whole[57..], &whole[..3], &whole[21..24]].concat());
    }

    #[test]
    fn a_huge_shape_has_more_elements_than_a_float_counts() {
        let op = declared(ROW_SUM).unwrap();
        for seed in 0..4 {
            let huge = op.huge(&dims(100, 48), seed).unwrap();
            assert!(huge["R"] * huge["N"] > 1 << 24 && op.bytes(&huge, Dtype::F32) < 2e8, "{huge:?}");
        }
        let short =
            declared(&ROW_SUM.replace("about = \"rows\"", "about = \"rows\"\n        range = [1, 4096]")).unwrap();
        assert_eq!(short.huge(&dims(100, 48), 1), None);
    }

    #[test]
    fn all_mistakes_are_reported_with_what_to_do() {
        let error = |from: &str, to: &str| {
            assert!(ROW_SUM.contains(from), "{from}");
            declared(&ROW_SUM.replacen(from, to, 1)).err().unwrap()
        };
        insta::assert_snapshot!(error("independent = \"R\"", "independent = \"Q\""), @"`independent` names `Q`, which is not a dimension");
        insta::assert_snapshot!(error("independent = \"R\"", "independent = \"N\""), @"`independent` names `N`, so it must be the first extent of the output `y`; `independent` names `N`, so tensor `x` may have it only as its first extent; `independent` names `N`, so tensor `y` may have it only as its first extent");
        insta::assert_snapshot!(error("role = \"output\"", "role = \"input\""), @"it has no output: give a tensor the role `output` or `in-place`");
        insta::assert_snapshot!(error("shape = [\"N\"]", "shape = [\"M\"]"), @"tensor `w`: expression `M`: there is no dimension `M`");
        insta::assert_snapshot!(error("shape = [\"N\"]", "shape = []"), @r#"tensor `w`: its shape is empty: use ["1"] for a single element"#);
        insta::assert_snapshot!(error("\"2 * R * N\"", "\"2 * R * \""), @"`flop`: expression `2 * R * `: Script is incomplete (line 1, position 9)");
        insta::assert_snapshot!(error("eps = 0.5", "N = 0.5"), @"`N` names two things: rename one");
        insta::assert_snapshot!(error("range = [1, 4096]", "range = [9, 4]"), @"dimension `N`: its range is 9 to 4, but must be rising, from 0 at least to 2147483647 at most");
        insta::assert_snapshot!(error("\"row-shift\"", "\"Row Shift\""), @"name `Row Shift`: use 1 to 64 of a-z, 0-9 and `-`, because it is a folder name");
        insta::assert_snapshot!(error("\"oracle.py\"", "\"../oracle.py\""), @"oracle `../oracle.py`: name a Python file (.py) or a CUDA source (.cu) in the op's folder, without a path");
        insta::assert_snapshot!(error("about = \"rows\"", "abuot = \"rows\""), @"line 8: unknown field `abuot`, expected `about` or `range` (did you mean `about`?)");
    }

    #[test]
    fn values_that_an_element_type_does_not_hold_are_refused() {
        let x = "role = \"input\"\n        shape = [\"R\", \"N\"]";
        let with = |keys: &str| {
            assert!(ROW_SUM.contains(x));
            declared(&ROW_SUM.replacen(x, &format!("{x}\n{keys}"), 1))
        };
        let error = |keys: &str| with(keys).err().unwrap();
        insta::assert_snapshot!(error("dtype = \"i32\""), @r#"tensor `x`: say which whole numbers it holds, such as values = { integers = [0, "N - 1"] }"#);
        insta::assert_snapshot!(error("dtype = \"u8\"\nvalues = \"normal\""), @"tensor `x`: it holds whole numbers: use values = { integers = [0, 9] } or { mask = 0.5 }");
        insta::assert_snapshot!(error("values = { integers = [0, 9] }"), @r#"tensor `x`: give it a `dtype` that holds these whole numbers, such as "i32""#);
        insta::assert_snapshot!(error("values = { uniform = [1, 0] }"), @"tensor `x`: its values are uniform from 1 to 0, which must be finite and rising");
        insta::assert_snapshot!(error("values = { mask = 2.0 }"), @"tensor `x`: its mask is 2, which is no share: use a number from 0 to 1");
        insta::assert_snapshot!(error("dtype = \"i32\"\nvalues = { integers = [0, \"M\"] }"), @"tensor `x`: its values: expression `M`: there is no dimension `M`");
        insta::assert_snapshot!(error("atomic_sums = \"tolerance\""), @"tensor `x`: only outputs have `atomic_sums`");
        let y = ROW_SUM.replace("role = \"output\"", "role = \"output\"\ndtype = \"i32\"\natomic_sums = \"products\"");
        insta::assert_snapshot!(declared(&y).err().unwrap(), @"tensor `y`: sums of whole numbers are the same in any order: leave out `atomic_sums`");
        insta::assert_snapshot!(error("values = { odd = 1 }"), @"line 17: unknown variant `odd`, expected one of `normal`, `uniform`, `integers`, `sorted`, `mask`, `file`, `tensor`");
        let indices = with("dtype = \"i32\"\nvalues = { integers = [\"1 - N\", \"N - 1\"] }").unwrap();
        assert_eq!(indices.tensors(&dims(2, 5), Dtype::F32)[0].values, Values::Integers(-4, 4));
        let bytes = with("dtype = \"u8\"\nvalues = { sorted = [0, \"N\"] }").unwrap();
        insta::assert_snapshot!(bytes.check(&dims(2, 300)).unwrap_err(), @"tensor `x`: its values are from 0 to 300, but u8 holds whole numbers from 0 to 255");
        assert_eq!(bytes.check(&dims(2, 255)), Ok(()));
    }

    /// Each row of `x` is its sum in `total` and its first element in `first`.
    #[test]
    fn rows_are_numbered_through_all_outputs() {
        struct Both;
        impl Oracle for Both {
            fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
                let (columns, (_, x)) = (call.dims["N"] as usize, &call.inputs[0]);
                let row = |at: &usize| &x[at * columns..(at + 1) * columns];
                let [(first, of_first), (total, of_total)] = &call.outputs[..] else { return Err(Error::new("two")) };
                assert_eq!((first.row_len(), total.row_len()), (columns, 1));
                let first = of_first.iter().flat_map(|at| row(at).iter().map(|x| f64::from(*x)));
                let total = of_total.iter().map(|at| row(at).iter().map(|x| f64::from(*x)).sum());
                Ok(first.chain(total).collect())
            }
        }
        let outputs =
            "role = \"output\"\n        shape = [\"R\", \"N\"]\n[tensors.total]\nrole = \"output\"\nshape = [\"R\"]";
        let text = ROW_SUM.replace("role = \"output\"\n        shape = [\"R\", \"N\"]", outputs);
        let source = DeclaredSource { manifest: text, oracle: String::new(), python: String::new(), files: Vec::new() };
        let op = Declared::parse(source, Box::new(Both)).map_err(|mistakes| mistakes.join("; ")).unwrap();
        let inputs = vec![(0..60).map(|i| i as f32).collect(), vec![0.0; 3]];
        // Row 20 of all is the total of the first row of `x`.
        let found = op.oracle(&dims(20, 3), &inputs, &[2, 20, 39]).unwrap();
        assert_eq!(found, [6.0, 7.0, 8.0, 0.0 + 1.0 + 2.0, 57.0 + 58.0 + 59.0]);
    }

    /// The oracle gets the initial values, and returns the new ones before the outputs.
    #[test]
    fn a_tensor_in_place_is_an_input_and_an_output() {
        struct Twice;
        impl Oracle for Twice {
            fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
                let [(w, _), (sum, values)] = &call.inputs[..] else { return Err(Error::new("two inputs")) };
                let [(new, rows), (y, of_y)] = &call.outputs[..] else { return Err(Error::new("two outputs")) };
                assert_eq!([&w.name, &sum.name, &new.name, &y.name], ["w", "sum", "sum", "y"]);
                assert_eq!((rows.len(), of_y.len(), values.len()), (1, 0, 1), "of one index");
                Ok(vec![2.0 * f64::from(values[0])])
            }
        }
        let sum = "[tensors.sum]\nrole = \"in-place\"\nshape = [\"R\"]\nvalues = { uniform = [1, 2] }\n";
        let (before, x) = ROW_SUM.split_once("[tensors.x]").unwrap();
        let (_, w) = x.split_once("[tensors.w]").unwrap();
        let manifest = format!("{before}{sum}[tensors.w]{w}");
        let source = DeclaredSource { manifest, oracle: String::new(), python: String::new(), files: Vec::new() };
        let op = Declared::parse(source, Box::new(Twice)).map_err(|mistakes| mistakes.join("; ")).unwrap();
        assert!(op.is_in_place(&dims(4, 3), Dtype::F32));
        assert_eq!(op.bytes(&dims(4, 3), Dtype::F32), 4.0 * (3.0 + 2.0 * 4.0 + 12.0));
        let inputs = [vec![0.0; 3], vec![1.0, 2.0, 3.0, 4.0]];
        assert_eq!(op.oracle(&dims(4, 3), &inputs, &[2]).unwrap(), [6.0]);
    }

    #[test]
    fn sizes_that_make_no_tensor_are_refused() {
        let op = declared(&ROW_SUM.replace("shape = [\"N\"]", "shape = [\"N - 2\"]")).unwrap();
        insta::assert_snapshot!(op.check(&dims(1, 2)).unwrap_err(), @"tensor `w`: `N - 2` = 0, but must be at least 1");
        insta::assert_snapshot!(op.check(&dims(1 << 30, 4096)).unwrap_err(), @"tensor `x` has more than 2^31 elements: reduce its dimensions");
        assert_eq!(op.check(&dims(1 << 19, 4096)), Ok(()));
    }

    #[test]
    fn hidden_shapes_vary_every_dimension_within_range_and_work() {
        let op = declared(ROW_SUM).unwrap();
        let least = CheckLimits { flop: 1e6, bytes: 1e6 };
        let case = dims(512, 1000);
        let all: Vec<Dims> = (0..6).flat_map(|seed| op.hidden(&case, least, seed)).collect();
        for other in &all {
            assert!(*other != case && op.check(other).is_ok(), "{other:?}");
            assert!((1..=4096).contains(&other["N"]) && op.flop(other) <= 2.0 * op.flop(&case), "{other:?}");
        }
        assert!(all.iter().any(|other| other["R"] == 1) && all.iter().any(|other| other["N"] % 2 == 1));
        assert!(all.iter().any(|other| other["N"] % 8 == 0 && other["N"] != 1000));
        // Each time, the first have whole tiles, over twice the case's size, which may be what the kernel can hold, and a long row.
        for seed in 0..6 {
            let hidden = op.hidden(&case, least, seed);
            let has = |is_meant: fn(&Dims) -> bool| hidden[..5].iter().any(is_meant);
            assert!(has(|other| other["N"] == 1024), "{hidden:?}");
            assert!(has(|other| other["N"] == 2001) && has(|other| other["N"] == 4096), "{hidden:?}");
        }
    }

    /// A vector path that held 8,192 elements in registers, or that lost the rest of a whole tile, was called right six times of eight.
    #[test]
    fn small_shapes_have_long_rows_of_whole_vectors_and_whole_tiles_beside_a_part_of_one() {
        let unlimited = ROW_SUM.replace("range = [1, 4096]", "").replace("independent = \"R\"", "");
        let op = declared(&unlimited).unwrap();
        for seed in 0..20 {
            let all = op.remainders(&dims(256, 256), seed);
            let has = |is_meant: fn(&Dims) -> bool| all.iter().any(is_meant);
            assert!(has(|other| other["N"] > 16_384 && other["N"] % 32 == 16), "{all:?}");
            assert!(has(|other| other["R"] > 16_384 && other["R"] % 32 == 16), "{all:?}");
            assert!(has(|other| other["R"] == 128 && other["N"] % 16 == 8), "{all:?}");
            assert!(has(|other| other["N"] == 128 && other["R"] % 32 == 16), "{all:?}");
        }
    }

    #[test]
    fn hidden_shapes_of_large_cases_are_small() {
        let op = declared(&ROW_SUM.replace("shape = [\"R\", \"N\"]", "shape = [\"R\", \"N\", \"N\"]")).unwrap();
        let case = dims(512, 1000);
        let hidden = op.hidden(&case, CheckLimits { flop: 1e9, bytes: 1e8 }, 1);
        assert!(op.bytes(&case, Dtype::F32) > 4e9 && hidden.len() > 5);
        hidden.iter().for_each(|other| assert!(op.bytes(other, Dtype::F32) < 1e8, "{other:?}"));
        // A kernel that only loads and stores takes a virtual GPU longer than its few operations say.
        assert_eq!(op.executed_flop(&dims(1, 10)), 32.0 * (100.0 + 10.0 + 100.0));
    }

    #[test]
    fn an_oracle_that_lacks_a_property_is_refused() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut drawn = |count: usize| -> Vec<f32> { (0..count).map(|_| draw::normal(&mut rng)).collect() };
        let (dims, inputs) = (dims(70, 6), [drawn(420), drawn(6)]);
        let said = |property: &str| match declared(&format!("{ROW_SUM}\n[[property]]\n{property}")) {
            Ok(op) => op.check_properties(&dims, Dtype::F32, &inputs).err().map(String::from).unwrap_or_default(),
            Err(mistakes) => mistakes.to_string(),
        };
        assert_eq!(said("kind = \"permutation\"\ndim = \"R\""), "");
        assert_eq!(said("kind = \"permutation\"\ndim = \"N\""), "", "the weights move, too");
        assert_eq!(said("kind = \"shift\"\ntensor = \"x\"\nadds = 2"), "", "the mean moves, too");
        assert_eq!(said("kind = \"shift\"\ntensor = \"w\"\nadds = 1"), "");
        let starts = |property: &str, with: &str| {
            let said = said(property);
            assert!(
                said.starts_with(&format!("the oracle of op `row-shift` lacks the property {with}: its")),
                "{said}"
            );
        };
        starts("kind = \"shift\"\ntensor = \"x\"\nadds = 1", "shift of `x` that adds 1");
        starts("kind = \"scale\"\ntensor = \"x\"\npower = 1", "scale of `x` with power 1");
        insta::assert_snapshot!(said("kind = \"shift\"\ntensor = \"y\"\nadds = 1"), @"property shift of `y` that adds 1: there is no input `y`");
        insta::assert_snapshot!(said("kind = \"permutation\"\ndim = \"Q\""), @"property permutation of `Q`: there is no dimension `Q`");
        assert!(said("kind = \"symmetry\"").contains("unknown variant `symmetry`"));
    }

    #[test]
    fn an_op_is_what_its_files_say() {
        let [a, b] = [ROW_SUM, &ROW_SUM.replace("0.5", "0.25")].map(|text| declared(text).unwrap());
        assert_eq!(a.identity(), declared(ROW_SUM).unwrap().identity());
        assert_ne!(a.identity(), b.identity());
        assert_eq!(crate::domain::op::independent_dims(&a, Dtype::F16), ["R"; 0], "`w` does not have it");
    }
}
