//! The process that renders templates.
//!
//! A template is a program: two nested loops over 100,000 numbers render for hours, and a string that is doubled often
//! enough fills the memory. So templates are rendered in a child process with limits, which sees no file and no
//! network.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::confine;
use super::frames::Message;
use super::render::{self, Template, TemplateError};
use super::subprocess::{Limits, Subprocess};
use super::{child, frames};
use crate::domain::family::Family;
use crate::domain::op::{Dims, Dtype};
use crate::domain::variant::{Params, Variant};
use crate::error::{Result, error};

/// The limits of rendering, generous enough for a busy machine: rendering only fills in values and copies text.
const LIMITS: Limits = Limits {
    timeout: Duration::from_secs(5),
    timeout_source: "the limit for rendering a template",
    memory: Some((MEMORY_BYTES, "the limit for rendering a template")),
};

/// The most memory of the process.
const MEMORY_BYTES: u64 = 1_000_000_000;

/// The longest source of a variant, in bytes. The longest committed winner has 31 KB.
const MAX_SOURCE_BYTES: usize = 4 << 20;

/// Renders the variants of families. Clones share one process, which starts with the first variant.
#[derive(Clone)]
pub struct Renderer {
    exe: PathBuf,
    process: Arc<Mutex<Option<Subprocess>>>,
}

/// A reply of the process: the text, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
struct Reply(Result<String, TemplateError>);

impl Message for Template {}

impl Message for Reply {
    fn free_texts(&mut self) -> Vec<&mut String> {
        // A source is refused rather than masked if it holds a secret.
        self.0.as_mut().err().map(|error| &mut error.message).into_iter().collect()
    }
}

/// Serves templates until standard input ends.
pub fn serve() -> anyhow::Result<()> {
    child::ignore_stop_signals();
    let mut out = child::replies()?;
    child::limit_memory(MEMORY_BYTES)?;
    confine::compute_only(None);
    let requests = child::requests_only::<Template>();
    for template in requests {
        let text = render::expand(&template).and_then(|text| match text.len() <= MAX_SOURCE_BYTES {
            true => Ok(text),
            false => {
                Err(error!("its source has more than {} MiB, the limit for a source", MAX_SOURCE_BYTES >> 20).into())
            }
        });
        frames::write(&mut out, &Reply(text))?;
    }
    Ok(())
}

impl Renderer {
    /// Makes a renderer that runs `optloop renderer` from the executable `exe`.
    pub fn new(exe: PathBuf) -> Self {
        Self { exe, process: Arc::default() }
    }

    /// Renders the variant of `family` at `params`, with `specialization` as compile-time constants. Blocks for some
    /// milliseconds, at most 5 s.
    pub fn render(&self, family: &Family, specialization: &Dims, dtype: Dtype, params: &Params) -> Result<Variant> {
        let body =
            self.expanded(family, specialization, dtype, params).map_err(|error| render::explain(family, &error))?;
        render::variant(family, specialization, dtype, params, &body)
    }

    /// Expands the template of `family` alone. The error has the line.
    pub fn expanded(
        &self,
        family: &Family,
        specialization: &Dims,
        dtype: Dtype,
        params: &Params,
    ) -> Result<String, TemplateError> {
        self.expand(&Template::new(family, specialization, dtype, params)?)
    }

    fn expand(&self, template: &Template) -> Result<String, TemplateError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = match process.take() {
            Some(running) => running,
            None => start(&self.exe)?,
        };
        let Reply(reply) = running.ask(template)?;
        // A process that failed to answer is dropped, and so killed.
        *process = Some(running);
        reply
    }
}

fn start(exe: &Path) -> Result<Subprocess> {
    let arguments = |command: &mut Command| {
        command.arg("renderer");
    };
    Subprocess::start("the renderer", exe, arguments, LIMITS)
        .map_err(|error| error!("the process that renders templates cannot be started: {error}"))
}
