//! Finds the line of the source from which each instruction comes.
//!
//! If NVRTC is asked for lines, its PTX has `.loc` directives. Each holds for the instructions after it, and names a file, a line and
//! a column. In an inlined function, it also names the call, which has a directive of its own before it. A kernel may call one
//! helper in several places, so the line in the kernel tells more than the line in the helper. A lambda is a part of the function
//! in which it is written.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::lined::Lined;
use super::statement::{Instruction, Piece, pieces};
use crate::domain::code::ablation::SourceLine;
use crate::runner::nvrtc::SOURCE_NAME;

/// The most characters of a line's text.
const MAX_CHARS: usize = 80;

/// The number of a file, a line and a column.
type Location<'a> = [&'a str; 3];

/// The lines from which the instructions of a PTX text come.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    /// The text of each line of the source.
    texts: Vec<&'a str>,
    /// For each instruction, the line in the kernel, the line in the function that is called there, and so on.
    frames: Vec<Vec<u32>>,
}

/// Instructions that come from the same line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// The line.
    pub line: SourceLine,
    /// The numbers of the instructions.
    pub numbers: Vec<usize>,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a PTX text from the same with lines. None if the instructions differ, or if the source gives its lines
    /// other numbers.
    pub fn of(ptx: &str, lined: &'a Lined) -> Option<Self> {
        let (pieces, known) = (pieces(ptx), pieces(&lined.ptx));
        let texts: Vec<&str> = lined.source.lines().collect();
        let is_same = instructions(&pieces).eq(instructions(&known));
        let is_numbered = |text: &&str| text.trim_start().strip_prefix('#').is_some_and(renumbers);
        if !is_same || texts.iter().any(is_numbered) {
            return None;
        }
        let frames = frames(&lined.ptx, &known, texts.len());
        Some(Self { texts, frames })
    }

    /// Groups instructions by their lines, the most instructions first. What is not from the source is in no group.
    ///
    /// The line is the one in the kernel. If all come from one line there, as where a kernel only calls a function, it is the line in
    /// that function, and so on until the lines differ.
    pub fn groups(&self, numbers: &[usize]) -> Vec<Group> {
        let frames = |number: usize| self.frames.get(number).filter(|frames| !frames.is_empty());
        let placed: Vec<(usize, &Vec<u32>)> = numbers.iter().filter_map(|one| Some((*one, frames(*one)?))).collect();
        let line = |depth: usize, frames: &Vec<u32>| frames[depth.min(frames.len() - 1)];
        let differ = |depth: &usize| placed.windows(2).any(|two| line(*depth, two[0].1) != line(*depth, two[1].1));
        let deepest = placed.iter().map(|(_, frames)| frames.len()).max().unwrap_or_default();
        let depth = (0..deepest).find(differ).unwrap_or_default();
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, frames) in placed {
            groups.entry(line(depth, frames)).or_default().push(number);
        }
        let mut groups: Vec<Group> = groups.into_iter().map(|(line, numbers)| self.group(line, numbers)).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.line.places));
        groups
    }

    fn group(&self, line: u32, numbers: Vec<usize>) -> Group {
        let text = short(self.texts.get(line as usize - 1).copied().unwrap_or_default());
        let places = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        Group { line: SourceLine { line, text, places, time_ns: None }, numbers }
    }
}

/// Returns the texts of the instructions.
fn instructions<'p>(pieces: &'p [Piece<'_>]) -> impl Iterator<Item = &'p str> {
    pieces.iter().filter_map(|piece| piece.instruction().map(|Instruction { text, .. }| *text))
}

/// Returns whether a directive of the source, without its `#`, gives lines other numbers.
fn renumbers(directive: &str) -> bool {
    directive.trim_start().starts_with(|c: char| c.is_ascii_digit()) || directive.trim_start().starts_with("line")
}

/// Returns the lines of each instruction, outermost first, in a source of some lines. Lines of other files are left out.
fn frames(ptx: &str, pieces: &[Piece<'_>], lines: usize) -> Vec<Vec<u32>> {
    let sources: HashSet<&str> = pieces.iter().filter_map(|piece| source_file(piece.text())).collect();
    let local = local_functions(ptx);
    let line = |[file, line, _]: &Location<'_>| {
        let line = line.parse().ok().filter(|line| (1..=lines).contains(&(*line as usize)));
        line.filter(|_: &u32| sources.contains(file))
    };
    let mut chains: HashMap<Location<'_>, Vec<Location<'_>>> = HashMap::new();
    let (mut now, mut frames) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Body(_) => {
                chains.clear();
                now.clear();
            }
            Piece::Instruction(_) => frames.push(now.clone()),
            Piece::Other(text) => {
                let Some((location, inlined)) = location(text) else { continue };
                let mut chain = Vec::new();
                if let Some((function, call)) = inlined {
                    chain = chains.get(&call).cloned().unwrap_or(vec![call]);
                    if local.contains(function) {
                        chain.pop();
                    }
                }
                chain.push(location);
                now = chain.iter().filter_map(line).collect();
                chains.insert(location, chain);
            }
            Piece::Registers(_) => {}
        }
    }
    frames
}

/// Returns the number of the source's file, if a directive names it.
fn source_file(directive: &str) -> Option<&str> {
    let (number, rest) = directive.strip_prefix(".file")?.trim_start().split_once(char::is_whitespace)?;
    let path = rest.split('"').nth(1)?;
    path.rsplit('/').next().filter(|name| SOURCE_NAME.to_bytes() == name.as_bytes()).map(|_| number)
}

/// Returns the labels of the names of functions that are written in other ones: of lambdas. Such a name begins with `_ZZ` (Itanium
/// C++ ABI, "Scope Encoding"), and each name stands in bytes after its label.
fn local_functions(ptx: &str) -> HashSet<&str> {
    let lines = ptx.lines().map(str::trim);
    let labels = lines.clone().zip(lines.skip(1)).filter(|(_, bytes)| bytes.starts_with(".b8 95,90,90,"));
    labels.filter_map(|(label, _)| label.strip_suffix(':')).collect()
}

/// Reads a `.loc` directive: its location, and for an inlined function the label of its name and the location of the call.
fn location(directive: &str) -> Option<(Location<'_>, Option<(&str, Location<'_>)>)> {
    let mut words = directive.strip_prefix(".loc")?.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let location = [words.next()?, words.next()?, words.next()?];
    let function = words.find(|word| *word == "function_name").and_then(|_| words.next());
    let is_inlined = words.any(|word| word == "inlined_at");
    let call = if is_inlined { Some((function?, [words.next()?, words.next()?, words.next()?])) } else { None };
    Some((location, call))
}

/// Returns the text of a line without its indentation and the comment at its end, shortened if it is long.
fn short(text: &str) -> String {
    let text = text.trim();
    let text = text.split_once(" //").map_or(text, |(code, _)| code.trim_end());
    if text.chars().count() <= MAX_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_CHARS - 3).collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use super::super::{Parameters, ablate};
    use super::*;
    use crate::domain::code::ablation::Removed;
    use crate::runner::compile::LINES;
    use crate::runner::nvrtc::Nvrtc;
    use crate::runner::toolchain::Toolchain;

    const SOURCE: &str = "\
#include <cuda_fp16.h>
__device__ float part(const float* from) { return *from; }
__device__ float load(const float* from) {
    return part(from) + part(from + 1);
}
__device__ void body(const float* a, const float* b, float* out) {
    *out = load(a);
    *out += load(b);
}
__global__ void run(const float* a, const float* b, float* out) {
    body(a, b, out);
}
";

    /// Returns a kernel of instructions, each after its directives.
    fn lined(instructions: &str) -> Lined {
        let body: Vec<&str> = instructions.lines().map(str::trim).collect();
        let ptx = format!(
            ".visible .entry run()\n{{\n{}\n}}\n\t.file\t1 \"/tmp/variant.cu\"\n\t.file\t2 \"/cuda/cuda_fp16.hpp\"\n\
             \t.section\t.debug_str\n\t{{\n$L__info_string0:\n.b8 95,90,52,0\n\
             $L__info_string1:\n.b8 95,90,90,51,0\n\t}}\n",
            body.join("\n")
        );
        Lined { source: SOURCE.to_owned(), ptx }
    }

    /// Returns the lines of all instructions, with their numbers.
    fn lines(instructions: &str) -> Vec<(u32, Vec<usize>)> {
        let lined = lined(instructions);
        let plain: Vec<&str> = lined.ptx.lines().filter(|line| !line.starts_with(".loc")).collect();
        let lines = Lines::of(&plain.join("\n"), &lined).unwrap();
        let all: Vec<usize> = (0..lines.frames.len()).collect();
        lines.groups(&all).into_iter().map(|group| (group.line.line, group.numbers)).collect()
    }

    /// The helper is inlined into another one, which the kernel calls on two lines.
    const TWO_CALLS: &str = ".loc 1 7 12
        .loc 1 4 12, function_name $L__info_string0, inlined_at 1 7 12
        .loc 1 2 51, function_name $L__info_string0, inlined_at 1 4 12
        ld.global.f32 %f1, [%rd1];
        .loc 1 8 13
        .loc 1 4 12, function_name $L__info_string0, inlined_at 1 8 13
        .loc 1 2 51, function_name $L__info_string0, inlined_at 1 4 12
        ld.global.f32 %f2, [%rd2];
        ld.global.f32 %f3, [%rd2+4];";

    #[test]
    fn the_line_is_the_one_in_the_kernel() {
        assert_eq!(lines(TWO_CALLS), [(8, vec![1, 2]), (7, vec![0])]);
    }

    #[test]
    fn a_call_from_which_all_come_tells_nothing() {
        let body = TWO_CALLS.replace(".loc 1 7 12\n", ".loc 1 11 5\n.loc 1 7 12, function_name x, inlined_at 1 11 5\n");
        let body = body.replace(".loc 1 8 13\n", ".loc 1 8 13, function_name x, inlined_at 1 11 5\n");
        assert_eq!(lines(&body), [(8, vec![1, 2]), (7, vec![0])]);
        // Neither does any other one here.
        let one = TWO_CALLS.lines().take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(lines(&one), [(7, vec![0])]);
        // The instruction in the kernel itself is on no other line.
        let own = ".loc 1 11 5\nld.global.f32 %f1, [%rd1];\n.loc 1 8 13, function_name x, inlined_at 1 11 5\n\
                   ld.global.f32 %f2, [%rd1];";
        assert_eq!(lines(own), [(8, vec![1]), (11, vec![0])]);
    }

    #[test]
    fn a_lambda_is_a_part_of_its_function() {
        let lambda = TWO_CALLS
            .replace(".loc 1 7 12\n", ".loc 1 11 5\n.loc 1 7 12, function_name $L__info_string1, inlined_at 1 11 5\n");
        assert_eq!(lines(&lambda), [(8, vec![1, 2]), (7, vec![0])]);
        let function = lambda.replace("$L__info_string1", "$L__info_string0");
        assert_eq!(lines(&function), [(8, vec![1, 2]), (11, vec![0])]);
    }

    #[test]
    fn a_header_is_left_out_for_the_line_that_uses_it() {
        let body = ".loc 1 7 5\n.loc 2 900 3, function_name x, inlined_at 1 7 5\nex2.approx.f32 %f1, %f2;\n\
                    .loc 2 33 1\nex2.approx.f32 %f3, %f2;\n.loc 1 0 5\nex2.approx.f32 %f4, %f2;";
        assert_eq!(lines(body), [(7, vec![0])], "the others are from no line of the source");
    }

    /// The loads come from one line of the helper, and from two lines of the function that the kernel calls.
    #[test]
    fn nvrtc_names_the_lines() {
        let source = "__device__ inline float load(const float* from) {\n    return *from;\n}\n\
            __device__ inline void body(const float* a, const float* b, float* out) {\n\
            \x20   const float first = load(a + threadIdx.x);\n\
            \x20   const float second = load(b + threadIdx.x);\n\
            \x20   out[threadIdx.x] = first + second;\n}\n\
            extern \"C\" __global__ void run(const float* a, const float* b, float* out) {\n    body(a, b, out);\n}\n";
        let toolchain = Toolchain::find_or_fetch().unwrap();
        let nvrtc = Nvrtc::open(&toolchain.nvrtc, &toolchain.builtins).unwrap();
        let compile = |option: Option<&str>| {
            let options = ["--gpu-architecture=sm_90a"].into_iter().chain(option).map(str::to_owned);
            nvrtc.compile(source, &options.collect::<Vec<_>>()).ok().unwrap().ptx
        };
        let lined = Lined { source: source.to_owned(), ptx: compile(Some(LINES)) };
        let plain = compile(None);
        assert!(!plain.contains(".loc"));
        let lines = Lines::of(&plain, &lined).unwrap();
        let ablated = ablate(&plain, &Parameters::apart());
        let told = |kind: Removed| {
            let (_, ablated) = ablated.iter().find(|(removed, _)| *removed == kind).unwrap();
            let groups = lines.groups(&ablated.numbers).into_iter();
            groups.map(|group| (group.line.line, group.line.text, group.line.places)).collect::<Vec<_>>()
        };
        let load = |line, text: &str| (line, text.to_owned(), 1);
        let loads = [
            load(5, "const float first = load(a + threadIdx.x);"),
            load(6, "const float second = load(b + threadIdx.x);"),
        ];
        assert_eq!(told(Removed::GlobalLoads), loads);
        assert_eq!(told(Removed::GlobalStores), [load(10, "body(a, b, out);")], "one store is nowhere else");
    }

    #[test]
    fn other_instructions_or_numbers_have_no_lines() {
        let known = lined(TWO_CALLS);
        assert!(Lines::of(&known.ptx, &known).is_some());
        assert!(Lines::of(&known.ptx.replace("[%rd2+4]", "[%rd2+8]"), &known).is_none());
        assert!(Lines::of(&known.ptx.replacen("ld.global.f32 %f3, [%rd2+4];", "", 1), &known).is_none());
        for directive in ["#line 100", "  # 7 \"other.cu\""] {
            let renumbered = Lined { source: format!("{directive}\n{SOURCE}"), ..known.clone() };
            assert!(Lines::of(&known.ptx, &renumbered).is_none(), "{directive}");
        }
    }

    #[test]
    fn a_long_line_is_shortened() {
        assert_eq!(short("  const int row = 1;  "), "const int row = 1;");
        assert_eq!(short("    __syncthreads();  // the tile is free"), "__syncthreads();");
        let long = short(&"µ".repeat(100));
        assert_eq!((long.chars().count(), long.ends_with("µ...")), (80, true));
    }
}
