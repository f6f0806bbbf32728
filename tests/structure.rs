//! Checks the structure of the sources: modules import each other in one direction, as ARCHITECTURE.md draws it.
//!
//! The test reads every path that starts with `crate`, `super` or `self`, in `use` declarations and in code. A
//! re-exported name counts where it is defined, so a re-export hides no cycle. Test code does not count.
//!
//! A module and its ancestors may name each other: a parent declares and uses its children, and they share its items.
//! Two children of one parent, each with its descendants, must not reach each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn modules_have_no_import_cycles() {
    for folder in ["src", "crates/virtual-gpu/src"] {
        let circles = Sources::of(folder).circles();
        assert!(circles.is_empty(), "modules of {folder} import each other:\n{}", circles.join("\n"));
    }
}

#[test]
fn the_architecture_draws_what_is_imported() {
    let sources = Sources::of("src");
    let imported = sources.imports()[&ROOT].keys().map(|(from, to)| format!("{from} -> {to}")).collect();
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let drawn = drawn(&text, &sources.modules[ROOT].children);
    let only =
        |these: &BTreeSet<String>, those: &BTreeSet<String>| these.difference(those).cloned().collect::<Vec<_>>();
    assert_eq!(only(&imported, &drawn), [""; 0], "imported, but not drawn in ARCHITECTURE.md");
    assert_eq!(only(&drawn, &imported), [""; 0], "drawn in ARCHITECTURE.md, but not imported");
}

/// Such a row arrives before the commit, whose error sqlx then drops.
#[test]
fn no_statement_of_the_store_writes_and_returns_rows_without_a_transaction() {
    for file in ["", "queue/"].map(|folder| root().join("src/store").join(folder)).iter().flat_map(|folder| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    }) {
        let text = fs::read_to_string(&file).unwrap();
        for statement in text.split("sqlx::query").skip(1).filter(|text| text.contains("RETURNING")) {
            let statement = statement.split(';').next().unwrap();
            assert!(!statement.contains("(&self.pool)"), "{}: {statement}", file.display());
        }
    }
}

#[test]
fn a_cycle_of_folders_is_found_through_a_re_export() {
    let circles = circles_of(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a/mod.rs", "mod x; pub use x::One;"),
        ("a/x.rs", "use crate::b::y::{self, two}; pub struct One;"),
        ("b.rs", "pub mod y;"),
        ("b/y.rs", "pub fn two() { crate::c::Handed::new() }"),
        ("c.rs", "pub(crate) use crate::a::{One as Handed};"),
        ("d.rs", "use crate::{a::One, b::y, c::Handed};"),
    ]);
    assert_eq!(circles, ["a, b\n  a/x.rs -> b/y.rs: two, y\n  b/y.rs -> a/x.rs: Handed\n"]);
}

#[test]
fn a_parent_with_its_children_and_test_code_is_not_a_cycle() {
    let circles = circles_of(&[
        ("lib.rs", "mod a; mod b; pub fn shared() {}"),
        (
            "a.rs",
            "mod x; fn own(tick: char) -> bool { tick == '\"' || x::run::<'a'>() } // \"\n#[cfg(test)] mod tests;",
        ),
        ("a/x.rs", "use super::own; use crate::shared; /* /* */ use crate::b::B; */ /// [`crate::b::B`]\n fn run() {}"),
        ("a/tests.rs", "use crate::b::B;"),
        ("b.rs", "use crate::a; const TEXT: &str = r#\"crate::a\"#; #[cfg(test)] mod tests { use crate::b; }"),
    ]);
    assert_eq!(circles, [""; 0]);
}

/// Facts know no views, and views read nothing but the contract. No fact has Markdown in it.
#[test]
fn facts_and_views_of_a_report_are_apart() {
    let sources = Sources::of("src");
    let report = sources.modules[ROOT].children["report"];
    let imports: Vec<_> = sources.imports()[&report].keys().cloned().collect();
    let names =
        |name: &str| imports.iter().filter(|(from, _)| from == name).map(|(_, to)| to.as_str()).collect::<Vec<_>>();
    assert_eq!([names("contract"), names("facts"), names("views")], [vec![], vec!["contract"], vec!["contract"]]);
    let mut files = vec![root().join("src/report/contract"), root().join("src/report/facts")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code =
            text.split("#[cfg(test)]").next().unwrap().lines().filter(|line| !line.trim_start().starts_with("//"));
        let marked: Vec<&str> =
            code.filter(|line| ["`", "\"**", "**\"", "]("].iter().any(|markup| line.contains(markup))).collect();
        assert_eq!(marked, [""; 0], "{} has Markdown", path.display());
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<_, _> = files.iter().copied().collect();
    Sources::read(&|file| files.get(file).map(|text| (*text).to_owned())).circles()
}

/// Index of the crate's root in [`Sources::modules`].
const ROOT: usize = 0;

/// One file of a crate.
#[derive(Default)]
struct Module {
    name: String,
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The items that it declares.
    items: BTreeSet<String>,
    /// The imports of `use`: the name (`*` for all) and the path.
    uses: Vec<(String, Vec<String>)>,
    /// The paths in its code.
    paths: Vec<Vec<String>>,
}

/// Imports between the children of one module: which file takes which names from which other file.
type Imports = BTreeMap<(String, String), BTreeMap<(String, String), BTreeSet<String>>>;

/// The modules of a crate.
struct Sources {
    modules: Vec<Module>,
}

impl Sources {
    /// Reads the crate whose `lib.rs` is in a folder of the repository.
    fn of(folder: &str) -> Self {
        Self::read(&|file| fs::read_to_string(root().join(folder).join(file)).ok())
    }

    /// Reads `lib.rs` and the modules that it declares; `text_of` returns a file's text by its path.
    fn read(text_of: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut sources = Self { modules: Vec::new() };
        sources.add("lib", None, text_of);
        sources
    }

    /// Reads the module at a path, such as `runner/device`, with its children, and returns its index.
    fn add(&mut self, path: &str, parent: Option<usize>, text_of: &dyn Fn(&str) -> Option<String>) -> usize {
        let places = [format!("{path}.rs"), format!("{path}/mod.rs")];
        let found = places.into_iter().find_map(|file| Some((text_of(&file)?, file)));
        let (text, file) = found.unwrap_or_else(|| panic!("there is no file for the module {path}"));
        let (module, children) = parse(&without_tests(&tokens(&text)));
        let (index, name) = (self.modules.len(), path.rsplit('/').next().unwrap_or(path).to_owned());
        self.modules.push(Module { name, file, parent, ..module });
        for name in children {
            let path = if parent.is_none() { name.clone() } else { format!("{path}/{name}") };
            let child = self.add(&path, Some(index), text_of);
            self.modules[index].children.insert(name, child);
        }
        index
    }

    /// Returns the module that defines the item of a path written in `from`, and the item's name; `None` for another
    /// crate.
    fn resolve<'a>(&'a self, from: usize, path: &'a [String]) -> Option<(usize, &'a str)> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => ROOT,
            "self" => from,
            "super" => self.modules[from].parent?,
            name => *self.modules[from].children.get(name)?,
        };
        while let Some((name, after)) = rest.split_first() {
            at = match (name.as_str(), self.modules[at].children.get(name)) {
                ("super", _) => self.modules[at].parent?,
                (_, Some(&child)) => child,
                (name, None) => return Some((self.owner(at, name, &mut BTreeSet::new()).unwrap_or(at), name)),
            };
            rest = after;
        }
        Some((at, path.last()?))
    }

    /// Returns the module that defines what the module `at` calls `name`. `seen` holds the visited modules.
    fn owner(&self, at: usize, name: &str, seen: &mut BTreeSet<usize>) -> Option<usize> {
        let module = &self.modules[at];
        if module.items.contains(name) {
            return Some(at);
        }
        if !seen.insert(at) {
            return None;
        }
        let target = |path| self.resolve(at, path).map(|(module, _)| module);
        if let Some((_, path)) = module.uses.iter().find(|(given, _)| given == name) {
            return target(path);
        }
        let globs = module.uses.iter().filter(|(given, _)| given == "*");
        globs.filter_map(|(_, path)| target(path)).find_map(|glob| self.owner(glob, name, seen))
    }

    /// Returns the modules from the root to `index`, both included.
    fn lineage(&self, index: usize) -> Vec<usize> {
        let mut lineage: Vec<_> = std::iter::successors(Some(index), |&index| self.modules[index].parent).collect();
        lineage.reverse();
        lineage
    }

    /// Returns, for each module, the imports between its children.
    fn imports(&self) -> BTreeMap<usize, Imports> {
        let mut imports: BTreeMap<usize, Imports> = BTreeMap::new();
        let lineages: Vec<_> = (0..self.modules.len()).map(|index| self.lineage(index)).collect();
        for (from, module) in self.modules.iter().enumerate() {
            let paths = module.uses.iter().map(|(_, path)| path).chain(&module.paths);
            for (to, name) in paths.filter_map(|path| self.resolve(from, path)) {
                let (above, below) = (&lineages[from], &lineages[to]);
                let shared = above.iter().zip(below).take_while(|(a, b)| a == b).count();
                // Ancestors and descendants may import each other.
                if let (Some(&importer), Some(&imported)) = (above.get(shared), below.get(shared)) {
                    let names = [importer, imported].map(|index| self.modules[index].name.clone());
                    let files = [from, to].map(|index| self.modules[index].file.clone());
                    let siblings = imports.entry(above[shared - 1]).or_default().entry(names.into()).or_default();
                    siblings.entry(files.into()).or_default().insert(name.to_owned());
                }
            }
        }
        imports
    }

    /// Returns each cycle: its modules, and the imports that form it.
    fn circles(&self) -> Vec<String> {
        self.imports().values().flat_map(circles).collect()
    }
}

/// Returns the sets of modules that all reach each other, each with their imports.
fn circles(imports: &Imports) -> Vec<String> {
    let reach: BTreeMap<_, _> = imports.keys().map(|(from, _)| (from, reached(imports, from))).collect();
    let circle = |start| {
        let mutual = |at: &&String| reach.get(*at).is_some_and(|back| back.contains(start));
        reach[start].iter().copied().filter(mutual).collect::<BTreeSet<_>>()
    };
    let circles: BTreeSet<_> = reach.keys().copied().map(circle).filter(|circle| !circle.is_empty()).collect();
    let told = |circle: BTreeSet<&String>| {
        let mut text = format!("{}\n", circle.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "));
        let inside = imports.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        for ((from, to), names) in inside.flat_map(|(_, files)| files) {
            let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            text += &format!("  {from} -> {to}: {names}\n");
        }
        text
    };
    circles.into_iter().map(told).collect()
}

/// Returns the modules that a module reaches. It reaches itself only in a cycle.
fn reached<'a>(imports: &'a Imports, start: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(at) = next.pop() {
        let found = imports.keys().filter(|(from, _)| from == at).map(|(_, to)| to);
        next.extend(found.filter(|&to| seen.insert(to)));
    }
    seen
}

/// Returns the arrows in a text: lines such as `a -> b c`, where `a` is a module.
fn drawn(text: &str, modules: &BTreeMap<String, usize>) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.split_once(" -> ")).map(|(from, to)| (from.trim(), to));
    let lines = lines.filter(|(from, _)| modules.contains_key(*from));
    lines.flat_map(|(from, to)| to.split_whitespace().map(move |to| format!("{from} -> {to}"))).collect()
}

/// Splits a source into words, `::` and single characters, without blanks, comments and literals.
fn tokens(text: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = literal(rest) {
            length
        } else {
            let length = if word > 0 {
                word
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(&rest[..length]);
            length
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of the block comment, string or character at the start of a text.
fn literal(text: &str) -> Option<usize> {
    if text.starts_with("/*") {
        let mut depth = 0;
        for (at, _) in text.char_indices() {
            depth += i32::from(text[at..].starts_with("/*")) - i32::from(text[..at].ends_with("*/"));
            if at > 0 && depth == 0 {
                return Some(at);
            }
        }
        return Some(text.len());
    }
    let quoted = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - quoted.len();
    if let Some(raw) = quoted.strip_prefix('r') {
        let body = raw.trim_start_matches('#');
        let end = format!("\"{}", "#".repeat(raw.len() - body.len()));
        let length = body.strip_prefix('"')?.find(&end)? + 1 + end.len();
        return Some(text.len() - body.len() + length);
    }
    let quote = quoted.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut chars = quoted.char_indices().skip(1);
    let second = chars.clone().next()?.1;
    let is_lifetime = quote == '\'' && second != '\\' && chars.clone().nth(1).is_none_or(|(_, third)| third != '\'');
    if is_lifetime {
        return None;
    }
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == quote => return Some(prefix + at + 1),
            _ => {}
        }
    }
    None
}

/// Removes each item or statement that is marked as test code.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if !tokens[at..].starts_with(&MARK) {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        at += MARK.len();
        let mut depth = 0;
        while at < tokens.len() {
            let token = tokens[at];
            depth += i32::from(matches!(token, "(" | "[" | "{")) - i32::from(matches!(token, ")" | "]" | "}"));
            at += 1;
            if depth == 0 && matches!(token, ";" | "}") {
                break;
            }
        }
    }
    kept
}

/// Returns the items and names of a file, and its child modules.
fn parse(tokens: &[&str]) -> (Module, Vec<String>) {
    const ITEMS: [&str; 8] = ["struct", "enum", "fn", "const", "static", "trait", "type", "union"];
    let token = |at: usize| tokens.get(at).copied().unwrap_or_default();
    let (mut module, mut children) = (Module::default(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match token(at) {
            "use" if token(at + 1) != "<" => at = use_tree(tokens, at + 1, &[], &mut module.uses),
            "mod" if token(at + 2) == ";" => children.push(token(at + 1).to_owned()),
            "macro_rules" => drop(module.items.insert(token(at + 2).to_owned())),
            item if ITEMS.contains(&item) => drop(module.items.insert(token(at + 1).to_owned())),
            "crate" | "super" | "self" if token(at + 1) == "::" => {
                let mut path = vec![token(at).to_owned()];
                while token(at + 1) == "::" && token(at + 2).starts_with(|c: char| c.is_alphabetic() || c == '_') {
                    path.push(token(at + 2).to_owned());
                    at += 2;
                }
                module.paths.push(path);
            }
            _ => {}
        }
        at += 1;
    }
    (module, children)
}

/// Reads a tree of a `use` declaration, whose paths begin with `prefix`. Returns the index of its last token.
fn use_tree(tokens: &[&str], mut at: usize, prefix: &[String], uses: &mut Vec<(String, Vec<String>)>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens[at] {
            "{" => {
                while tokens[at] != "}" {
                    at += 1;
                    if tokens[at] != "}" && tokens[at] != "," {
                        at = use_tree(tokens, at, &path, uses);
                    }
                }
                return at;
            }
            "*" => {
                uses.push(("*".to_owned(), path));
                return at;
            }
            name => path.push(name.to_owned()),
        }
        match tokens.get(at + 1).copied() {
            Some("::") => at += 2,
            Some("as") => {
                uses.push((tokens[at + 2].to_owned(), path));
                return at + 2;
            }
            _ => {
                if path.last().is_some_and(|name| name == "self") && path.len() > 1 {
                    path.pop();
                }
                uses.push((path.last().unwrap().clone(), path));
                return at;
            }
        }
    }
}
