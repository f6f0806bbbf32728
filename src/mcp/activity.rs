//! What clients have done with the tools, and what they were told last.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use crate::session::Standing;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Activity {
    /// Kernels that were evaluated for the first time.
    pub(super) evaluated: AtomicU64,
    /// Whether a client has ended the session.
    pub(super) has_finished: AtomicBool,
    last: Mutex<Option<Standing>>,
}

impl Activity {
    /// Notes where the session stands.
    pub(super) fn note(&self, standing: Standing) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(standing);
    }

    /// Returns where the session stood in its last answer. None before the first.
    pub(super) fn last_standing(&self) -> Option<Standing> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
