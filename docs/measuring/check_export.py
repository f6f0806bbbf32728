"""Checks exported winners on the GPU that they won on: results, torch.compile, CUDA graphs, and times beside the recorded ones.

    python3 docs/measuring/check_export.py attention-fp16-d64 gemm-fp16 --exports DIR
    python3 docs/measuring/check_export.py attention-fp16-d64 --optloop target/release/optloop

It also checks shapes between those of the table, and views. DIR has the folders `<workload>-torch`, `<workload>-python` and `<workload>-c` of `optloop export`. Without them, optloop makes
them. A result is compared with PyTorch in float64, or in the op's own dtype where that takes too much memory. Times are those of
CUDA graph replays, timed as optloop and its baselines do (kernels/baselines/graph_timing.py). Exits with 1 if a result is wrong.
"""

import argparse
import importlib
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "kernels/baselines"))
import graph_timing  # noqa: E402

SAMPLE_NS = 200_000
SAMPLES = 60
TARGETS = ("torch", "python", "c")


class Exported:
    """The tensors of a row of the table, in as many sets as its regime needs. See graph_timing.Case."""

    def __init__(self, module, row, l2_bytes):
        self.row, self.module = row, module
        self.op = getattr(module, module.__name__)
        tensors = row["tensors"].values()
        size = sum(math.prod(it["shape"]) * graph_timing.DTYPES[it["dtype"]].itemsize for it in tensors)
        count = graph_timing.sets_of(row["regime"], size, l2_bytes)
        first = [made(name, tensor, row["dims"]) for name, tensor in row["tensors"].items() if tensor["role"] == "input"]
        self.sets = [first] + [[tensor.clone() for tensor in first] for _ in range(count - 1)]
        self.given = {dim["name"]: row["dims"][dim["name"]] for dim in module.TABLE.dims_known if dim["of"] is None}

    def __call__(self, *inputs):
        return self.op(*inputs, **self.given)

    def call(self, index, outputs):
        index %= len(self.sets)
        outputs[index] = None
        outputs[index] = self(*self.sets[index])

    def exact(self):
        """Computes the row with PyTorch, in float64 if memory allows. Says which it was."""
        inputs = self.sets[0]
        try:
            wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
            return as_list(self.module.reference(*wide, **self.row["dims"])), "float64"
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return as_list(self.module.reference(*inputs, **self.row["dims"])), "PyTorch"


def size(row):
    """Returns how large a row is, to sort rows by it."""
    return math.prod(max(1, extent) for extent in row["dims"].values())


def made(name, tensor, dims):
    dtype = graph_timing.DTYPES[tensor["dtype"]]
    if name == "page_table":
        return torch.randperm(dims["PAGES"], device="cuda")[: math.prod(tensor["shape"])].to(dtype).reshape(tensor["shape"])
    if name == "lengths":
        return torch.linspace(dims.get("SHORTEST", dims["Sk"]), dims["Sk"], math.prod(tensor["shape"]), device="cuda").to(dtype)
    if name == "cu_seqlens":
        return torch.linspace(0, dims["Sk"], dims["B"] + 1, device="cuda").to(dtype)
    if dtype.is_floating_point:
        return torch.randn(tensor["shape"], device="cuda").to(dtype)
    return torch.randint(0, 2, tensor["shape"], device="cuda").to(dtype)


def as_list(found):
    return list(found) if isinstance(found, (tuple, list)) else [found]


def error(found, wanted):
    """Returns the relative L2 error of all outputs, the worst one."""
    errors = []
    for one, other in zip(as_list(found), as_list(wanted), strict=True):
        one, other = one.double().flatten(), other.double().flatten()
        errors.append(((one - other).norm() / other.norm().clamp_min(1e-30)).item())
    return max(errors)


def captured(function):
    """Captures a call in a CUDA graph of its own, and replays it. Returns what the replay computed."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = as_list(function())
    for output in outputs:
        output.fill_(0)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    return [output.clone() for output in outputs]


def time_us(case, timer, state):
    capture = graph_timing.capture_enough(case, SAMPLE_NS * graph_timing.SAMPLE_FACTOR, timer)
    if state is not None:
        state.begin_timing()
    return statistics.median(capture.replays_ns(SAMPLES)) / capture.launches / 1e3


class Checks:
    """What was found, and whether it is right."""

    def __init__(self):
        self.failed = []

    def expect(self, what, holds, found):
        if not holds:
            self.failed.append(f"{what}: {found}")
            print(f"  WRONG {what}: {found}", flush=True)


def check_torch(folder, checks, budget):
    """Checks the op of PyTorch on every row. Prints a line for each case."""
    module = imported(folder)
    driver = importlib.import_module(f"{module.__name__}.driver")
    device = driver.device(torch.cuda.current_device())
    rows = list(module.TABLE.rows_of(device).values())
    print(f"{module.__name__}: {len(rows)} shapes have a winner on the {device.name}", flush=True)
    checks.expect(module.__name__, rows, f"no winner for {device}")
    began = time.monotonic()
    module.load()
    print(f"  loaded in {time.monotonic() - began:.1f} s", flush=True)
    timer, state = graph_timing.Timer(), graph_state()
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    rows.sort(key=lambda row: row["time_us"] is None)
    compiled = compiled_op(getattr(module, module.__name__))
    used = counted_launches(module)
    ratios = []
    for row in rows:
        name = row["case"] if row["time_us"] else f"{row['case']} {row['dims']}"
        try:
            ratios += check_row(module, row, name, (checks, compiled, used, timer, state, l2_bytes))
        except Exception as problem:  # noqa: BLE001: the other rows are of interest, too
            checks.expect(name, False, f"{type(problem).__name__}: {graph_timing.sentence(problem)}")
            traceback.print_exc()
        torch.cuda.empty_cache()
        if time.monotonic() > budget:
            print("  out of time", flush=True)
            break
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"  exported / recorded: geometric mean {mean:.4f}, {min(ratios):.4f} to {max(ratios):.4f}", flush=True)


def compiled_op(op):
    """Compiles a call of the op in one graph. Each shape may need a graph of its own."""
    for limit in ("recompile_limit", "cache_size_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, 256)
    return torch.compile(op, fullgraph=True, dynamic=True)


def counted_launches(module):
    """Returns a list to which every launch of a winner adds its row."""
    launcher = importlib.import_module(f"{module.__name__}.launcher").Launcher
    used, launch = [], launcher.launch

    def counted(self, *arguments):
        used.append(self.row["number"])
        return launch(self, *arguments)

    launcher.launch = counted
    return used


def check_row(module, row, name, tools):
    """Checks a row. Returns its time divided by the recorded one, if there is one."""
    checks, compiled, used, timer, state, l2_bytes = tools
    case = Exported(module, row, l2_bytes)
    limit = 4e-3 if row["tensors"][next(iter(module.TABLE.outputs))]["dtype"] in ("f16", "bf16") else 1e-4
    with torch.no_grad():
        used.clear()
        inputs, first = case.sets[0], as_list(case(*case.sets[0]))
        torch.cuda.synchronize()
        checks.expect(f"{name}, dispatch", used == [row["number"]], f"the winner was not used: {used}")
        if hasattr(module, "reference"):
            wanted, by = case.exact()
            found = error(first, wanted)
            checks.expect(f"{name}, against {by}", found < limit, f"relative error {found:.2e}")
        else:
            found, by = float("nan"), "nothing"
        used.clear()
        again = error(compiled(*inputs, **case.given), first)
        right = again < limit and used == [row["number"]]
        checks.expect(f"{name}, torch.compile", right, f"relative error {again:.2e}, launched {used}")
        replayed = error(captured(lambda: case(*inputs)), first)
        checks.expect(f"{name}, CUDA graph", replayed < limit, f"relative error {replayed:.2e}")
        if row["time_us"] is None:
            print(f"  {name}: error {found:.2e} against {by}", flush=True)
            return []
        us = time_us(case, timer, state)
    ratio = us / row["time_us"]
    print(f"  {name}: error {found:.2e} against {by}; {us:.3f} us, recorded {row['time_us']:.3f} us, ratio {ratio:.4f}"
          f"{'' if ratio <= 1.03 else '  OVER 3%'}", flush=True)
    return [ratio]


def check_fallback(folder, checks):
    """Checks what the op does outside its table: another shape, layout, dtype and place, and with gradients."""
    module = imported(folder)
    if not hasattr(module, "reference"):
        return
    op = getattr(module, module.__name__)
    row = min((row for rows in module.TABLE.rows.values() for row in rows.values()),
              key=lambda row: size(row))
    given = {dim["name"]: row["dims"][dim["name"]] for dim in module.TABLE.dims_known if dim["of"] is None}
    inputs = [made(name, it, row["dims"]) for name, it in row["tensors"].items() if it["role"] == "input"]
    others = {
        "another layout": [transposed(tensor) for tensor in inputs],
        "the CPU": [tensor.cpu() for tensor in inputs],
        "gradients": [tensor.clone().requires_grad_() if tensor.is_floating_point() else tensor for tensor in inputs],
        "another dtype": [tensor.float() if tensor.is_floating_point() else tensor for tensor in inputs],
    }
    for what, tensors in others.items():
        try:
            found = as_list(op(*tensors, **given))
            wanted = as_list(op(*inputs, **given))
            difference = error([one.detach().cuda() for one in found], wanted)
            checks.expect(f"{module.__name__}, {what}", difference < 4e-3, f"relative error {difference:.2e}")
            if what == "gradients":
                sum(one.float().sum() for one in found).backward()
        except Exception as problem:  # noqa: BLE001
            checks.expect(f"{module.__name__}, {what}", False, f"{type(problem).__name__}: {graph_timing.sentence(problem)}")
    print(f"  fallbacks checked: {', '.join(others)}", flush=True)


def check_between(folder, checks):
    """Checks shapes between those of the table: near the ends of each range, and at random; dense, and as views of a model's."""
    module = imported(folder)
    table, plans = importlib.import_module(f"{module.__name__}.table"), importlib.import_module(f"{module.__name__}.plans")
    if not hasattr(module, "reference"):
        return
    device = driver_of(module).device(torch.cuda.current_device())
    used, launched, views, random = counted_launches(module), 0, 0, __import__("random").Random(1)
    for plan in module.TABLE.plans.get(table.place(device), []):
        for end in ("low", "high", "random", "random"):
            dims = between(plan, table.NEAR, end, random)
            if dims is None:
                continue
            described = plans.tensors(**dims)
            inputs = [made(name, it, dims) for name, it in described.items() if it["role"] == "input"]
            given = {dim["name"]: dims[dim["name"]] for dim in module.TABLE.dims_known if dim["of"] is None}
            if sum(tensor.numel() for tensor in inputs) > 1 << 28:
                continue
            wanted = as_list(module.reference(*inputs, **dims))
            as_views = [tensor.transpose(1, 2).contiguous().transpose(1, 2) if tensor.dim() == 4 else tensor for tensor in inputs]
            for what, tensors in (("dense", inputs), ("views", as_views)):
                used.clear()
                found = as_list(getattr(module, module.__name__)(*tensors, **given))
                difference = error(found, wanted)
                checks.expect(f"{plan['case']} at {dims}, {what}", difference < 4e-3, f"relative error {difference:.2e}")
                launched, views = launched + (bool(used) and what == "dense"), views + (bool(used) and what == "views")
            torch.cuda.empty_cache()
    print(f"  between: a winner was launched on {launched} dense shapes and {views} of views; {module.stats()}", flush=True)


def between(plan, near, end, random):
    """Returns dimensions near those of a plan's case and within its ranges. None if their ratios cannot be kept."""
    dims = {name: low for name, (low, high) in plan["ranges"].items()}
    for name, at in plan["at"].items():
        low, high = plan["ranges"][name]
        low, high = max(low, -(-at // near)), min(high, at * near)
        dims[name] = {"low": low, "high": high, "random": random.randint(low, high)}[end]
    if dims.get("Hkv") and dims["H"] % dims["Hkv"]:
        dims["Hkv"] = dims["H"]
    if dims.get("CAUSAL") and dims["Sk"] < dims["Sq"]:
        dims["Sk"] = dims["Sq"]
    if dims.get("VARLEN"):
        dims["Sk"] = dims["Sq"]
        dims["SHORTEST"] = min(dims["SHORTEST"], dims["Sk"] // dims["B"])
    if dims.get("PAGE"):
        dims["Sk"] -= dims["Sk"] % dims["PAGE"]
        dims["PAGES"] = max(dims["PAGES"], dims["B"] * dims["Sk"] // dims["PAGE"])
        dims["SHORTEST"] = min(dims["SHORTEST"], dims["Sk"])
    return dims if all(low <= dims[name] <= high for name, (low, high) in plan["ranges"].items()) else None


def driver_of(module):
    return importlib.import_module(f"{module.__name__}.driver")


def transposed(tensor):
    """Lays a tensor out with its last two dimensions exchanged."""
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if tensor.dim() > 1 else tensor


def check_python(folder, checks):
    """Checks the Python package on every case that fits, with torch's tensors."""
    module = imported(folder)
    driver = importlib.import_module(f"{module.__name__}.driver")
    torch.zeros(1, device="cuda")
    rows = [row for row in module.TABLE.rows_of(driver.device(driver.current_device())).values() if row["time_us"]]
    for row in sorted(rows, key=lambda row: size(row))[:4]:
        tensors = {name: made(name, tensor, row["dims"]) for name, tensor in row["tensors"].items()}
        outputs = [name for name, tensor in row["tensors"].items() if tensor["role"] == "output"]
        for name in outputs:
            tensors[name].fill_(0)
        given = {dim["name"]: row["dims"][dim["name"]] for dim in module.TABLE.dims_known if dim["of"] is None}
        stream = torch.cuda.current_stream().cuda_stream
        launched = module.launch(*tensors.values(), **given, stream=stream)
        checks.expect(f"{row['case']}, python", launched, "no winner")
        first = [tensors[name].clone() for name in outputs]
        torch.cuda.synchronize()
        winner = module.find(**row["dims"])
        workspace = torch.zeros(max(1, winner.workspace_bytes), dtype=torch.uint8, device="cuda")
        for name in outputs:
            tensors[name].fill_(0)
        addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
        for _ in range(2):
            winner.launch_with(addresses, workspace.data_ptr(), stream)
        torch.cuda.synchronize()
        again = error([tensors[name] for name in outputs], first)
        empty = all(one.abs().max().item() > 0 for one in first)
        checks.expect(f"{row['case']}, python", empty and again < 1e-3, f"differs by {again:.2e} when launched again")
    print(f"  python: {len(rows)} cases, launched {min(4, len(rows))}", flush=True)


def imported(folder):
    """Imports the package in a folder, and no other of the same name."""
    name = next(path.parent.name for path in pathlib.Path(folder).glob("*/__init__.py"))
    for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
        # torch registers an op once in a process, so this package must be the one that is there.
        if pathlib.Path(sys.modules[name].__file__).parent.parent == pathlib.Path(folder):
            return sys.modules[name]
        del sys.modules[known]
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def graph_state():
    try:
        return graph_timing.GraphState()
    except (OSError, AttributeError, RuntimeError) as problem:
        print(f"the state of the graphs is not known: {graph_timing.sentence(problem)}", flush=True)
        return None


def check_c(folder, torch_folder, checks):
    """Builds a program around the C++ launcher, and runs it on the smallest case. Compares with the op of PyTorch."""
    compiler = shutil.which("g++") or shutil.which("c++")
    header = next(pathlib.Path(folder).glob("*.h"))
    includes = include_folders()
    if compiler is None or not any((pathlib.Path(it) / "cuda.h").is_file() for it in includes):
        print("  c: not checked, because there is no g++ or no cuda.h", flush=True)
        return
    module = imported(torch_folder)
    driver = importlib.import_module(f"{module.__name__}.driver")
    rows = module.TABLE.rows_of(driver.device(torch.cuda.current_device())).values()
    rows = [row for row in rows if row["time_us"]]
    row = max(rows, key=lambda row: (len(row["launches"]), len(row["workspaces"]), -size(row)))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        inputs = {name: made(name, it, row["dims"]) for name, it in row["tensors"].items() if it["role"] == "input"}
        for name, tensor in inputs.items():
            (work / name).write_bytes(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        (work / "main.cpp").write_text(program(header.stem, row))
        libraries = libraries_for_linking(work)
        build = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", *(f"-I{it}" for it in [folder, *includes]), "main.cpp",
                 f"{folder}/{header.stem}.cpp", *libraries, "-o", "main"]
        built = subprocess.run(build, cwd=work, capture_output=True, text=True)
        checks.expect(f"{header.stem}, g++", built.returncode == 0, built.stderr[-2000:])
        if built.returncode != 0:
            return
        # NVRTC loads its builtins by name.
        folders = [str(pathlib.Path(path).resolve().parent) for path in work.glob("lib*.so")]
        environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")])}
        ran = subprocess.run(["./main", *includes], cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        checks.expect(f"{header.stem}, the program", ran.returncode == 0, f"{ran.returncode} {ran.stdout} {ran.stderr}"[-2000:])
        if ran.returncode != 0:
            return
        given = {dim["name"]: row["dims"][dim["name"]] for dim in module.TABLE.dims_known if dim["of"] is None}
        with torch.no_grad():
            wanted = as_list(getattr(module, module.__name__)(*inputs.values(), **given))
        outputs = [name for name, it in row["tensors"].items() if it["role"] == "output"]
        for name, one in zip(outputs, wanted, strict=True):
            raw = torch.frombuffer(bytearray((work / name).read_bytes()), dtype=torch.uint8)
            found = raw.view(one.dtype).reshape(one.shape)
            difference = error(found.cuda(), one)
            checks.expect(f"{row['case']}, c", difference < 1e-3, f"differs by {difference:.2e}")
        print(f"  c: {row['case']} is right, eager and in a graph; {ran.stdout.strip()}", flush=True)


def include_folders():
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ] + ["/usr/local/cuda"]
    wheels = [str(found) for path in sys.path for found in pathlib.Path(path or ".").glob("nvidia/*/include")]
    return [it for it in [*(f"{root}/include" for root in roots), *wheels] if os.path.isdir(it)]


def libraries_for_linking(work):
    """Links the libraries into a folder under the names that the linker wants. Wheels have them with a version only."""
    driver = next((it for it in ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
                                 "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1")
                   if os.path.exists(it)), None)
    driver = driver or loaded("libcuda.so.1")
    patterns = ("nvidia/*/lib/libnvrtc.so.1[23]",)
    nvrtc = [str(found) for path in sys.path for it in patterns for found in pathlib.Path(path or ".").glob(it)]
    nvrtc += [str(found) for found in pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so.1[23]")]
    found = {"libcuda.so": driver, "libnvrtc.so": nvrtc[0] if nvrtc else None}
    for name, path in found.items():
        if path is not None:
            (work / name).symlink_to(path)
    return [f"-L{work}", "-lcuda", "-lnvrtc"]


def loaded(name):
    """Finds a library that this process has loaded."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return next((line.split()[-1] for line in lines if name in line), None)


def program(module, row):
    """Writes a program that launches a row, eagerly and in a graph, and writes the outputs of the graph."""
    dims = " ".join(f"dims.{name} = {size};" for name, size in row["dims"].items())
    sizes = {name: math.prod(it["shape"]) * graph_timing.DTYPES[it["dtype"]].itemsize for name, it in row["tensors"].items()}
    reads = "\n".join(
        f'    CHECK(cuMemAlloc(&tensors.{name}, {sizes[name]}));\n'
        + (f'    upload("{name}", tensors.{name}, {sizes[name]});' if it["role"] == "input"
           else f"    CHECK(cuMemsetD8(tensors.{name}, 0xff, {sizes[name]}));")
        for name, it in row["tensors"].items())
    outputs = [name for name, it in row["tensors"].items() if it["role"] == "output"]
    clears = " ".join(f"CHECK(cuMemsetD8(tensors.{name}, 0xff, {sizes[name]}));" for name in outputs)
    writes = " ".join(f'download("{name}", tensors.{name}, {sizes[name]});' for name in outputs)
    prefix, macro = f"optloop_{module}", f"OPTLOOP_{module.upper()}"
    return f"""
#include "{module}.h"
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) do {{ if ((call) != CUDA_SUCCESS) {{ std::printf("%s failed\\n", #call); std::exit(1); }} }} while (0)

static void upload(const char *path, CUdeviceptr to, size_t bytes) {{
    std::vector<char> host(bytes);
    std::FILE *file = std::fopen(path, "rb");
    if (!file || std::fread(host.data(), 1, bytes, file) != bytes) std::exit(2);
    std::fclose(file);
    CHECK(cuMemcpyHtoD(to, host.data(), bytes));
}}

static void download(const char *path, CUdeviceptr from, size_t bytes) {{
    std::vector<char> host(bytes);
    CHECK(cuMemcpyDtoH(host.data(), from, bytes));
    std::FILE *file = std::fopen(path, "wb");
    std::fwrite(host.data(), 1, bytes, file);
    std::fclose(file);
}}

int main(int count, char **folders) {{
    CUdevice device; CUcontext context; CUstream stream;
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0)); CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context)); CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    {prefix}_dims dims = {{}}; {dims}
    {prefix}_tensors tensors = {{}};
{reads}
    {prefix}_launcher *launcher = nullptr;
    size_t bytes = 0;
    if ({prefix}_create(&launcher) != {macro}_SUCCESS) std::exit(3);
    CUdeviceptr workspace = 0;
    if ({prefix}_launch(launcher, &dims, &tensors, workspace, stream) != {macro}_NOT_LOADED) std::exit(4);
    if ({prefix}_load(launcher, &dims, folders + 1, count - 1) != {macro}_SUCCESS) {{
        std::printf("%s\\n", {prefix}_error(launcher)); std::exit(5);
    }}
    if ({prefix}_workspace_bytes(launcher, &dims, &bytes) != {macro}_SUCCESS) std::exit(6);
    if (bytes > 0) {{ CHECK(cuMemAlloc(&workspace, bytes)); CHECK(cuMemsetD8(workspace, 0, bytes)); }}
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < 2; ++i)
        if ({prefix}_launch(launcher, &dims, &tensors, workspace, stream) != {macro}_SUCCESS) std::exit(7);
    CHECK(cuStreamSynchronize(stream));
    {clears}
    CHECK(cuCtxSynchronize());
    CUgraph graph; CUgraphExec exec;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if ({prefix}_launch(launcher, &dims, &tensors, workspace, stream) != {macro}_SUCCESS) std::exit(8);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; ++i) CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    {writes}
    dims.{next(iter(row["dims"]))} += 1;
    if ({prefix}_launch(launcher, &dims, &tensors, workspace, stream) != {macro}_NO_WINNER) std::exit(9);
    {prefix}_destroy(launcher);
    std::printf("workspace of %zu bytes\\n", bytes);
    return 0;
}}
"""


def exported(workload, target, arguments):
    """Returns the folder of an export, which optloop makes if it is not there."""
    folder = pathlib.Path(arguments.exports).resolve() / f"{workload.replace('/', '-')}-{target}"
    if not folder.is_dir():
        command = [arguments.optloop, "--project", str(ROOT), "export", workload, "--to", target, "--output", str(folder)]
        subprocess.run(command, check=True)
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", nargs="+", help="workloads, or WORKLOAD/CASE")
    parser.add_argument("--exports", default=tempfile.mkdtemp(), help="folder with the exports, or to export into")
    parser.add_argument("--optloop", default="optloop", help="the program, if it must export")
    parser.add_argument("--seconds", type=float, default=540, help="time for all of it")
    parser.add_argument("--json", help="also write what was found to this file")
    arguments = parser.parse_args()
    checks, end = Checks(), time.monotonic() + arguments.seconds
    graph_timing.warm_up()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"driver {graph_timing.driver_version().get('driver')}", flush=True)
    for workload in arguments.workloads:
        torch_folder = None
        for target in TARGETS:
            try:
                folder = exported(workload, target, arguments)
                if target == "torch":
                    torch_folder = folder
                    check_torch(folder, checks, end)
                    check_fallback(folder, checks)
                    check_between(folder, checks)
                elif target == "c":
                    check_c(folder, torch_folder, checks)
                else:
                    run_apart(folder, checks)
            except Exception as problem:  # noqa: BLE001
                traceback.print_exc()
                checks.expect(f"{workload}, {target}", False, f"{type(problem).__name__}: {graph_timing.sentence(problem)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"failed": checks.failed}))
    print(f"{len(checks.failed)} checks failed" if checks.failed else "all checks passed", flush=True)
    sys.exit(1 if checks.failed else 0)


def run_apart(folder, checks):
    """Checks a Python package in a process of its own, because the op's package has the same name."""
    code = (f"import sys; sys.path[:0] = [{str(ROOT / 'docs/measuring')!r}]; import check_export as it; "
            f"checks = it.Checks(); it.check_python({str(folder)!r}, checks); sys.exit(len(checks.failed))")
    ran = subprocess.run([sys.executable, "-c", code], timeout=300)
    checks.expect(f"{folder}", ran.returncode == 0, f"exit code {ran.returncode}")


if __name__ == "__main__":
    main()
