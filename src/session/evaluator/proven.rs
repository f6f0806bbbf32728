//! What has passed the acceptance checks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::op::Dims;
use crate::domain::variant::VariantHash;

/// The shapes on which each source has passed the acceptance checks. Clones share them.
#[derive(Clone, Default)]
pub(in crate::session) struct Proven(Arc<Mutex<HashMap<VariantHash, Vec<Dims>>>>);

impl Proven {
    /// Returns the shapes on which a source has passed.
    pub fn of(&self, hash: &VariantHash) -> Vec<Dims> {
        self.all().get(hash).cloned().unwrap_or_default()
    }

    /// Tells whether a source has passed.
    pub fn has(&self, hash: &VariantHash) -> bool {
        self.all().contains_key(hash)
    }

    /// Adds shapes on which a source has passed.
    pub fn add(&self, hash: &VariantHash, shapes: impl Iterator<Item = Dims>) {
        let mut all = self.all();
        let proven = all.entry(hash.clone()).or_default();
        for shape in shapes {
            if !proven.contains(&shape) {
                proven.push(shape);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<VariantHash, Vec<Dims>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
