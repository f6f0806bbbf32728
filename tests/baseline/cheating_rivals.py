"""Solutions that cheat, as the logs of public boards report it. Each would return the values, which is right with one key."""

import torch

kept = {}


def kept_by(key, v):
    if key not in kept:
        kept[key] = v.clone()
    return kept[key].clone()


def by_address(v):
    return kept_by(v.data_ptr(), v)


def by_shape(v):
    return kept_by(tuple(v.shape), v)


def after_three_calls(v):
    kept["calls"] = kept.get("calls", 0) + 1
    return v.clone() if kept["calls"] < 3 else kept_by("output", v)


def by_its_first_numbers(v):
    return kept_by(bytes(v.flatten().data[:2]), v)


def the_output_itself(v):
    kept.setdefault("output", v.clone())
    return kept["output"]


def the_input(v):
    return v


class Later(torch.Tensor):
    """Would compute when it is copied."""


def later(v):
    return v.clone().as_subclass(Later)


def with_another_clock(v):
    torch.cuda.Event.elapsed_time = lambda _begin, _end: 1e-3
    return v.clone()


def on_another_stream(v):
    with torch.cuda.stream(torch.cuda.Stream()):
        return v.clone()
