//! Proposes the grid and the block of a kernel whose source leaves no choice.
//!
//! An axis is clear if it has one index, `blockIdx.x * blockDim.x + threadIdx.x` or `blockIdx.x`, which the kernel compares with
//! one number of elements: `if (i < n)`. Where anything else could be meant, nothing is proposed.

use indexmap::IndexMap;

use super::scan::Scan;
use super::source::{closing, identifier, split, words};
use super::{Draft, Wanted};
use crate::domain::expr::Expr;
use crate::domain::text::names::is_identifier;

const AXES: [char; 3] = ['x', 'y', 'z'];

/// How often names of a bound are replaced by what they are, at most.
const MAX_DEPTH: usize = 8;

/// A grid and a block, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// The number of blocks along x, y and z.
    pub grid: Vec<String>,
    /// The number of threads of a block along x, y and z.
    pub block: Vec<String>,
    /// The comparisons that say so, such as `i < n`.
    pub from: Vec<String>,
}

/// One axis of a launch.
struct Axis {
    blocks: String,
    threads: String,
    from: Option<String>,
}

/// The longest body that is read, with its macros, and the longest bound, in bytes. Names may stand for ever more of others.
const MAX_BODY: usize = 1 << 15;
const MAX_BOUND: usize = 1 << 10;

/// What a kernel's body says.
struct Body<'a> {
    text: &'a str,
    /// What names are given as values, without blanks and conversions.
    values: IndexMap<String, Vec<String>>,
    /// The names that an expression of a launch may have.
    known: Vec<String>,
    /// The numbers that the source names, and its literal ones.
    is_number: &'a dyn Fn(&str) -> bool,
}

impl Geometry {
    /// Reads the source of a kernel. `wanted` has the block, if the user gives one. None if anything is unclear.
    pub fn of(draft: &Draft, wanted: &Wanted) -> Option<Self> {
        let scan = Scan::of(&draft.text);
        let item = scan.item_at(draft.kernel.at)?;
        let is_tunable = |name: &str| draft.tunables.iter().any(|tunable| tunable.name == name);
        let is_number = |text: &str| text.parse::<i64>().is_ok_and(|number| number > 0) || is_tunable(text);
        let text = &with_loops(&scan.plain[item.head_end..item.span.end], draft);
        if text.len() > MAX_BODY {
            return None;
        }
        let of_cases = wanted.cases.iter().flat_map(|case| case.keys().cloned());
        let known = draft.sizes().map(str::to_owned).chain(of_cases).collect();
        let body = Body { text, values: values(text), known, is_number: &is_number };
        let last = AXES.iter().rposition(|axis| body.mentions(*axis))?;
        let axes: Vec<Axis> = AXES[..=last]
            .iter()
            .enumerate()
            .map(|(at, axis)| body.axis(*axis, last, wanted.block.get(at).map(String::as_str)))
            .collect::<Option<_>>()?;
        let from: Vec<String> = axes.iter().filter_map(|axis| axis.from.clone()).collect();
        let (mut grid, block): (Vec<String>, Vec<String>) =
            axes.into_iter().map(|axis| (axis.blocks, axis.threads)).unzip();
        while grid.len() > 1 && grid.last().is_some_and(|blocks| blocks == "1") {
            grid.pop();
        }
        let is_given = wanted.block.is_empty() || wanted.block.len() >= block.len();
        (is_given && !from.is_empty()).then_some(Self { grid, block, from })
    }
}

impl Body<'_> {
    /// Tells whether the kernel has anything to do with an axis.
    fn mentions(&self, axis: char) -> bool {
        ["threadIdx", "blockIdx", "blockDim", "gridDim"].iter().any(|name| self.has(name, axis))
    }

    fn has(&self, name: &str, axis: char) -> bool {
        words(self.text, name).any(|at| is_axis(&self.text[at + name.len()..], axis))
    }

    /// Returns an axis, of which there are others up to `last`.
    fn axis(&self, axis: char, last: usize, given: Option<&str>) -> Option<Axis> {
        let named = || if last == 0 { "THREADS".to_owned() } else { format!("THREADS_{}", axis.to_ascii_uppercase()) };
        let own_threads = || match given {
            Some(threads) => Some(threads.to_owned()),
            None if self.has("blockDim", axis) => Some(named()).filter(|name| !self.known.contains(name)),
            None if !self.has("threadIdx", axis) => Some("1".to_owned()),
            None => None,
        };
        let index = |(name, values): (&String, &Vec<String>)| {
            let [value] = &values[..] else { return None };
            let index = self.index(value, axis)?;
            (!self.is_changed(name)).then(|| (name.clone(), index))
        };
        let indices: Vec<(String, Index)> = self.values.iter().filter_map(index).collect();
        let [(name, Index { per_block, threads })] = &indices[..] else {
            // Blocks have one place on this axis.
            let is_single = indices.is_empty() && !self.has("blockIdx", axis) && !self.has("gridDim", axis);
            return is_single.then(|| Some(Axis { blocks: "1".to_owned(), threads: own_threads()?, from: None }))?;
        };
        let threads = match (given, threads) {
            (Some(given), _) => given.to_owned(),
            (None, Some(number)) => number.clone(),
            (None, None) => own_threads()?,
        };
        let bound = self.bound(name)?;
        let per_block: Vec<&str> = per_block
            .iter()
            .map(|factor| if factor.starts_with("blockDim.") { threads.as_str() } else { factor.as_str() })
            .filter(|factor| *factor != "1")
            .collect();
        let blocks = match &per_block[..] {
            [] => bound.clone(),
            factors => format!("ceil_div({bound}, {})", factors.join(" * ")),
        };
        Expr::parse(&blocks).ok()?;
        Some(Axis { blocks, threads, from: Some(format!("{name} < {bound}")) })
    }

    /// Reads an index along an axis.
    fn index(&self, value: &str, axis: char) -> Option<Index> {
        let (block, thread) = (format!("blockIdx.{axis}"), format!("threadIdx.{axis}"));
        let (dim, value) = (format!("blockDim.{axis}"), self.with_aliases(value));
        let factors = parts(&value, '*');
        if factors == [block.as_str()] {
            return Some(Index { per_block: Vec::new(), threads: None });
        }
        let is_sum = |factor: &&str| factor.contains(&block);
        let [sum] = factors.iter().copied().filter(is_sum).collect::<Vec<_>>()[..] else { return None };
        let scale: Vec<&str> = factors.iter().copied().filter(|factor| !is_sum(factor)).collect();
        // A product that is not in brackets is the first of two terms.
        let (sum, scale) = if parts(&value, '+').len() == 2 { (value.as_str(), Vec::new()) } else { (sum, scale) };
        let terms = parts(without_brackets(sum), '+');
        let [first, second] = terms[..] else { return None };
        let product = match (first == thread, second == thread) {
            (false, true) => first,
            (true, false) => second,
            _ => return None,
        };
        let factors = parts(without_brackets(product), '*');
        let widths: Vec<&str> = factors.iter().copied().filter(|factor| *factor != block).collect();
        let is_width = |factor: &&str| *factor == dim || (self.is_number)(factor);
        if widths.len() + 1 != factors.len() || widths.is_empty() || !widths.iter().all(is_width) {
            return None;
        }
        if !scale.iter().all(|factor| (self.is_number)(factor)) {
            return None;
        }
        let threads = match &widths[..] {
            [width] if *width != dim => Some((*width).to_owned()),
            widths if widths.contains(&dim.as_str()) => None,
            _ => return None,
        };
        let per_block = widths.into_iter().chain(scale).map(str::to_owned).collect();
        Some(Index { per_block, threads })
    }

    /// Replaces names that stand for a place or an extent of a block.
    fn with_aliases(&self, value: &str) -> String {
        let is_alias = |value: &str| {
            ["threadIdx.", "blockIdx.", "blockDim."]
                .iter()
                .any(|name| value.strip_prefix(name).is_some_and(is_one_axis))
        };
        replaced(value, |name| {
            let [value] = &self.values.get(name)?[..] else { return None };
            (is_alias(value) && !self.is_changed(name)).then(|| value.clone())
        })
    }

    /// Returns the only number of elements that the kernel compares an index with, over the names of a launch.
    fn bound(&self, name: &str) -> Option<String> {
        let mut bounds: Vec<String> = Vec::new();
        for at in words(self.text, name) {
            let rest = self.text[at + name.len()..].trim_start();
            let bound = match rest.strip_prefix(">=") {
                Some(bound) => bound,
                None => match rest.strip_prefix('<').filter(|rest| !rest.starts_with(['<', '='])) {
                    Some(bound) => bound,
                    None => continue,
                },
            };
            // Which threads of a block do something, such as `i < 32`, is no number of elements.
            if let Some(bound) = self.over_known(&plain(up_to_end(bound)))
                && !bounds.contains(&bound)
                && bound.parse::<i64>().is_err()
            {
                bounds.push(bound);
            }
        }
        let [bound] = &bounds[..] else { return None };
        let expr = Expr::parse(bound).ok()?;
        let is_known = |name: &String| {
            let has_one_value = !self.values.contains_key(name) && !self.is_changed(name);
            has_one_value && self.known.contains(name) || (self.is_number)(name)
        };
        expr.names().iter().all(is_known).then(|| bound.clone())
    }

    /// Returns what a name is, if it gets a value where it is declared, and no other later.
    fn value(&self, name: &str) -> Option<&str> {
        let [value] = &self.values.get(name)?[..] else { return None };
        (!self.is_changed(name)).then_some(value)
    }

    /// Tells whether a name gets another value than one of `values`. A step by all threads of the grid gives none.
    fn is_changed(&self, name: &str) -> bool {
        let is_step = |by: &str| {
            let by = plain(up_to_end(by));
            by.contains("gridDim") || self.values.get(&by).is_some_and(|is| is.iter().any(|is| is.contains("gridDim")))
        };
        words(self.text, name).any(|at| {
            let (before, rest) = (self.text[..at].trim_end(), self.text[at + name.len()..].trim_start());
            ["++", "--"].iter().any(|by| before.ends_with(by) || rest.starts_with(by))
                || ["-=", "*=", "/=", "%=", "<<=", ">>="].iter().any(|operator| rest.starts_with(operator))
                || rest.strip_prefix("+=").is_some_and(|by| !is_step(by))
        })
    }

    /// Replaces the names of local values by what they are.
    fn over_known(&self, bound: &str) -> Option<String> {
        let mut bound = bound.to_owned();
        for _ in 0..MAX_DEPTH {
            let local = |name: &str| {
                let value = self.value(name).filter(|_| !self.known.iter().any(|known| known == name))?;
                let is_plain = identifier(value, 0) == value || bound == name;
                Some(if is_plain { value.to_owned() } else { format!("({value})") })
            };
            let next = replaced(&bound, local);
            if next == bound {
                return Some(spaced(&bound));
            }
            if next.len() > MAX_BOUND {
                return None;
            }
            bound = next;
        }
        None
    }
}

/// Puts what they stand for in the place of macros with the index of a thread, such as `CUDA_KERNEL_LOOP(i, n)`.
fn with_loops(body: &str, draft: &Draft) -> String {
    let mut body = body.to_owned();
    let texts = draft.headers.iter().map(|(_, text)| text).chain([&draft.text]);
    let scans: Vec<Scan> = texts.map(|text| Scan::of(text)).collect();
    let defines = scans.iter().flat_map(|scan| &scan.directives).filter(|directive| directive.name == "define");
    for rest in defines.map(|directive| directive.rest.as_str()).filter(|rest| rest.contains("blockIdx")) {
        let name = identifier(rest, 0);
        let Some(close) = rest[name.len()..].starts_with('(').then(|| closing(rest, name.len())).flatten() else {
            continue;
        };
        let parameters = split(&rest[name.len() + 1..close - 1]);
        let meant = rest[close..].replace('\\', " ");
        loop {
            let Some(at) = words(&body, name).next().filter(|_| body.len() < MAX_BODY) else { break };
            let open = at + name.len();
            let Some(end) = body[open..].starts_with('(').then(|| closing(&body, open)).flatten() else { break };
            let arguments: Vec<&str> = split(&body[open + 1..end - 1]);
            let argument = |name: &str| {
                let place = parameters.iter().position(|parameter| *parameter == name)?;
                arguments.get(place).map(|argument| (*argument).to_owned())
            };
            let expanded = replaced(&meant, argument);
            if words(&expanded, name).next().is_some() {
                break;
            }
            body.replace_range(at..end, &expanded);
        }
    }
    body
}

/// An index along an axis: how many elements a block takes, as factors, and its threads if the source says how many they are.
struct Index {
    per_block: Vec<String>,
    threads: Option<String>,
}

/// Returns the values that names are given, in order.
fn values(body: &str) -> IndexMap<String, Vec<String>> {
    let mut found: IndexMap<String, Vec<String>> = IndexMap::new();
    for statement in body.split([';', '{', '}']) {
        let statement = statement.trim();
        let statement = match statement.strip_prefix("for").map(str::trim_start).and_then(|it| it.strip_prefix('(')) {
            Some(first) => first,
            None => statement,
        };
        for part in split(statement) {
            let Some((declared, value)) = part.split_once('=') else { continue };
            let words: Vec<&str> = declared.split_whitespace().collect();
            let are_plain = words.iter().all(|word| is_identifier(&word.replace("::", "_")));
            if let Some(name) = words.last().filter(|_| are_plain && !value.starts_with('=')) {
                found.entry((*name).to_owned()).or_default().push(plain(value));
            }
        }
    }
    found
}

/// Returns the text up to the end of a condition or of an expression.
fn up_to_end(text: &str) -> &str {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => break,
            b')' | b']' => depth -= 1,
            b';' | b'{' | b'}' | b'?' | b',' | b'&' | b'|' if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    &text[..at]
}

/// Returns an expression without blanks, conversions to integers and brackets around all of it.
fn plain(expression: &str) -> String {
    const INTEGERS: [&str; 14] = [
        "int",
        "unsigned",
        "unsignedint",
        "size_t",
        "long",
        "longlong",
        "longint",
        "unsignedlong",
        "unsignedlonglong",
        "int32_t",
        "int64_t",
        "uint32_t",
        "uint64_t",
        "uint",
    ];
    let mut text: String = expression.split_whitespace().collect();
    for of in INTEGERS {
        text = text.replace(&format!("({of})"), "").replace(&format!("static_cast<{of}>"), "");
    }
    without_brackets(&text).to_owned()
}

fn without_brackets(mut text: &str) -> &str {
    while text.starts_with('(') && closing(text, 0) == Some(text.len()) {
        text = &text[1..text.len() - 1];
    }
    text
}

/// Splits an expression at an operator that is in no brackets.
fn parts(text: &str, operator: char) -> Vec<&str> {
    let (mut found, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if c == operator && depth == 0 => {
                found.push(without_brackets(&text[from..at]));
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(without_brackets(&text[from..]));
    found
}

/// Replaces names of an expression.
fn replaced(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let (mut made, mut at) = (String::new(), 0);
    while at < text.len() {
        let word = identifier(text, at);
        let is_member = made.ends_with('.');
        if word.is_empty() {
            let next = text[at..].chars().next().map_or(1, char::len_utf8);
            made.push_str(&text[at..at + next]);
            at += next;
        } else {
            made.push_str(&value(word).filter(|_| !is_member).unwrap_or_else(|| word.to_owned()));
            at += word.len();
        }
    }
    made
}

/// Puts blanks around operators, as people write them.
fn spaced(text: &str) -> String {
    text.chars().flat_map(|c| if "+-*/%".contains(c) { vec![' ', c, ' '] } else { vec![c] }).collect()
}

/// Tells whether a text begins with an axis behind the point.
fn is_axis(rest: &str, axis: char) -> bool {
    rest.trim_start().strip_prefix('.').is_some_and(|rest| identifier(rest.trim_start(), 0) == axis.to_string())
}

fn is_one_axis(rest: &str) -> bool {
    AXES.iter().any(|axis| rest == axis.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::Reading;

    /// Returns the launch of a kernel with the sizes `n` and `m`.
    fn of(body: &str, block: &str) -> String {
        let text = format!(
            "#define TILE 64\n#define LOOP(i, n) \\\n  for (int i = blockIdx.x * blockDim.x + threadIdx.x, step = blockDim.x * gridDim.x; \\\n i < (n); i += step)\n__global__ void k(const float* x, float* y, int n, int m) {{ {body} }}"
        );
        let draft = Draft::read(Reading::of(&text)).unwrap();
        let wanted = Wanted { block: Wanted::extents(block), ..Wanted::default() };
        let shown = |it: Geometry| format!("({}) ({}) {}", it.grid.join(", "), it.block.join(", "), it.from.join(", "));
        Geometry::of(&draft, &wanted).map_or_else(String::new, shown)
    }

    #[test]
    fn a_launch_follows_from_an_index_that_is_compared_with_a_size() {
        let i = "int i = blockIdx.x * blockDim.x + threadIdx.x;";
        assert_eq!(of(&format!("{i} if (i < n) y[i] = x[i];"), ""), "(ceil_div(n, THREADS)) (THREADS) i < n");
        assert_eq!(of(&format!("{i} if (i >= n) return; y[i] = x[i];"), "128"), "(ceil_div(n, 128)) (128) i < n");
        let total = format!("const size_t all = (size_t)n * m; {i} if (i < all && m) y[i] = 1;");
        assert_eq!(of(&total, ""), "(ceil_div(n * m, THREADS)) (THREADS) i < n * m");
        let stride =
            "for (int i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 1;";
        assert_eq!(of(stride, ""), "(ceil_div(n, THREADS)) (THREADS) i < n");
        assert_eq!(of("LOOP(at, n) { y[at] = 1; }", ""), "(ceil_div(n, THREADS)) (THREADS) at < n");
        let vectors = "int t = threadIdx.x, i = 4 * (blockIdx.x * TILE + t); if (i < n) y[i] = 1;";
        assert_eq!(of(vectors, ""), "(ceil_div(n, TILE * 4)) (TILE) i < n");
        let plane = "int r = blockIdx.y * blockDim.y + threadIdx.y; int c = blockIdx.x * blockDim.x + threadIdx.x; \
                     if (c < m && r < n) y[r * m + c] = 1;";
        let expected = "(ceil_div(m, THREADS_X), ceil_div(n, THREADS_Y)) (THREADS_X, THREADS_Y) c < m, r < n";
        assert_eq!(of(plane, ""), expected);
        let rows =
            "int row = blockIdx.x; if (row >= n) return; for (int i = threadIdx.x; i < m; i += blockDim.x) y[i] = 1;";
        assert_eq!(of(rows, ""), "(n) (THREADS) row < n");
    }

    #[test]
    fn what_is_unclear_is_not_proposed() {
        let i = "int i = blockIdx.x * blockDim.x + threadIdx.x;";
        for body in [
            format!("{i} y[i] = x[i];"),
            format!("{i} if (i < n) y[i] = 1; if (i < m) y[i] = 2;"),
            format!("{i} i += 3; if (i < n) y[i] = 1;"),
            format!("{i} if (i < y[0]) y[i] = 1;"),
            format!("{i} if (i < 32) y[i] = 1;"),
            format!("{i} int row = blockIdx.x; if (i < n) y[row] = 1;"),
            format!("{i} if (i < n) y[i + blockIdx.y * n] = 1;"),
            format!("{i} n = m; if (i < n) y[i] = 1;"),
            "int i = blockIdx.x * blockDim.y + threadIdx.x; if (i < n) y[i] = 1;".to_owned(),
            "int i = blockIdx.x; if (i < n) y[i * 32 + threadIdx.x] = 1;".to_owned(),
            "if (threadIdx.x < n) y[threadIdx.x] = 1;".to_owned(),
        ] {
            assert_eq!(of(&body, ""), "", "{body}");
        }
    }

    #[test]
    fn launch_bounds_limit_the_threads_that_are_tried() {
        let text = "__global__ void __launch_bounds__(128) k(const float* x, float* y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }";
        let draft = Draft::read(Reading::of(text)).unwrap();
        let Geometry { grid, block, .. } = Geometry::of(&draft, &Wanted::default()).unwrap();
        let shapes = ["x", "y"].map(|name| (name.to_owned(), vec!["n".to_owned()])).into();
        let cases = vec![Wanted::case("n=9").unwrap()];
        let wanted = Wanted { name: "k".to_owned(), grid, block, shapes, cases, ..Wanted::default() };
        let made = crate::intake::texts(&draft, &wanted, None).unwrap();
        let (threads, values) = &made.parameters[0];
        assert_eq!((threads.value, &values[..]), (128, &[32, 64, 128][..]));
        assert!(made.family.contains("expr = \"THREADS <= 128\""), "{}", made.family);
    }
}
