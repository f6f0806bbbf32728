//! What sessions and workers send to each other, each message signed.
//!
//! ```text
//! 0..32    the public key of the sender
//! 32..96   its signature of the kind, the subject and the rest
//! 96..     a frame (`runner/frames.rs`), compressed with DEFLATE
//! ```

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keys::{KEY_BYTES, OwnKey, PublicKey, SIGNATURE_BYTES};
use crate::domain::code::artifact::Artifact;
use crate::domain::device::DeviceInfo;
use crate::domain::measurement::evaluation::Evaluation;
use crate::runner::frames::{self, FrameError, MAX_PAYLOAD_BYTES, Message};
use crate::runner::messages::EvaluateRequest;

/// Bytes before the frame.
const HEAD_BYTES: usize = KEY_BYTES + SIGNATURE_BYTES;

/// One screening run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    /// Its name, unique over all sessions.
    pub id: String,
    /// When it is of no use any more, in seconds since 1970.
    pub until_unix_s: u64,
    /// The check that the device must pass before.
    pub self_check: Artifact,
    /// What to screen.
    pub request: EvaluateRequest,
}

/// The session sends no secrets.
impl Message for Job {}

/// The result of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// The job's name.
    pub job: String,
    /// What became of it.
    pub answer: Answer,
}

/// What became of a job.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The device has reported this.
    Reported(Evaluation),
    /// The process on the device was lost and replaced. The variant may be at fault.
    Lost(Evaluation),
    /// The device cannot be used any more: why.
    Broken(String),
    /// The op's oracle failed: why.
    Oracle(String),
    /// The worker does not do this: why.
    Refused(String),
}

impl Message for Done {
    fn free_texts(&mut self) -> Vec<&mut String> {
        match &mut self.answer {
            Answer::Reported(evaluation) | Answer::Lost(evaluation) => {
                evaluation.outcome.message_mut().into_iter().collect()
            }
            Answer::Broken(text) | Answer::Oracle(text) | Answer::Refused(text) => vec![text],
        }
    }
}

/// What a worker says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Presence {
    /// Its name in subjects.
    pub worker: String,
    /// Its host, or the name that its user has given it.
    pub host: String,
    /// Its device.
    pub device: DeviceInfo,
    /// Its build of optloop.
    pub build: String,
    /// Whose jobs it takes.
    pub trusts: Vec<PublicKey>,
    /// When it started, in seconds since 1970.
    pub since_unix_s: u64,
    /// The jobs that it has answered.
    pub jobs: u64,
    /// The messages that it has dropped: not signed by anyone whom it trusts, or damaged.
    pub dropped: u64,
    /// Whether it has a job.
    pub is_busy: bool,
}

impl Message for Presence {}

/// What a message is for. A message of one kind never counts as one of another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Job,
    Done,
    Presence,
}

/// Why a message is dropped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Dropped {
    #[error("it is too short")]
    Short,
    #[error("{0} has signed it, which is not trusted")]
    Stranger(PublicKey),
    #[error("its signature is not that of {0}")]
    Forged(PublicKey),
    #[error("it cannot be decompressed: {0}")]
    Damaged(#[from] io::Error),
    #[error(transparent)]
    Meaningless(#[from] FrameError),
    #[error("it is empty")]
    Empty,
}

/// Signs a message that is sent on a subject.
pub(super) fn seal(kind: Kind, subject: &str, key: &OwnKey, message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&frames::encode(message)?)?;
    let body = encoder.finish()?;
    let signature = key.sign(&signed(kind, subject, &body));
    Ok([key.public().bytes().as_slice(), &signature, &body].concat())
}

/// Opens a message that came on a subject. Nothing of it is decoded unless someone who is trusted has signed it.
pub(super) fn open<T: Message + DeserializeOwned>(
    kind: Kind,
    subject: &str,
    sealed: &[u8],
    is_trusted: impl Fn(&PublicKey) -> bool,
) -> Result<(PublicKey, T), Dropped> {
    let (head, body) = sealed.split_at_checked(HEAD_BYTES).ok_or(Dropped::Short)?;
    let (key, signature) = head.split_first_chunk::<KEY_BYTES>().ok_or(Dropped::Short)?;
    let key = PublicKey::of(key);
    if !is_trusted(&key) {
        return Err(Dropped::Stranger(key));
    }
    if !key.has_signed(&signed(kind, subject, body), signature) {
        return Err(Dropped::Forged(key));
    }
    let mut frame = Vec::new();
    // The header of a frame, which has its length, is far below this.
    DeflateDecoder::new(body).take(2 * u64::from(MAX_PAYLOAD_BYTES)).read_to_end(&mut frame)?;
    let message = frames::read(&mut frame.as_slice())?.ok_or(Dropped::Empty)?;
    Ok((key, message))
}

/// Returns the bytes that are signed.
fn signed(kind: Kind, subject: &str, body: &[u8]) -> Vec<u8> {
    // The length keeps the subject apart from the body.
    let head = format!("optloop {kind:?} {} {subject}", subject.len());
    [head.as_bytes(), &[0], body].concat()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a key of its own.
    pub fn key() -> OwnKey {
        OwnKey::at_random()
    }

    fn done(job: &str) -> Done {
        Done { job: job.to_owned(), answer: Answer::Broken("it hangs".to_owned()) }
    }

    #[test]
    fn a_message_is_opened_only_as_it_was_signed_by_someone_trusted() {
        let (worker, stranger) = (key(), key());
        let trusted = worker.public();
        let opened = |kind, subject: &str, bytes: &[u8]| {
            let opened = open::<Done>(kind, subject, bytes, |key| *key == trusted);
            opened.map(|(_, done)| done.job).map_err(|dropped| match dropped {
                Dropped::Stranger(_) => "a stranger",
                Dropped::Forged(_) => "forged",
                Dropped::Short => "short",
                _ => "something else",
            })
        };
        let sealed = seal(Kind::Done, "done.a", &worker, &done("1")).unwrap();
        assert_eq!(opened(Kind::Done, "done.a", &sealed), Ok("1".to_owned()));
        assert_eq!(opened(Kind::Done, "done.b", &sealed), Err("forged"), "it was sent to another session");
        assert_eq!(opened(Kind::Job, "done.a", &sealed), Err("forged"), "it is no job");
        let changed: Vec<u8> = sealed.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 100)).collect();
        assert_eq!(opened(Kind::Done, "done.a", &changed), Err("forged"));
        let strange = seal(Kind::Done, "done.a", &stranger, &done("1")).unwrap();
        assert_eq!(opened(Kind::Done, "done.a", &strange), Err("a stranger"));
        // A stranger who names a key that is trusted has no signature of it.
        let posed = [&sealed[..KEY_BYTES], &strange[KEY_BYTES..]].concat();
        assert_eq!(opened(Kind::Done, "done.a", &posed), Err("forged"));
        assert_eq!(opened(Kind::Done, "done.a", &sealed[..40]), Err("short"));
    }
}
