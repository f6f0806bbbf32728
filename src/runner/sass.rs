//! The machine code (SASS) of a compiled variant as text, by NVIDIA's `nvdisasm`, with the lines of the source that it comes from.
//!
//! `nvdisasm` is a program of the user's installation and never one of the project. Where it is missing, the answer is one
//! sentence.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::activity::{self, Limit};
use super::child;
use super::toolchain;
use crate::domain::artifact::Artifact;
use crate::environment;

/// How long `nvdisasm` may take. It takes under a second for the kernels that optloop ships.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The file of a variant's source in the debug information.
const SOURCE: &str = "variant.cu";

/// An instruction of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// The kernel.
    pub kernel: String,
    /// The lines of the rendered source that it comes from, from 1: that of an inlined function, then those of its calls. Empty if
    /// they are not known.
    pub lines: Vec<u32>,
    /// Its address and its text.
    pub text: String,
}

/// Disassembles a variant that was compiled with its lines. `exe` is optloop's executable. The error says in one sentence why there
/// is no machine code.
pub async fn disassembled(exe: PathBuf, artifact: &Artifact) -> Result<Vec<Instruction>, String> {
    let nvdisasm = toolchain::tool("nvdisasm").ok_or_else(|| {
        "nvdisasm is not installed, or not in PATH: it is part of NVIDIA's CUDA toolkit (`pip install nvidia-cuda-nvdisasm` \
         is enough)"
            .to_owned()
    })?;
    let folder = tempfile::tempdir().map_err(|error| format!("nvdisasm has no temporary folder: {error}"))?;
    let cubin = folder.path().join("variant.cubin");
    std::fs::write(&cubin, &artifact.cubin).map_err(|error| format!("nvdisasm's input cannot be written: {error}"))?;
    let _running = activity::begin("nvdisasm", Limit::new("its limit", TIMEOUT));
    let mut command = Command::new(exe);
    // Under a guard, it does not outlive optloop.
    command.args(["guard", "--"]).arg(nvdisasm).arg("--print-line-info").arg(&cubin);
    environment::limit(command.as_std_mut());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|error| format!("nvdisasm's guard cannot be run: {error}"))?;
    let output = wait(child).await?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let instructions = parse(&printed);
    match instructions.is_empty() {
        true => {
            let said = child::last_line_blocking(&output.stderr[..]);
            Err(format!("nvdisasm printed no instructions: {said}"))
        }
        false => Ok(instructions),
    }
}

/// Waits for the output. The guard lives as long as its standard input.
async fn wait(mut child: tokio::process::Child) -> Result<std::process::Output, String> {
    let input = child.stdin.take();
    let output = timeout(TIMEOUT, child.wait_with_output()).await;
    drop(input);
    match output {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(format!("nvdisasm's output cannot be read: {error}")),
        Err(_) => Err(format!("nvdisasm took over {}", humantime::format_duration(TIMEOUT))),
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
        let listing = "\t.section\t.text.attend,\"ax\",@progbits
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
        let found = parse(listing);
        let lines: Vec<_> = found.iter().map(|one| (one.kernel.as_str(), one.lines.clone())).collect();
        assert_eq!(
            lines,
            [("attend", vec![12]), ("attend", vec![14]), ("attend", vec![3, 15, 15]), ("attend", vec![3, 15, 15])]
        );
        assert_eq!(found[2].text, "/*0020*/                   @P0 EXIT ;");
        assert_eq!(parse("nothing"), []);
    }
}
