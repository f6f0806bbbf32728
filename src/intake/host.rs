//! Leaves out what a kernel does not need: code for the host, other kernels, and includes that only they need.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::scan::{Item, ItemKind, Scan};
use super::source::{identifier, line_of, without_comments, words};

/// A file of a source: the kernel's own, or one of its headers.
pub(super) struct File {
    /// The path with which it is included. Empty for the kernel's own.
    pub path: String,
    /// Its text.
    pub text: String,
    /// What it consists of.
    pub scan: Scan,
}

/// What was left out of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCode {
    /// A function, a declaration or an include, as the source has it.
    pub what: String,
    /// Whether it is an include.
    pub is_include: bool,
}

/// Parts of the standard library that only a host has.
const HOST_STANDARD: [&str; 28] = [
    "vector",
    "string",
    "cout",
    "cerr",
    "endl",
    "unique_ptr",
    "shared_ptr",
    "make_unique",
    "chrono",
    "map",
    "unordered_map",
    "function",
    "ostream",
    "istream",
    "stringstream",
    "ofstream",
    "ifstream",
    "mt19937",
    "random_device",
    "thread",
    "mutex",
    "sort",
    "runtime_error",
    "exception",
    "ostringstream",
    "set",
    "default_random_engine",
    "normal_distribution",
];

/// Namespaces of libraries that only a host has, or that optloop does not let a kernel include.
const LIBRARIES: [&str; 8] = ["torch", "at", "c10", "py", "pybind11", "thrust", "boost", "cub"];

/// Beginnings of the names of the runtime's functions and types. A capital follows.
const RUNTIME: [&str; 6] = ["cuda", "cublas", "cudnn", "curand", "cufft", "hip"];

/// Words that make a function one of the device.
const DEVICE: [&str; 2] = ["__device__", "__global__"];

impl File {
    /// Scans a file.
    pub fn new(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), scan: Scan::of(&text), text }
    }

    /// Scans a header of other files.
    pub fn header(path: &str, text: String, others: &[Self]) -> Self {
        let defined: Vec<&str> = others.iter().flat_map(|file| file.scan.defined()).collect();
        Self { path: path.to_owned(), scan: Scan::after(&text, &defined), text }
    }

    fn text_of(&self, item: &Item) -> &str {
        &self.scan.plain[item.span.clone()]
    }

    fn head_of(&self, item: &Item) -> &str {
        &self.scan.plain[item.span.start..item.head_end.max(item.span.start)]
    }

    /// Tells whether an item is there for the host only, if the kernel does not reach it.
    fn is_for_host(&self, item: &Item) -> bool {
        mentions_host(self.text_of(item)) || item.kind == ItemKind::Other && is_host_variable(self.text_of(item))
    }
}

/// Tells whether a declaration is that of a variable of the host: neither constant nor in the memory of a device.
fn is_host_variable(declared: &str) -> bool {
    let head = declared.split(['=', '{']).next().unwrap_or_default();
    let words: Vec<&str> = identifiers(head).collect();
    let is_no_variable =
        |word: &&str| ["using", "typedef", "template", "static_assert", "friend", "asm", "namespace"].contains(word);
    let is_device = words
        .iter()
        .any(|word| ["__device__", "__constant__", "__shared__", "__managed__", "constexpr"].contains(word));
    let is_constant = words.contains(&"const") && !head.contains('*');
    // A macro that stands for itself is one word with its arguments.
    words.len() > 1 && !head.contains('(') && !words.first().is_some_and(is_no_variable) && !is_device && !is_constant
}

/// Returns the names of all that stays: what a kernel reaches, directly or not, and what variables, enumerations and operators do.
pub(super) fn reached(files: &[File], kernel: &str) -> HashSet<String> {
    // Variables, enumerations and operators stay, unless they are the host's.
    let macros = Macros::of(files);
    let stays = |file: &File, item: &Item| {
        let text = file.text_of(item);
        let is_general = match item.kind {
            ItemKind::Function => item.name == "operator",
            ItemKind::Type => is_enum(text),
            ItemKind::Other => !is_alias(item, text) && !macros.kernels.contains(&item.name),
        };
        is_general && !file.is_for_host(item)
    };
    let items = files.iter().flat_map(|file| file.scan.items.iter().map(move |item| (file, item)));
    closure(
        files,
        kernel,
        items.filter(|(file, item)| stays(file, item)).map(|(file, item)| file.text_of(item)).collect(),
    )
}

/// Returns the names of all that a kernel itself reaches, directly or not.
pub(super) fn reached_from(files: &[File], kernel: &str) -> HashSet<String> {
    closure(files, kernel, Vec::new())
}

/// Returns the names in a kernel and in some texts, and those in what these names stand for.
fn closure<'a>(files: &'a [File], kernel: &str, mut open: Vec<&'a str>) -> HashSet<String> {
    let mut texts: HashMap<&str, Vec<&str>> = HashMap::new();
    for file in files {
        for item in &file.scan.items {
            let text = file.text_of(item);
            // What is declared beside a variable is not reached by it.
            if item.kind != ItemKind::Other || !text.contains("__constant__") {
                names_of(item, text).for_each(|name| texts.entry(name).or_default().push(text));
            }
            if item.kind == ItemKind::Function && item.name == kernel {
                open.push(text);
            }
        }
        for directive in file.scan.directives.iter().filter(|directive| directive.name == "define") {
            texts.entry(identifier(&directive.rest, 0)).or_default().push(&directive.rest);
        }
    }
    let mut reached = HashSet::from([kernel.to_owned()]);
    while let Some(text) = open.pop() {
        for word in identifiers(text) {
            if reached.insert(word.to_owned()) {
                open.extend(texts.get(word).into_iter().flatten());
            }
        }
    }
    reached
}

/// Returns the words of directives other than definitions and includes: those of conditions and of pragmas.
pub(super) fn words_of_directives(files: &[File]) -> HashSet<&str> {
    let directives = files.iter().flat_map(|file| &file.scan.directives);
    let others = directives.filter(|directive| !["define", "include"].contains(&directive.name.as_str()));
    others.flat_map(|directive| identifiers(&directive.rest)).collect()
}

/// Returns the names of functions other than the kernel that use a name, among those that the kernel reaches.
pub(super) fn users<'a>(files: &'a [File], (kernel, name): (&str, &str), reached: &HashSet<String>) -> Vec<&'a str> {
    let functions = files.iter().flat_map(|file| file.scan.items.iter().map(move |item| (file, item)));
    let functions = functions.filter(|(_, item)| item.kind == ItemKind::Function && item.name != kernel);
    let using = functions
        .filter(|(file, item)| reached.contains(&item.name) && words(file.text_of(item), name).next().is_some());
    using.map(|(_, item)| item.name.as_str()).collect()
}

/// Returns a file without what is left out, on the same lines. `gone` are names that became parameters of the kernel, so that no
/// other one can use them. `is_there` tells whether an include can stay.
pub(super) fn without_host(
    file: &File,
    reached: &HashSet<String>,
    (macros, gone): (&Macros, &[&str]),
    is_there: impl Fn(&str, bool) -> bool,
) -> (String, Vec<HostCode>) {
    let (mut spans, mut left_out): (Vec<Range<usize>>, Vec<HostCode>) = (Vec::new(), Vec::new());
    for directive in file.scan.directives.iter().filter(|directive| directive.name == "include") {
        if let Some((name, is_quoted)) = included(&directive.rest)
            && !is_there(name, is_quoted)
        {
            spans.push(directive.span.clone());
            let what = if is_quoted { format!("\"{name}\"") } else { format!("<{name}>") };
            if file.scan.is_active(directive.span.start) {
                left_out.push(HostCode { what, is_include: true });
            }
        }
    }
    // The definition of a kernel gets another linkage than what declares it, and nothing else is launched.
    let is_prototype = |item: &Item| {
        let is_open = item.kind == ItemKind::Function && file.text_of(item).ends_with(';');
        is_open && words(file.head_of(item), "__global__").next().is_some()
    };
    let (prototypes, items): (Vec<&Item>, Vec<&Item>) =
        file.scan.items.iter().filter(|_| file.scan.is_complete).partition(|item| is_prototype(item));
    spans.extend(prototypes.iter().map(|item| item.span.clone()));
    let uses_gone = |item: &Item| {
        let is_other = item.kind == ItemKind::Function && !reached.contains(&item.name);
        is_other && gone.iter().any(|name| words(file.text_of(item), name).next().is_some())
    };
    for item in items.into_iter().filter(|item| uses_gone(item) || is_left_out(file, item, reached, macros)) {
        spans.push(item.span.clone());
        let what = if item.name.is_empty() {
            format!("line {}", line_of(&file.text, item.span.start))
        } else {
            item.name.clone()
        };
        if !left_out.iter().any(|other| other.what == what) {
            left_out.push(HostCode { what, is_include: false });
        }
    }
    for (open, close) in file.scan.unnamed.iter().filter(|_| file.scan.is_complete) {
        // A kernel in a namespace without a name cannot be found by its own.
        spans.extend([open.clone(), *close..close + 1]);
    }
    (plain_lambdas(blanked(&file.text, spans)), left_out)
}

/// Takes the annotations from lambdas, which NVRTC refuses. In a function of the device, they say nothing new.
fn plain_lambdas(mut text: String) -> String {
    let code = without_comments(&text);
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (at, _) in code.match_indices(']') {
        let (mut place, mut found) = (at + 1, Vec::new());
        loop {
            place += code[place..].len() - code[place..].trim_start().len();
            let word = identifier(&code, place);
            if !["__device__", "__host__", "__forceinline__"].contains(&word) {
                break;
            }
            found.push(place..place + word.len());
            place += word.len();
        }
        if code[place..].starts_with(['(', '{']) {
            spans.extend(found);
        }
    }
    spans.into_iter().for_each(|span| text.replace_range(span.clone(), &" ".repeat(span.len())));
    text
}

/// Returns a text in which places are blank. Lines stay.
pub(super) fn blanked(text: &str, mut spans: Vec<Range<usize>>) -> String {
    spans.sort_by_key(|span| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for span in spans {
        let lines = text[span.clone()].matches('\n').count();
        text.replace_range(span, &"\n".repeat(lines));
    }
    text
}

fn is_left_out(file: &File, item: &Item, reached: &HashSet<String>, macros: &Macros) -> bool {
    let text = file.text_of(item);
    // Nothing launches another kernel.
    if macros.kernels.contains(&item.name) {
        return true;
    }
    if is_alias(item, text) || item.kind == ItemKind::Type && !is_enum(text) {
        return !names_of(item, text).any(|name| reached.contains(name));
    }
    let is_reached = reached.contains(&item.name);
    if item.kind != ItemKind::Function {
        // A declaration such as `using at::Half;` names nothing without its library.
        let is_imported = is_word(text, "using") && !text.contains('=');
        return (!is_reached || is_imported) && file.is_for_host(item);
    }
    let head: Vec<&str> = identifiers(file.head_of(item)).collect();
    let is_device = head.iter().any(|word| DEVICE.contains(word) || macros.device.contains(*word));
    // An annotation of another header may look like this. `operator` is reached by its sign.
    let may_be_device = head.iter().any(|word| is_upper(word)) || head.contains(&"constexpr");
    if item.name == "operator" {
        return !is_device && !may_be_device;
    }
    match is_reached {
        true => !is_device && !may_be_device,
        // Nothing launches another kernel.
        false => !is_device || head.contains(&"__global__") || file.is_for_host(item),
    }
}

/// Tells whether a type is an enumeration, whose values are used without its name.
fn is_enum(text: &str) -> bool {
    identifiers(text).take(2).any(|word| word == "enum")
}

/// Tells whether a declaration gives a type another name.
fn is_alias(item: &Item, text: &str) -> bool {
    let is_named = is_word(text, "typedef") || is_word(text, "using") && text.contains('=');
    item.kind == ItemKind::Other && is_named && !item.name.is_empty()
}

fn is_word(text: &str, first: &str) -> bool {
    identifier(text, 0) == first
}

/// Returns the names of an item: of a type also those behind its braces, as in `typedef struct { … } Pair;`.
fn names_of<'a>(item: &'a Item, text: &'a str) -> impl Iterator<Item = &'a str> {
    let behind = text.rsplit_once('}').filter(|_| item.kind == ItemKind::Type).map_or("", |(_, behind)| behind);
    [item.name.as_str()].into_iter().chain(identifiers(behind))
}

fn is_upper(word: &str) -> bool {
    word.len() > 3 && word.contains("DEVICE") && !word.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// The macros of a source that matter for what is left out.
pub(super) struct Macros {
    /// Those that stand for words of the device, such as `HD` for `__host__ __device__`.
    device: HashSet<String>,
    /// Those that make kernels, or instances of a template that is one.
    kernels: HashSet<String>,
}

impl Macros {
    /// Finds them.
    pub fn of(files: &[File]) -> Self {
        Self { device: standing_for(files, &DEVICE), kernels: standing_for(files, &DEVICE[1..]) }
    }
}

/// Returns the macros that stand for one of some words, or for another such macro.
fn standing_for(files: &[File], words: &[&str]) -> HashSet<String> {
    let mut found = HashSet::new();
    // A macro may stand for another one.
    for _ in 0..4 {
        for directive in files.iter().flat_map(|file| &file.scan.directives).filter(|it| it.name == "define") {
            let name = identifier(&directive.rest, 0);
            let mut body = identifiers(&directive.rest[name.len()..]);
            if body.any(|word| words.contains(&word) || found.contains(word)) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// Returns the file that an include names, and whether it is in quotes.
pub(super) fn included(rest: &str) -> Option<(&str, bool)> {
    match rest.chars().next()? {
        '"' => Some((rest[1..].split_once('"')?.0, true)),
        '<' => Some((rest[1..].split_once('>')?.0, false)),
        _ => None,
    }
}

/// Names that nvcc knows without an include, or that headers of the host bring along, each with the header that has it.
const IMPLIED: [(&[&str], &[&str]); 7] = [
    (
        &["math.h", "cmath"],
        &["INFINITY", "NAN", "M_PI", "M_SQRT2", "M_SQRT1_2", "M_2_SQRTPI", "M_LOG2E", "M_LN2", "M_PI_2"],
    ),
    (&["float.h", "cfloat"], &["FLT_MAX", "FLT_MIN", "FLT_EPSILON", "DBL_MAX", "DBL_MIN", "DBL_EPSILON"]),
    (&["limits.h", "climits"], &["INT_MAX", "INT_MIN", "UINT_MAX", "LLONG_MAX", "CHAR_BIT"]),
    (
        &["stdint.h", "cstdint"],
        &[
            "int8_t",
            "uint8_t",
            "int16_t",
            "uint16_t",
            "int32_t",
            "uint32_t",
            "int64_t",
            "uint64_t",
            "uintptr_t",
            "SIZE_MAX",
        ],
    ),
    (&["sys/types.h"], &["uint", "ushort", "ulong"]),
    (&["cuda_fp16.h"], &["half", "__half", "half2", "__half2"]),
    (&["cuda_bf16.h"], &["__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162"]),
];

/// Returns the headers that texts need without including them.
pub(super) fn implied_includes<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    let scans: Vec<Scan> = texts.map(Scan::of).collect();
    let includes = |name: &str| {
        let directives = scans.iter().flat_map(|scan| &scan.directives).filter(|directive| directive.name == "include");
        directives.into_iter().any(|directive| included(&directive.rest).is_some_and(|(other, _)| other == name))
    };
    let used: HashSet<&str> = scans
        .iter()
        .flat_map(|scan| {
            let defined = scan.directives.iter().filter(|directive| directive.name == "define");
            identifiers(&scan.plain).chain(defined.flat_map(|directive| identifiers(&directive.rest).skip(1)))
        })
        .collect();
    let is_needed = |(headers, names): &(&[&str], &[&str])| {
        names.iter().any(|name| used.contains(name)) && !headers.iter().any(|header| includes(header))
    };
    IMPLIED.into_iter().filter(is_needed).map(|(headers, _)| headers[0]).collect()
}

/// Tells whether a text has something that only a host has.
pub(super) fn mentions_host(text: &str) -> bool {
    if text.contains("<<<") {
        return true;
    }
    let mut previous = "";
    let mut place = 0;
    for word in identifiers(text) {
        let at = place + text[place..].find(word).unwrap_or(0);
        let is_scoped = text[place..at].trim() == "::";
        place = at + word.len();
        let is_standard = previous == "std" && is_scoped && HOST_STANDARD.contains(&word);
        let is_library = LIBRARIES.contains(&word) && text[place..].trim_start().starts_with("::");
        let is_runtime = RUNTIME.iter().any(|prefix| {
            word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        });
        if is_standard || is_library || is_runtime || word == "FILE" {
            return true;
        }
        previous = word;
    }
    false
}

/// Returns the identifiers of a text, in order.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !is_part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}
