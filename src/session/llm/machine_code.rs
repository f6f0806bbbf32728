//! Looks up the machine code that a model asks to see: `sass ITERATION LINES`.

use std::collections::HashMap;

use crate::domain::ids::IterationId;
use crate::domain::models::call_record::CallSubject;
use crate::error::{Error, error};
use crate::runner::sass::{self, Lines};
use crate::session::Session;

/// The longest listing that a prompt contains, in bytes. An instruction takes about 60.
const MOST_BYTES: usize = 16_000;

/// The machine code for each request, or the sentence why there is none.
pub(in crate::session) type MachineCode = HashMap<String, String>;

impl Session<'_> {
    /// Looks up all machine code that a question asks to see, as far as the session's time allows. It is a form of the source, so it
    /// is looked up only where sources are sent.
    pub(super) async fn machine_code(&self, subject: &CallSubject) -> MachineCode {
        let mut found = MachineCode::new();
        for want in subject.wants() {
            let words: Vec<&str> = want.split_whitespace().collect();
            let ["sass", iteration, lines] = words[..] else { continue };
            let listing = match self.deadline.clone().within(self.listing(iteration, lines)).await {
                Some(Ok(listing)) => shortened(listing),
                Some(Err(reason)) => format!("There is no machine code: {reason}."),
                None => "There was no time to look it up.".to_owned(),
            };
            found.insert(want.clone(), listing);
        }
        found
    }

    async fn listing(&self, iteration: &str, lines: &str) -> Result<String, Error> {
        if !self.state.setup().options.llm.sends_source {
            return Err(Error::new("sources are not sent (llm.send in config.toml)"));
        }
        let lines = Lines::parse(lines)?;
        let known = iteration.parse().ok().map(IterationId);
        let known = known.filter(|id| self.state.history().iteration(*id).is_some());
        let id = known.ok_or_else(|| error!("iteration {iteration} has no time on record in this session"))?;
        let (variant, _) = self.store.launched(id).await.map_err(|error| error.to_string())?;
        sass::of_variant(self.cache.compiler(), variant, lines).await
    }
}

/// Cuts a listing at the end of a line.
pub(in crate::session) fn shortened(mut listing: String) -> String {
    if listing.len() > MOST_BYTES {
        let end = listing[..listing.floor_char_boundary(MOST_BYTES)].rfind('\n').unwrap_or_default();
        listing.truncate(end);
        listing.push_str("\n(cut here: ask for fewer lines)\n");
    }
    listing
}
