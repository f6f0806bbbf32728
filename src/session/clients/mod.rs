//! What clients of an interactive session ask for, and what they are told.

pub(super) mod asked;
mod on_request;
pub(super) mod requests;
pub(super) mod view;
