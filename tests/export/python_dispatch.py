"""Calls an exported Python package as a user would. The first argument is the folder of the export."""

import sys

from fake_driver import Tensor, package

attention, fake = package(sys.argv[1], "attention_fp16_long")


def call(heads=16, length=4096, width=128, causal=1, change=lambda tensors: None):
    """Returns whether there was a winner, and what was launched."""
    tensors = {name: Tensor((4, heads, length, width)) for name in "qkvo"}
    change(tensors)
    fake.launched.clear()
    found = attention.launch(*tensors.values(), CAUSAL=causal, stream=7)
    return found, fake.launched, tensors


# A case of the table.
found, launched, tensors = call()
((kernel, values, stream),) = launched
assert found and kernel == "attend" and stream == 7, launched
assert values[:4] == [f"map of {tensors[name].address}" for name in "qkvo"], values
assert values[4] == 1 << 30 and values[5:8] == [64, 4096, 4096], values
assert fake.allocated == [256], "scratch memory is allocated once"
call()
assert fake.allocated == [256] and len(fake.compiled) == 1, "and a winner is loaded once"
assert "-arch=sm_90a" in fake.compiled[0]

# Another case is another winner.
assert call(causal=0)[0] and len(fake.compiled) == 2

# The copy engine takes other strides, and other addresses.
def rows_first(tensors):
    """The rows of a head lie apart, as in a model: [batch, rows, heads, dimensions]. With one batch, one map walks all heads."""
    for tensor in tensors.values():
        tensor.shape, tensor.strides = (1, 32, 8192, 128), (1 << 25, 128, 32 * 128, 1)
    tensors["k"].address += 16

found, launched, tensors = call(change=rows_first)
assert found and fake.maps["k_map"]["stride_bytes"] == [8192, 128, 256], fake.maps
assert launched[0][1][1] == f"map of {tensors['k'].address}"

# A source is launched on other shapes, between those on which it was checked.
def between(tensors, length=2000):
    for tensor in tensors.values():
        tensor.shape = (3, 12, length, 64)
        tensor.strides = tensor.dense()

found, launched, _ = call(causal=0, change=between)
assert found and launched[0][1][5:9] == [36, 1, 2000, 2000] and fake.grid == [132, 1, 1], (launched, fake.grid)
assert fake.maps["q_map"]["sizes"] == [64, 2000, 36] and fake.maps["q_map"]["stride_bytes"] == [128, 2000 * 128], fake.maps
for length in [999, 5000]:
    assert not call(causal=0, change=lambda tensors: between(tensors, length))[0], "it is not proven, or far from its case"

# Everywhere else, nothing is launched.
def misplaced(tensors):
    tensors["k"] = Tensor((4, 16, 4096, 128), offset=8)

def strided(tensors):
    """One map cannot walk all heads of several batches."""
    tensors["v"].strides = (16 * 4096 * 128, 128, 16 * 128, 1)

def scattered(tensors):
    tensors["v"].strides = (16 * 4096 * 128, 4096 * 128, 1, 4096)

def single(tensors):
    tensors["q"].dtype = "float32"

def short(tensors):
    tensors["o"].shape = (4, 16, 1, 128)
    tensors["o"].strides = tensors["o"].dense()

for refused in [dict(length=4095), dict(heads=17), dict(causal=2), dict(change=misplaced), dict(change=strided),
                dict(change=scattered), dict(change=single), dict(change=short)]:
    found, launched, _ = call(**refused)
    assert not found and not launched, refused
for other in [("NVIDIA H100 80GB HBM3", 132, (9, 0)), ("NVIDIA H200", 66, (9, 0)), ("NVIDIA H200", 132, (10, 0))]:
    own, fake.device = fake.device, type(fake.device)(*other)
    assert not call()[0] and not call()[1], other
    fake.device = own
try:
    attention.launch(*[Tensor((4, 4096, 128))] * 4, CAUSAL=1)
    raise SystemExit("three dimensions were taken")
except ValueError as error:
    # The table lists inputs by name.
    assert str(error) == "k has 3 dimensions, not 4", error

# A launcher for addresses, with scratch memory of the caller.
winner = attention.find(B=4, H=16, Sq=4096, Sk=4096, D=128, CAUSAL=1)
assert winner.workspace_bytes == 256
fake.launched.clear()
winner.launch_with({"q": 1, "k": 2, "v": 3, "o": 4}, 5120, stream=9)
assert fake.launched[0][1][3:5] == ["map of 4", 5120] and fake.launched[0][2] == 9, fake.launched
assert attention.find(B=1, H=1, Sq=1, Sk=1, D=1, CAUSAL=1) is None
print("ok")
