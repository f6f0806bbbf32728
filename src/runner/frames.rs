//! Framed messages between processes, over any byte stream.
//!
//! A frame is a header of 32 bytes and a payload of MessagePack. The header has a checksum of itself, so a damaged
//! length is never used. It also has one of the payload, so nothing is decoded that was not sent:
//!
//! ```text
//! 0..4    "OPTL"
//! 4..8    VERSION, little-endian
//! 8..12   length of the payload, little-endian
//! 12..28  BLAKE3 of the payload, its first 16 bytes
//! 28..32  BLAKE3 of the 28 bytes before, its first 4 bytes
//! ```
//!
//! This layout is the same in every version, so that a side can tell when the other has another version.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::domain::text::escape::one_line;
use crate::secrets;

/// The protocol version of both sides, raised with every change to a message. They differ only if the executable was
/// replaced during a session.
pub const VERSION: u32 = 24;

/// The longest payload. A CUBIN with its PTX is below 1 MiB; no message of optloop comes near this limit.
pub const MAX_PAYLOAD_BYTES: u32 = 64 << 20;

const MAGIC: [u8; 4] = *b"OPTL";
const HEADER_BYTES: usize = 32;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not a frame.
    #[error("the pipe contains data that is not a frame: `{0}`")]
    Foreign(String),
    /// The other side has another version.
    #[error(
        "the other side speaks version {0} of the protocol, but this one {VERSION}: optloop was replaced while it \
         ran, so start it again"
    )]
    Version(u32),
    /// A checksum does not match.
    #[error("the {0} of a frame is damaged: its checksum does not match")]
    Damaged(&'static str),
    /// The length exceeds that of any message.
    #[error("a frame of {0} bytes is longer than any message")]
    TooLong(u32),
    /// The stream ended within a frame.
    #[error("the pipe ended in the middle of a frame, after {got} of {of} bytes of its {part}")]
    Truncated {
        /// The part in which it ended.
        part: &'static str,
        /// Bytes received.
        got: usize,
        /// Bytes expected.
        of: usize,
    },
    /// The payload is intact but not a message.
    #[error("a frame does not contain a message: {0}")]
    Meaningless(String),
    /// The stream failed.
    #[error("the pipe cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A message sent in frames.
pub trait Message {
    /// Returns the texts that the process at the other end can choose freely, such as a log or an error. Secrets are
    /// masked only in these: a name, a number or a CUBIN that looks like a secret is not one.
    fn free_texts(&mut self) -> Vec<&mut String> {
        Vec::new()
    }
}

/// A valid header.
#[derive(Debug, Clone, Copy)]
struct Header {
    length: u32,
    digest: [u8; 16],
}

/// Writes a message.
pub fn write(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&encode(message)?)?;
    stream.flush()
}

/// Writes a message.
pub async fn write_async(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&encode(message)?).await?;
    stream.flush().await
}

/// Reads a message. `Ok(None)` means that the stream ended between two frames.
pub fn read<T: Message + DeserializeOwned>(stream: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    stream.take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    let Some(header) = Header::parse(&bytes)? else { return Ok(None) };
    let mut payload = Vec::new();
    stream.take(u64::from(header.length)).read_to_end(&mut payload)?;
    header.decode(&payload).map(Some)
}

/// Reads a message. `Ok(None)` means that the stream ended between two frames.
pub async fn read_async<T: Message + DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, FrameError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    (&mut *stream).take(HEADER_BYTES as u64).read_to_end(&mut bytes).await?;
    let Some(header) = Header::parse(&bytes)? else { return Ok(None) };
    // The buffer grows with the bytes received, so a large length alone costs nothing.
    let mut payload = Vec::new();
    stream.take(u64::from(header.length)).read_to_end(&mut payload).await?;
    header.decode(&payload).map(Some)
}

/// Encodes a message as a frame.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let payload = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
    let length = u32::try_from(payload.len()).ok().filter(|length| *length <= MAX_PAYLOAD_BYTES);
    let length = length.ok_or_else(|| io::Error::other(format!("a message of {} bytes is too long", payload.len())))?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&VERSION.to_le_bytes());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&digest::<16>(&payload));
    let check = digest::<4>(&frame);
    frame.extend_from_slice(&check);
    frame.extend_from_slice(&payload);
    Ok(frame)
}

impl Header {
    /// Parses a header. Returns `None` if there were no bytes at all.
    fn parse(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        if bytes.is_empty() {
            return Ok(None);
        }
        if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
            return Err(FrameError::Foreign(shown(bytes)));
        }
        let Ok(header) = <&[u8; HEADER_BYTES]>::try_from(bytes) else {
            return Err(FrameError::Truncated { part: "header", got: bytes.len(), of: HEADER_BYTES });
        };
        if header[28..] != digest::<4>(&header[..28]) {
            return Err(FrameError::Damaged("header"));
        }
        let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (version, length) = (number(4), number(8));
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if length > MAX_PAYLOAD_BYTES {
            return Err(FrameError::TooLong(length));
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&header[12..28]);
        Ok(Some(Self { length, digest }))
    }

    /// Decodes a payload and masks secrets that the process at the other end has obtained.
    fn decode<T: Message + DeserializeOwned>(&self, payload: &[u8]) -> Result<T, FrameError> {
        let length = self.length as usize;
        if payload.len() < length {
            return Err(FrameError::Truncated { part: "payload", got: payload.len(), of: length });
        }
        if self.digest != digest::<16>(payload) {
            return Err(FrameError::Damaged("payload"));
        }
        let meaningless = |error: rmp_serde::decode::Error| {
            let error = error.to_string();
            FrameError::Meaningless(secrets::mask(&error).into_owned())
        };
        let mut message: T = rmp_serde::from_slice(payload).map_err(meaningless)?;
        for text in message.free_texts() {
            if let Cow::Owned(masked) = secrets::mask(text) {
                *text = masked;
            }
        }
        Ok(message)
    }
}

/// Returns the first bytes of a BLAKE3 hash.
fn digest<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    let mut digest = [0; BYTES];
    digest.copy_from_slice(&blake3::hash(bytes).as_bytes()[..BYTES]);
    digest
}

/// Shows the bytes that came in place of a header as a line of text.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    one_line(text.trim_end())
}
