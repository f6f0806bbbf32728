# What is told.


def unique(name, taken):
    name = re.sub(r"\W", "_", name).strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    if name in WORDS_OF_C or keyword.iskeyword(name):
        name += "_"
    while name in taken:
        name += "_"
    taken.add(name)
    return name[:64]


def argument_names(trace, taken):
    """Returns what the tensors and the numbers among the arguments of `forward` are called."""
    parameters = [name for name in inspect.signature(trace.module.forward).parameters]
    tensors, scalars = [], {}
    for place, leaves in enumerate(trace.leaves):
        name = parameters[min(place, len(parameters) - 1)] if parameters else "x"
        if place >= len(parameters):
            name = f"{name}_{place}"
        for number, leaf in enumerate(leaves):
            own = name if len(leaves) == 1 else f"{name}_{number}"
            if trace.torch.is_tensor(leaf):
                tensors.append(unique(own, taken))
            elif isinstance(leaf, float):
                scalars[unique(own, taken)] = leaf
    return tensors, scalars


def dtype_of(torch, tensor, name):
    known = {
        torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8",
        torch.uint8: "u8", torch.int32: "i32", torch.int64: "i64", torch.bool: "bool",
        getattr(torch, "float8_e4m3fn", None): "e4m3", getattr(torch, "float8_e5m2", None): "e5m2",
        getattr(torch, "uint32", None): "u32",
    }
    found = known.get(tensor.dtype)
    if found is None:
        raise Refused(f"`{name}` has elements of {tensor.dtype}, which no kernel of optloop has")
    return found


def refuse_shapes(trace):
    torch = trace.torch
    for name, module in trace.module.named_modules():
        plain = [key for key, value in vars(module).items() if torch.is_tensor(value)]
        if plain:
            where = f"{name}.{plain[0]}" if name else plain[0]
            raise Refused(
                f"the module keeps the tensor `{where}` as a plain attribute: make it a parameter or register_buffer"
            )
    outputs = [one for one in trace.outputs if one is not None]
    if not outputs or not all(torch.is_tensor(one) for one in outputs):
        other = next((type(one).__name__ for one in outputs if not torch.is_tensor(one)), "nothing")
        raise Refused(f"`forward` returns {other}, but the outputs of a kernel are tensors")
    if not trace.inputs:
        raise Refused("`get_inputs` returns no tensor, so there is nothing to compute with")


def flop_of(names, sizes):
    """Returns the operations that PyTorch counts. None if it counts none."""
    try:
        from torch.utils.flop_counter import FlopCounterMode

        torch = names["torch"]
        with FlopCounterMode(display=False) as counter:
            trace = Trace(names, sizes)
        return None if trace.contents.left_out_steps else counter.get_total_flops() or None
    except Exception:
        return None


def only_size(trace, sizes):
    """Returns a size for an op that has no other: an op has at least one dimension."""
    extents = [extent for tensor in trace.inputs for extent in tensor.shape] or [1]
    named = next((name for name, size in sizes.items() if size in extents), None)
    return (named, sizes[named]) if named else ("n", extents[0])


def told_flop(names, base, dims):
    """Returns what PyTorch counts as an expression of the dimensions."""
    total = flop_of(names, base)
    if not total:
        return None
    factors = []
    for name in dims:
        power = {1: 0, 2: 1, 4: 2, 8: 3}.get((flop_of(names, {**base, name: 2 * base[name]}) or 0) / total)
        if power is None:
            return None
        factors += [name] * power
    product = math.prod(base[name] for name in factors)
    return None if total % product else " * ".join([str(total // product), *factors])


def cases_of(path, sizes):
    """Returns the cases of `shapes.py`, and the sizes that they name."""
    spec = importlib.util.spec_from_file_location("shapes", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Refused(f"shapes.py: {described(error, path)}")
    cases = getattr(module, "SHAPES", None)
    if not isinstance(cases, (list, tuple)) or not cases or not all(isinstance(case, dict) for case in cases):
        raise Refused("shapes.py has no list `SHAPES` of dictionaries")
    # Some files write them in capitals.
    own = lambda name: name if name in sizes or name.upper() not in sizes else name.upper()
    whole_numbers = [{own(name): size for name, size in case.items() if type(size) is int} for case in cases]
    named = list(dict.fromkeys(name for case in whole_numbers for name in case))
    unknown = [name for name in named if name not in sizes]
    if unknown:
        raise Refused(f"shapes.py gives `{unknown[0]}`, but the file sets no whole number of that name")
    return whole_numbers, named


def tolerance_of(path):
    """Returns the largest error that `problem.yaml` allows. None if it does not say."""
    with open(path, encoding="utf-8") as file:
        _, _, rest = file.read().partition("\ntolerance:")
    found = re.match(r"(?:\s*\n[ \t]+[\w.]+:\s*[0-9.eE+-]+[^\n]*)+", rest)
    numbers = [float(number) for number in re.findall(r":\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)", found[0])] if found else []
    return max(numbers, default=None)


def forced_sizes(tracer, names, named, cases):
    """Returns the dimensions that the cases differ in or that may change, and the range of each."""
    dims, ranges = [], {}
    free = set(free_sizes(tracer, {name: tracer.base[name] for name in named}))
    for name in named:
        values = {case.get(name, tracer.base[name]) for case in cases}
        if name in free:
            dims.append(name)
            ranges[name] = (min(least_of(tracer, name, tracer.base[name]), *values), None)
        elif len(values) > 1:
            dims.append(name)
            ranges[name] = (min(values), max(values))
    return dims, ranges


def chosen(tracer, sizes, cases, named):
    """Returns the dimensions with their ranges, and the expressions of all numbers."""
    if cases:
        dims, ranges = forced_sizes(tracer, tracer.names, named, cases)
        texts, problem = expressions(tracer, dims)
        if texts is None:
            tracer.refuse_late()
            raise Refused(f"the extents of its tensors are no expression of `{problem}`, which shapes.py changes")
        return dims, ranges, texts
    dims = free_sizes(tracer, sizes)
    texts, problem = expressions(tracer, dims)
    while texts is None:
        dims.remove(problem)
        texts, problem = expressions(tracer, dims)
    leasts = {name: least_of(tracer, name, tracer.base[name]) for name in dims}
    # The smallest of one size may need more of another.
    more = lambda names: {**leasts, **{name: min(2 * leasts[name], tracer.base[name]) for name in names}}
    while not tracer.at(**leasts) and any(leasts[name] < tracer.base[name] for name in dims):
        leasts = next((more([name]) for name in dims if tracer.at(**more([name]))), more(dims))
    return dims, {name: (leasts[name], None) for name in dims}, texts


def independent(calls, dims, ranges, keys, tensors, result):
    """Returns the dimension whose indices do not influence each other, if there is one."""
    shapes = {key: [keys[(*key, axis)] for axis in range(tensor.dim())] for key, tensor in calls.trace.tensors()}
    for name in dims:
        outputs = [shape for key, shape in shapes.items() if key[0] == "output"]
        if ranges[name][0] > 1 or not all(shape and shape[0] == name for shape in outputs):
            continue
        has = lambda text, name=name: re.search(rf"\b{name}\b", text)
        if any(has(text) for shape in shapes.values() for text in shape[1:]) or any(
            has(shape[0]) and shape[0] != name for shape in shapes.values() if shape
        ):
            continue
        bounds = [text for key, text in keys.items() if key[2] in ("least", "most")]
        count = calls.sizes[name]
        if count < 2 or any(has(text) for text in bounds):
            continue
        for index in (0, count - 1):
            cut = {key: tensor[index : index + 1] if shapes.get(key, [""])[:1] == [name] else tensor for key, tensor in tensors.items()}
            try:
                part = calls.call(cut, {**calls.sizes, name: 1})
            except Exception:
                break
            if not calls.same(part, [one[index : index + 1] for one in result], within=1e-9):
                break
        else:
            return name
    return None


def told(request):
    source = Source(request["file"])
    cases, named = cases_of(request["shapes"], source.sizes) if request["shapes"] else ([], [])
    support, notes = request["support"], []
    names = loaded(source.oracle(support, source.sizes), source.name)
    torch = names["torch"]
    base = {**source.sizes, **(cases[0] if cases else {})}
    try:
        tracer = Tracer(names, base)
    except RuntimeError as error:
        if "meta tensors" not in str(error):
            raise
        raise Refused(
            f"the numbers in its tensors decide what it computes ({described(error, source.name)}), so its shapes do not tell "
            "those of its outputs"
        )
    trace = tracer.first
    refuse_shapes(trace)
    dims, ranges, texts = chosen(tracer, source.sizes, cases, named)
    # All cases must be examined, however long that takes.
    tracer.until = math.inf
    for case in cases:
        numbers = tracer.at(**{name: size for name, size in case.items() if name in base})
        if numbers is None:
            raise Refused(f"with the sizes {case} of shapes.py, `forward` fails or has other tensors")
        if any(eval(text.replace("/", "//"), {**base, **case}) != numbers[key] for key, text in texts.items()):
            raise Refused(f"with the sizes {case} of shapes.py, the extents of its tensors are no expression that the others have, too")
    if not dims:
        name, size = only_size(trace, source.sizes)
        dims, ranges = [name], {name: (size, size)}
        base.setdefault(name, size)
        notes.append("none of its sizes can change alone, so no other sizes are tried")
    taken = set(dims)
    tensors, scalars = argument_names(trace, taken)
    shown = {("input", place): name for place, name in enumerate(tensors)}
    shown.update({("state", name): unique(name.replace(".", "_"), taken) for name in trace.states})
    outputs = [key for key, _ in trace.tensors() if key[0] == "output"]
    shown.update({key: unique("out" if len(outputs) == 1 else f"out_{key[1]}", taken) for key in outputs})
    dtypes = {key: dtype_of(torch, tensor, shown[key]) for key, tensor in trace.tensors()}
    for place, tensor in enumerate(trace.inputs):
        is_whole = not tensor.dtype.is_floating_point and tensor.dtype != torch.bool
        if is_whole and not trace.contents.bounds(tensor) and tensors[place] not in request["given"]:
            raise Refused(
                f"the whole numbers in `{tensors[place]}` have no bounds that are known: give them, such as "
                f"--contents {tensors[place]}=integers:0:9"
            )
    flop = told_flop(names, base, dims)
    states = {name: shown["state", name] for name in trace.states}
    of_states = state_ranges(names, base, trace)
    small = small_sizes(names, base, dims, ranges)
    # From here on, the types are other ones.
    names["compute_exactly"]()
    names = loaded(source.oracle(support, source.sizes, tensors, states), source.name)
    own, dropped, dim, selections = {}, [], None, []
    if small is None:
        notes.append("its tensors are too large for a trial call here, so no dimension is taken as independent")
    else:
        calls = Calls(names, small, shown)
        own, dropped, dim = tried(calls, names, small, dims, ranges, texts, shown, notes)
        selections = selected(calls)
    # Weights of the trial are smaller than those of the cases.
    is_whole = lambda bounds: type(bounds[0]) is int
    # Whole numbers that are others in other sizes have bounds that are not known.
    unknown = [key for key in own if is_whole(own[key]) and of_states.get(key, own[key]) != own[key]]
    own = {key: of_states.get(key, bounds) for key, bounds in {**of_states, **own}.items() if key not in unknown}
    states = {name: shown["state", name] for name in trace.states if name not in dropped}
    if dropped:
        notes.append(f"no output depends on {', '.join(dropped)}, so kernels do not get {'them' if len(dropped) > 1 else 'it'}")
    told_tensors = []
    for key, tensor in trace.tensors():
        if key[0] == "state" and key[1] in dropped:
            continue
        shape = [texts[(*key, axis)] for axis in range(tensor.dim())] or ["1"]
        values = None
        if key in own:
            values = {"integers": [str(bound) for bound in own[key]]} if is_whole(own[key]) else {"uniform": own[key]}
        elif key[0] == "input" and trace.contents.bounds(tensor):
            values = {"integers": [texts[(*key, "least")], texts[(*key, "most")]]}
        selects = next((shown[source] for output, source in selections if output == key), None)
        told_tensors.append({
            "selects": selects, "name": shown[key], "role": "output" if key[0] == "output" else "input", "dtype": dtypes[key], "shape": shape,
            "values": values,
        })
    return {
        "dims": [{"name": name, "least": ranges[name][0], "most": ranges[name][1]} for name in dims],
        "cases": [{name: case.get(name, base[name]) for name in dims} for case in cases or [{}]],
        "tensors": told_tensors,
        "scalars": scalars,
        "independent": dim,
        "oracle": source.oracle(support, dims, tensors, states),
        "flop": flop,
        "tolerance": tolerance_of(request["settings"]) if request["settings"] else None,
        "notes": notes,
    }


def selected(calls):
    """Returns the outputs that are indices of an input's elements along its last extent, as top-k has, with the input. They must come
    with the elements, in an output of the same shape: otherwise what they mean is not known."""
    tensors = calls.tensors()
    outputs = [(key, one) for (key, _), one in zip(calls.outputs(), calls.call(tensors))]
    found = []
    for key, indices in outputs:
        if indices.dtype not in (calls.torch.int32, calls.torch.int64) or not indices.dim():
            continue
        for source, tensor in tensors.items():
            fits = source[0] == "input" and tensor.dtype.is_floating_point and tensor.shape[:-1] == indices.shape[:-1]
            if not fits or not bool(((indices >= 0) & (indices < tensor.shape[-1])).all()):
                continue
            elements = calls.torch.gather(tensor, -1, indices.long())
            if any(one.shape == elements.shape and calls.torch.equal(one, elements) for _, one in outputs if one is not indices):
                found.append((key, source))
                break
    return found


def without_effect(calls, tensors, result):
    """Returns the parameters and the inputs on which no output depends."""
    others = {}
    for key, tensor in tensors.items():
        like = calls.trace.states[key[1]] if key[0] == "state" else calls.trace.inputs[key[1]]
        other = calls.drawn(key, like)
        if calls.torch.equal(other, tensor):
            other = tensor + 1 if tensor.dtype != calls.torch.bool else ~tensor
        others[key] = other

    def is_same(keys):
        try:
            return calls.same(result, calls.call({**tensors, **{key: others[key] for key in keys}}))
        except (IndexError, RuntimeError):
            return False

    def unused(keys):
        if not keys or is_same(keys):
            return keys
        middle = len(keys) // 2
        return unused(keys[:middle]) + unused(keys[middle:]) if middle else []

    # A call for each tensor of a deep network would take minutes.
    felt = calls.felt(tensors)
    found = unused([key for key in tensors if key not in felt])
    return [key[1] for key in found if key[0] == "state"], [key for key in found if key[0] != "state"]


def tried(calls, names, small, dims, ranges, texts, shown, notes):
    """Calls the module. Returns the ranges of inputs that are not normal, the parameters that change nothing, and the
    independent dimension."""
    tensors = calls.tensors()
    result = calls.call(tensors)
    if not calls.same(result, calls.call(tensors)):
        raise Refused(
            "two calls of `forward` on the same inputs differ, as with dropout: take out what is random, or call self.eval() in "
            "`__init__`"
        )
    if not calls.is_finite(result):
        for place, (least, most) in enumerate(file_numbers(names, small)):
            if tensors["input", place].dtype.is_floating_point and least >= 0 and most > least:
                kind = calls.trace.contents.known.get(id(calls.trace.inputs[place]))
                least, most = kind[1:] if kind and kind[0] == "uniform" else (least, most)
                calls.own["input", place] = [least, most]
        for name in calls.trace.states:
            if name not in calls.trace.parameters and calls.trace.states[name].dtype.is_floating_point:
                calls.own["state", name] = [0.5, 1.5]
        tensors = calls.tensors()
        result = calls.call(tensors)
        if not calls.is_finite(result):
            raise Refused("its output is not finite, neither on normal inputs nor on those of `get_inputs`")
        ranged = [shown[key] for key in calls.own if key[0] == "input"]
        notes.append(f"normal inputs give infinite or no numbers, so {', '.join(ranged)} keep to the range of the file")
    dropped, idle = without_effect(calls, tensors, result)
    if len(dropped) + len(idle) == len(tensors):
        # What a clamp or a ReLU cuts off may be there in larger numbers.
        large = {key: 16 * tensor if tensor.dtype.is_floating_point else tensor for key, tensor in tensors.items()}
        dropped, idle = without_effect(calls, large, calls.call(large))
        if len(dropped) + len(idle) == len(tensors):
            raise Refused("its output is the same for all inputs, so there is nothing to compute")
        name = shown["input", 0]
        notes.append(
            f"its output is nearly always the same: larger inputs, such as --contents {name}=uniform:-16:16, would tell more"
        )
    notes += [f"no output depends on `{shown[key]}`" for key in idle]
    for name in dropped:
        calls.own.pop(("state", name), None)
    return calls.own, dropped, independent(calls, dims, ranges, texts, tensors, result)


def main():
    request = json.loads(sys.stdin.readline())
    file = os.path.basename(request["file"])
    try:
        import torch
    except ImportError as error:
        if error.name != "torch":
            raise
        finish(error=f"it needs PyTorch, which is not installed for {sys.executable}: name another interpreter as "
                     "baseline.python in config.toml")
    try:
        finish(**told(request))
    except Refused as problem:
        finish(error=str(problem))
    except Exception as error:
        finish(error=described(error, file))


main()
