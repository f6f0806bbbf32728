//! Counts the instructions in the PTX of each kernel, as evidence for a diagnosis.

use std::collections::HashMap;

use crate::domain::code::artifact::{Artifact, InstructionMix, KernelResources};

/// Counts the instructions of an artifact's kernels, unless they are counted already.
pub fn count(artifact: &mut Artifact) {
    if artifact.kernels.iter().all(|kernel| kernel.instructions.is_some()) {
        return;
    }
    let mixes = mixes(&artifact.ptx);
    for KernelResources { name, instructions, .. } in &mut artifact.kernels {
        *instructions = mixes.get(name.as_str()).copied();
    }
}

/// Returns the instructions of each entry function. Calls of other functions are not followed.
fn mixes(ptx: &str) -> HashMap<&str, InstructionMix> {
    let mut mixes = HashMap::new();
    let mut current: Option<&str> = None;
    for line in ptx.lines().map(str::trim) {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or_default();
            mixes.insert(name, InstructionMix::default());
            current = Some(name);
        } else if line.starts_with(".func") || line.contains(" .func ") {
            current = None;
        }
        if let Some(mix) = current.and_then(|name| mixes.get_mut(name)) {
            add(mix, opcode(line));
        }
    }
    mixes
}

/// Returns the opcode of a line without its guard and label; empty if it has none.
fn opcode(line: &str) -> &str {
    let line = line.trim_start_matches('{').trim_start();
    let unguarded = match line.strip_prefix('@') {
        Some(guarded) => guarded.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start()),
        None => line,
    };
    unguarded.split(|c: char| c.is_whitespace() || c == ';').next().unwrap_or_default()
}

fn add(mix: &mut InstructionMix, opcode: &str) {
    let mut parts = opcode.split('.');
    let Some(first) = parts.next() else { return };
    let has = |part: &str| opcode.split('.').skip(1).any(|other| other == part);
    let is_float = || ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"].into_iter().any(has);
    match first {
        "mma" => mix.tensor += 1,
        "wmma" | "wgmma" if has("mma") || has("mma_async") => mix.tensor += 1,
        "fma" => mix.arithmetic += 1,
        "add" | "sub" | "mul" | "mad" if is_float() => mix.arithmetic += 1,
        "ex2" | "lg2" | "rcp" | "rsqrt" | "sqrt" | "sin" | "cos" | "tanh" => mix.special += 1,
        "ld" if has("shared") => mix.shared += 1,
        "ld" if has("local") => mix.local += 1,
        "ld" | "ldu" if !has("param") && !has("const") => {
            mix.global_loads += 1;
            mix.wide_global_loads += u32::from(bytes(opcode) >= 16);
        }
        "st" if has("shared") => mix.shared += 1,
        "st" if has("local") => mix.local += 1,
        "ldmatrix" | "stmatrix" => mix.shared += 1,
        "cp" if has("async") && !["commit_group", "wait_group", "wait_all", "mbarrier"].into_iter().any(has) => {
            mix.copies += 1;
        }
        "bar" | "barrier" if !has("cluster") => mix.barriers += 1,
        "atom" | "red" => mix.atomics += 1,
        _ => {}
    }
}

/// Returns the bytes that one thread loads, from the vector width and the type in the opcode.
fn bytes(opcode: &str) -> u32 {
    let (mut width, mut bits) = (1, 32);
    for part in opcode.split('.').skip(1) {
        match part {
            "v2" => width = 2,
            "v4" => width = 4,
            "v8" => width = 8,
            _ => {
                let digits = part.trim_start_matches(|c: char| c.is_ascii_alphabetic());
                let kind = &part[..part.len() - digits.len()];
                if let (true, Ok(size)) = (["b", "u", "s", "f"].contains(&kind), digits.parse::<u32>()) {
                    bits = size;
                }
            }
        }
    }
    width * bits / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_its_own_instructions() {
        let ptx = "\
.visible .entry first(
	.param .u64 first_param_0
)
{
	ld.param.u64 %rd1, [first_param_0];
	ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
	@%p1 ld.global.b16 %rs1, [%rd1];
	ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r9];
	fma.rn.f32 %f5, %f1, %f2, %f3;
	add.s32 %r1, %r2, %r3;
	{ add.f16x2 %r1,%r2,%r3; }
	ex2.approx.ftz.f32 %f6, %f5;
	bar.sync 0;
$L__BB0_2:
	ret;
}
.visible .entry second()
{
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 1;
	cp.async.cg.shared.global [%r1], [%rd1], 16;
	cp.async.commit_group;
	st.local.u32 [%r1], %r2;
}
";
        let mixes = mixes(ptx);
        let first = InstructionMix {
            arithmetic: 2,
            special: 1,
            global_loads: 2,
            wide_global_loads: 1,
            shared: 1,
            barriers: 1,
            ..InstructionMix::default()
        };
        assert_eq!(mixes["first"], first);
        assert_eq!(mixes["second"], InstructionMix { tensor: 2, copies: 1, local: 1, ..InstructionMix::default() });
    }
}
