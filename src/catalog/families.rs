//! The families of a folder. One that is broken affects only what uses it.

use std::fmt;

use anyhow::bail;

use crate::domain::family::Family;
use crate::domain::text::names::did_you_mean;

/// The families of a folder, each list sorted by name.
#[derive(Debug, Clone, Default)]
pub struct Families {
    /// Those that can be used.
    pub sound: Vec<Family>,
    /// Those that cannot, with the reasons.
    pub broken: Vec<BrokenFamily>,
}

/// A family that cannot be used.
#[derive(Debug, Clone)]
pub struct BrokenFamily {
    /// The name of its folder.
    pub name: String,
    /// The op that its manifest names. None if the manifest does not say.
    pub op: Option<String>,
    /// The manifest's path, if the mistakes are in the manifest. Other mistakes name their file themselves.
    pub manifest: Option<String>,
    /// A sentence for each mistake.
    pub mistakes: Vec<String>,
}

impl fmt::Display for BrokenFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manifest {
            Some(manifest) => write!(f, "{manifest}: {}", self.mistakes.join("; ")),
            None => f.write_str(&self.mistakes.join("; ")),
        }
    }
}

impl BrokenFamily {
    /// Returns whether a workload of this op would use the family if it were not broken.
    pub fn may_compute(&self, op: &str) -> bool {
        self.op.as_ref().is_none_or(|own| own == op)
    }

    /// Returns its first mistake, with the file.
    pub fn first(&self) -> String {
        let first = self.mistakes.first().map(String::as_str).unwrap_or_default();
        self.manifest.as_ref().map_or_else(|| first.to_owned(), |manifest| format!("{manifest}: {first}"))
    }

    /// Returns a sentence for the user of a verb that goes on without the family.
    pub fn left_out(&self) -> String {
        let (name, first) = (&self.name, self.first());
        format!("family `{name}` is broken and left out: {first}; `optloop check {name}` shows all its mistakes")
    }
}

impl Families {
    /// Finds a family by name. The error has all mistakes of a broken one, or the name nearest to an unknown one.
    pub fn family(&self, name: &str) -> anyhow::Result<&Family> {
        if let Some(family) = self.sound.iter().find(|family| family.name == name) {
            return Ok(family);
        }
        if let Some(broken) = self.broken.iter().find(|broken| broken.name == name) {
            bail!("{broken}");
        }
        let known: Vec<&str> = self.names().collect();
        let hint = did_you_mean(name, known.iter().copied());
        bail!("there is no family `{name}`{hint}; templates/kernels/ has: {}", known.join(", "))
    }

    /// Returns the names of the families to search: the given ones, or all that can be used if none is given.
    pub fn searched(&self, given: &[String]) -> anyhow::Result<Vec<String>> {
        given.iter().try_for_each(|name| self.family(name).map(|_| ()))?;
        let searched = self.sound.iter().filter(|family| given.is_empty() || given.contains(&family.name));
        Ok(searched.map(|family| family.name.clone()).collect())
    }

    /// Returns the broken families that a workload of this op would use if `given` were to be searched.
    pub fn missed(&self, op: &str, given: &[String]) -> impl Iterator<Item = &BrokenFamily> {
        self.broken.iter().filter(move |broken| given.is_empty() && broken.may_compute(op))
    }

    /// Returns the names of all families, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (sound, broken) = (self.sound.iter().map(|one| &one.name), self.broken.iter().map(|one| &one.name));
        let mut names: Vec<&str> = sound.chain(broken).map(String::as_str).collect();
        names.sort_unstable();
        names.into_iter()
    }
}
