"""Compiles a kernel in Triton (3.3 or newer) to PTX, with a launch plan that `optloop import` reads. It needs no GPU.

    python3 examples/triton/export.py examples/triton/kernels.py:softmax --signature '*fp32:16, *fp32:16, i32:16, 1024' \\
        --args x,out,cols --grid rows --constraint 'cols <= 1024' --output softmax-triton

The signature has a type for each parameter, with `:16` for a pointer or a number that is a multiple of 16, and the value of each
constexpr. The arguments are what optloop passes: tensors, dimensions and scalars of the op.
"""

import argparse
import importlib.util
import os
import re

# Lines of the Python file are of no use to a kernel.
os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

DIVISOR = 16
# Triton passes pointers to scratch memory after a kernel's own parameters, even if they are not used.
SCRATCH = "scratch"
LEAST_SCRATCH_BYTES = 256


def loaded(path):
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def value(text):
    """Returns the value of a constexpr. None for a type."""
    for of in (int, float):
        try:
            return of(text)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(text)


def compiled(kernel, signature, options, sm):
    """Returns what Triton compiles, its constexprs by name, and which parameters are multiples of 16."""
    types, constants, attributes, divisible = {}, {}, {}, []
    names = kernel.arg_names
    if len(names) != len(signature):
        raise SystemExit(f"the signature has {len(signature)} entries, but the kernel takes {', '.join(names)}")
    for place, (name, text) in enumerate(zip(names, signature)):
        found = value(text)
        if found is not None:
            types[name], constants[name] = "constexpr", found
            continue
        of, _, divisor = text.partition(":")
        types[name] = of
        if divisor:
            attributes[(place,)] = [["tt.divisibility", DIVISOR]]
        divisible.append(bool(divisor) and not of.startswith("*"))
    source = ASTSource(fn=kernel, signature=types, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options), constants, divisible


def refuse(metadata):
    """Refuses what a launch plan cannot say."""
    reasons = {
        "it takes tensor descriptors: make them in the kernel, with tl.make_tensor_descriptor": getattr(
            metadata, "tensordesc_meta", None
        ),
        "it runs in clusters (num_ctas): use one": metadata.num_ctas > 1,
        "it is launched before the one before it ends (launch_pdl)": getattr(metadata, "launch_pdl", False),
        "it waits for the whole grid (launch_cooperative_grid)": getattr(metadata, "launch_cooperative_grid", False),
        "it needs scratch memory for a profiler": getattr(metadata, "profile_scratch_size", 0),
    }
    for reason, applies in reasons.items():
        if applies:
            raise SystemExit(f"{metadata.name}: {reason}")


def parameters(ptx, name):
    declared = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)", ptx, re.DOTALL)
    return len(re.findall(r"\.param", declared[1])) if declared else 0


def plan(kernel, options, constants, divisible):
    """Returns the text of the launch plan."""
    metadata, args, grid = kernel.metadata, options.args.split(","), options.grid.split(";")
    if len(args) != len(divisible):
        raise SystemExit(f"--args has {len(args)} names, but {len(divisible)} parameters are no constexprs")
    with_values = ", ".join(f"{name} = {of}" for name, of in constants.items())
    lines = [f"# Compiled by Triton {triton.__version__}: {options.kernel} for sm_{options.sm}, {with_values}."]
    scratch = parameters(kernel.asm["ptx"], metadata.name) - len(args)
    if scratch > 0:
        programs = " * ".join(f"({extent.strip()})" for extent in grid)
        each = getattr(metadata, "global_scratch_size", 0)
        elements = f"ceil_div({each} * {programs}, 4)" if each else str(LEAST_SCRATCH_BYTES // 4)
        lines += ["", "[[workspace]]", f'name = "{SCRATCH}"', 'dtype = "f32"', f'elements = "{elements}"']
    multiples = [arg for arg, is_multiple in zip(args, divisible) if is_multiple]
    conditions = [(f"{arg} % {DIVISOR} == 0", f"It was compiled for multiples of {DIVISOR}.") for arg in multiples]
    conditions += [(condition, "The kernel needs it.") for condition in options.constraint]
    for condition, why in conditions:
        lines += ["", "[[constraint]]", f'expr = "{condition}"', f'why = "{why}"']
    shown = ", ".join(f'"{arg}"' for arg in args + [SCRATCH] * scratch)
    extents = ", ".join(f'"{extent.strip()}"' for extent in grid)
    lines += ["", "[[launch]]", f'kernel = "{metadata.name}"', f"grid = [{extents}]"]
    lines += [f'block = ["{metadata.num_warps * 32}"]']
    if metadata.shared:
        lines += [f'shared = "{metadata.shared}"']
    return "\n".join([*lines, f"args = [{shown}]", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", metavar="FILE.py:KERNEL")
    parser.add_argument("--signature", required=True)
    parser.add_argument("--args", required=True, help="what optloop passes, such as x,out,cols")
    parser.add_argument("--grid", required=True, help="programs along x, y and z, with ; between them")
    parser.add_argument("--constraint", action="append", default=[], help="where the kernel is right; can be repeated")
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--sm", type=int, default=90)
    parser.add_argument("--ptx-version", type=int, help="such as 83, for a driver that is older than Triton's ptxas")
    parser.add_argument("--output", required=True, help="the files, without .ptx and .toml")
    options = parser.parse_args()
    path, _, name = options.kernel.rpartition(":")
    kernel = getattr(loaded(path), name)
    settings = {"num_warps": options.warps, "num_stages": options.stages}
    if options.ptx_version:
        settings["ptx_version"] = options.ptx_version
    signature = [entry.strip() for entry in options.signature.split(",")]
    made, constants, divisible = compiled(kernel, signature, settings, options.sm)
    refuse(made.metadata)
    for ending, text in [("ptx", made.asm["ptx"]), ("toml", plan(made, options, constants, divisible))]:
        with open(f"{options.output}.{ending}", "w") as file:
            file.write(text)
    print(f"wrote {options.output}.ptx and {options.output}.toml")


if __name__ == "__main__":
    main()
