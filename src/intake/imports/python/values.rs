//! Works out lists of values.

use super::Python;
use crate::domain::expr::{Bindings, Expr};
use crate::error::{Error, error};

/// The most values of a list.
const MAX_VALUES: i64 = 100_000;

impl Python {
    /// Returns the values of a list, such as `[16, 32]`, `list(range(1, 9))` or `[32 * i for i in range(1, 9)]`.
    pub fn values(&self) -> Result<Vec<i64>, Error> {
        self.values_with(&Bindings::new())
    }

    fn values_with(&self, bound: &Bindings) -> Result<Vec<i64>, Error> {
        let value = |of: &Self| of.worked_out(bound);
        match self {
            Self::List(items) => items.iter().map(value).collect(),
            Self::Call(name, arguments) if name == "list" || name == "tuple" => match &arguments[..] {
                [only] => only.values_with(bound),
                _ => Err(error!("`{name}` takes one argument")),
            },
            Self::Call(name, arguments) if name == "range" => {
                let numbers = arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                let (from, to, step) = match numbers[..] {
                    [to] => (0, to, 1),
                    [from, to] => (from, to, 1),
                    [from, to, step] if step > 0 => (from, to, step),
                    _ => return Err(Error::new("`range` is supported with a step above 0 only")),
                };
                if (to.saturating_sub(from)) / step > MAX_VALUES {
                    return Err(error!("a list may have up to {MAX_VALUES} values"));
                }
                Ok((from..to).step_by(step as usize).collect())
            }
            Self::Each { item, name, over } => {
                let one = |at: i64| {
                    let mut bound = bound.clone();
                    bound.insert(name.clone(), at);
                    item.worked_out(&bound)
                };
                over.values_with(bound)?.into_iter().map(one).collect()
            }
            Self::Both("+", first, second) => Ok([first.values_with(bound)?, second.values_with(bound)?].concat()),
            _ => Err(Error::new("it is not a list of whole numbers")),
        }
    }

    /// Returns the value of a number.
    fn worked_out(&self, bound: &Bindings) -> Result<i64, Error> {
        if let Self::Power(base, power) = self {
            let (base, power) = (base.worked_out(bound)?, power.worked_out(bound)?);
            let raised = u32::try_from(power).ok().and_then(|power| base.checked_pow(power));
            return raised.ok_or_else(|| error!("{base} ** {power} is no whole number of 64 bits"));
        }
        if let Self::Both(sign @ ("*" | "+" | "-"), a, b) = self {
            let (a, b) = (a.worked_out(bound)?, b.worked_out(bound)?);
            let result = match *sign {
                "*" => a.checked_mul(b),
                "+" => a.checked_add(b),
                _ => a.checked_sub(b),
            };
            return result.ok_or_else(|| error!("{a} {sign} {b} is too large"));
        }
        let text = self.number(&|_, _| None)?;
        Expr::parse(&text).and_then(|expr| expr.int(bound)).map_err(Error::new)
    }
}
