"""What the baselines that are made with PyTorch have in common: the protocol, and how calls are timed.

Speaks version 2 of optloop's baseline protocol, which docs/baselines.md describes: a JSON object a line, an answer for each
request. A sample is one replay of a CUDA graph of `launches_per_sample` calls, divided by their number: exactly how optloop
times its own variants. Warm, every call has the same tensors. Cold, calls rotate over sets of them that outgrow L2.

A program gives the backends by name and a `Case` of its own, and calls `serve`.
"""

import contextlib
import ctypes
import functools
import gc
import json
import math
import os
import statistics
import sys
import time
import warnings

import torch

PROTOCOL = 2
# With it, the requests are in a file. Where a profiler runs a program, it has standard input to itself.
REQUESTS_OPTION = "--requests"
DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i32": torch.int32,
    "u32": getattr(torch, "uint32", None),  # torch 2.3 or newer
    "i64": torch.int64,
    "bool": torch.bool,
}
# Beyond it instantiating a graph costs more than resolution gains.
MAX_LAUNCHES = 1000
# What lies between two replays weighs less in a longer sample. One of twice the requested length is not so long that a
# comparison takes fewer of them.
SAMPLE_FACTOR = 2
# The same two rules as optloop's own: between two calls on a set the others are over three times as large as L2, but there
# are not so many of them that one pass takes far longer than a sample should.
COLD_L2_SIZES = 3
MAX_SETS = 4096
# Calls of a backend before any that counts.
CALLS_BEFORE = 3
# Eager calls are timed in loops, as long as a user's would be, but of 20 ms at most: long calls hide no overhead.
EAGER_LOOPS = 5
EAGER_CALLS = 20
EAGER_LOOP_NS = 20e6


# An empty kernel, which the driver compiles for its device.
EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n\0"
# The same numbers as optloop's own (src/runner/device/cuda/graph_state.rs).
WAITING_KERNELS = 32
CONTROL_KERNELS = 90
CONTROL_REPLAYS = 6

# A GPU that comes out of idle takes a while to get going: the first case of a session came out 8% slower than the same case
# later on (H200, 2026-11-21, attention of four queries of four dimensions).
WARM_UP_S = 0.5


class Refused(Exception):
    """A request that cannot be met, in one sentence."""


class Named:
    """Backends that calls tell apart by their names alone: `name` is that of the call in progress."""

    def __init__(self):
        self.name = None

    @contextlib.contextmanager
    def during(self, name):
        before, self.name = self.name, name
        try:
            yield
        finally:
            self.name = before

    def backend(self, name):
        return functools.partial(self.during, name)


class Timer:
    """Times what happens on the device between two events."""

    def __init__(self):
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def ns(self, what):
        self.begin.record()
        what()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e6


class GraphState:
    """Keeps this process in the state of its graphs in which replays are timed, as optloop's own processes are.

    A node of a replayed graph takes longer from when another graph is uploaded until that graph is launched, or until
    another process uses the GPU. A program with several graphs is in that state. A control, a graph of empty kernels,
    tells the state. This calls the driver, because torch launches what it uploads.
    """

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        module = self.made("cuModuleLoadData", EMPTY)
        self.kernel = self.made("cuModuleGetFunction", module, b"empty")
        self.stream = self.made("cuStreamCreate", 1)
        self.marks = [self.made("cuEventCreate", 0) for _ in range(CONTROL_REPLAYS + 1)]
        self.waiting = None
        self.control = self.uploaded(CONTROL_KERNELS)
        self.call("cuGraphLaunch", self.control, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with CUDA error {status}")

    def made(self, name, *arguments):
        """Returns the handle that a call writes to its first argument."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def uploaded(self, kernels):
        """Returns a graph of empty kernels that is uploaded and not launched."""
        self.call("cuStreamBeginCapture_v2", self.stream, 1)
        for _ in range(kernels):
            self.call("cuLaunchKernel", self.kernel, 1, 1, 1, 32, 1, 1, 0, self.stream, None, None)
        captured = ctypes.c_void_p()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(captured))
        graph = self.made("cuGraphInstantiateWithFlags", captured, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", captured)
        self.call("cuGraphUpload", graph, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        return graph

    def begin_timing(self):
        """Uploads a new graph that waits. Returns the time of a node of the control, in nanoseconds."""
        last, self.waiting = self.waiting, self.uploaded(WAITING_KERNELS)
        if last is not None:
            self.call("cuGraphExecDestroy", last)
        self.call("cuEventRecord", self.marks[0], self.stream)
        for mark in self.marks[1:]:
            self.call("cuGraphLaunch", self.control, self.stream)
            self.call("cuEventRecord", mark, self.stream)
        self.call("cuStreamSynchronize", self.stream)
        # The first replay is not counted.
        times_ms = [self.elapsed_ms(begin, end) for begin, end in zip(self.marks[1:], self.marks[2:])]
        return statistics.median(times_ms) * 1e6 / CONTROL_KERNELS

    def elapsed_ms(self, begin, end):
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), begin, end)
        return elapsed.value


class Case:
    """The tensors of a case, in as many sets as its regime needs. An op says how it is computed."""

    OP = None
    # The names of the inputs that each call gets anew. Only rivals tell.
    takes = ()

    def __init__(self, request):
        if self.OP is not None and request["op"] != self.OP:
            raise Refused(f"it computes {self.OP}, not {request['op']}")
        self.dims, self.dtype = request["dims"], DTYPES[request["dtype"]]
        self.inputs = [tensor for tensor in request["tensors"] if tensor["role"] != "output"]
        self.outputs = [tensor for tensor in request["tensors"] if tensor["role"] != "input"]
        first = [read(request["inputs"][tensor["name"]], tensor) for tensor in self.inputs]
        written = sum(math.prod(tensor["shape"]) * DTYPES[tensor["dtype"]].itemsize for tensor in self.outputs)
        set_bytes = sum(tensor.nbytes for tensor in first) + written
        count = sets_of(request["regime"], set_bytes, request["l2_bytes"])
        self.sets = [first] + [[tensor.clone() for tensor in first] for _ in range(count - 1)]

    @classmethod
    def rehearse(cls, backends):
        """Has the libraries loaded that the cases need. Their first call takes up to a second."""

    @classmethod
    def compile_for(cls, dims, dtype, tensors):
        """Compiles what a case needs. Others use the device meanwhile, so this launches as little as it can."""

    def compute(self, *inputs):
        """Returns the output, or a tuple of all outputs."""
        raise NotImplementedError

    def check(self, name):
        """Refuses a backend that is of no use for this case."""

    def check_timing(self):
        """Refuses times of a program that may have made them up."""

    def timed(self, request, timer):
        """Returns what is timed: a graph of calls."""
        return capture_enough(self, request["min_sample_ns"] * SAMPLE_FACTOR, timer)

    def call(self, index, outputs):
        """Computes a set, keeping the outputs of the others alive so that outputs rotate, too."""
        index %= len(self.sets)
        # What the last call wrote here is freed first: the new output takes its place.
        outputs[index] = None
        outputs[index] = self.compute(*self.sets[index])


def multiply_in(mode):
    """Sets the precision of products and convolutions in FP32: `tf32`, or `dtype` for full FP32. Returns the mode.

    Both are set in each mode, because cuDNN uses TF32 unless it is told not to. The newer `fp32_precision` does the same,
    but torch refuses to read one setting after the other was made, and torch.compile reads this one.
    """
    if mode not in ("dtype", "tf32"):
        raise Refused(f"it knows no compute mode `{mode}`")
    torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    return mode


def read(path, tensor):
    """Reads the elements of a tensor onto the device."""
    shape, dtype = tensor["shape"], DTYPES[tensor["dtype"]]
    elements = torch.from_file(path, size=math.prod(shape) * dtype.itemsize, dtype=torch.uint8)
    return elements.view(dtype).reshape(shape).to("cuda")


class Captured:
    """So many calls of one backend in a CUDA graph."""

    METHOD = "graph"

    def __init__(self, case, launches):
        # The graph has the addresses of the case's tensors, so they must live as long.
        self.case = case
        self.launches, self.outputs = launches, [None] * len(case.sets)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for index in range(launches):
                case.call(index, self.outputs)

    def replay_ns(self, timer):
        return timer.ns(self.graph.replay)

    def replays_ns(self, count):
        """Times replays in a row. The one before them, which starts on an idle device, is not counted.

        Each is launched while the one before runs. On an idle device, a replay seems to take longer by what the host
        needs to launch it.
        """
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        for mark in marks:
            self.graph.replay()
            mark.record()
        marks[-1].synchronize()
        return [begin.elapsed_time(end) * 1e6 for begin, end in zip(marks, marks[1:])]


def sets_of(regime, set_bytes, l2_bytes):
    if regime == "warm":
        return 1
    others = COLD_L2_SIZES * l2_bytes // set_bytes + 1
    sets = others + 1
    if sets > MAX_SETS:
        raise Refused(f"this case is too small to be timed cold: it would take {sets} sets of buffers, over {MAX_SETS}")
    return sets


def capture_enough(case, min_sample_ns, timer):
    """Captures so many calls that a replay lasts long enough, and uses every set equally often."""
    sets = len(case.sets)
    captured = Captured(case, sets)
    captured.replay_ns(timer)
    once_ns = min(captured.replay_ns(timer) for _ in range(3))
    # The overhead of a replay hides what one pass over the sets takes, so a few are timed first.
    most = max(1, MAX_LAUNCHES // sets)
    passes = min(10, most, math.ceil(min_sample_ns / once_ns))
    if passes > 1:
        captured = Captured(case, sets * passes)
        captured.replay_ns(timer)
        pass_ns = captured.replay_ns(timer) / passes
        captured = Captured(case, sets * max(1, min(most, math.ceil(min_sample_ns / pass_ns))))
    for _ in range(2):
        captured.replay_ns(timer)
    return captured


def eager_ns(case, call_ns, timer):
    """Times a call as a user without graphs sees it: the median over loops of calls, one after the other."""
    calls = max(1, min(EAGER_CALLS, int(EAGER_LOOP_NS / call_ns)))
    outputs, done = [None] * len(case.sets), 0

    def loop(count):
        nonlocal done
        for _ in range(count):
            case.call(done, outputs)
            done += 1

    # Once through all sets, so that no loop pays for the memory of an output.
    loop(max(calls, len(case.sets)))
    return statistics.median(timer.ns(lambda: loop(calls)) for _ in range(EAGER_LOOPS)) / calls


def kernels_of(case):
    """Returns the kernels of a call. None where the driver or this version of torch does not tell: they only explain."""
    try:
        # A project that keeps a copy of this file may not have that one.
        import graph_kernels

        return graph_kernels.kernels_of(lambda: case.compute(*case.sets[0]))
    except Exception as error:
        print(f"the kernels of a call are not known: {sentence(error)}", file=sys.stderr)
        return None


def prepare_backend(name, backend, case, request, timer):
    """Returns what is captured, and what is said of it. A backend is a context in which calls are its own."""
    case.check(name)
    with torch.no_grad(), backend():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # A library's first calls choose algorithms and allocate, neither of which a capture allows.
            outputs = [None] * len(case.sets)
            for index in range(CALLS_BEFORE):
                case.call(index, outputs)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        captured = case.timed(request, timer)
        case.check_timing()
        call_ns = captured.replay_ns(timer) / captured.launches
        said = {"name": name, "launches_per_sample": captured.launches, "method": captured.METHOD}
        if case.takes:
            said["takes"] = case.takes
        # Eager times, as a user without graphs sees them, and kernels are needed only when all backends are prepared.
        if request.get("backend") is None:
            said["eager_ns"] = eager_ns(case, call_ns, timer)
            said["kernels"] = kernels_of(case)
    if request.get("output_folder"):
        said["output"] = f"{name}.output"
        write(captured.outputs[0], os.path.join(request["output_folder"], said["output"]))
    return captured, said


def write(output, path):
    """Writes the elements of the outputs, row-major and one output after the other, and nothing else."""
    outputs = output if isinstance(output, (tuple, list)) else [output]
    elements = torch.cat([one.contiguous().flatten().view(torch.uint8) for one in outputs])
    torch.from_file(path, shared=True, size=elements.numel(), dtype=torch.uint8).copy_(elements)


def sentence(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def warm_up():
    """Keeps the device busy for a while."""
    square = torch.ones((2048, 2048), device="cuda", dtype=torch.float16)
    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        for _ in range(20):
            square @ square
        torch.cuda.synchronize()


class Session:
    """What is asked, request by request."""

    def __init__(self, case, backends):
        self.case, self.backends = case, backends
        self.timer = None
        # None where the driver cannot be called: the state is then not known.
        self.graphs = None
        self.captured = {}

    def hello(self, request):
        if not torch.cuda.is_available():
            raise Refused("torch sees no CUDA device")
        torch.cuda.set_device(request["device"])
        self.timer = Timer()
        warm_up()
        try:
            self.case.rehearse(self.backends)
        except RuntimeError as error:
            # A case that needs what failed will say so.
            print(f"the libraries are not loaded ahead: {sentence(error)}", file=sys.stderr)
        try:
            self.graphs = GraphState()
        except (OSError, AttributeError, RuntimeError) as error:
            print(f"the state of the graphs is not known: {sentence(error)}", file=sys.stderr)
        versions = {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "cudnn": str(torch.backends.cudnn.version()),
            **driver_version(),
        }
        device = torch.cuda.get_device_name(request["device"])
        # What torch has imported stays. A collection, which frees the graphs of a case, takes 80 ms without this.
        gc.collect()
        gc.freeze()
        said = {"protocol": PROTOCOL, "device": device, "time_source": "measured", "versions": versions}
        return {**said, "compiles": self.case.compile_for.__func__ is not Case.compile_for.__func__}

    def compile(self, request):
        multiply_in(request.get("compute", "dtype"))
        with torch.no_grad():
            self.case.compile_for(request["dims"], DTYPES[request["dtype"]], request["tensors"])
        torch.cuda.synchronize()
        return {}

    def prepare(self, request):
        if self.captured:
            self.release(request)
        mode = multiply_in(request.get("compute", "dtype"))
        case, backends = self.case(request), []
        wanted = request.get("backend")
        for name in self.backends if wanted is None else [wanted]:
            try:
                if name not in self.backends:
                    raise Refused(f"there is no backend `{name}`")
                self.captured[name], said = prepare_backend(name, self.backends[name], case, request, self.timer)
                backends.append(said)
            except Exception as error:
                backends.append({"name": name, "error": sentence(error)})
        return {"backends": backends, "compute": mode}

    def ready(self, name):
        if name not in self.captured:
            raise Refused(f"`{name}` is not ready")
        return self.captured[name]

    def sample(self, request):
        captured = self.ready(request["backend"])
        node_ns = self.graphs.begin_timing() if self.graphs else None
        # One more finds the caches as others left them, and does not count.
        times = captured.replays_ns(request["samples"])
        captured.case.check_timing()
        return {"samples_ns": [ns / captured.launches for ns in times], "graph_node_ns": node_ns}

    def again(self, request):
        """Has a rival compute other values of an input."""
        captured = self.ready(request["backend"])
        return captured.case.again(captured, request)

    def profile(self, request):
        """Replays a graph of one call of a backend while a profiler counts: just the kernels that are timed.

        Of calls of cuBLAS without a graph, ncu counted others (H100, 2026-11-28). The calls before it load libraries and fill
        caches.
        """
        import graph_kernels

        torch.cuda.set_device(request["device"])
        mode, name = multiply_in(request.get("compute", "dtype")), request["backend"]
        if name not in self.backends:
            raise Refused(f"there is no backend `{name}`")
        case = self.case(request)
        case.check(name)
        with torch.no_grad(), self.backends[name]():
            for _ in range(CALLS_BEFORE):
                case.compute(*case.sets[0])
            torch.cuda.synchronize()
            graph, output = graph_kernels.captured(lambda: case.compute(*case.sets[0]))
            kernels = graph_kernels.kernels_in(graph)
        graph.replay()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        graph.replay()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        del output
        return {"compute": mode, "kernels": kernels}

    def release(self, _request):
        torch.cuda.synchronize()
        self.captured.clear()
        gc.collect()
        torch.cuda.empty_cache()
        return {}


def driver_version():
    """Asks the driver which CUDA it supports; torch does not say."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return {}
    return {"driver": f"{version.value // 1000}.{version.value % 1000 // 10}"}


def serve(case, backends):
    """Answers requests until there are no more. `backends` has a function for each name, whose context makes calls its own."""
    warnings.filterwarnings("ignore")
    # The protocol has standard output to itself: what a library prints goes where errors go.
    answers, sys.stdout = sys.stdout, sys.stderr
    session = Session(case, backends)
    requests = {
        "hello": session.hello,
        "compile": session.compile,
        "prepare": session.prepare,
        "sample": session.sample,
        "again": session.again,
        "release": session.release,
        "profile": session.profile,
    }
    from_file = sys.argv[1:2] == [REQUESTS_OPTION]
    for line in open(sys.argv[2]) if from_file else sys.stdin:
        try:
            request = json.loads(line)
            if request["request"] not in requests:
                raise Refused(f"it knows no request `{request['request']}`")
            answer = requests[request["request"]](request)
        except Exception as error:
            answer = {"error": sentence(error)}
        print(json.dumps(answer), file=answers, flush=True)
