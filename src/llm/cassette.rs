//! Cassettes: recorded calls, which can be replayed without network.
//!
//! A folder has one file for each purpose, such as `plan.jsonl`, with one JSON object a line. No headers are recorded,
//! and secrets are masked. The last of several entries with the same ordinal counts.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;

use super::difference::difference;
use crate::domain::instant;
use crate::domain::models::call::{CallPurpose, ModelReply, ModelRequest};
use crate::domain::models::call_error::{CallError, CallErrorKind};
use crate::error::{Error, error};
use crate::secrets;

/// The largest file of a cassette, in bytes: some thousand calls.
const MAX_BYTES: u64 = 1 << 30;

/// One recorded call.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    purpose: CallPurpose,
    ordinal: u64,
    model: String,
    /// SHA-256 of the request's JSON, after masking.
    request_hash: String,
    request: ModelRequest,
    #[serde(flatten)]
    outcome: Outcome,
    /// Iterations that had ended when the request was sent.
    asked_after: u64,
    /// Iterations that had ended when the answer was taken.
    answered_after: u64,
    recorded_at: String,
}

/// How a recorded call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Reply(ModelReply),
    Error(CallError),
}

/// The data that a cassette has about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Iterations that had ended when the request was sent.
    pub asked_after: u64,
    /// Iterations that had ended when the answer was taken. A replay that takes the answer then proposes the same.
    pub answered_after: u64,
    /// The difference from the recorded request, in one line; `None` if they are equal.
    pub difference: Option<String>,
}

/// Writes calls to a folder.
#[derive(Debug)]
pub(super) struct Recorder {
    folder: PathBuf,
    /// Lines of two calls must not be interleaved.
    turn: Mutex<()>,
}

/// The calls of a folder.
#[derive(Debug)]
pub(super) struct Cassette {
    entries: BTreeMap<(CallPurpose, u64), Entry>,
}

impl Recorder {
    /// Prepares a folder, which is created if it does not exist.
    pub(super) fn new(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|error| error!("cannot create {}: {error}", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), turn: Mutex::new(()) })
    }

    /// Appends a call. `asked_after` and `answered_after` count the iterations that had ended.
    pub(super) fn record(
        &self,
        request: &ModelRequest,
        result: &Result<ModelReply, CallError>,
        asked_after: u64,
        answered_after: u64,
    ) -> Result<(), Error> {
        let request = masked(request)?;
        let entry = Entry {
            purpose: request.purpose,
            ordinal: request.ordinal,
            model: request.model.clone(),
            request_hash: hash(&request)?,
            request,
            outcome: match result.clone() {
                Ok(reply) => Outcome::Reply(reply),
                Err(error) => Outcome::Error(error),
            },
            asked_after,
            answered_after,
            recorded_at: instant::now().format(&Rfc3339).unwrap_or_default(),
        };
        let json = serde_json::to_string(&entry).map_err(|error| error!("cannot record a call: {error}"))?;
        let path = self.folder.join(file(entry.purpose));
        // A line is written in one call, so a killed process leaves complete lines, and a reader never sees part of
        // one.
        let line = format!("{}\n", secrets::mask_json(&json));
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| error!("cannot record a call in {}: {error}", path.display()))
    }
}

impl Cassette {
    /// Reads the folder. The error is one sentence that names the file and the line.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let mut entries = BTreeMap::new();
        for purpose in CallPurpose::ALL {
            let path = folder.join(file(purpose));
            for (number, line) in read(&path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let entry: Entry = serde_json::from_str(line)
                    .map_err(|error| error!("{}, line {}: {error}", path.display(), number + 1))?;
                entries.insert((entry.purpose, entry.ordinal), entry);
            }
        }
        if entries.is_empty() {
            return Err(error!("there are no recorded calls in {} (llm.replay)", folder.display()));
        }
        Ok(Self { entries })
    }

    /// Returns the recorded result of a call.
    pub(super) fn answer(&self, request: &ModelRequest) -> Result<ModelReply, CallError> {
        match self.entry(request).map(|entry| entry.outcome.clone()) {
            Some(Outcome::Reply(reply)) => Ok(reply),
            Some(Outcome::Error(error)) => Err(error),
            None => {
                let ModelRequest { purpose, ordinal, .. } = request;
                let message = format!("the cassette has no call {ordinal} for the purpose `{purpose}` (llm.replay)");
                Err(CallError::new(CallErrorKind::NotRecorded, message))
            }
        }
    }

    /// Returns the data about a call, if it was recorded.
    pub(super) fn recorded(&self, request: &ModelRequest) -> Option<Recorded> {
        let entry = self.entry(request)?;
        let Entry { asked_after, answered_after, .. } = *entry;
        let request = masked(request).ok()?;
        let differs = hash(&request).ok()? != entry.request_hash;
        let difference = differs.then(|| difference(&entry.request, &request));
        Some(Recorded { asked_after, answered_after, difference })
    }

    fn entry(&self, request: &ModelRequest) -> Option<&Entry> {
        self.entries.get(&(request.purpose, request.ordinal))
    }
}

fn file(purpose: CallPurpose) -> String {
    format!("{purpose}.jsonl")
}

/// Reads a file, which may be missing.
fn read(path: &Path) -> Result<String, Error> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        // Opening a pipe would wait for its other end.
        Ok(found) if !found.is_file() => return Err(error!("{} is not a file", path.display())),
        Ok(found) if found.len() > MAX_BYTES => return Err(error!("{} is larger than 1 GiB", path.display())),
        _ => {}
    }
    fs::read_to_string(path).map_err(|error| error!("cannot read {}: {error}", path.display()))
}

/// Masks the secrets of the environment in the texts of a request, so that its hash is that of the recorded texts.
fn masked(request: &ModelRequest) -> Result<ModelRequest, Error> {
    let json = serde_json::to_string(request).map_err(Error::new)?;
    serde_json::from_str(&secrets::mask_json(&json)).map_err(Error::new)
}

fn hash(request: &ModelRequest) -> Result<String, Error> {
    use sha2::Digest;
    let json = serde_json::to_vec(request).map_err(Error::new)?;
    Ok(sha2::Sha256::digest(json).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::models::call::{AnswerForm, Usage};

    fn request(ordinal: u64, prompt: &str) -> ModelRequest {
        ModelRequest {
            purpose: CallPurpose::Plan,
            ordinal,
            model: "m".to_owned(),
            system: "system".to_owned(),
            cached: "cached".to_owned(),
            prompt: prompt.to_owned(),
            answer: AnswerForm {
                name: "plan".to_owned(),
                description: String::new(),
                schema: serde_json::json!({ "type": "object" }),
            },
            max_output_tokens: 100,
            temperature: Some(0.8),
        }
    }

    fn reply(text: &str) -> Result<ModelReply, CallError> {
        Ok(ModelReply {
            answer: serde_json::json!({ "text": text }),
            text: text.to_owned(),
            usage: Usage { input_tokens: 1, output_tokens: 2, ..Usage::default() },
            usage_is_known: true,
            latency_ms: 3,
            attempts: 1,
            request_id: None,
        })
    }

    #[test]
    fn recorded_calls_are_replayed() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(&folder.path().join("new")).unwrap();
        let error = Err(CallError { text: "half".to_owned(), ..CallError::new(CallErrorKind::Cut, "it was cut") });
        recorder.record(&request(0, "a\nb"), &reply("first"), 1, 4).unwrap();
        recorder.record(&request(1, "a\nb"), &error, 4, 4).unwrap();
        recorder.record(&request(0, "a\nb"), &reply("again"), 5, 6).unwrap();

        let cassette = Cassette::open(&folder.path().join("new")).unwrap();
        assert_eq!(cassette.answer(&request(0, "a\nb")), reply("again"), "the last one counts");
        assert_eq!(cassette.answer(&request(1, "other")), error, "whatever the request is");
        let recorded = cassette.recorded(&request(0, "a\nb")).unwrap();
        assert_eq!(recorded, Recorded { asked_after: 5, answered_after: 6, difference: None });
        let difference = cassette.recorded(&request(0, "a\nc")).unwrap().difference.unwrap();
        insta::assert_snapshot!(difference, @"prompt, line 2: `b` was recorded, now it is `c`");
        let missing = cassette.answer(&request(2, "")).unwrap_err();
        insta::assert_snapshot!(format!("{}: {missing}", missing.kind()), @"not_recorded: the cassette has no call 2 for the purpose `plan` (llm.replay)");
        assert!(!missing.may_be_billed && cassette.recorded(&request(2, "")).is_none());
    }

    #[test]
    fn a_damaged_cassette_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Cassette::open(folder.path()).unwrap_err().to_string().contains("there are no recorded calls in"));
        Recorder::new(folder.path()).unwrap().record(&request(0, "a"), &reply("x"), 0, 0).unwrap();
        let path = folder.path().join("plan.jsonl");
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        assert!(Cassette::open(folder.path()).unwrap_err().to_string().contains("plan.jsonl, line 2: EOF"));
    }
}
