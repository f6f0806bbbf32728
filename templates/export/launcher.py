"""Launches a winner: a row of the table, compiled and loaded on one device."""

from ctypes import c_void_p

from . import driver
from .table import FOLDER

# Tensors and scratch memory begin at a multiple of this many bytes, as in every check of the winners.
ALIGNMENT = 256


class Launcher:
    """A winner on the device that is current when it is made. Making one compiles, which takes seconds."""

    def __init__(self, row):
        source = (FOLDER / "kernels" / row["source"]).read_text()
        module = driver.load(driver.compile(source, (f"-arch={row['arch']}", *row["options"])))
        self.row = row
        self.launches = [
            (launch, driver.kernel(module, launch), driver.launch_attributes(launch)) for launch in row["launches"]
        ]
        # Bytes of zeroed memory, which every launch leaves zeroed, and of memory with any contents.
        self.zeroed_bytes, self.zeroed = places(row["workspaces"], "zero")
        self.scratch_bytes, self.scratch = places(row["workspaces"], "undefined")

    def launch(self, addresses, zeroed, scratch, stream):
        """Puts the winner on a stream, without allocating or waiting. `addresses` has those of the tensors by name.

        `zeroed` and `scratch` are the addresses of its scratch memory. Launches that may overlap need their own.
        """
        addresses = {
            **addresses,
            **{name: zeroed + place for name, place in self.zeroed.items()},
            **{name: scratch + place for name, place in self.scratch.items()},
        }
        for launch, kernel, attributes in self.launches:
            values = [value(argument, addresses) for argument in launch["args"]]
            driver.enqueue(kernel, launch, attributes, values, stream)


def value(argument, addresses):
    """Returns an argument as a kernel takes it."""
    (kind, content), = argument.items()
    if kind == "scalar":
        return driver.number(content)
    if kind == "tensor_map":
        return driver.tensor_map(content, addresses[content["tensor"]])
    return c_void_p(addresses[content])


def places(workspaces, initial):
    """Lays out the workspaces with such contents. Returns the size of all, and where each begins."""
    size, found = 0, {}
    for name, workspace in workspaces.items():
        if workspace["initial"] == initial:
            found[name] = size
            size += -(-workspace["bytes"] // ALIGNMENT) * ALIGNMENT
    return size, found
