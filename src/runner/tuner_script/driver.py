"""Runs a script of Kernel Tuner for optloop, up to its call of `tune_kernel`, and tells what it was called with.

Reads a line of JSON from standard input: the script's path, and the kernel whose call is meant, if any. Writes a line of
JSON to what was standard output. No kernel is compiled or run: `kernel_tuner` is a module of this file.
"""

import ast
import builtins
import importlib.abc
import importlib.machinery
import json
import os
import sys
import traceback
import types

answers = os.fdopen(os.dup(1), "w")
# What the script prints must not get among the answers.
os.dup2(2, 1)

PARAMETERS = (
    "kernel_name kernel_source problem_size arguments tune_params grid_div_x grid_div_y grid_div_z restrictions answer "
    "atol verify verbose lang device platform smem_args cmem_args texmem_args compiler compiler_options defines log "
    "iterations block_size_names"
).split()

GPU_LIBRARIES = {"pycuda", "cupy", "cupyx", "cuda", "pyopencl", "numba", "hip", "pyhip"}

NARROW = {"float32", "float16", "single", "half"}



def finish(**what):
    answers.write(json.dumps(what) + "\n")
    answers.flush()
    os._exit(0)


def describe(error, file):
    text = str(error).strip().splitlines()
    if isinstance(error, ImportError) and str(error.name).split(".")[0] in GPU_LIBRARIES:
        return f"it uses {error.name}, which needs a GPU: optloop runs scripts without one, so make its arrays with numpy"
    said = type(error).__name__ + (": " + text[0] if text else "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError):
        said, lines = f"SyntaxError: {error.msg}", [error.lineno]
    return f"{said} (line {lines[-1]})" if lines else said


class Anything:
    """What a part of Kernel Tuner is, and what it returns: a class, a function or a module that does nothing."""

    def __init__(self, *arguments, **options):
        pass

    def __call__(self, *arguments, **options):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __mro_entries__(self, bases):
        return (Anything,)


class Stub(types.ModuleType):
    """A part of Kernel Tuner that has nothing to do with the kernel, such as an observer."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `kernel_tuner` and its submodules here, whether it is installed or not."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "kernel_tuner":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Stub(spec.name)
        module.__path__ = []
        module.tune_kernel, module.run_kernel = tune_kernel, run_kernel
        return module

    def exec_module(self, module):
        pass


def run_kernel(*arguments, **options):
    """Returns the arguments as they are, marked as results of a kernel that optloop has not run."""
    given = options.get("arguments", arguments[3] if len(arguments) > 3 else [])
    return [one.view(FromKernel) if isinstance(one, numpy.ndarray) else one for one in given]


def tune_kernel(*arguments, **options):
    call = {**dict(zip(PARAMETERS, arguments)), **options}
    if WANTED and call.get("kernel_name") != WANTED:
        return [{}], {}
    frame = sys._getframe(1)
    finish(**told(call, {**frame.f_globals, **frame.f_locals}, frame.f_lineno))


def told(call, names, line):
    problems = []
    arguments = list(call.get("arguments") or [])
    answer = call.get("answer")
    if answer is not None and not isinstance(answer, (list, tuple)):
        problems.append("`answer` is not a list")
        answer = None
    if call.get("texmem_args"):
        problems.append("`texmem_args` is not supported: read the data from an argument of the kernel, without a texture")
    constants = call.get("cmem_args") or {}
    source, file = source_of(call.get("kernel_source"), problems)
    values = call.get("tune_params")
    if not isinstance(values, dict):
        problems.append("`tune_params` is not a dictionary")
        values = {}
    oracle, no_oracle = None, "the script has no `answer`"
    if answer is not None:
        try:
            oracle, no_oracle = Slice(names, line, arguments, answer).oracle(), None
        except Unsupported as problem:
            no_oracle = str(problem)
    shared = (call.get("smem_args") or {}).get("size")
    return {
        "kernel": str(call.get("kernel_name")),
        "source": source,
        "source_file": file,
        "lang": call.get("lang"),
        "params": {str(name): choices(name, of, problems) for name, of in values.items()},
        "restrictions": texts("restrictions", call.get("restrictions"), problems),
        "problem_size": texts("problem_size", call.get("problem_size"), problems),
        "grid_div": [
            None if call.get(key) is None else texts(key, call[key], problems)
            for key in ("grid_div_x", "grid_div_y", "grid_div_z")
        ],
        "block_size_names": list(call.get("block_size_names") or ["block_size_x", "block_size_y", "block_size_z"]),
        "shared": None if shared is None else texts("smem_args", [shared], problems)[0],
        "compiler_options": [str(one) for one in call.get("compiler_options") or []],
        "defines": {str(name): str(value) for name, value in (call.get("defines") or {}).items()},
        "arguments": [argument(place, one, answer, problems) for place, one in enumerate(arguments)],
        "constants": {str(name): argument(name, one, None, problems) for name, one in constants.items()},
        "oracle": oracle,
        "no_oracle": no_oracle,
        "verifies": call.get("verify") is not None,
        "problems": problems,
    }


def source_of(source, problems):
    """Returns the text of the kernel, and the file that it is from."""
    if isinstance(source, (list, tuple)) and source:
        source = source[0]
    if isinstance(source, os.PathLike):
        source = str(source)
    if callable(source):
        problems.append("`kernel_source` is a function that writes a source for each configuration: write one source in which "
                        "the parameters are macros")
        return "", None
    if not isinstance(source, str):
        problems.append("`kernel_source` is neither the text nor the file of a kernel")
        return "", None
    if "\n" not in source and os.path.isfile(source):
        with open(source, encoding="utf-8") as file:
            return file.read(), os.path.abspath(source)
    if "__global__" not in source:
        problems.append(f"`kernel_source` names no file and has no kernel: {source[:60]!r}")
    return source, None


def choices(name, values, problems):
    """Returns the values of a parameter."""
    found = []
    for value in list(values):
        if isinstance(value, (bool, numpy.bool_, int, numpy.integer)) or (
            isinstance(value, (float, numpy.floating)) and float(value).is_integer()
        ):
            found.append(int(value))
        else:
            problems.append(f"the parameter `{name}` has the value {value!r}, but only whole numbers are supported")
            break
    return found


def texts(what, values, problems):
    """Returns expressions as texts."""
    if values is None:
        return []
    if callable(values) or isinstance(values, (str, int, numpy.integer)):
        values = [values]
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, (int, float, numpy.integer, numpy.floating)):
            found.append(str(int(value)))
        else:
            text = function_text(value)
            if text is None:
                problems.append(f"`{what}` has something that is neither a text nor a lambda: {value!r:.60}")
            else:
                found.extend(text)
    return found


def function_text(function):
    """Returns the expressions that a lambda, or a function with nothing but a `return`, gives. None for others."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != FILE:
        return None
    nodes = [
        node for node in ast.walk(TREE)
        if isinstance(node, (ast.Lambda, ast.FunctionDef)) and node.lineno == code.co_firstlineno
    ]
    if len(nodes) != 1:
        return None
    body = nodes[0].body
    if isinstance(body, list):
        if len(body) != 1 or not isinstance(body[0], ast.Return):
            return None
        body = body[0].value
    parts = body.elts if isinstance(body, (ast.Tuple, ast.List)) else [body]
    return [ast.unparse(part) for part in parts]


def argument(place, value, answer, problems):
    is_output = None
    if answer is not None:
        is_output = place < len(answer) and answer[place] is not None
    what = f"`{place}` of `cmem_args`" if isinstance(place, str) else f"argument {place + 1}"
    if isinstance(value, numpy.ndarray) and not value.size:
        problems.append(f"{what} is an array without elements")
    if isinstance(value, numpy.ndarray):
        is_number = value.size and value.dtype.kind in "biuf"
        return {
            "dtype": value.dtype.name,
            "shape": list(value.shape),
            "least": float(value.min()) if is_number else None,
            "most": float(value.max()) if is_number else None,
            "is_output": False if isinstance(place, str) else is_output,
            "is_sorted": bool(is_number) and value.ndim == 1 and value.size > 2 and bool((value[1:] >= value[:-1]).all()),
        }
    if isinstance(value, (numpy.generic, int, float)):
        return {"dtype": getattr(getattr(value, "dtype", None), "name", None), "value": float(value)}
    problems.append(f"{what} is a {type(value).__name__}, but only arrays and numbers of numpy are supported")
    return {"dtype": None, "value": 0.0}


class Unsupported(Exception):
    """Says why no function can be made of the answer."""


class Widened(ast.NodeTransformer):
    """Computes in float64 what the script computes in less."""

    def visit_Attribute(self, node):
        self.generic_visit(node)
        node.attr = "float64" if node.attr in NARROW else node.attr
        return node

    def visit_Constant(self, node):
        if node.value in NARROW if isinstance(node.value, str) else False:
            return ast.copy_location(ast.Constant("float64"), node)
        return node


class Slice:
    """The statements that the answer needs, up to the arguments of the kernel."""

    def __init__(self, names, line, arguments, answer):
        self.names, self.arguments, self.answer = names, arguments, answer
        calls = [
            node for node in ast.walk(TREE)
            if isinstance(node, ast.Call) and node.lineno <= line <= node.end_lineno
            and getattr(node.func, "attr", getattr(node.func, "id", None)) == "tune_kernel"
        ]
        if not calls:
            raise Unsupported("the call of tune_kernel is not in the script itself")
        self.call = calls[-1]
        # Statements before the call, in its function and in the module.
        self.statements = [statement for statement in TREE.body if statement.lineno < self.call.lineno]
        for statement in TREE.body:
            if isinstance(statement, ast.FunctionDef) and statement.lineno < self.call.lineno <= statement.end_lineno:
                self.statements.remove(statement)
                self.statements += [inner for inner in statement.body if inner.lineno < self.call.lineno]
        self.kept, self.inputs, self.numbers = [], {}, {}

    def expressions(self):
        """Returns the expression of each output."""
        given = [keyword.value for keyword in self.call.keywords if keyword.arg == "answer"] or self.call.args[9:10]
        if not given:
            raise Unsupported("the script passes `answer` indirectly")
        node = given[0]
        if isinstance(node, ast.Name):
            bound = [one for one in self.binding(node.id) if isinstance(one, ast.Assign)]
            if len(bound) != 1:
                raise Unsupported(f"`{node.id}` is not assigned once")
            node = bound[0].value
        if not isinstance(node, (ast.List, ast.Tuple)) or len(node.elts) != len(self.answer):
            raise Unsupported("`answer` is not written as a list")
        for place, (argument, value) in enumerate(zip(self.arguments, self.answer)):
            if value is not None and numpy.size(value) != numpy.size(argument):
                raise Unsupported(f"`answer` has {numpy.size(value)} numbers for argument {place + 1}, which has "
                                  f"{numpy.size(argument)}")
        if any(isinstance(one, FromKernel) for one in self.answer):
            raise Unsupported("`answer` comes from run_kernel")
        return [one for one, value in zip(node.elts, self.answer) if value is not None]

    def binding(self, name):
        """Returns the statements that bind or change a name."""
        found = []
        for statement in self.statements:
            stored = set()
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    stored.add(node.id)
                elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
                    base = node.value
                    stored.add(getattr(base, "id", None))
                elif isinstance(node, ast.alias):
                    stored.add((node.asname or node.name).split(".")[0])
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                stored = {statement.name}
            if name in stored:
                found.append(statement)
        return found

    def need(self, node):
        """Keeps what an expression or statement needs."""
        own = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        own |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id not in own:
                self.need_name(one.id)

    def need_name(self, name):
        if name in self.inputs or name in self.numbers:
            return
        value = self.names.get(name)
        # Numbers of Python may be the same object by chance.
        is_argument = isinstance(value, (numpy.ndarray, numpy.generic))
        place = [at for at, argument in enumerate(self.arguments) if argument is value and is_argument]
        if place:
            if isinstance(value, numpy.ndarray) and self.answer[place[0]] is not None:
                raise Unsupported(f"`answer` needs `{name}`, which the kernel writes")
            self.inputs[name] = place[0]
            return
        if isinstance(value, (int, numpy.integer)) and not isinstance(value, bool):
            self.numbers[name] = int(value)
            return
        statements = self.binding(name)
        if not statements:
            if hasattr(builtins, name):
                return
            raise Unsupported(f"`answer` needs `{name}`, which the script does not assign")
        for statement in statements:
            if statement in self.kept:
                continue
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Name) and inner.id == "random" or getattr(inner, "attr", None) == "random":
                    raise Unsupported(f"`answer` needs `{name}`, which is random and no argument of the kernel")
            self.kept.append(statement)
            self.need(statement)

    def oracle(self):
        expressions = self.expressions()
        for expression in expressions:
            self.need(expression)
        kept = sorted(self.kept, key=lambda statement: statement.lineno)
        imports = [one for one in kept if isinstance(one, (ast.Import, ast.ImportFrom))]
        body = [one for one in kept if one not in imports]
        write = lambda node: ast.unparse(ast.fix_missing_locations(Widened().visit(node)))
        found = {
            "imports": [write(one) for one in imports],
            "inputs": self.inputs,
            "numbers": self.numbers,
            "body": [write(one) for one in body],
            "returns": [write(one) for one in expressions],
        }
        self.check(found)
        return found

    def check(self, found):
        """Computes the answer with the function's text, and compares it with the script's."""
        values = dict(self.numbers)
        for name, place in self.inputs.items():
            value = self.arguments[place]
            is_float = isinstance(value, numpy.ndarray) and value.dtype.kind == "f"
            values[name] = value.astype(numpy.float64) if is_float else value
        try:
            exec("\n".join(found["imports"] + found["body"]), values)
            results = [eval(text, values) for text in found["returns"]]
        except Exception as error:
            raise Unsupported(f"the function of `answer` fails: {type(error).__name__}: {error}")
        wanted = [value for value in self.answer if value is not None]
        for result, value in zip(results, wanted):
            if numpy.shape(result) != numpy.shape(value) or not numpy.allclose(result, value, rtol=1e-2, atol=1e-3):
                raise Unsupported("the function of `answer` does not give the answer again")


request = json.loads(sys.stdin.readline())
FILE, WANTED = request["file"], request["kernel"]
try:
    import numpy
except ImportError:
    finish(error=f"it needs numpy: install it for `{sys.executable}` (python3 -m pip install numpy), or name another "
                 "interpreter as baseline.python in config.toml")


class FromKernel(numpy.ndarray):
    """What `run_kernel` returned."""


sys.meta_path.insert(0, Finder())
sys.path[0] = os.path.dirname(FILE)
sys.argv = [FILE, *request["arguments"]]
try:
    with open(FILE, encoding="utf-8") as script:
        text = script.read()
    TREE = ast.parse(text, FILE)
    exec(compile(TREE, FILE, "exec"), {"__name__": "__main__", "__file__": FILE, "__builtins__": builtins})
except BaseException as error:
    finish(error=describe(error, FILE))
finish(error=f"it ended without a call of tune_kernel for the kernel `{WANTED}`" if WANTED else
             "it ended without a call of tune_kernel")
