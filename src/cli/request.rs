//! What a session is asked to search.

use crate::agent::Proposer;
use crate::domain::family::Family;
use crate::domain::record::LeftOut;
use crate::domain::workload::Workload;
use crate::runner::device::{DeviceChoice, Others};

/// The request of the command line, or of an earlier session, with the project's files.
pub(super) struct StartRequest {
    pub(super) workload: Workload,
    pub(super) families: Vec<Family>,
    pub(super) searched: Vec<String>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) proposer: Box<dyn Proposer>,
    /// The home device.
    pub(super) device: DeviceChoice,
    /// Those that only screen.
    pub(super) others: Others,
}
