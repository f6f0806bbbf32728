"""The table of winners: which kernel computes which shapes on which device."""

import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).parent


class Table:
    """What `table.json` says. A row is a winner on one device and one shape."""

    def __init__(self, text):
        contents = json.loads(text)
        self.inputs, self.outputs = contents["inputs"], contents["outputs"]
        self.dims_known = contents["dims"]
        self.rows = {}
        for number, row in enumerate(contents["rows"]):
            device = contents["devices"][row["device"]]
            row["number"] = number
            self.rows.setdefault(key(device["name"], device["sms"], device["arch"]), {})[shape(row["dims"])] = row

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
        return self.rows.get((device.name, device.sms, *device.capability), {})

    def find(self, device, dims, tensors):
        """Returns the row for a device, dimensions, and the dtype and shape of each tensor by name, or None."""
        row = self.rows_of(device).get(shape(self.complete(dims)))
        if row is None:
            return None
        for name, (dtype, extents) in tensors.items():
            wanted = row["tensors"][name]
            if dtype != wanted["dtype"] or list(extents) != wanted["shape"]:
                return None
        return row


def key(name, sms, arch):
    """Identifies a device. `sm_90a` is compute capability 9.0."""
    major, minor = re.fullmatch(r"sm_(\d+)(\d)[a-z]?", arch).groups()
    return name, sms, int(major), int(minor)


def shape(dims):
    return tuple((name, size if size is None else int(size)) for name, size in sorted(dims.items()))
