//! Numbers of a source's own headers that the launch names: they are defined before the source, where they can be tuned.

use std::ops::Range;

use super::host::{File, blanked};
use super::scan::Scan;
use super::source::{identifier, without_comments};
use super::tunable::{self, Place, Tunable};

/// Takes the numbers of these names out of the headers, which are all files but the first. Returns what defines them before the
/// source, and their names. A number that is defined several times stays.
pub(super) fn moved(files: &mut [File], named: &[&str]) -> (String, Vec<String>) {
    let (mut before, mut names): (String, Vec<String>) = (String::new(), Vec::new());
    for at in 1..files.len() {
        let file = &files[at];
        let tunables = tunable::find(&file.text, &without_comments(&file.text)).into_iter();
        let found: Vec<(Tunable, Range<usize>)> = tunables
            .filter(|tunable| named.contains(&tunable.name.as_str()) && !names.contains(&tunable.name))
            .filter_map(|tunable| definition(file, &tunable).map(|span| (tunable, span)))
            .collect();
        if found.is_empty() {
            continue;
        }
        for (Tunable { name, value, .. }, _) in &found {
            before += &format!("#define {name} {value}\n");
            names.push(name.clone());
        }
        let text = blanked(&file.text, found.into_iter().map(|(_, span)| span).collect());
        let earlier = files[..at].iter().flat_map(|file| file.scan.defined());
        let defined: Vec<&str> = earlier.chain(names.iter().map(String::as_str)).collect();
        files[at] = File { path: files[at].path.clone(), scan: Scan::after(&text, &defined), text };
    }
    (before, names)
}

/// Returns the place of what defines a number, if nothing else does.
fn definition(file: &File, tunable: &Tunable) -> Option<Range<usize>> {
    match tunable.place {
        Place::Define => {
            let directives = file.scan.directives.iter().filter(|directive| directive.name == "define");
            let own = directives.filter(|directive| identifier(&directive.rest, 0) == tunable.name).collect::<Vec<_>>();
            if let [only] = own[..] { Some(only.span.clone()) } else { None }
        }
        Place::Constant => {
            let item = file.scan.item_at(tunable.span.start).filter(|item| item.name == tunable.name)?;
            (!file.scan.plain[item.span.clone()].contains(',')).then(|| item.span.clone())
        }
        _ => None,
    }
}
