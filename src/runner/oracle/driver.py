"""Runs the oracle of an op for optloop.

Reads the oracle's text and its device from standard input, as a line of JSON, and then requests: a line of JSON, and the inputs
as 32-bit floats or as integers. Writes an answer to each to what was standard output: a line of JSON, and the outputs as
64-bit floats or as 64-bit integers.
"""

import sys

sys.path.pop(0)  # the current folder, in which an earlier run of the oracle may have left modules

import inspect
import json
import keyword
import os
import traceback

FILE = "oracle.py"

# Between two calls, threads of BLAS and OpenMP sleep. By default, they spin for a while, on cores that others need: optloop, which
# waits for the oracle, and a virtual GPU. A product of two matrices every tenth of a second took eight times the CPU seconds.
for name, value in {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}.items():
    os.environ.setdefault(name, value)
# Without it, products on a GPU may differ from call to call.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

answers = os.fdopen(os.dup(1), "wb")
# What the oracle prints must not get among the answers.
os.dup2(2, 1)


class Printed:
    """Standard output that remembers its first line."""

    def __init__(self, stream):
        self.stream, self.text = stream, ""

    def write(self, text):
        self.text = (self.text + text)[:200]
        return self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def first_line(self):
        return next((line for line in self.text.splitlines() if line.strip()), None)


printed = sys.stdout = Printed(sys.stderr)


def answer(header, payload=b""):
    answers.write(json.dumps(header).encode() + b"\n")
    answers.write(payload)
    answers.flush()


def describe(error):
    """Says what went wrong, and in which line of the oracle."""
    text = str(error).strip().splitlines()
    said = type(error).__name__ + (": " + text[0] if text else "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    if isinstance(error, SyntaxError) and error.lineno and FILE not in said:
        lines = [error.lineno]
    return f"{said} ({FILE}, line {lines[-1]})" if lines and FILE not in said else said


def load(text, device):
    """Runs the oracle's file, and returns the function, the names of its parameters, and those of the file."""
    names = {"__name__": "oracle", "__file__": FILE}
    if device:
        names["OPTLOOP_DEVICE"] = device
    exec(compile(text, FILE, "exec"), names)
    function = names.get("oracle")
    if not callable(function):
        raise LookupError("the file defines no function `oracle`")
    return function, inspect.signature(function).parameters, names


def arguments(parameters, values):
    """Returns what the parameters name. A parameter with a default need not name anything."""
    kinds = inspect.Parameter
    if any(parameter.kind == kinds.VAR_KEYWORD for parameter in parameters.values()):
        return values
    wanted = [name for name, parameter in parameters.items() if parameter.kind != kinds.VAR_POSITIONAL]
    unknown = [name for name in wanted if name not in values and parameters[name].default is kinds.empty]
    if unknown:
        raise LookupError(f"its parameter `{unknown[0]}` is not a dimension, an input or a scalar of the op")
    return {name: values[name] for name in wanted if name in values}


def without_ones(shape):
    return [extent for extent in shape if extent != 1]


def outputs(numpy, results, wanted, only_rows):
    """Returns the wanted rows of every output as numbers of 64 bits."""
    if len(wanted) == 1:
        return [output(numpy, results, wanted[0], only_rows)]
    if not isinstance(results, (tuple, list)) or len(results) != len(wanted):
        found = f"{len(results)} values" if isinstance(results, (tuple, list)) else f"a {type(results).__name__}"
        raise ValueError(f"it returned {found}, but the op has {len(wanted)} outputs: return them as a tuple")
    return [output(numpy, result, one, only_rows) for result, one in zip(results, wanted)]


def output(numpy, result, wanted, only_rows):
    """Returns the wanted rows of an output as numbers of 64 bits. The function has computed these rows or all of them."""
    shape, rows = wanted["shape"], numpy.array(wanted["rows"], dtype=numpy.int64)
    if hasattr(result, "detach"):
        result = result.detach().cpu().numpy()
    if result is None:
        raise ValueError("it returned nothing")
    if numpy.iscomplexobj(result):
        raise ValueError("it returned complex numbers")
    result = numpy.asarray(result)
    if result.dtype in (numpy.float32, numpy.float16):
        raise ValueError(f"it returned {result.dtype}, which is not exact enough: compute in float64")
    expected = [len(rows), shape[-1]] if only_rows else shape
    if without_ones(result.shape) != without_ones(expected):
        what = "the output has"
        if only_rows:
            what = f"its parameter `{only_rows}` numbers the rows of all dimensions but the last, so they have"
        raise ValueError(f"it returned the shape {list(result.shape)}, but {what} {expected}")
    if only_rows:
        result = result.reshape(expected)
    else:
        result = result.reshape(-1, shape[-1])[rows]
    return numpy.ascontiguousarray(result).astype(wanted["sent"])


def main():
    requests = sys.stdin.buffer
    given = json.loads(requests.readline())
    try:
        import numpy
    except ImportError:
        answer({"error": "it needs numpy: install it for `%s` (python3 -m pip install numpy), or name another "
                         "interpreter as baseline.python in config.toml" % sys.executable})
        return
    try:
        function, parameters, names = load(given["text"], given["device"])
    except BaseException as error:
        answer({"error": describe(error)})
        return
    answer({})
    while line := requests.readline():
        request = json.loads(line)
        values = {**request["dims"], **request["scalars"]}
        for tensor in request["inputs"]:
            sent, kind = {
                "float": ("<f4", numpy.float64), "int": ("<f4", numpy.int64), "bool": ("<f4", numpy.bool_),
                "int32": ("<i4", numpy.int64), "uint32": ("<u4", numpy.int64), "int64": ("<i8", numpy.int64),
            }[tensor["kind"]]
            size = numpy.dtype(sent).itemsize
            for extent in tensor["shape"]:
                size *= extent
            value = numpy.frombuffer(requests.read(size), sent).reshape(tensor["shape"]).astype(kind)
            values[tensor["name"]] = numpy.sign(value) * value**8 if tensor["stretched"] else value
        wanted = request["outputs"]
        # An op may have something called `rows`.
        asked = [name for name in ("row_numbers", "rows") if name in parameters and name not in values]
        only_rows = asked[0] if asked and len(wanted) == 1 else None
        if only_rows:
            values[only_rows] = numpy.array(wanted[0]["rows"], dtype=numpy.int64)
        # A name such as `in` cannot be a parameter.
        values = {name + "_" * keyword.iskeyword(name): value for name, value in values.items()}
        try:
            # A number that no integer holds becomes any integer. What divides by a sum that has overflowed goes on without a trace,
            # and so does what adds to a product that has underflowed. Of large numbers, exponentials underflow.
            stretched = [values[tensor["name"]] for tensor in request["inputs"] if tensor["stretched"]]
            is_tiny = any(value.size and numpy.abs(value).max() < 1 for value in stretched)
            on = "raise" if stretched else "ignore"
            with numpy.errstate(all="ignore", invalid=on, over=on, under="raise" if is_tiny else "ignore"):
                results = outputs(numpy, function(**arguments(parameters, values)), wanted, only_rows)
            del values
            # An empty array has no bytes to view.
            payload = b"".join(memoryview(result).cast("B") for result in results if result.size)
            said = {"printed": printed.first_line(), "computed_on": names.get("computed_on") if given["device"] else None}
            answer({"elements": sum(result.size for result in results), **said}, payload)
        except (Exception, SystemExit) as error:
            answer({"error": describe(error)})


main()
