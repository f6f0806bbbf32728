//! The event log of a submission: what its session prints, one JSON object per line.
//!
//! The session has the log as its standard output. It inherits the lock on it, too, and the system releases the lock when
//! the last process with that output has ended. So a service knows which sessions run, even if another service has
//! started them, and no process number can be mistaken for that of another process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The most bytes that are read at once.
const CHUNK_BYTES: u64 = 64 << 10;

/// The longest line. An event with a thousand cases has less than a MB.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// A log of events.
#[derive(Debug, Clone)]
pub struct EventLog {
    path: PathBuf,
}

/// An event and the place behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The offset in bytes of the next line, from which a reader continues.
    pub next: u64,
    /// The event as JSON, without a line end.
    pub text: String,
}

impl EventLog {
    /// Names a log, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the log for a session. Dropping the file in this process leaves the lock to the session. None if a session
    /// has it already.
    pub fn lock(&self) -> anyhow::Result<Option<File>> {
        let opened = OpenOptions::new().create(true).read(true).append(true).open(&self.path);
        let mut file = opened.with_context(|| format!("Failed to open {}", self.path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("Failed to lock {}", self.path.display()));
            }
        }
        end_line(&mut file).with_context(|| format!("Failed to write {}", self.path.display()))?;
        Ok(Some(file))
    }

    /// Waits until no session has the log. Returns at once if there is no log.
    pub fn wait_until_free(&self) -> io::Result<()> {
        match File::open(&self.path) {
            Ok(file) => file.lock_shared(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the size in bytes. 0 if there is no log.
    pub fn len(&self) -> u64 {
        self.path.metadata().map_or(0, |found| found.len())
    }

    /// Tells whether a line begins at an offset, so that a reader may continue there.
    pub fn has_line_at(&self, offset: u64) -> bool {
        let before = || {
            let mut byte = [0];
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(offset - 1))?;
            file.read_exact(&mut byte)?;
            io::Result::Ok(byte[0])
        };
        offset == 0 || before().is_ok_and(|byte| byte == b'\n')
    }

    /// Reads some whole lines from an offset on. Returns them, and the offset behind them. Lines that are no JSON, such as
    /// the half line of a killed session, are left out.
    pub fn read(&self, offset: u64) -> io::Result<(Vec<Line>, u64)> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), offset)),
            opened => opened?,
        };
        let mut size = CHUNK_BYTES;
        loop {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(offset))?;
            (&mut file).take(size).read_to_end(&mut bytes)?;
            match memchr::memrchr(b'\n', &bytes) {
                Some(end) => return Ok((lines(&bytes[..=end], offset), offset + end as u64 + 1)),
                None if (bytes.len() as u64) < size => return Ok((Vec::new(), offset)),
                // No event is this long. The reader continues in the middle of the line, which is no JSON.
                None if size >= MAX_LINE_BYTES => return Ok((Vec::new(), offset + size)),
                None => size *= 4,
            }
        }
    }
}

fn lines(bytes: &[u8], offset: u64) -> Vec<Line> {
    let mut next = offset;
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        next += line.len() as u64;
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        // A carriage return would end a line of an event stream.
        let text = std::str::from_utf8(text).ok().filter(|text| !text.contains('\r'));
        if let Some(text) = text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()) {
            lines.push(Line { next, text: text.to_owned() });
        }
    }
    lines
}

/// Ends the half line of a killed session, so that the next event has a line of its own.
fn end_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" { file.write_all(b"\n") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_continues_behind_the_last_line_and_skips_what_is_no_event() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::new(folder.path().join("1.jsonl"));
        assert_eq!(log.read(0).unwrap(), (vec![], 0));
        std::fs::write(log.path(), "{\"event\":1}\n{\"ev").unwrap();
        let (first, next) = log.read(0).unwrap();
        assert_eq!((first.as_slice(), next), (&[Line { next: 12, text: "{\"event\":1}".to_owned() }][..], 12));
        assert_eq!(log.read(12).unwrap(), (vec![], 12), "half a line");
        // The session was killed. The next one writes on.
        let mut file = log.lock().unwrap().unwrap();
        assert!(log.lock().unwrap().is_none(), "a session has it");
        writeln!(file, "{{\"event\":2}}\n{{\r\"event\":3}}").unwrap();
        drop(file);
        let (rest, next) = log.read(12).unwrap();
        assert_eq!((rest.len(), rest[0].text.as_str(), next), (1, "{\"event\":2}", log.len()));
        assert!(log.has_line_at(0) && log.has_line_at(12) && !log.has_line_at(13) && !log.has_line_at(999));
        log.wait_until_free().unwrap();
    }

    #[test]
    fn a_long_line_is_read_whole_and_an_endless_one_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let log = EventLog::new(folder.path().join("1.jsonl"));
        let long = format!("\"{}\"\n", "x".repeat(200_000));
        std::fs::write(log.path(), &long).unwrap();
        assert_eq!(log.read(0).unwrap().0[0].text.len(), 200_002);
        std::fs::write(log.path(), "x".repeat(5 << 20) + "\n1\n").unwrap();
        let (lines, next) = log.read(0).unwrap();
        assert!(lines.is_empty() && next > 0);
        assert_eq!(log.read(next).unwrap().0[0].text, "1");
    }
}
