//! Constant memory that the host fills: it becomes a parameter of the kernel, which optloop can fill.

use std::collections::HashSet;

use super::host::{File, blanked, reached_from, users};
use super::kernel::Kernel;
use super::scan::ItemKind;
use super::source::{last_word_at, line_of, split};

/// A source in which constant memory is a parameter.
pub(super) struct Moved {
    /// The text, on the same lines.
    pub text: String,
    /// The new parameters, each with its extents.
    pub parameters: Vec<(String, Vec<String>)>,
    /// The names that are declared no more: the new parameters, and what was declared with them.
    pub gone: Vec<String>,
}

/// Makes parameters of the kernel of the constant memory that it uses and that has no value in the source. One declaration may
/// have several names. The error has a sentence for what cannot be moved.
pub(super) fn moved(files: &[File], kernel: &Kernel, reached: &HashSet<String>) -> Result<Moved, Vec<String>> {
    let own = &files[0];
    let called = reached_from(files, &kernel.name);
    let (mut spans, mut parameters, mut moved, mut gone) = (Vec::new(), String::new(), Vec::new(), Vec::new());
    let mut mistakes = Vec::new();
    for item in own.scan.items.iter().filter(|item| item.kind == ItemKind::Other) {
        let declared = &own.scan.plain[item.span.clone()];
        if !declared.contains("__constant__") || declared.contains(['=', '{']) {
            continue;
        }
        let (kind, declarators) = declarators(declared.trim_end_matches(';'));
        let used = declarators.iter().filter(|(name, _)| called.contains(*name));
        for (name, declarator) in used.clone() {
            if let Some(function) = users(files, (&kernel.name, name), reached).first() {
                let line = line_of(&own.text, item.span.start);
                mistakes.push(format!(
                    "line {line}: `{name}` is constant memory that the host fills, and `{function}` uses it: pass it to \
                     `{function}` as a parameter, or make it a #define"
                ));
                continue;
            }
            let comma = if kernel.parameters.is_empty() && moved.is_empty() { "" } else { ", " };
            let is_const = kind.split_whitespace().any(|word| word == "const");
            let declared = format!("{kind} {declarator}");
            parameters += &format!("{comma}{}{declared}", if is_const { "" } else { "const " });
            moved.push(((*name).to_owned(), extents(&declared)));
        }
        if used.count() > 0 {
            gone.extend(declarators.iter().map(|(name, _)| (*name).to_owned()));
            spans.push(item.span.clone());
        }
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut text = own.text.clone();
    text.insert_str(kernel.parameters_end, &parameters);
    let shift = |place: usize| if place >= kernel.parameters_end { place + parameters.len() } else { place };
    let spans = spans.into_iter().map(|span| shift(span.start)..shift(span.end)).collect();
    Ok(Moved { text: blanked(&text, spans), parameters: moved, gone })
}

/// Splits a declaration into its type, without the words that say where it is, and its names, each with what declares it:
/// `float a, b[3]` declares `a` and `b[3]`.
fn declarators(declared: &str) -> (String, Vec<(&str, &str)>) {
    let parts = split(declared);
    let Some((first, others)) = parts.split_first() else { return (String::new(), Vec::new()) };
    let before = first.split('[').next().unwrap_or_default().trim_end();
    let (kind, _) = before.split_at(last_word_at(before));
    let is_place = |word: &&str| ["__constant__", "static", "extern", "__device__"].contains(word);
    let words: Vec<&str> = kind.split_whitespace().filter(|word| !is_place(word)).collect();
    let named = |declarator| {
        let before = str::split(declarator, '[').next().unwrap_or_default().trim_end();
        (&before[last_word_at(before)..], declarator)
    };
    let first = first[kind.len()..].trim_start();
    (words.join(" "), std::iter::once(first).chain(others.iter().copied()).map(named).collect())
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
