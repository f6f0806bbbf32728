//! Names and numbers of things that are on record.

/// The number of an iteration: unique over all sessions of a store, and growing with time.
pub type IterationId = i64;

/// The number of a session.
pub type SessionId = i64;

/// The name of a case, unique within its workload.
pub type CaseName = String;
