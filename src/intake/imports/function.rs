//! The part of a script that computes its answer, which becomes an oracle.

use indexmap::IndexMap;
use serde::Deserialize;

use super::extents::Extents;
use crate::intake::Kernel;

/// The part of a script that computes its answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Function {
    imports: Vec<String>,
    /// The arguments of the kernel that it needs, by the names of the script.
    inputs: IndexMap<String, usize>,
    /// The whole numbers that it needs.
    numbers: IndexMap<String, i64>,
    body: Vec<String>,
    /// The expression of each output.
    returns: Vec<String>,
}

impl Function {
    /// Writes the function, by the names of the kernel's parameters.
    pub fn text(&self, kernel: &Kernel, extents: &Extents, notes: &mut Vec<String>) -> String {
        let parameter = |place: &usize| kernel.parameters.get(*place).map_or("", |parameter| parameter.name.as_str());
        let mut takes: Vec<String> = self.inputs.values().map(|place| parameter(place).to_owned()).collect();
        let renamed = self.inputs.iter().filter(|(name, place)| name.as_str() != parameter(place));
        let mut body: Vec<String> = renamed.map(|(name, place)| format!("{name} = {}", parameter(place))).collect();
        for (name, number) in &self.numbers {
            let value = extents.named(*number).map_or_else(|| number.to_string(), str::to_owned);
            match extents.sizes.contains_key(&value) {
                true => takes.push(value.clone()),
                false => notes.push(format!("the oracle has `{name}` = {value} for every size")),
            }
            if *name != value {
                body.push(format!("{name} = {value}"));
            }
        }
        takes.sort();
        takes.dedup();
        body.extend(self.body.iter().flat_map(|statement| statement.lines()).map(str::to_owned));
        body.push(format!("return {}", self.returns.join(", ")));
        let imports: String = self.imports.iter().map(|line| format!("{line}\n")).collect();
        let body: String = body.iter().map(|line| format!("    {line}\n")).collect();
        format!(
            "# Made of the answer in a script of Kernel Tuner.\n{imports}\n\ndef oracle({}):\n{body}",
            takes.join(", ")
        )
    }
}
