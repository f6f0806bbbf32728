//! The launch of an oracle in CUDA: grid, block and arguments, as `op.toml` has them.

use serde::Deserialize;

use super::expression;
use crate::domain::expr::Expr;
use crate::domain::op::oracle::{OracleArg, OracleLanguage, OracleLaunch, OracleValue};
use crate::domain::op::{DimSpec, Dims};
use crate::domain::text::names::{did_you_mean, is_identifier};
use crate::error::{Error, error};

/// The table, for messages.
const TABLE: &str = "[oracle_launch]";

/// The most blocks of a grid along x, y and z, on every GPU (CUDA C++ Programming Guide, "Technical Specifications per
/// Compute Capability").
const MAX_GRID: [i64; 3] = [i32::MAX as i64, 65_535, 65_535];

/// The same for the threads of a block.
const MAX_BLOCK: [i64; 3] = [1024, 1024, 64];

/// The most threads of a block.
const MAX_THREADS: i64 = 1024;

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchText {
    kernel: Option<String>,
    grid: Vec<String>,
    block: Vec<String>,
    args: Vec<String>,
}

/// A launch whose numbers depend on the sizes of a case.
pub(super) struct LaunchRule {
    kernel: Option<String>,
    grid: Vec<Expr>,
    block: Vec<Expr>,
    args: Vec<Argument>,
}

struct Argument {
    name: String,
    source: Source,
}

/// Where the value of an argument comes from.
enum Source {
    Tensor,
    Dim,
    Scalar(f64),
}

/// What arguments may name.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub dims: &'a [DimSpec],
    pub tensors: &'a [&'a str],
    pub scalars: &'a [(&'a str, f64)],
}

impl LaunchText {
    /// Refuses a table that does not fit the oracle's language. A name that is no oracle's gets its own message.
    pub fn check_language(file: &str, launch: Option<&Self>) -> Result<(), Error> {
        match (OracleLanguage::of_file(file), launch) {
            (Some(OracleLanguage::Cuda), None) => Err(error!(
                "oracle `{file}`: say how to launch its kernel: add {TABLE} with grid, block and args \
                 (`optloop docs workload`)"
            )),
            (Some(OracleLanguage::Python), Some(_)) => {
                Err(error!("{TABLE} launches an oracle in CUDA").hint("remove it, or name a .cu file as the oracle"))
            }
            _ => Ok(()),
        }
    }

    /// Parses the expressions, and resolves the arguments. Each mistake adds a sentence, and there is no rule then.
    pub fn parsed(&self, known: Known<'_>, mistakes: &mut Vec<String>) -> Option<LaunchRule> {
        let before = mistakes.len();
        if let Some(kernel) = self.kernel.as_ref().filter(|kernel| !is_identifier(kernel)) {
            mistakes.push(format!("{TABLE}: kernel `{kernel}` is no name of a function"));
        }
        let grid = extents("grid", &self.grid, known.dims, mistakes);
        let block = extents("block", &self.block, known.dims, mistakes);
        let mut args = Vec::new();
        for name in &self.args {
            match known.source(name) {
                Some(source) => args.push(Argument { name: name.clone(), source }),
                None => {
                    let hint = did_you_mean(name, known.names());
                    mistakes
                        .push(format!("{TABLE}: args names `{name}`, which is no tensor, dimension or scalar{hint}"));
                }
            }
        }
        for tensor in known.tensors.iter().filter(|tensor| !self.args.iter().any(|name| name == *tensor)) {
            mistakes.push(format!("{TABLE}: args lacks the tensor `{tensor}`"));
        }
        let rule = LaunchRule { kernel: self.kernel.clone(), grid, block, args };
        if mistakes.len() == before {
            mistakes.extend(rule.check_what_is_constant().err().map(String::from));
        }
        (mistakes.len() == before).then_some(rule)
    }
}

fn extents(what: &str, texts: &[String], dims: &[DimSpec], mistakes: &mut Vec<String>) -> Vec<Expr> {
    if !(1..=3).contains(&texts.len()) {
        let count = texts.len();
        mistakes.push(format!("{TABLE}: {what} has {count} extents, but must have one to three: x, y and z"));
    }
    let mut parsed = Vec::new();
    for text in texts {
        match expression::over(text, dims) {
            Ok(expr) => parsed.push(expr),
            Err(problem) => mistakes.push(format!("{TABLE}: {what}: {problem}")),
        }
    }
    parsed
}

impl<'a> Known<'a> {
    fn source(&self, name: &str) -> Option<Source> {
        if self.tensors.contains(&name) {
            return Some(Source::Tensor);
        }
        if self.dims.iter().any(|dim| dim.name == name) {
            return Some(Source::Dim);
        }
        self.scalars.iter().find(|(scalar, _)| *scalar == name).map(|(_, value)| Source::Scalar(*value))
    }

    fn names(self) -> impl Iterator<Item = &'a str> {
        let scalars = self.scalars.iter().map(|(name, _)| *name);
        self.tensors.iter().copied().chain(self.dims.iter().map(|dim| dim.name)).chain(scalars)
    }
}

impl LaunchRule {
    /// Refuses sizes for which there is no such launch. The error has the formula and its value.
    pub fn check(&self, dims: &Dims) -> Result<(), Error> {
        numbers("grid", &self.grid, MAX_GRID, dims)?;
        self.block(dims).map(drop)
    }

    /// Fills in the numbers.
    pub fn of(&self, dims: &Dims) -> Result<OracleLaunch, Error> {
        let grid = numbers("grid", &self.grid, MAX_GRID, dims)?;
        let value = |argument: &Argument| match argument.source {
            Source::Tensor => OracleValue::Tensor,
            Source::Dim => OracleValue::Size(dims[argument.name.as_str()]),
            Source::Scalar(value) => OracleValue::Scalar(value),
        };
        let args = self.args.iter().map(|arg| OracleArg { name: arg.name.clone(), value: value(arg) });
        Ok(OracleLaunch { kernel: self.kernel.clone(), grid, block: self.block(dims)?, args: args.collect() })
    }

    fn block(&self, dims: &Dims) -> Result<[u32; 3], Error> {
        let block = numbers("block", &self.block, MAX_BLOCK, dims)?;
        let threads: i64 = block.iter().map(|extent| i64::from(*extent)).product();
        if threads > MAX_THREADS {
            let extents: Vec<String> = block.iter().take(self.block.len()).map(u32::to_string).collect();
            return Err(error!(
                "{TABLE}: a block of {} = {threads} threads is larger than the {MAX_THREADS} of every GPU",
                extents.join(" x ")
            ));
        }
        Ok(block)
    }

    /// Checks what no size changes, so that it is reported with the other mistakes of the manifest.
    fn check_what_is_constant(&self) -> Result<(), Error> {
        let none = Dims::new();
        let is_constant = |extents: &[Expr]| extents.iter().all(|extent| extent.names().is_empty());
        if is_constant(&self.grid) {
            numbers("grid", &self.grid, MAX_GRID, &none)?;
        }
        if is_constant(&self.block) { self.block(&none).map(drop) } else { Ok(()) }
    }
}

/// Evaluates the extents of a grid or a block.
fn numbers(what: &str, extents: &[Expr], most: [i64; 3], dims: &Dims) -> Result<[u32; 3], Error> {
    let mut numbers = [1; 3];
    for (place, extent) in extents.iter().enumerate() {
        let value = extent.int(dims).map_err(|error| error!("{TABLE}: {what}: {error}"))?;
        let limit = most[place];
        if !(1..=limit).contains(&value) {
            let (axis, text) = (["x", "y", "z"][place], extent.text());
            let is_number = text.parse::<i64>().is_ok();
            let shown = if is_number { format!("{value}") } else { format!("`{text}` = {value}") };
            return Err(error!("{TABLE}: {what}: {shown} along {axis}, but it must be from 1 to {limit}"));
        }
        numbers[place] = value as u32;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::super::Declared;
    use crate::domain::op::oracle::{Oracle, OracleCall, OracleValue};
    use crate::domain::op::{DeclaredSource, Dims, Op};
    use crate::error::Error;

    const MANIFEST: &str = r#"
        name = "row-scale"
        about = "Multiplies each row by a number."
        oracle = "oracle.cu"
        independent = "R"
        flop = "R * N"
        [oracle_launch]
        grid = ["R"]
        block = ["32", "8"]
        args = ["x", "y", "N", "factor"]
        [dims.R]
        about = "rows"
        [dims.N]
        about = "columns"
        [scalars]
        factor = 0.5
        [tensors.x]
        role = "input"
        shape = ["R", "N"]
        [tensors.y]
        role = "output"
        shape = ["R", "N"]
    "#;

    /// Returns what it is called with as a number for each row: the blocks of the grid.
    struct Blocks;

    impl Oracle for Blocks {
        fn compute(&self, call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
            let launch = call.launch.as_ref().ok_or("there is no launch")?;
            assert_eq!((launch.block, launch.kernel.as_deref()), ([32, 8, 1], None));
            let values: Vec<OracleValue> = launch.args.iter().map(|arg| arg.value).collect();
            let [tensor, size] = [OracleValue::Tensor, OracleValue::Size(call.dims["N"])];
            assert_eq!(values, [tensor, tensor, size, OracleValue::Scalar(0.5)]);
            let elements = call.outputs.iter().map(|(tensor, rows)| rows.len() * tensor.row_len()).sum();
            Ok(vec![f64::from(launch.grid[0]); elements])
        }
    }

    fn declared(manifest: &str) -> Result<Declared, Error> {
        let (oracle, python, files) = (String::new(), String::new(), Vec::new());
        let source = DeclaredSource { manifest: manifest.to_owned(), oracle, python, files };
        Declared::parse(source, Box::new(Blocks)).map_err(|mistakes| Error::of_all(&mistakes))
    }

    fn dims(r: i64, n: i64) -> Dims {
        [("R", r), ("N", n)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    #[test]
    fn the_launch_has_the_sizes_of_the_rows_that_are_computed() {
        let op = declared(MANIFEST).unwrap();
        let inputs = [vec![0.0; 40]];
        assert_eq!(op.oracle(&dims(20, 2), &inputs, &[0, 7, 19]).unwrap(), [3.0; 6]);
        assert!(!op.oracle_uses_device(), "this one does not");
    }

    #[test]
    fn mistakes_in_a_launch_are_reported_with_what_to_do() {
        let error = |from: &str, to: &str| {
            assert!(MANIFEST.contains(from), "{from}");
            declared(&MANIFEST.replacen(from, to, 1)).err().unwrap()
        };
        let table = &MANIFEST[MANIFEST.find("[oracle_launch]").unwrap()..MANIFEST.find("[dims.R]").unwrap()];
        insta::assert_snapshot!(error(table, ""), @"oracle `oracle.cu`: say how to launch its kernel: add [oracle_launch] with grid, block and args (`optloop docs workload`)");
        insta::assert_snapshot!(error("oracle.cu", "oracle.py"), @"[oracle_launch] launches an oracle in CUDA: remove it, or name a .cu file as the oracle");
        insta::assert_snapshot!(error("oracle.cu", "oracle.c"), @"oracle `oracle.c`: name a Python file (.py) or a CUDA source (.cu) in the op's folder, without a path");
        insta::assert_snapshot!(error("grid = [\"R\"]", "grid = [\"R\", \"Q\"]\nkernel = \"a b\""), @"[oracle_launch]: kernel `a b` is no name of a function; [oracle_launch]: grid: expression `Q`: there is no dimension `Q`");
        insta::assert_snapshot!(error("grid = [\"R\"]", "grid = []"), @"[oracle_launch]: grid has 0 extents, but must have one to three: x, y and z");
        insta::assert_snapshot!(error("grid = [\"R\"]", "grid = [\"1\", \"65536\"]"), @"[oracle_launch]: grid: 65536 along y, but it must be from 1 to 65535");
        insta::assert_snapshot!(error("\"32\", \"8\"", "\"32\", \"2 * 32\""), @"[oracle_launch]: a block of 32 x 64 = 2048 threads is larger than the 1024 of every GPU");
        insta::assert_snapshot!(error("\"32\", \"8\"", "\"2048\""), @"[oracle_launch]: block: 2048 along x, but it must be from 1 to 1024");
        insta::assert_snapshot!(error("\"x\", \"y\", \"N\", \"factor\"", "\"x\", \"M\", \"factr\""), @"[oracle_launch]: args names `M`, which is no tensor, dimension or scalar; [oracle_launch]: args names `factr`, which is no tensor, dimension or scalar (did you mean `factor`?); [oracle_launch]: args lacks the tensor `y`");
        insta::assert_snapshot!(error("args =", "arguments ="), @"line 10: unknown field `arguments`, expected one of `kernel`, `grid`, `block`, `args`");
    }

    #[test]
    fn sizes_that_make_no_launch_are_refused_with_the_formula() {
        let with = |grid: &str, block: &str| {
            let manifest =
                MANIFEST.replacen("\"R\"]\n        block = [\"32\", \"8\"]", &format!("{grid}]\nblock = [{block}]"), 1);
            declared(&manifest).unwrap()
        };
        let op = with("\"R * N\"", "\"N\"");
        assert_eq!(op.check(&dims(4, 1024)), Ok(()));
        insta::assert_snapshot!(op.check(&dims(4, 1025)).unwrap_err(), @"[oracle_launch]: block: `N` = 1025 along x, but it must be from 1 to 1024");
        insta::assert_snapshot!(op.check(&dims(1 << 21, 1024)).unwrap_err(), @"[oracle_launch]: grid: `R * N` = 2147483648 along x, but it must be from 1 to 2147483647");
        // A check may compute one row alone.
        insta::assert_snapshot!(with("\"R / 4\"", "\"32\"").check(&dims(64, 4)).unwrap_err(), @"[oracle_launch]: grid: `R / 4` = 0 along x, but it must be from 1 to 2147483647, where `R` is 1: a check may compute one index alone");
        insta::assert_snapshot!(with("\"1\"", "\"N\", \"N\"").check(&dims(64, 64)).unwrap_err(), @"[oracle_launch]: a block of 64 x 64 = 4096 threads is larger than the 1024 of every GPU");
    }
}
