//! The ops that workloads can name: optloop's own, and those that a project declares.

mod attention;
mod declared;
mod delta_attention;
mod draw;
mod gemm;
mod grouped_linear;
mod linear;
mod linear_w4;
mod product;
mod recorded;
mod sizes;
mod top_k;

use crate::domain::op::Op;
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error};

pub use declared::Declared;

/// The project's folder of the ops that it declares, with a folder for each.
pub const OPS_FOLDER: &str = "kernels/ops";

/// Every op of optloop.
pub static ALL: [&dyn Op; 7] = [
    &attention::Attention,
    &gemm::Gemm,
    &linear::Linear,
    &linear_w4::LinearW4,
    &grouped_linear::GroupedLinear,
    &top_k::TopK,
    &delta_attention::DeltaAttention,
];

/// The op of recorded search spaces. Workload files cannot name it, because it computes nothing.
pub static RECORDED: &dyn Op = &recorded::Recorded;

/// Finds an op of optloop by name; the error names the nearest one.
pub fn find(name: &str) -> Result<&'static dyn Op, Error> {
    ALL.iter().copied().find(|op| op.name() == name).ok_or_else(|| {
        let hint = did_you_mean(name, ALL.iter().map(|op| op.name()));
        let known: Vec<_> = ALL.iter().map(|op| op.name()).collect();
        error!("op `{name}` is not known{hint}; there are: {}", known.join(", "))
    })
}

/// Declares an op with a manifest, and with an oracle that must not be called.
#[cfg(test)]
pub(crate) fn declared_for_tests(manifest: &str) -> &'static dyn Op {
    use crate::domain::op::DeclaredSource;
    use crate::domain::op::oracle::{Oracle, OracleCall};
    struct NoOracle;
    impl Oracle for NoOracle {
        fn compute(&self, _call: &OracleCall<'_>) -> Result<Vec<f64>, Error> {
            Err(Error::new("it has no oracle"))
        }
    }
    let (oracle, python, files) = (String::new(), String::new(), Vec::new());
    let source = DeclaredSource { manifest: manifest.to_owned(), oracle, python, files };
    Box::leak(Box::new(Declared::parse(source, Box::new(NoOracle)).map_err(|mistakes| mistakes.join("; ")).unwrap()))
}
