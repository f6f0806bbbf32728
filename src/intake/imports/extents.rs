//! Gives numbers the names of dimensions.

use indexmap::IndexMap;

use super::python;
use crate::error::Error;

/// The dimensions of a tuning problem with their sizes.
pub(super) struct Extents {
    /// The dimensions.
    pub sizes: IndexMap<String, i64>,
    /// The size of the problem, in Python.
    pub problem: Vec<String>,
}

impl Extents {
    /// Writes an expression of Python as one of optloop.
    pub fn written(&self, text: &str) -> Result<String, Error> {
        let items = |list: &str, at: usize| self.item(list, at);
        python::parse(text)
            .and_then(|parsed| parsed.number(&items))
            .map_err(|problem| problem.within(format_args!("size `{text}`")))
    }

    /// Returns the item of a list: an extent of the problem.
    pub fn item(&self, list: &str, at: usize) -> Option<String> {
        let is_problem = ["ProblemSize", "problem_size"].contains(&list);
        let text = is_problem.then(|| self.problem.get(at)).flatten()?;
        self.on_axis(at, text).ok()
    }

    /// Writes an extent of the problem along an axis: a number by the dimension that has it, and everything else as it is. Of
    /// several dimensions, one whose name is usual for the axis is meant.
    pub fn on_axis(&self, axis: usize, text: &str) -> Result<String, Error> {
        let Ok(number) = text.trim().parse::<i64>() else { return self.written(text) };
        Ok(match &self.alike(number)[..] {
            [] => self.product(number).unwrap_or_else(|| number.to_string()),
            [only] => (*only).to_owned(),
            names => {
                let usual = names.iter().find(|name| axis_of(name) == Some(axis));
                (*usual.unwrap_or(&names[axis.min(names.len() - 1)])).to_owned()
            }
        })
    }

    /// Writes the shape of an array, outermost extent first, and tells whether it is a guess. A number may also be the product
    /// of two dimensions, or one with the border of another, or of two such.
    pub fn shape(&self, shape: &[String]) -> Result<(Vec<String>, bool), Error> {
        let rank = shape.len();
        let (mut made, mut is_guess) = (Vec::new(), false);
        for (at, text) in shape.iter().enumerate() {
            let extent = match text.trim().parse::<i64>() {
                Ok(number) if rank > 1 => self.on_axis(rank - 1 - at, &number.to_string())?,
                Ok(number) => match &self.alike(number)[..] {
                    [] => self.product(number).unwrap_or_else(|| number.to_string()),
                    [first, ..] => (*first).to_owned(),
                },
                Err(_) => self.written(text)?,
            };
            let is_certain = text.parse::<i64>().map_or(true, |number| self.alike(number).len() == 1 || number == 1);
            is_guess |= !is_certain || extent != "1" && !self.sizes.contains_key(&extent);
            made.push(extent);
        }
        Ok((made, is_guess))
    }

    /// Writes a whole number by the dimension that has it, if only one does.
    pub fn named(&self, number: i64) -> Option<&str> {
        match self.alike(number)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns the dimensions of a size. Those of size 1 are no name for every 1.
    fn alike(&self, wanted: i64) -> Vec<&str> {
        let alike = self.sizes.iter().filter(|(_, size)| **size == wanted && wanted > 1);
        alike.map(|(name, _)| name.as_str()).collect()
    }

    /// Writes a number as a product of two dimensions, outermost first, or as one of dimensions with borders.
    fn product(&self, number: i64) -> Option<String> {
        let names: Vec<(&str, i64)> =
            self.sizes.iter().filter(|(_, size)| **size > 1).map(|(name, size)| (name.as_str(), *size)).collect();
        let mut bordered = Vec::new();
        for (name, size) in &names {
            // An image with the border that a filter needs.
            let others = names.iter().filter(|(other, border)| other != name && border < size);
            bordered.extend(
                others.map(|(other, border)| ([*name, *other], format!("({name} + {other} - 1)"), size + border - 1)),
            );
        }
        if let Some((_, text, _)) = bordered.iter().find(|(_, _, size)| *size == number) {
            return Some(text.trim_matches(['(', ')']).to_owned());
        }
        let mut pairs = Vec::new();
        for (a, size) in &names {
            for (b, other) in names.iter().filter(|(b, _)| a != b) {
                if size.checked_mul(*other) == Some(number) {
                    pairs.push(([*a, *b], format!("{a} * {b}")));
                }
            }
        }
        for (a, text, size) in &bordered {
            for (b, other_text, other) in bordered.iter().filter(|(b, ..)| a.iter().all(|name| !b.contains(name))) {
                if size.checked_mul(*other) == Some(number) {
                    pairs.push(([a[0], b[0]], format!("{text} * {other_text}")));
                }
            }
        }
        let is_usual = |names: &[&str; 2]| axis_of(names[0]) == Some(1) && axis_of(names[1]) == Some(0);
        let usual = pairs
            .iter()
            .find(|(names, text)| is_usual(names) && borders_fit(text))
            .or_else(|| pairs.iter().find(|(names, _)| is_usual(names)).or(pairs.first()));
        usual.map(|(_, text)| text.clone())
    }
}

/// Tells whether each dimension of a product has a border along the same axis.
fn borders_fit(text: &str) -> bool {
    text.split(" * ").all(|factor| {
        let axes = factor
            .trim_matches(['(', ')'])
            .split(" + ")
            .map(|name| axis_of(name.split(' ').next().unwrap_or_default()));
        let axes: Vec<Option<usize>> = axes.collect();
        axes.windows(2).all(|pair| pair[0] == pair[1])
    })
}

/// Returns the axis for which a name is usual: 0 for columns and widths, 1 for rows and heights.
fn axis_of(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&["width", "col", "_x"]) || ["w", "x", "n"].contains(&name.as_str()) {
        Some(0)
    } else if has(&["height", "row", "_y"]) || ["h", "y", "m"].contains(&name.as_str()) {
        Some(1)
    } else {
        None
    }
}
