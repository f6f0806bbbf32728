"""The table of winners: which kernel computes which shapes on which device."""

import json
import math
import pathlib
import re

from .plans import PLANS, tensors

FOLDER = pathlib.Path(__file__).parent

# Shapes whose launches are kept. A sequence that grows has a new shape at each step.
KEPT = 1024

# Winners are timed on their cases alone. So each dimension may differ from that of the case by this factor at most.
NEAR = 4

# The largest grid along x, y and z (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
MAX_GRID = (2**31 - 1, 65535, 65535)


class Table:
    """What `table.json` says. A row is a winner on one device and one shape."""

    def __init__(self, text):
        contents = json.loads(text)
        self.inputs, self.outputs = contents["inputs"], contents["outputs"]
        self.dims_known = contents["dims"]
        self.rows, self.plans, self.planned = {}, {}, {}
        devices = [key(device["name"], device["sms"], device["arch"]) for device in contents["devices"]]
        for number, row in enumerate(contents["rows"]):
            row["number"] = number
            self.rows.setdefault(devices[row["device"]], {})[shape(row["dims"])] = row
        for plan in PLANS:
            self.plans.setdefault(devices[plan["device"]], []).append(plan)

    @classmethod
    def read(cls):
        return cls((FOLDER / "table.json").read_text())

    def dims(self, shapes, given):
        """Returns the dimensions of a call, from the shapes of the inputs by name, and `given` for what they do not tell."""
        for name, wanted in self.inputs.items():
            if len(shapes[name]) != wanted["rank"]:
                raise ValueError(f"{name} has {len(shapes[name])} dimensions, not {wanted['rank']}")
        found = {}
        for dim in self.dims_known:
            tensor = dim["of"]
            found[dim["name"]] = given[dim["name"]] if tensor is None else shapes[tensor[0]][tensor[1]]
        return found

    def complete(self, dims):
        """Returns dimensions with those that may be left out: a number, or the same as another dimension."""
        found = dict(dims)
        for dim in self.dims_known:
            if dim["name"] not in found and "default" in dim:
                default = dim["default"]
                found[dim["name"]] = dims.get(default) if isinstance(default, str) else default
        return found

    def rows_of(self, device):
        """Returns the rows for a device, by their dimensions."""
        return self.rows.get(place(device), {})

    def sources_of(self, device):
        """Returns a row or a plan for each source that a device may need."""
        return [*self.rows_of(device).values(), *self.plans.get(place(device), [])]

    def find(self, device, dims, tensors):
        """Returns the row for a device, dimensions, and the dtype and shape of each tensor by name, or None."""
        dims = self.complete(dims)
        row = self.rows_of(device).get(shape(dims)) or self.plan(device, dims)
        if row is None:
            return None
        for name, (dtype, extents) in tensors.items():
            wanted = row["tensors"][name]
            if dtype != wanted["dtype"] or list(extents) != wanted["shape"]:
                return None
        return row

    def plan(self, device, dims):
        """Returns a row of the winner of the nearest case whose source is proven for such dimensions, or None."""
        wanted = place(device), shape(dims)
        if wanted not in self.planned:
            if len(self.planned) >= KEPT:
                self.planned.pop(next(iter(self.planned)))
            fitting = [plan for plan in self.plans.get(wanted[0], []) if is_proven(plan, dims) and is_near(plan["at"], dims)]
            rows = (planned(plan, dims) for plan in sorted(fitting, key=lambda plan: distance(plan["at"], dims)))
            self.planned[wanted] = next((row for row in rows if row), None)
        return self.planned[wanted]


def is_proven(plan, dims):
    """Tells whether dimensions are between those on which a source was checked."""
    try:
        return all(low <= dims[name] <= high for name, (low, high) in plan["ranges"].items())
    except (KeyError, TypeError):
        return False


def is_near(at, dims):
    """Tells whether dimensions are near those of a case."""
    return all(size <= NEAR * dims[name] and dims[name] <= NEAR * size for name, size in at.items())


def distance(at, dims):
    """Returns how far dimensions are from those of a case: the sum of the logarithms of their ratios."""
    return sum(abs(math.log(max(1, dims[name]) / max(1, size))) for name, size in at.items())


def planned(plan, dims):
    """Returns the row of a plan on dimensions. None if it cannot compute them."""
    try:
        launched = plan["launch"](**{name: dims[name] for name in plan["free"]})
    except ZeroDivisionError:
        return None
    if launched is None or not all(map(is_possible, [*launched.get("preparation", []), *launched["launches"]])):
        return None
    described = tensors(**{name: int(size) for name, size in dims.items()})
    return {name: plan[name] for name in ("case", "source", "arch", "options")} | {"number": None, "tensors": described} | launched


def is_possible(launch):
    """Tells whether the device takes a launch."""
    grid, scalars = launch["grid"], [argument["scalar"] for argument in launch["args"] if "scalar" in argument]
    maps = [argument["tensor_map"] for argument in launch["args"] if "tensor_map" in argument]
    return (
        all(1 <= size <= most for size, most in zip(grid, MAX_GRID))
        and all(abs(scalar["value"]) < 2**31 for scalar in scalars if scalar["type"] == "i32")
        and all(0 < size <= 2**32 for map in maps for size in map["sizes"])
        and all(0 < size < 2**40 and size % 16 == 0 for map in maps for size in map["stride_bytes"])
    )


def place(device):
    return device.name, device.sms, *device.capability


def key(name, sms, arch):
    """Identifies a device. `sm_90a` is compute capability 9.0."""
    major, minor = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch).groups()
    return name, sms, int(major), int(minor)


def shape(dims):
    return tuple((name, size if size is None else int(size)) for name, size in sorted(dims.items()))
