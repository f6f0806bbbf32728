//! A family's constraints and launch in Python, over its parameters alone: dimensions and limits of the device are
//! numbers, and derived values are written out.

use super::Family;
use crate::domain::device::DeviceInfo;
use crate::domain::expr::{Bindings, Expr};
use crate::domain::op::Dtype;
use crate::domain::workload::Case;

/// What other tuners need to know of a family on a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPython {
    /// Each constraint with the parameters in it.
    pub constraints: Vec<(String, Vec<String>)>,
    /// Blocks of the first launch along x, y and z.
    pub grid: Vec<String>,
    /// Threads of a block along x, y and z.
    pub block: Vec<String>,
}

impl Family {
    /// Writes constraints and launch for a case on a device. The error is one sentence.
    pub fn in_python(&self, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Result<InPython, String> {
        if self.listed.is_some() {
            return Err(format!("family `{}` lists its configurations, which are no conditions", self.name));
        }
        let mut numbers = self.sizes(case);
        numbers.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
        device.bind(&mut numbers);
        let write = |expr: &Expr| {
            let text = expr.in_python(&|name| self.name_in_python(name, &numbers));
            text.ok_or_else(|| format!("family `{}`: `{}` cannot be written in Python", self.name, expr.text()))
        };
        let all = |exprs: &[Expr]| exprs.iter().map(write).collect::<Result<Vec<_>, _>>();
        let launch = self.launches.first().ok_or_else(|| format!("family `{}` launches nothing", self.name))?;
        let constraint = |expr: &Expr| Ok((write(expr)?, self.params_in(expr)));
        Ok(InPython {
            constraints: self.constraints.iter().map(|one| constraint(&one.expr)).collect::<Result<_, String>>()?,
            grid: all(&launch.grid)?,
            block: all(&launch.block)?,
        })
    }

    fn name_in_python(&self, name: &str, numbers: &Bindings) -> Option<String> {
        if self.params.contains_key(name) {
            return Some(name.to_owned());
        }
        match (numbers.get(name), self.derived.get_index_of(name)) {
            (Some(number), _) => Some(number.to_string()),
            // A derived value names only those before it, so this ends.
            (None, Some(_)) => self.derived[name].in_python(&|name| self.name_in_python(name, numbers)),
            (None, None) => None,
        }
    }

    /// Returns the parameters on which an expression depends, in the manifest's order.
    fn params_in(&self, expr: &Expr) -> Vec<String> {
        let mut names = expr.names();
        let mut at = 0;
        while let Some(name) = names.get_index(at).cloned() {
            names.extend(self.derived.get(&name).into_iter().flat_map(Expr::names));
            at += 1;
        }
        self.params.keys().filter(|name| names.contains(*name)).cloned().collect()
    }
}
