//! An opcode's modifiers, taken one by one so that none is overlooked.

use crate::program::{Mods, Round, Semantics, Strength, Ty};
use crate::ptx::Problem;

/// An opcode with the modifiers that have not been taken yet.
pub(super) struct Opcode<'a> {
    /// As written.
    pub full: &'a str,
    /// The part before the first dot.
    pub name: &'a str,
    /// The rest.
    rest: Vec<&'a str>,
}

impl<'a> Opcode<'a> {
    pub fn new(full: &'a str) -> Self {
        let mut parts = full.split('.');
        let name = parts.next().unwrap_or_default();
        Self { full, name, rest: parts.collect() }
    }

    /// Returns the error that names this opcode.
    pub fn unsupported(&self) -> Problem {
        Problem::Unsupported(self.full.to_owned())
    }

    /// Takes a modifier if it is there.
    pub fn take(&mut self, modifier: &str) -> bool {
        match self.rest.iter().position(|part| *part == modifier) {
            Some(index) => {
                self.rest.remove(index);
                true
            }
            None => false,
        }
    }

    /// Takes those of `modifiers` that are there. Returns whether there was one.
    pub fn take_all(&mut self, modifiers: &[&str]) -> bool {
        let before = self.rest.len();
        self.rest.retain(|part| !modifiers.contains(part));
        self.rest.len() < before
    }

    /// Takes the first modifier for which `meaning` has one.
    pub fn choose<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (index, value) =
            self.rest.iter().enumerate().find_map(|(index, part)| meaning(part).map(|value| (index, value)))?;
        self.rest.remove(index);
        Some(value)
    }

    /// As [`Self::choose`], but fails if there is none.
    pub fn need<T>(&mut self, meaning: impl Fn(&str) -> Option<T>) -> Result<T, Problem> {
        let chosen = self.choose(meaning);
        chosen.ok_or_else(|| self.unsupported())
    }

    /// Takes the next modifier, whatever it is.
    pub fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() { None } else { Some(self.rest.remove(0)) }
    }

    /// Returns the type that the last modifier names.
    pub fn peek_type(&self) -> Option<Ty> {
        self.rest.last().and_then(|part| ty(part))
    }

    /// Takes the last modifier as a type.
    pub fn ty(&mut self) -> Result<Ty, Problem> {
        self.last(ty)
    }

    /// Takes the last modifier as the type of a matrix's elements, which may have four or eight bits.
    pub fn element(&mut self) -> Result<Ty, Problem> {
        self.last(element)
    }

    /// Returns the type of a matrix's elements that the last modifier names.
    pub fn peek_element(&self) -> Option<Ty> {
        self.rest.last().and_then(|part| element(part))
    }

    /// Takes the last modifier, which must have a meaning.
    fn last(&mut self, meaning: impl Fn(&str) -> Option<Ty>) -> Result<Ty, Problem> {
        let ty = self.rest.last().and_then(|part| meaning(part)).ok_or_else(|| self.unsupported())?;
        self.rest.pop();
        Ok(ty)
    }

    /// Takes the modifiers of arithmetic and conversions.
    pub fn mods(&mut self) -> Mods {
        let full = self.take("full");
        Mods {
            full,
            ftz: self.take("ftz"),
            sat: self.take("sat"),
            relu: self.take("relu"),
            nan: self.take("NaN"),
            approx: self.take("approx") || full,
            round: self.choose(round).unwrap_or_default(),
        }
    }

    /// Takes caching hints, which never change a result.
    pub fn cache_hints(&mut self) {
        self.rest.retain(|part| !part.starts_with("L1::") && !part.starts_with("L2::"));
        self.take_all(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    }

    /// Takes memory semantics and their scope.
    pub fn semantics(&mut self) -> Semantics {
        let narrow = self.take_all(&["cta", "cluster"]);
        self.take_all(&["gpu", "sys", "weak"]);
        let strength = self.choose(|part| {
            Some(match part {
                "volatile" | "relaxed" | "mmio" => Strength::Relaxed,
                "acquire" => Strength::Acquire,
                "release" => Strength::Release,
                "acq_rel" => Strength::AcquireRelease,
                _ => return None,
            })
        });
        self.take_all(&["volatile", "relaxed", "mmio"]);
        let strength = strength.unwrap_or_default();
        Semantics { strength, wide: strength != Strength::Weak && !narrow }
    }

    /// Takes memory semantics of a load. Loads that bypass L1 (`.cg`, `.cv`) see what other blocks have stored, like
    /// relaxed ones.
    pub fn load_semantics(&mut self) -> Semantics {
        let bypasses = self.take_all(&["cg", "cv"]);
        let semantics = self.semantics();
        if bypasses && !semantics.is_strong() {
            return Semantics { strength: Strength::Relaxed, wide: true };
        }
        semantics
    }

    /// Takes memory semantics of an atomic, which is at least relaxed.
    pub fn atomic_semantics(&mut self) -> Semantics {
        let narrow = self.rest.contains(&"cta") || self.rest.contains(&"cluster");
        let Semantics { strength, .. } = self.semantics();
        let strength = if strength == Strength::Weak { Strength::Relaxed } else { strength };
        Semantics { strength, wide: !narrow }
    }

    /// Fails if a modifier is left.
    pub fn finish(&self) -> Result<(), Problem> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unsupported()) }
    }
}

fn round(part: &str) -> Option<Round> {
    Some(match part {
        "rn" => Round::Nearest,
        "rna" => Round::NearestAway,
        "rz" => Round::Zero,
        "rm" => Round::Down,
        "rp" => Round::Up,
        "rni" => Round::IntegerNearest,
        "rzi" => Round::IntegerZero,
        "rmi" => Round::IntegerDown,
        "rpi" => Round::IntegerUp,
        _ => return None,
    })
}

/// Returns the type of a matrix's elements that a modifier names.
fn element(part: &str) -> Option<Ty> {
    match part {
        "e4m3" => Some(Ty::E4m3),
        "e5m2" => Some(Ty::E5m2),
        "s4" => Some(Ty::S4),
        "u4" => Some(Ty::U4),
        _ => ty(part),
    }
}

/// Returns the type that a modifier names.
pub(super) fn ty(part: &str) -> Option<Ty> {
    Some(match part {
        "tf32" => Ty::Tf32,
        "e4m3x2" => Ty::E4m3x2,
        "e5m2x2" => Ty::E5m2x2,
        _ => return crate::ptx::variables::declared_type(part),
    })
}
