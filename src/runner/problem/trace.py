# Traces.


class Trace:
    """What a problem is in some sizes: its tensors, without numbers."""

    def __init__(self, names, sizes, with_outputs=True):
        torch = self.torch = names["torch"]
        flatten = names["tree_flatten"]
        self.contents = contents = Contents.of(torch)
        with torch.device("meta"), names["AnyDevice"](), contents:
            model, get_inputs, get_init_inputs = names["problem"](sizes)
            init = get_init_inputs()
            if not isinstance(init, (list, tuple)):
                raise Refused("`get_init_inputs` returns no list of arguments for `Model`")
            refuse_arguments("get_init_inputs", init, "Model", model)
            self.module = model(*init)
            inputs = get_inputs()
            if not isinstance(inputs, (list, tuple)):
                raise Refused("`get_inputs` returns no list of arguments for `forward`")
            refuse_arguments("get_inputs", inputs, "forward", self.module.forward)
            self.leaves = [flatten(argument)[0] for argument in inputs]
            if with_outputs:
                with torch.no_grad():
                    self.outputs = flatten(self.module(*inputs))[0]
        self.states = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        self.parameters = {name for name, _ in self.module.named_parameters()}
        self.inputs = [leaf for leaves in self.leaves for leaf in leaves if torch.is_tensor(leaf)]

    def tensors(self):
        """Returns the tensors by what they are."""
        yield from ((("input", place), tensor) for place, tensor in enumerate(self.inputs))
        yield from ((("state", name), tensor) for name, tensor in self.states.items())
        outputs = (one for one in self.outputs if one is not None)
        yield from ((("output", place), tensor) for place, tensor in enumerate(outputs))

    def structure(self):
        return [(key, str(tensor.dtype), tensor.dim()) for key, tensor in self.tensors()]

    def numbers(self):
        """Returns every number that may depend on a size: extents, and the bounds of whole numbers."""
        found = {}
        for key, tensor in self.tensors():
            found.update({(*key, axis): extent for axis, extent in enumerate(tensor.shape)})
            bounds = key[0] == "input" and self.contents.bounds(tensor)
            if bounds:
                found[(*key, "least")], found[(*key, "most")] = bounds
        return found

    def bytes(self):
        return sum(tensor.numel() * 8 for _, tensor in self.tensors())


def refuse_arguments(maker, arguments, taker, function):
    """Refuses arguments that a function does not take."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments)
    except TypeError:
        taken = ", ".join(signature.parameters) or "nothing"
        raise Refused(
            f"`{maker}` returns {len(arguments)} argument{'s' * (len(arguments) != 1)}, but `{taker}` takes {taken}: return what it takes"
        )


def is_recurrent(function, arguments):
    """Tells whether a call is one of a recurrent layer on tensors without numbers."""
    name = getattr(function, "__name__", "")
    # A packed sequence has the sizes of its batches before the parameters, and so has no flag there.
    return name in ("lstm", "gru", "rnn_tanh", "rnn_relu") and type(arguments[3]) is bool and arguments[0].is_meta


def of_first_step(function, arguments):
    """Answers a recurrent layer by its first step: PyTorch would take seconds to go through all of them."""
    sequence, axis = arguments[0], int(arguments[8])
    outputs, *states = function(sequence.narrow(axis, 0, 1), *arguments[1:])
    shape = list(outputs.shape)
    shape[axis] = sequence.shape[axis]
    return (outputs.new_empty(shape), *states)


class Contents:
    """Remembers what random tensors contain."""

    @staticmethod
    def of(torch):
        from torch.overrides import TorchFunctionMode

        class Recorder(TorchFunctionMode):
            SAME = set("to long int short float half bfloat16 double type contiguous clone reshape view unsqueeze squeeze "
                       "flatten expand repeat transpose permute t detach requires_grad_".split())

            def __init__(self):
                super().__init__()
                self.known, self.alive = {}, []
                self.left_out_steps = False

            def __torch_function__(self, function, types, arguments=(), options=None):
                if is_recurrent(function, arguments):
                    self.left_out_steps = True
                    return of_first_step(function, arguments)
                result = function(*arguments, **(options or {}))
                name = getattr(function, "__name__", "")
                if torch.is_tensor(result):
                    found = self.made(name, arguments, options or {})
                    if found:
                        self.alive.append(result)
                        self.known[id(result)] = found
                return result

            def made(self, name, arguments, options):
                numbers = [one for one in arguments if type(one) in (int, float)]
                if name == "randint":
                    low = options.get("low", numbers[0] if len(numbers) > 1 else 0)
                    high = options.get("high", numbers[1] if len(numbers) > 1 else numbers[0] if numbers else None)
                    return high is not None and ("whole", int(low), int(high) - 1)
                if name in ("arange", "randperm") and numbers:
                    low, high = (numbers[0], numbers[1]) if len(numbers) > 1 else (0, numbers[0])
                    return ("whole", math.ceil(low), math.ceil(high) - 1)
                if name in ("full", "zeros", "ones"):
                    value = {"zeros": 0, "ones": 1}.get(name, options.get("fill_value", (arguments + (None, None))[1]))
                    return type(value) in (int, float) and value == int(value) and ("whole", int(value), int(value))
                if name == "rand":
                    return ("uniform", 0.0, 1.0)
                if name in self.SAME and arguments:
                    return self.known.get(id(arguments[0]))

            def bounds(self, tensor):
                kind, *bounds = self.known.get(id(tensor)) or [None]
                is_whole = not tensor.dtype.is_floating_point and tensor.dtype != torch.bool
                return tuple(bounds) if kind == "whole" and is_whole else None

        return Recorder()


class Tracer:
    """Traces a problem in changed sizes."""

    def __init__(self, names, base):
        self.names, self.base, self.known = names, base, {}
        self.first = Trace(names, base)
        self.until = time.monotonic() + SEARCH_S

    def refuse_late(self):
        """Refuses a problem whose sizes could not all be examined."""
        if time.monotonic() > self.until:
            raise Refused(
                f"its sizes were not all examined within {SEARCH_S} s, because `forward` takes long even without numbers, as a "
                "loop over many steps does: give fewer or smaller sizes in shapes.py"
            )

    def at(self, **changed):
        """Returns the numbers in some sizes. None if the problem has no such sizes, or is another one there."""
        key = tuple(sorted(changed.items()))
        if key not in self.known:
            if time.monotonic() > self.until:
                return None
            try:
                trace = Trace(self.names, {**self.base, **changed})
                same = trace.structure() == self.first.structure()
                self.known[key] = trace.numbers() if same else None
            except Exception:
                self.known[key] = None
        return self.known[key]


