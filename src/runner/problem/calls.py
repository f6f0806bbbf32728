# Calls.


def like_numbers(torch, tensor, contents, generator, own=None):
    """Returns a tensor of that shape with random numbers, in float64 if it has a point."""
    shape = tensor.shape
    if tensor.dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not tensor.dtype.is_floating_point:
        least, most = contents or own or (0, 0)
        return torch.randint(least, most + 1, shape, generator=generator, dtype=torch.int64).to(tensor.dtype)
    if own:
        return own[0] + (own[1] - own[0]) * torch.rand(shape, generator=generator, dtype=torch.float64)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


class Calls:
    """Calls the module on small tensors in float64."""

    def __init__(self, names, sizes, shown):
        self.names, self.torch, self.sizes, self.shown = names, names["torch"], sizes, shown
        self.trace = Trace(names, sizes)
        self.own = state_ranges(names, sizes, self.trace)
        self.generator = self.torch.Generator().manual_seed(1)

    def drawn(self, key, tensor):
        contents = self.trace.contents.bounds(tensor) if key[0] == "input" else None
        return like_numbers(self.torch, tensor, contents, self.generator, self.own.get(key))

    def tensors(self):
        return {key: self.drawn(key, tensor) for key, tensor in self.trace.tensors() if key[0] != "output"}

    def outputs(self):
        return [(key, tensor) for key, tensor in self.trace.tensors() if key[0] == "output"]

    def call(self, tensors, sizes=None):
        named = {self.shown[key]: tensor.clone() for key, tensor in tensors.items()}
        before = {name: tensor.clone() for name, tensor in named.items()}
        with self.torch.no_grad(), self.names["AnyDevice"]():
            results = self.names["function"](sizes or self.sizes)(**named)
        results = list(results) if isinstance(results, tuple) else [results]
        for key, name in self.shown.items():
            if key in tensors and key[0] == "input" and not self.torch.equal(named[name], before[name]):
                raise Refused(f"`forward` changes its input `{name}`: compute a new tensor instead")
        return [one.clone() for one in results]

    def felt(self, tensors):
        """Returns the tensors with a gradient that is not 0: some output depends on them. Others may have an effect, too."""
        floating = [key for key, tensor in tensors.items() if tensor.dtype.is_floating_point]
        # A module that writes to its buffers gives those no gradient.
        without_buffers = [key for key in floating if key[0] == "input" or key[1] in self.trace.parameters]
        for keys in (floating, without_buffers):
            try:
                gradients = zip(keys, self.gradients(keys, tensors))
            except Exception:
                continue
            return {key for key, one in gradients if one is not None and bool(((one != 0) & one.isfinite()).any())}
        return set()

    def gradients(self, keys, tensors):
        """Returns the gradients of a random sum of all outputs. None for a tensor that is not in the sum."""
        torch = self.torch
        named = {self.shown[key]: tensor.clone() for key, tensor in tensors.items()}
        leaves = [named[self.shown[key]].requires_grad_() for key in keys]
        with self.names["AnyDevice"]():
            results = self.names["function"](self.sizes)(**named)
        results = [one for one in (results if isinstance(results, tuple) else [results]) if one.requires_grad]
        weights = [torch.randn(one.shape, generator=self.generator, dtype=one.dtype) for one in results]
        return torch.autograd.grad(results, leaves, weights, allow_unused=True)

    def same(self, ones, others, within=0.0):
        def close(one, other):
            if one.shape != other.shape:
                return False
            if within and one.dtype.is_floating_point:
                return self.torch.allclose(one, other, rtol=within, atol=within, equal_nan=True)
            return self.torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())

        return all(close(one, other) for one, other in zip(ones, others))

    def is_finite(self, results):
        return all(bool(one.isfinite().all()) for one in results if one.dtype.is_floating_point)


def state_ranges(names, sizes, trace):
    """Returns the range of each parameter and buffer, as the module makes them. None for what is normal or constant, except whole numbers.

    Weights of the usual size keep sigmoids and the like from being 0 or 1 everywhere, which would hide mistakes.
    """
    torch = names["torch"]
    if sum(tensor.numel() for tensor in trace.states.values()) > MOST_PARAMETERS:
        return {}
    torch.manual_seed(1)
    with names["AnyDevice"]():
        model, _, get_init_inputs = names["problem"](sizes)
        module = model(*get_init_inputs())
    found = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.dtype.is_floating_point and tensor.numel():
            numbers = tensor.detach().double()
            least, most = float(numbers.min()), float(numbers.max())
            is_normal = most - least > 2 and 0.5 < float(numbers.std()) < 2 if numbers.numel() > 8 else least < -1 or most > 1
            bounds = [float(f"{least:.2g}"), float(f"{most:.2g}")]
            if bounds[0] < bounds[1] and not is_normal:
                found["state", name] = bounds
        elif tensor.dtype != torch.bool and tensor.numel():
            found["state", name] = [int(tensor.min()), int(tensor.max())]
    return found


def file_numbers(names, sizes):
    """Returns the least and the greatest number of each input as the file makes them, in these sizes."""
    torch = names["torch"]
    with names["AnyDevice"]():
        _, get_inputs, _ = names["problem"](sizes)
        leaves = names["tree_flatten"](list(get_inputs()))[0]
    leaves = [leaf for leaf in leaves if torch.is_tensor(leaf)]
    return [(float(leaf.min()), float(leaf.max())) if leaf.numel() else (0.0, 0.0) for leaf in leaves]


def small_sizes(names, base, dims, ranges):
    """Returns small sizes, with fixed ones made smaller only if the tensors would be too large."""
    small = dict(base)
    for place, name in enumerate(dims):
        least, most = ranges[name]
        small[name] = min(most or math.inf, max(least, 3 + place))
    def size(sizes):
        try:
            return Trace(names, sizes).bytes()
        except Exception:
            return None
    now = size(small)
    if now is None:
        small = {**base, **{name: max(ranges[name][0], min(base[name], 16)) for name in dims}}
        now = size(small)
    for name in sorted((name for name in small if name not in dims), key=lambda name: -base[name]):
        while now and now > CALL_BYTES and small[name] >= 4:
            less = {**small, name: small[name] // 2}
            after = size(less)
            if after is None:
                break
            small, now = less, after
    return small if now and now <= CALL_BYTES else None


