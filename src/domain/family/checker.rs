//! Checks many configurations on one case and device.
//!
//! A proposal draws hundreds of configurations. [`Family::check`] binds every name anew for each of them. Here, each name
//! has its place in a list, and a check only writes the parameters there.

use super::{ConfigurationError, Family};
use crate::domain::device::DeviceInfo;
use crate::domain::expr::{Bindings, Expr, Placed};
use crate::domain::op::Dtype;
use crate::domain::variant::Params;
use crate::domain::workload::Case;
use crate::error::Error;

/// Checks configurations of a family on a case and device.
pub struct Checker<'a> {
    family: &'a Family,
    of: (&'a Case, Dtype, &'a DeviceInfo),
    /// None if an expression needs names.
    places: Option<Places>,
}

/// The values that constraints may name: dimensions, limits of the device, parameters and derived values.
struct Places {
    values: Vec<i64>,
    first_param: usize,
    derived: Vec<(usize, Placed)>,
    constraints: Vec<Placed>,
}

impl<'a> Checker<'a> {
    /// Makes a checker.
    pub fn new(family: &'a Family, case: &'a Case, dtype: Dtype, device: &'a DeviceInfo) -> Self {
        let places = if family.listed.is_some() { None } else { Places::of(family, case, dtype, device) };
        Self { family, of: (case, dtype, device), places }
    }

    /// Tells whether a configuration satisfies every constraint. The values are in the order of the parameters.
    pub fn allows(&mut self, values: &[i64]) -> Result<bool, Error> {
        if let Some(allowed) = self.places.as_mut().and_then(|places| places.allow(values)) {
            return Ok(allowed);
        }
        let params: Params = self.family.params.keys().cloned().zip(values.iter().copied()).collect();
        let (case, dtype, device) = self.of;
        match self.family.check(&params, case, dtype, device) {
            Ok(()) => Ok(true),
            Err(ConfigurationError::Constraint { .. }) => Ok(false),
            Err(ConfigurationError::Manifest(message)) => Err(message.into()),
        }
    }
}

impl Places {
    fn of(family: &Family, case: &Case, dtype: Dtype, device: &DeviceInfo) -> Option<Self> {
        let mut bindings: Bindings = family.sizes(case);
        bindings.insert("elem_bytes".to_owned(), dtype.bytes() as i64);
        device.bind(&mut bindings);
        let first_param = bindings.len();
        let mut add = |name: &String| bindings.insert(name.clone(), 0).is_none();
        // Where one name hides another, the order of evaluation matters.
        if !family.params.keys().chain(family.derived.keys()).all(&mut add) {
            return None;
        }
        let placed = |expr: &Expr| expr.placed(&bindings);
        let derived = family.derived.iter().map(|(name, expr)| Some((bindings.get_index_of(name)?, placed(expr)?)));
        Some(Self {
            first_param,
            derived: derived.collect::<Option<_>>()?,
            constraints: family.constraints.iter().map(|constraint| placed(&constraint.expr)).collect::<Option<_>>()?,
            values: bindings.values().copied().collect(),
        })
    }

    /// Returns whether a configuration satisfies every constraint. None if an expression has no value.
    fn allow(&mut self, params: &[i64]) -> Option<bool> {
        self.values[self.first_param..][..params.len()].copy_from_slice(params);
        for (place, expr) in &self.derived {
            self.values[*place] = expr.int(&self.values)?;
        }
        for constraint in &self.constraints {
            if !constraint.boolean(&self.values)? {
                return Some(false);
            }
        }
        Some(true)
    }
}
