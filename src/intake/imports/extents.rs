//! Gives numbers the names of dimensions.

use indexmap::IndexMap;

use super::python;

/// The dimensions of a tuning problem with their sizes.
pub(super) struct Extents {
    /// The dimensions.
    pub sizes: IndexMap<String, i64>,
    /// The size of the problem, in Python.
    pub problem: Vec<String>,
}

impl Extents {
    /// Writes an expression of Python as one of optloop.
    pub fn written(&self, text: &str) -> Result<String, String> {
        let items = |list: &str, at: usize| self.item(list, at);
        python::parse(text)
            .and_then(|parsed| parsed.number(&items))
            .map_err(|problem| format!("size `{text}`: {problem}"))
    }

    /// Returns the item of a list: an extent of the problem.
    pub fn item(&self, list: &str, at: usize) -> Option<String> {
        let is_problem = ["ProblemSize", "problem_size"].contains(&list);
        let text = is_problem.then(|| self.problem.get(at)).flatten()?;
        self.named(text).ok()
    }

    /// Writes an extent: a number by the dimension that has it, and everything else as it is. A number may also be
    /// the product of two dimensions, or one with the border of another. Any other number stays.
    pub fn named(&self, text: &str) -> Result<String, String> {
        let Ok(number) = text.trim().parse::<i64>() else { return self.written(text) };
        // Dimensions of size 1 are no name for every 1.
        if number <= 1 {
            return Ok(number.to_string());
        }
        let alike =
            |wanted: i64| self.sizes.iter().filter(move |(_, size)| **size == wanted).map(|(name, _)| name.as_str());
        let several = |names: Vec<&str>| format!("{number} may be {}", names.join(" or "));
        match alike(number).collect::<Vec<_>>()[..] {
            [only] => return Ok(only.to_owned()),
            [] => {}
            ref names => return Err(several(names.to_vec())),
        }
        let names: Vec<(&String, i64)> =
            self.sizes.iter().filter(|(_, size)| **size > 1).map(|(name, size)| (name, *size)).collect();
        let pairs = names.iter().enumerate().flat_map(|(at, a)| names[at + 1..].iter().map(move |b| (*a, *b)));
        let fitting = |((a, size), (b, other)): ((&String, i64), (&String, i64))| {
            if size.checked_mul(other) == Some(number) {
                Some(format!("{a} * {b}"))
            } else {
                // An image with the border that a filter needs.
                (size.checked_add(other - 1) == Some(number)).then(|| format!("{a} + {b} - 1"))
            }
        };
        let pairs: Vec<String> = pairs.filter_map(fitting).collect();
        match &pairs[..] {
            [] => Ok(number.to_string()),
            [only] => Ok(only.clone()),
            pairs => Err(several(pairs.iter().map(String::as_str).collect())),
        }
    }
}
