//! Constant memory that the host fills: it becomes a parameter of the kernel, which optloop can fill.

use std::collections::HashSet;

use super::host::{File, blanked, users};
use super::kernel::Kernel;
use super::scan::ItemKind;
use super::source::line_of;

/// A source in which constant memory is a parameter.
pub(super) struct Moved {
    /// The text, on the same lines.
    pub text: String,
    /// The new parameters, each with its extents.
    pub parameters: Vec<(String, Vec<String>)>,
}

/// Makes parameters of the kernel of the constant memory that it uses and that has no value in the source. The error has a
/// sentence for what cannot be moved.
pub(super) fn moved(files: &[File], kernel: &Kernel, reached: &HashSet<String>) -> Result<Moved, Vec<String>> {
    let own = &files[0];
    let (mut spans, mut parameters, mut moved, mut mistakes) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    for item in own.scan.items.iter().filter(|item| item.kind == ItemKind::Other && reached.contains(&item.name)) {
        let declared = &own.scan.plain[item.span.clone()];
        if !declared.contains("__constant__") || declared.contains(['=', '{']) {
            continue;
        }
        let using = users(files, (&kernel.name, &item.name), reached);
        if let Some(function) = using.first() {
            let (line, name) = (line_of(&own.text, item.span.start), &item.name);
            mistakes.push(format!(
                "line {line}: `{name}` is constant memory that the host fills, and `{function}` uses it: pass it to \
                 `{function}` as a parameter, or make it a #define"
            ));
            continue;
        }
        let words = declared.trim_end_matches(';').split_whitespace();
        let words: Vec<&str> =
            words.filter(|word| !["__constant__", "static", "extern", "__device__"].contains(word)).collect();
        let is_const = words.contains(&"const");
        let comma = if kernel.parameters.is_empty() && moved.is_empty() { "" } else { ", " };
        parameters += &format!("{comma}{}{}", if is_const { "" } else { "const " }, words.join(" "));
        moved.push((item.name.clone(), extents(&words.join(" "))));
        spans.push(item.span.clone());
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut text = own.text.clone();
    text.insert_str(kernel.parameters_end, &parameters);
    let shift = |place: usize| if place >= kernel.parameters_end { place + parameters.len() } else { place };
    let spans = spans.into_iter().map(|span| shift(span.start)..shift(span.end)).collect();
    Ok(Moved { text: blanked(&text, spans), parameters: moved })
}

/// Returns the extents of an array, with one more for the numbers of a vector such as `float2`.
fn extents(declared: &str) -> Vec<String> {
    let mut extents: Vec<String> = Vec::new();
    for part in declared.split('[').skip(1) {
        extents.extend(part.split(']').next().map(|extent| extent.trim().to_owned()));
    }
    let before = declared.split('[').next().unwrap_or_default();
    let mut words = before.split_whitespace().rev().skip(1);
    let lanes = words.next().and_then(|word| word.chars().next_back()).filter(char::is_ascii_digit);
    if !extents.is_empty() {
        extents.extend(lanes.map(|lanes| lanes.to_string()));
    }
    extents
}
