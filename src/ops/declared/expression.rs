//! Expressions over the dimensions of an op.

use crate::domain::expr::{Bindings, ExpectedType, Expr};
use crate::domain::op::DimSpec;
use crate::domain::text::names::did_you_mean;
use crate::error::{Error, error};

/// Parses an expression over dimensions.
pub(super) fn over(text: &str, dims: &[DimSpec]) -> Result<Expr, Error> {
    let expr = Expr::parse(text).map_err(Error::new)?;
    let known = bindings(dims);
    for name in expr.names() {
        if !known.contains_key(&name) {
            let hint = did_you_mean(&name, known.keys().map(String::as_str));
            return Err(error!("expression `{text}`: there is no dimension `{name}`{hint}"));
        }
    }
    expr.check_type(ExpectedType::Int).map_err(Error::new)?;
    Ok(expr)
}

/// Returns the names that expressions may use: those of dimensions, with a value for each.
fn bindings(dims: &[DimSpec]) -> Bindings {
    dims.iter().map(|dim| (dim.name.to_owned(), dim.range.0.max(1))).collect()
}
