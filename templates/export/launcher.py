"""Launches a winner: a row of the table, compiled and loaded on one device."""

import threading
from ctypes import addressof, c_void_p

from . import driver
from .table import FOLDER

# Tensors and scratch memory begin at a multiple of this many bytes, as in every check of the winners.
ALIGNMENT = 256
# What the copy engine needs of a tensor's address and strides (CUDA driver API, "cuTensorMapEncodeTiled").
MAP_ALIGNMENT = 16
MAX_STRIDE = 1 << 40
# Addresses for which a tensor map is kept: an allocator gives the same ones again and again.
MAPS_KEPT = 256

_modules = {}
_lock = threading.Lock()


def module(row):
    """Returns the compiled source of a row on the current device. The first call compiles, which takes seconds."""
    wanted = driver.current_device(), row["source"], row["arch"], *row["options"]
    with _lock:
        if wanted not in _modules:
            source = (FOLDER / "kernels" / row["source"]).read_text()
            # The driver compiles PTX itself.
            is_ptx = row["source"].endswith(".ptx")
            options = f"-arch={row['arch']}", *row["options"]
            _modules[wanted] = driver.load(source.encode() if is_ptx else driver.compile(source, options))
        return _modules[wanted]


def is_loaded(row):
    """Tells whether the source of a row is compiled and loaded on the current device."""
    return (driver.current_device(), row["source"], row["arch"], *row["options"]) in _modules


class Launcher:
    """A winner on the device that is current when it is made."""

    def __init__(self, row):
        loaded = module(row)
        self.row = row
        preparation = row.get("preparation", [])
        self.preparation = [Launch(launch, driver.kernel(loaded, launch)) for launch in preparation]
        self.launches = [Launch(launch, driver.kernel(loaded, launch)) for launch in row["launches"]]
        # A launch is filled in and enqueued by one thread at a time.
        self.lock = threading.Lock()
        taken = {name for launch in preparation for name in buffers(launch)}
        # The tensors that are prepared, in a fixed order.
        self.weights = sorted(taken & row["tensors"].keys())
        prepared = {name: space for name, space in row["workspaces"].items() if name in taken}
        others = {name: space for name, space in row["workspaces"].items() if name not in taken}
        # Bytes of zeroed memory, which every launch leaves zeroed, of memory with any contents, and of prepared weights.
        self.zeroed_bytes, self.zeroed = places(others, "zero")
        self.scratch_bytes, self.scratch = places(others, "undefined")
        self.prepared_bytes, self.prepared = places(prepared, "undefined")

    def prepare(self, addresses, prepared, stream):
        """Puts the preparation of the weights on a stream. `prepared` is the address of the memory that will hold them."""
        self._enqueue(self.preparation, {**addresses, **within(prepared, self.prepared)}, stream)

    def launch(self, addresses, zeroed, scratch, stream, prepared=0):
        """Puts the winner on a stream, without allocating or waiting. `addresses` has those of the tensors by name.

        `zeroed` and `scratch` are the addresses of its scratch memory. Launches that may overlap need their own. `prepared` is
        where the weights were prepared, if `prepared_bytes` is not 0.
        """
        own = within(zeroed, self.zeroed) | within(scratch, self.scratch) | within(prepared, self.prepared)
        self._enqueue(self.launches, {**addresses, **own}, stream)

    def _enqueue(self, launches, addresses, stream):
        with self.lock:
            for launch in launches:
                launch.enqueue(addresses, stream)


class Launch:
    """A launch of one kernel, which lacks only the addresses and the stream. Making all else anew costs a call 5 us."""

    def __init__(self, launch, kernel):
        self.name, self.kernel = launch["kernel"], kernel
        self.config = driver.launch_config(launch, driver.launch_attributes(launch))
        # Where the driver finds each argument. Addresses are written in their place, and of a map the pointer is set.
        self.pointers = (c_void_p * len(launch["args"]))()
        self.scalars, self.addresses, self.maps = [], [], []
        for place, argument in enumerate(launch["args"]):
            (kind, content), = argument.items()
            if kind == "tensor_map":
                self.maps.append((place, TensorMap(content)))
                continue
            value = driver.number(content) if kind == "scalar" else c_void_p()
            self.pointers[place] = addressof(value)
            if kind == "scalar":
                self.scalars.append(value)
            else:
                self.addresses.append((value, content))

    def enqueue(self, addresses, stream):
        for value, name in self.addresses:
            value.value = addresses[name]
        for place, tensor_map in self.maps:
            self.pointers[place] = addressof(tensor_map.at(addresses))
        driver.enqueue(self.name, self.kernel, self.config, self.pointers, stream)


class TensorMap:
    """A tensor map, which is encoded once for each address."""

    def __init__(self, described):
        self.described, self.encoded = described, {}

    def at(self, addresses):
        address = addresses[self.described["tensor"]]
        found = self.encoded.get(address)
        if found is None:
            found = driver.tensor_map(self.described, address)
            if len(self.encoded) >= MAPS_KEPT:
                self.encoded.clear()
            self.encoded[address] = found
        return found


def buffers(launch):
    """Returns the names of the tensors and workspaces that a launch takes."""
    found = []
    for argument in launch["args"]:
        (kind, content), = argument.items()
        if kind != "scalar":
            found.append(content["tensor"] if kind == "tensor_map" else content)
    return found


def within(address, places):
    """Returns the addresses of what lies in memory from an address on."""
    return {name: address + place for name, place in places.items()}


def places(workspaces, initial):
    """Lays out the workspaces with such contents. Returns the size of all, and where each begins."""
    size, found = 0, {}
    for name, workspace in workspaces.items():
        if workspace["initial"] == initial:
            found[name] = size
            size += -(-workspace["bytes"] // ALIGNMENT) * ALIGNMENT
    return size, found


def viewed(row, strides):
    """Returns a row for tensors that are not dense, or not at a multiple of ALIGNMENT. `strides` has theirs by name, in elements.

    Only the copy engine takes such tensors, by their tensor maps. None if a kernel gets one of them by its address.
    """
    parts = {part: restrided_launches(row, part, strides) for part in ("preparation", "launches") if part in row}
    return None if None in parts.values() else {**row, **parts}


def restrided_launches(row, part, strides):
    """Returns the launches of a part of a row for tensors with other strides. None if they cannot take them."""
    launches = []
    for launch in row[part]:
        args = []
        for argument in launch["args"]:
            (kind, content), = argument.items()
            if kind == "tensor" and content in strides:
                return None
            if kind == "tensor_map" and content["tensor"] in strides:
                name = content["tensor"]
                content = restrided(content, row["tensors"][name]["shape"], strides[name])
                if content is None:
                    return None
            args.append({kind: content})
        launches.append({**launch, "args": args})
    return launches


def restrided(described, shape, strides):
    """Returns a tensor map for a tensor with other strides. None if the copy engine cannot walk it."""
    size = driver.SIZES[described["dtype"]]
    steps = [1, *(stride // size for stride in described["stride_bytes"])]
    found = [walked(count, step, shape, strides) for count, step in zip(described["sizes"], steps)]
    if None in found or found[0] != 1:
        return None
    stride_bytes = [stride * size for stride in found[1:]]
    if any(stride % MAP_ALIGNMENT or not 0 < stride < MAX_STRIDE for stride in stride_bytes):
        return None
    return {**described, "stride_bytes": stride_bytes}


def walked(count, step, shape, strides):
    """Returns the stride of a walk of `count` steps, each over `step` elements of a dense tensor of this shape, in a tensor with
    these strides. None if it has no single stride."""
    if count == 1:
        return step
    dense, found, continued = 1, None, None
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 1:
            continue
        end = dense * extent
        if found is None and step < end:
            # The walk begins in this dimension.
            if step % dense:
                return None
            found = stride * (step // dense)
        elif found is not None and stride != continued:
            return None
        if found is not None and step * count <= end:
            return found
        if found is not None and end % step:
            return None
        dense, continued = end, stride * extent
    return None
