# What optloop adds: the module as a function of its tensors by name.

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten


class AnyDevice(TorchFunctionMode):
    """Makes tensors where they are needed, whatever device the file names."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = {name: value for name, value in (options or {}).items() if name != "device"}
        name = getattr(function, "__name__", "")
        if name == "cuda" and isinstance(arguments[0], torch.Tensor):
            return arguments[0]
        if name == "to" and len(arguments) > 1 and isinstance(arguments[1], (str, torch.device)):
            arguments = (arguments[0], *arguments[2:])
            if len(arguments) == 1 and not options:
                return arguments[0]
        return function(*arguments, **options)


def built(sizes):
    """Returns the module with parameters that have shapes but no numbers, and what `get_inputs` returns in the same way."""
    with torch.device("meta"), AnyDevice():
        model, get_inputs, get_init_inputs = problem(sizes)
        return model(*get_init_inputs()), get_inputs()


def function(sizes):
    """Returns the module as a function of tensors, which are arguments by name."""
    module, inputs = built(sizes)
    leaves, structure = tree_flatten(tuple(inputs))
    states = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    # No output depends on these.
    kept = {}

    def call(**tensors):
        names = iter(ARGUMENTS)
        arguments = [tensors[next(names)].reshape(leaf.shape) if torch.is_tensor(leaf) else leaf for leaf in leaves]
        device = next(iter(tensors.values())).device
        for name, own in states.items():
            if STATES.get(name) is None and name not in kept:
                kept[name] = torch.ones(own.shape, dtype=own.dtype, device=device)
        given = {name: tensors[STATES[name]].reshape(own.shape) for name, own in states.items() if STATES.get(name)}
        results = torch.func.functional_call(module, {**kept, **given}, tree_unflatten(arguments, structure))
        results = [leaf for leaf in tree_flatten(results)[0] if leaf is not None]
        return results[0] if len(results) == 1 else tuple(results)

    return call


def compute_exactly():
    """Makes every floating-point type that the file names float64."""
    for name in "float32 float16 bfloat16 float half float8_e4m3fn float8_e5m2".split():
        setattr(torch, name, torch.float64)
    for name in "float half bfloat16".split():
        setattr(torch.Tensor, name, torch.Tensor.double)
    torch.set_default_dtype(torch.float64)


def computed(given, device):
    """Computes the outputs on a device."""
    sizes = {name: int(given[name]) for name in SIZES}
    tensors = {name: torch.from_numpy(given[name]) for name in [*ARGUMENTS, *STATES.values()] if name}
    if device != "cpu":
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    with torch.no_grad(), torch.device(device), AnyDevice():
        results = function(sizes)(**tensors)
    return tuple(one.cpu() for one in results) if isinstance(results, tuple) else results.cpu()


def on_gpu(given, device):
    """Computes the outputs on a GPU. Returns None and why it cannot, or the outputs."""
    if not torch.cuda.is_available():
        return None, "PyTorch sees no CUDA device"
    # Two calls must give the same bits.
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.deterministic = True
    try:
        return computed(given, device), None
    except torch.cuda.OutOfMemoryError:
        return None, f"its tensors do not fit into the memory of {device} in float64"
    except Exception as error:
        return None, f"{device} refuses it: {(str(error).strip() or type(error).__name__).splitlines()[0]}"


# Where optloop wants it computed, and where it was.
OPTLOOP_DEVICE = globals().get("OPTLOOP_DEVICE", "cpu")
computed_on = "cpu"


def oracle(**given):
    global computed_on
    compute_exactly()
    problem = None
    if OPTLOOP_DEVICE != "cpu":
        results, problem = on_gpu(given, OPTLOOP_DEVICE)
        with contextlib.suppress(RuntimeError):
            # Kernels need the memory.
            torch.cuda.empty_cache()
        if problem is None:
            computed_on = OPTLOOP_DEVICE
            return results
    computed_on = f"the CPU, because {problem}" if problem else "cpu"
    return computed(given, "cpu")
