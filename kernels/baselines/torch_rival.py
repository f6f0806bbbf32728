"""Times a solution in PyTorch as a rival of optloop's kernels: see graph_timing.py.

The argument is a file with a class `ModelNew` or `Model`, as in KernelBench, or a function `run`; `--name` names another one.
With `--problem`, the op was imported from a problem in PyTorch: its oracle has the arguments of the class, and the names of the
parameters. With `--package`, the solution is an op that optloop has exported.

The calls are captured in a graph. Where that fails, each sample is one call, and L2 is written over before it if it is to be
cold.
"""

import argparse
import contextlib
import ctypes
import importlib
import importlib.util
import inspect
import os
import sys

import torch

# The folder stays as it is.
sys.dont_write_bytecode = True
import graph_timing  # noqa: E402
from graph_timing import Refused, sentence  # noqa: E402

# The fastest algorithm, as a user who cares about speed has it (torch_expression.py).
torch.backends.cudnn.benchmark = True

CLASSES, FUNCTION = ("ModelNew", "Model"), "run"
BACKEND = "solution"
# The file of the outputs for other values.
AGAIN = "again.output"
# What is written before a call, in sizes of L2, so that it holds none of the inputs.
WRITTEN_L2_SIZES = 2
# A byte of tensors whose results are due.
POISON = 0xFF


def bytes_of(tensor):
    return tensor.reshape(-1).view(torch.uint8)


def is_poisoned(outputs):
    return any(bool((bytes_of(one) == POISON).all()) for one in all_of(outputs))


def poison(outputs):
    for one in all_of(outputs):
        bytes_of(one).fill_(POISON)


def memory_of(tensor):
    return tensor.untyped_storage().data_ptr()


def all_of(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


# What this program calls in PyTorch to time a solution and to copy its outputs.
CALLED = {
    "json": (graph_timing.json, ["dumps", "loads"]),
    "torch": (torch, ["Tensor", "cat", "empty", "equal", "from_file", "no_grad"]),
    "torch.Tensor": (torch.Tensor, ["all", "clone", "contiguous", "copy_", "fill_", "flatten", "reshape", "to", "view", "__eq__"]),
    "torch.cuda": (torch.cuda, ["CUDAGraph", "Event", "Stream", "current_stream", "graph", "stream", "synchronize"]),
    "torch.cuda.CUDAGraph": (torch.cuda.CUDAGraph, ["replay"]),
    "torch.cuda.Event": (torch.cuda.Event, ["elapsed_time", "record", "synchronize"]),
}


def parts_of_timing():
    """Returns what times a solution and copies its outputs, by name. A solution in the same process could replace it."""
    parts = {f"{of}.{name}": getattr(owner, name) for of, (owner, names) in CALLED.items() for name in names}
    for module in (graph_timing, sys.modules[__name__]):
        own = {name: part for name, part in vars(module).items() if getattr(part, "__module__", None) == module.__name__}
        parts.update({f"{module.__name__}.{name}": part for name, part in own.items()})
        for name, part in own.items():
            methods = vars(part).items() if isinstance(part, type) else ()
            parts.update({f"{name}.{method}": one for method, one in methods if callable(one)})
    return parts


class AllStreams(graph_timing.Timer):
    """Times what happens on the device, on any stream. Events of one stream miss what a call gives to others."""

    def __init__(self):
        super().__init__()
        self.driver = ctypes.CDLL("libcuda.so.1")
        # What all streams have got to do.
        self.all = torch.cuda.Event()
        # An event exists from when it is recorded first.
        self.begin.record()
        self.all.record()
        self.context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(self.context))

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with CUDA error {status}")

    def ns(self, what):
        # Both times are taken on one stream. Taken on the context, the end can come before the begin.
        self.begin.record()
        # What is enqueued from here on, on any stream, begins after the event.
        self.call("cuCtxWaitEvent", self.context, ctypes.c_void_p(self.begin.cuda_event))
        what()
        self.call("cuCtxRecordEvent", self.context, ctypes.c_void_p(self.all.cuda_event))
        self.all.wait()
        self.end.record()
        self.end.synchronize()
        return self.begin.elapsed_time(self.end) * 1e6


def timer_of_calls():
    """Returns what times calls: with a driver before CUDA 12.5, on one stream."""
    try:
        timer = AllStreams()
        timer.ns(lambda: None)
        return timer
    except (OSError, AttributeError, RuntimeError) as error:
        print(f"what calls give to other streams is not timed: {sentence(error)}", file=sys.stderr)
        return graph_timing.Timer()


class Calls:
    """Calls of a solution, one a sample."""

    METHOD = "call"
    launches = 1

    def __init__(self, case, request):
        self.case, self.done, self.outputs = case, 0, [None] * len(case.sets)
        written = WRITTEN_L2_SIZES * request["l2_bytes"] if request["regime"] == "cold" else 0
        self.written = torch.empty(written, dtype=torch.uint8, device="cuda")
        self.timer = timer_of_calls()
        # The memory of the next outputs, which the allocator gives again.
        poison(self.case.compute_set(0))
        self.replay_ns()

    def replay_ns(self, _timer=None):
        if self.written.numel():
            self.written.fill_(self.done % 2)
        ns = self.timer.ns(lambda: self.case.call(self.done, self.outputs))
        self.done += 1
        return ns

    def replays_ns(self, count):
        with torch.no_grad():
            # The first finds the caches as others left them.
            return [self.replay_ns() for _ in range(count + 1)][1:]


class Solution(graph_timing.Case):
    # Makes what computes a set of inputs, given the request and the inputs by name. Tells which inputs each call takes, too.
    make = None
    # What times it, as it was before the solution was read.
    parts = None

    def __init__(self, request):
        super().__init__(request)
        self.known = {**request["dims"], **request.get("scalars", {})}
        names = [tensor["name"] for tensor in self.inputs]
        # A module keeps its parameters, so each set has one of its own.
        made = [self.make({**self.known}, dict(zip(names, tensors))) for tensors in self.sets]
        self.computed, self.takes = [computed for computed, _ in made], list(made[0][1])

    def check(self, name):
        before = [tensor.clone() for tensor in self.sets[0]]
        try:
            with torch.no_grad():
                outputs = all_of(self.compute_set(0))
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"it fails: {type(error).__name__}: {sentence(error)}")
        for tensor, now, was in zip(self.inputs, self.sets[0], before):
            if not torch.equal(bytes_of(now), bytes_of(was)):
                raise Refused(f"it changes its input `{tensor['name']}`: let it return the new values")
            if any(memory_of(one) == memory_of(now) for one in outputs):
                raise Refused(f"its output is the memory of its input `{tensor['name']}`: let it return a tensor of its own")
        found = [(one.numel(), one.dtype) for one in outputs]
        wanted = [
            (torch.Size(tensor["shape"]).numel(), graph_timing.DTYPES[tensor["dtype"]]) for tensor in self.outputs
        ]
        if found != wanted:
            shown = [" and ".join(f"{count} of {dtype}" for count, dtype in all) for all in (found, wanted)]
            raise Refused(f"it gives {shown[0]}, but the output is {shown[1]}")

    def compute_set(self, index):
        values = self.computed[index]()
        values = values if isinstance(values, (tuple, list)) else [values]
        for one in values:
            # Of another type, it could compute when it is read.
            if type(one) is not torch.Tensor:
                raise Refused(f"it gives a {type(one).__name__}, and not a torch.Tensor")
        values = tuple(one.contiguous() for one in values)
        return values if len(values) > 1 else values[0]

    def call(self, index, outputs):
        index %= len(self.sets)
        outputs[index] = None
        outputs[index] = self.compute_set(index)

    def check_timing(self):
        now = parts_of_timing()
        changed = [name for name, part in self.parts.items() if now.get(name) is not part]
        if changed:
            raise Refused(f"it replaces `{changed[0]}`, which times it or copies its outputs")

    def answers(self, captured):
        """Returns copies of the first set's outputs, which are computed now."""
        if captured.METHOD == Calls.METHOD:
            self.call(0, captured.outputs)
        else:
            poison(captured.outputs[0])
            captured.graph.replay()
        return [one.clone() for one in all_of(captured.outputs[0])]

    def again(self, captured, request):
        """Computes other values of an input, at the addresses that the solution knows, so that one that keeps outputs shows.

        Tells whether the output is that of the values before.
        """
        place = [tensor["name"] for tensor in self.inputs].index(request["input"])
        with torch.no_grad():
            before = self.answers(captured)
            self.sets[0][place].copy_(graph_timing.read(request["file"], self.inputs[place]))
            now = self.answers(captured)
        self.check_timing()
        graph_timing.write(now, os.path.join(request["output_folder"], AGAIN))
        is_same = all(torch.equal(bytes_of(one), bytes_of(other)) for one, other in zip(before, now))
        return {"output": AGAIN, "is_same": is_same}

    def timed(self, request, timer):
        """Captures calls, or else times them one by one, as is asked."""
        if request.get("method") != "call":
            try:
                captured = super().timed(request, timer)
                # A graph that lacks what another stream computes leaves the outputs as they are.
                poison(captured.outputs[0])
                captured.replay_ns(timer)
                if not is_poisoned(captured.outputs[0]):
                    return captured
                print("its graph computes nothing, so its calls are timed", file=sys.stderr)
            except Exception as error:
                if request.get("method") == "graph":
                    raise
                print(f"it cannot be captured, so its calls are timed: {sentence(error)}", file=sys.stderr)
                torch.cuda.synchronize()
        return Calls(self, request)


def bound(function, known, tensors):
    """Returns the arguments of a function: by name if it takes the op's names, else the inputs in order."""
    parameters = [one for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD]
    names = {**known, **tensors}
    if all(one.name in names or one.default is not one.empty for one in parameters):
        return (), {one.name: names[one.name] for one in parameters if one.name in names}
    return tuple(tensors.values()), {}


def of_function(function):
    def make(known, tensors):
        arguments, named = bound(function, known, tensors)
        return lambda: function(*arguments, **named), [name for name in tensors if arguments or name in named]

    return make


def of_package(name):
    package = importlib.import_module(name)
    function = getattr(package, name)

    def make(known, tensors):
        call, takes = of_function(function)(known, tensors)
        call()
        # What it launched is named by case and source.
        others = [what for what in package.stats() if ": " not in what]
        if others:
            raise Refused(f"the exported op launches no kernel of optloop here: {others[0]}")
        return call, takes

    return make


def of_class(solution, file, problem):
    """A module for each set of inputs, with the op's tensors as its parameters."""

    def make(known, tensors):
        sizes = {name: known[name] for name in problem.SIZES} if problem else {}
        arguments = problem.problem(sizes)[2] if problem else getattr(file, "get_init_inputs", list)
        with torch.device("cuda"):
            torch.manual_seed(0)
            module = solution(*arguments()).to("cuda")
        if problem:
            original, inputs = problem.built(sizes)
            rest = filled(module, dict(tensors), [problem.STATES.get(name) for name in states_of(original)], problem.STATES)
            given = arguments_of(problem, inputs, rest)
            return lambda: module(*given), list(rest)
        rest = filled(module, dict(tensors), None, {name: name for name in tensors})
        arguments, named = bound(module.forward, known, rest)
        return lambda: module(*arguments, **named), [name for name in rest if arguments or name in named]

    return make


def states_of(module):
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def filled(module, tensors, in_order, by_name):
    """Gives parameters and buffers the values of the op's tensors: by name, or else in order. Returns the other tensors."""
    states = states_of(module)
    pairs = [(name, of) for name, of in by_name.items() if of and name in states]
    if in_order is not None and len(pairs) < len([of for of in in_order if of]):
        if len(states) != len(in_order):
            raise Refused(f"it has {len(states)} parameters and buffers, but the problem has {len(in_order)}")
        pairs = [(name, of) for name, of in zip(states, in_order) if of]
    loaded = module.state_dict() if pairs else {}
    for name, of in pairs:
        own, given = states[name], tensors.pop(of)
        if own.numel() != given.numel():
            raise Refused(f"`{name}` has the shape {list(own.shape)}, but `{of}` has {list(given.shape)}")
        if name in loaded:
            loaded[name] = given.reshape(own.shape)
        else:
            own.copy_(given.reshape(own.shape))
    if pairs:
        # A module may derive others from them here.
        module.load_state_dict(loaded)
    return tensors


def arguments_of(problem, inputs, tensors):
    """Returns the arguments of `forward` as the problem has them."""
    leaves, structure = problem.tree_flatten(tuple(inputs))
    names = iter(problem.ARGUMENTS)
    given = [tensors[next(names)].reshape(leaf.shape) if torch.is_tensor(leaf) else leaf for leaf in leaves]
    return problem.tree_unflatten(given, structure)


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def solution_of(options):
    """Returns what makes the calls of the solution."""
    if options.package:
        return of_package(options.package)
    file = loaded(options.file, "solution_in_pytorch")
    names = [options.name] if options.name else [*CLASSES, FUNCTION]
    found = [getattr(file, name) for name in names if hasattr(file, name)]
    if not found:
        what = f"`{options.name}`" if options.name else "class `ModelNew` or `Model`, and no function `run`"
        raise Refused(f"it has no {what}")
    if not isinstance(found[0], type):
        return of_function(found[0])
    problem = loaded(options.problem, "module_of_op") if options.problem else None
    return of_class(found[0], file, problem)


class Served(Solution):
    options = None

    def __init__(self, request):
        # Errors of the file are said where it is needed first.
        if Served.make is None:
            try:
                Served.make = staticmethod(solution_of(self.options))
            except Refused:
                raise
            except Exception as error:
                raise Refused(f"it cannot be read: {type(error).__name__}: {sentence(error)}")
        super().__init__(request)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?")
    parser.add_argument("--name")
    parser.add_argument("--problem")
    parser.add_argument("--package")
    Served.options = parser.parse_args()
    Served.parts = parts_of_timing()
    graph_timing.serve(Served, {BACKEND: contextlib.nullcontext})
