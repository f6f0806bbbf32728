//! The machine code (SASS) of a compiled variant as text, by NVIDIA's `nvdisasm`, with the lines of the source that it comes from.
//!
//! `nvdisasm` is a program of the user's installation and never one of the project. Where it is missing, the answer is one
//! sentence.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::activity;
use super::child;
use super::compile::Compiler;
use super::toolchain;
use crate::domain::code::artifact::Artifact;
use crate::domain::variant::Variant;
use crate::environment;
use crate::error::{Error, Result, error};

/// How long `nvdisasm` may take. It takes under a second for the kernels that optloop ships.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The file of a variant's source in the debug information.
const SOURCE: &str = "variant.cu";

/// Lines of a rendered source, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    first: u32,
    last: u32,
}

/// An instruction of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Instruction {
    kernel: String,
    /// The lines of the rendered source that it comes from: that of an inlined function, then those of its calls. Empty if they are
    /// not known.
    lines: Vec<u32>,
    /// Its address and its text.
    text: String,
}

impl Lines {
    /// All of a source.
    const ALL: Self = Self { first: 1, last: u32::MAX };

    /// Parses one line, a range such as `40..52`, or `..` for all.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |text: &str, open: u32| if text.is_empty() { Some(open) } else { text.parse().ok() };
        let range = match text.split_once("..") {
            Some((first, last)) => number(first, 1).zip(number(last, u32::MAX)),
            None => text.parse().ok().map(|line| (line, line)),
        };
        let lines = range.map(|(first, last)| Self { first, last }).filter(|lines| lines.first <= lines.last);
        lines.ok_or_else(|| {
            error!("`{text}` names no lines").hint("write a line of the source or a range, such as 40 or 40..52")
        })
    }

    fn hold(self, instruction: &Instruction) -> bool {
        self == Self::ALL || instruction.lines.iter().any(|line| (self.first..=self.last).contains(line))
    }
}

/// Compiles a variant again with the lines of its source, and returns the machine code that comes from some of them, below these
/// lines. The error says in one sentence why there is none.
pub async fn of_variant(compiler: Compiler, variant: Variant, lines: Lines) -> Result<String> {
    let exe = compiler.exe().ok_or("a recording has no machine code")?.to_owned();
    let source = variant.source.clone();
    let compiled = tokio::task::spawn_blocking(move || compiler.compile_with_lines(&variant)).await;
    let compiled = compiled.map_err(|error| error!("it cannot be compiled in the background: {error}"))?;
    let artifact = compiled.map_err(|error| error!("it does not compile: {error}"))?;
    let instructions = disassembled(exe, &artifact).await?;
    let chosen: Vec<&Instruction> = instructions.iter().filter(|one| lines.hold(one)).collect();
    match &chosen[..] {
        [] => Err(Error::new("no instruction comes from these lines of the source")),
        chosen => Ok(listing(chosen, &source.lines().collect::<Vec<_>>())),
    }
}

/// Lists instructions in their order. A line of the source stands above those that come from it.
fn listing(instructions: &[&Instruction], source: &[&str]) -> String {
    let (mut kernel, mut line, mut listing) = ("", None, String::new());
    for one in instructions {
        if one.kernel != kernel {
            let _ = writeln!(listing, "{}:", one.kernel);
            (kernel, line) = (&one.kernel, None);
        }
        let own = one.lines.first().copied();
        if own != line {
            let text = own.and_then(|line| source.get((line as usize).checked_sub(1)?)).map_or("", |text| text.trim());
            let number = own.map_or("-".to_owned(), |line| line.to_string());
            let _ = writeln!(listing, "{number:>5}  {text}");
            line = own;
        }
        let _ = writeln!(listing, "         {}", one.text);
    }
    listing
}

/// Disassembles a variant that was compiled with its lines. `exe` is optloop's executable.
async fn disassembled(exe: PathBuf, artifact: &Artifact) -> Result<Vec<Instruction>> {
    let nvdisasm = toolchain::tool("nvdisasm")
        .ok_or("nvdisasm is not installed, or not in PATH: it is a part of NVIDIA's CUDA toolkit")?;
    let folder = tempfile::tempdir().map_err(|error| error!("nvdisasm has no temporary folder: {error}"))?;
    if artifact.cubin.starts_with(artifact.ptx.as_bytes()) {
        return Err(Error::new("its kernel came as PTX, which only the driver of a device compiles to machine code"));
    }
    let cubin = folder.path().join("variant.cubin");
    std::fs::write(&cubin, &artifact.cubin).map_err(|error| error!("nvdisasm's input cannot be written: {error}"))?;
    let _running = activity::begin("nvdisasm", None);
    let mut command = Command::new(exe);
    // Under a guard, it does not outlive optloop.
    command.args(["guard", "--"]).arg(nvdisasm).arg("--print-line-info").arg(&cubin);
    environment::limit(command.as_std_mut());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|error| error!("nvdisasm's guard cannot be run: {error}"))?;
    let output = wait(child).await?;
    match parse(&String::from_utf8_lossy(&output.stdout)) {
        none if none.is_empty() => {
            Err(error!("nvdisasm printed no instructions: {}", child::last_line_blocking(&output.stderr[..])))
        }
        instructions => Ok(instructions),
    }
}

/// Waits for the output. The guard lives as long as its standard input.
async fn wait(mut child: tokio::process::Child) -> Result<std::process::Output> {
    let input = child.stdin.take();
    let output = timeout(TIMEOUT, child.wait_with_output()).await;
    drop(input);
    match output {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(error!("nvdisasm's output cannot be read: {error}")),
        Err(_) => Err(error!("nvdisasm took over {}", humantime::format_duration(TIMEOUT))),
    }
}

/// Reads the listing. A kernel's section begins with `.text.NAME:`, and `//## File "FILE", line N` comes before the instructions of
/// a line. Where a function is inlined, its call follows in the same line.
fn parse(listing: &str) -> Vec<Instruction> {
    let (mut kernel, mut lines) = (String::new(), Vec::new());
    let mut instructions = Vec::new();
    let mut continues = false;
    for text in listing.lines().map(str::trim) {
        if let Some(name) = text.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            (kernel, lines) = (name.to_owned(), Vec::new());
        } else if let Some(place) = text.strip_prefix("//##") {
            // A call may have a line of its own.
            if !continues {
                lines.clear();
            }
            lines.extend(places(place));
            continues = true;
            continue;
        } else if text.starts_with("/*") && text.contains(';') {
            instructions.push(Instruction { kernel: kernel.clone(), lines: lines.clone(), text: text.to_owned() });
        }
        continues = false;
    }
    instructions
}

/// Returns the lines of the source that a comment names.
fn places(comment: &str) -> Vec<u32> {
    let line = |file: &str, rest: &str| {
        let digits = rest.trim_start_matches([',', ' ']).strip_prefix("line ")?;
        let number: String = digits.chars().take_while(char::is_ascii_digit).collect();
        number.parse().ok().filter(|_| file == SOURCE || file.ends_with(&format!("/{SOURCE}")))
    };
    let parts: Vec<&str> = comment.split('"').collect();
    parts.chunks(2).zip(parts.chunks(2).skip(1)).filter_map(|(own, next)| line(own.get(1)?, next.first()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_lines_of_the_source_and_of_the_calls_in_it() {
        let printed = "\t.section\t.text.attend,\"ax\",@progbits
.text.attend:
\t//## File \"variant.cu\", line 12
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File \"/usr/include/cuda_fp16.hpp\", line 900 inlined at \"variant.cu\", line 14
        /*0010*/                   HADD2 R2, R2, R3 ;
\t//## File \"variant.cu\", line 3 inlined at \"variant.cu\", line 15
\t//## File \"variant.cu\", line 15
        /*0020*/                   @P0 EXIT ;
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
";
        let found = parse(printed);
        let lines: Vec<_> = found.iter().map(|one| (one.kernel.as_str(), one.lines.clone())).collect();
        assert_eq!(
            lines,
            [("attend", vec![12]), ("attend", vec![14]), ("attend", vec![3, 15, 15]), ("attend", vec![3, 15, 15])]
        );
        assert_eq!(found[2].text, "/*0020*/                   @P0 EXIT ;");
        assert_eq!(parse("nothing"), []);

        let of = |lines: &str| {
            let lines = Lines::parse(lines).unwrap();
            let chosen: Vec<&Instruction> = found.iter().filter(|one| lines.hold(one)).collect();
            listing(&chosen, &["a", "b", "c();"])
        };
        assert_eq!(
            of("14..15").lines().map(str::trim).collect::<Vec<_>>(),
            ["attend:", "14", found[1].text.as_str(), "3  c();", found[2].text.as_str(), found[3].text.as_str()]
        );
        assert_eq!(of(".."), of("1..99"));
        assert_eq!([of("9"), of("..2")], ["", ""]);
        assert!(["x", "5..4", "", "-1"].map(|text| Lines::parse(text).is_err()) == [true; 4]);
    }
}
