//! Code that optloop's child processes share: reading requests, sending replies, and exiting.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frames::{self, Message};
use crate::domain::text::escape::is_unsafe;
use crate::secrets;

/// How much of a child's standard error is kept. This includes its last line.
const TAIL_BYTES: usize = 4096;

/// How much of it is read at once: as much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// The longest sentence of a child that is passed on. Anything longer is probably a dump.
const MAX_SENTENCE_CHARS: usize = 300;

/// Reads requests from standard input on a separate thread, and ends the process when the input ends.
///
/// So a child never outlives its parent, however the parent ended, even while a kernel or a compilation hangs. Stop
/// signals are handled by the session: a child ends only with its input.
pub fn requests<T: Message + DeserializeOwned + Send + 'static>() -> mpsc::Receiver<T> {
    ignore_stop_signals();
    requests_only()
}

/// Does the same in a process that has called [`ignore_stop_signals`] before it was confined.
pub fn requests_only<T: Message + DeserializeOwned + Send + 'static>() -> mpsc::Receiver<T> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            match frames::read(&mut input) {
                Ok(Some(request)) => {
                    if sender.send(request).is_err() {
                        end();
                    }
                }
                Ok(None) => end(),
                Err(error) => {
                    // The supervisor, if it is alive, reads this as the child's last line.
                    let _ = writeln!(io::stderr(), "{error}");
                    end();
                }
            }
        }
    });
    requests
}

/// Makes this process ignore Ctrl-C, SIGTERM and SIGHUP, up to an `exec`.
///
/// A service manager signals every process of a group, not just the session. A child that died of the signal would look
/// as if a variant had crashed it. NVRTC's front end handles SIGINT and SIGTERM itself while it compiles, so these
/// still kill a compiler then.
pub fn ignore_stop_signals() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Once a listener was installed, the signal has no effect, even after the listener is dropped.
        let Ok(listener) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        let _entered = listener.enter();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            // Without a listener, the signal keeps its effect.
            drop(signal(kind));
        }
    }
}

/// Returns the file for replies, the former standard output, and redirects standard output to standard error.
///
/// A kernel's printf or a library's message thus cannot be mistaken for a reply.
pub fn replies() -> io::Result<File> {
    #[cfg(unix)]
    {
        let pipe = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(File::from(pipe))
    }
    #[cfg(not(unix))]
    Err(io::Error::other("child processes need a Unix system"))
}

/// How much less urgent than others a process in the background is. The scheduler gives it a tenth of the time of a
/// process that wants the same core.
#[cfg(unix)]
const BACKGROUND: i32 = 10;

/// Lets the other processes of this machine go first. Compilers fill all cores, and the device waits for the process that
/// checks outputs. What this alone saves was not measured.
pub fn yield_to_others() {
    // A system that does not know priorities is only slower.
    #[cfg(unix)]
    let _ = rustix::process::nice(BACKGROUND);
}

/// Limits this process's address space: an allocation beyond `bytes` fails.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        // A lower limit set by an administrator stays.
        let most = getrlimit(Resource::As).maximum.map_or(bytes, |most| most.min(bytes));
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Ends this process at once with SIGKILL.
///
/// `exit` would first run the exit handlers of every loaded library. The CUDA driver's handler waits for the kernels in
/// its context. If a kernel never ends, it waits forever.
pub fn end() -> ! {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::abort()
}

/// The last bytes of a stream, as they came. Secrets are masked once, at the end.
struct Tail {
    bytes: Vec<u8>,
    /// How many bytes are kept: the tail, preceded by as many bytes as the longest secret has. So a secret that reaches
    /// into the tail is complete. Half a secret would not be recognized.
    kept: usize,
}

impl Default for Tail {
    fn default() -> Self {
        Self { bytes: Vec::new(), kept: TAIL_BYTES + secrets::longest() }
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(self.kept)..];
        // Truncated only once there is as much again, so that each byte is moved once and not with every read.
        if self.bytes.len() + bytes.len() > 2 * self.kept {
            let surplus = self.bytes.len().saturating_sub(self.kept);
            self.bytes.drain(..surplus);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the last line, after `mask` has masked the secrets in what is kept.
    fn last_line(&self, mask: impl FnOnce(&[u8]) -> Cow<'_, [u8]>) -> String {
        let kept = mask(&self.bytes[self.bytes.len().saturating_sub(self.kept)..]);
        let tail = &kept[kept.len().saturating_sub(TAIL_BYTES)..];
        let lines = tail.split(|byte| *byte == b'\n' || *byte == b'\r');
        let last = lines.map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty()).unwrap_or_default();
        sentence(&String::from_utf8_lossy(last))
    }
}

/// Reads a child's standard error to its end, so that the pipe never fills up, and returns the last line.
pub async fn last_line(mut errors: impl AsyncRead + Unpin) -> String {
    let (mut tail, mut buffer) = (Tail::default(), vec![0; READ_BYTES]);
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        tail.push(&buffer[..read]);
    }
    tail.last_line(secrets::mask_bytes)
}

/// Does the same on a dedicated thread.
pub fn last_line_blocking(mut errors: impl Read) -> String {
    let (mut tail, mut buffer) = (Tail::default(), vec![0; READ_BYTES]);
    while let Ok(read @ 1..) = errors.read(&mut buffer) {
        tail.push(&buffer[..read]);
    }
    tail.last_line(secrets::mask_bytes)
}

/// Shortens a program's output to one line without characters that move a terminal's cursor or reorder text.
pub fn sentence(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !is_unsafe(*c)).take(MAX_SENTENCE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_long_stream_is_kept() {
        assert_eq!(last_line_blocking(&b"first\n\nlast words\n \r\n"[..]), "last words");
        assert_eq!(last_line_blocking(&b""[..]), "");
        let endless = [b"x".repeat(1 << 20), b"\nthe end".to_vec()].concat();
        assert_eq!(last_line_blocking(&endless[..]), "the end");
        assert_eq!(last_line_blocking(&b"y".repeat(1 << 20)[..]).len(), MAX_SENTENCE_CHARS);
        assert_eq!(last_line_blocking(&b"\x1b[2Jred\n"[..]), "[2Jred");
    }

    /// A stream of lines that counts how often it is read.
    struct CountingReader {
        left: usize,
        reads: usize,
    }

    impl Read for &mut CountingReader {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let length = buffer.len().min(self.left);
            buffer[..length].fill(b'n');
            buffer[..length].iter_mut().step_by(80).for_each(|byte| *byte = b'\n');
            self.left -= length;
            Ok(length)
        }
    }

    /// The work is counted: reads, and bytes that are searched for secrets. Both were proportional to the stream.
    #[test]
    fn fifty_megabytes_cost_few_reads_and_are_searched_for_secrets_once() {
        const BYTES: usize = 50 << 20;
        let mut stream = CountingReader { left: BYTES, reads: 0 };
        assert!(last_line_blocking(&mut stream).starts_with("nnn"));
        assert!(stream.reads <= BYTES / READ_BYTES + 2, "{} reads", stream.reads);

        let (mut tail, mut searched) = (Tail::default(), 0);
        for _ in 0..BYTES >> 10 {
            tail.push(&[b'x'; 1 << 10]);
            assert!(tail.bytes.len() <= 2 * tail.kept);
        }
        tail.last_line(|bytes| {
            searched += bytes.len();
            bytes.into()
        });
        assert_eq!(searched, tail.kept);
    }

    #[test]
    fn a_secret_at_the_cut_of_the_tail_is_masked() {
        let secret = b"s3cret-s3cret-s3cret";
        let mask = |bytes: &[u8]| -> Vec<u8> {
            let mut masked = bytes.to_vec();
            while let Some(at) = memchr::memmem::find(&masked, secret) {
                masked[at..at + secret.len()].fill(b'*');
            }
            masked
        };
        for after in TAIL_BYTES - 2 * secret.len()..=TAIL_BYTES + secret.len() {
            for chunk in [7, 1000, 1 << 20] {
                let mut tail = Tail { bytes: Vec::new(), kept: TAIL_BYTES + secret.len() };
                let stream = [&[b'.'; 9000][..], secret, &vec![b'.'; after]].concat();
                stream.chunks(chunk).for_each(|bytes| tail.push(bytes));
                let mut shown = Vec::new();
                tail.last_line(|bytes| {
                    shown = mask(bytes);
                    shown.clone().into()
                });
                let end = &shown[shown.len() - TAIL_BYTES..];
                assert!(!end.iter().any(|byte| b"s3cret-".contains(byte)), "{after} bytes after it, read by {chunk}");
            }
        }
    }
}
