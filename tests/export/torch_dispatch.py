"""Calls an exported op as a user would. PyTorch is a stub (stubs/torch). The argument is the folder of the export."""

import sys
import warnings

sys.path.insert(0, f"{__file__.rsplit('/', 1)[0]}/stubs")
import torch
from fake_driver import package

attention, fake = package(sys.argv[1], "attention_fp16_long")
op = attention.attention_fp16_long


def call(length=4096, causal=1, change=lambda tensors: None):
    """Returns what PyTorch computed, and what was launched."""
    tensors = [torch.Tensor((4, 16, length, 128)) for _ in "qkv"]
    change(tensors)
    fake.launched.clear()
    torch.calls.clear()
    output = op(*tensors, causal)
    assert output.shape == (4, 16, length, 128), output.shape
    return list(torch.calls), list(fake.launched)


assert attention._op.name == "optloop::attention_fp16_long", attention._op.name
assert attention._op.schema == "(Tensor q, Tensor k, Tensor v, int CAUSAL) -> Tensor", attention._op.schema

# What is captured before the winner is loaded falls back, and says so.
torch.capturing = True
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    computed, launched = call()
assert computed and not launched and "call load() first" in str(said[0].message)
torch.capturing = False

attention.load()
assert len(fake.compiled) == 5, "every source is loaded, and one of them for two winners"
computed, launched = call()
assert not computed and launched[0][0] == "attend", (computed, launched)

# Each stream has its own zeroed memory, and so has each graph.
counters = {launched[0][1][4]}
torch.stream = 5
counters.add(call()[1][0][1][4])
torch.capturing = True
for fake.capturing in (1, 2):
    counters.add(call()[1][0][1][4])
assert len(counters) == 4, counters
# A second launch on the stream of a graph comes after the first.
assert call()[1][0][1][4] in counters
# A graph that finds no memory in the reserve zeroes its own.
for fake.capturing in range(3, 100):
    launched = call()[1]
assert launched[0][1][4] not in counters and torch.zeroed > 0
fake.capturing, torch.stream, torch.capturing = 0, 0, False


def on_the_cpu(tensors):
    for tensor in tensors:
        tensor.is_cuda, tensor.device = False, torch.Device(None)

def strided(tensors):
    """One map cannot walk all heads of several batches."""
    tensors[1].strides = (16 * 4096 * 128, 128, 16 * 128, 1)

def misplaced(tensors):
    tensors[2].address += 8

def single(tensors):
    tensors[0].dtype = torch.float32

def training(tensors):
    tensors[0].requires_grad = True

for refused in [dict(length=100), dict(change=on_the_cpu), dict(change=strided), dict(change=misplaced),
                dict(change=single), dict(change=training)]:
    computed, launched = call(**refused)
    assert computed == ["sdpa causal"] and not launched, (refused, computed)
assert call(length=100, causal=0) == (["sdpa"], [])

counted = attention.stats()
assert counted["the strides of k"] == 1 and counted["v begins at no multiple of 16 bytes"] == 1, counted
assert counted["a gradient is needed"] == 1 and counted["b4h16s4096d128-causal: attention-wgmma-2c8b8e0a8a.cu"] > 1, counted

# A model's tensors are views, and its output has their layout.
fake.launched.clear()
views = [torch.Tensor((1, 8192, 32, 128)).transpose(1, 2) for _ in "qkv"]
output = op(*views, 1)
assert output.shape == (1, 32, 8192, 128) and output.stride() == views[0].stride() and fake.launched, output.stride()
assert fake.maps["o_map"]["stride_bytes"] == [8192, 128, 256], fake.maps
assert attention._op.fake(*views, 1).stride() == output.stride()


class Model:
    """Calls PyTorch's function, as models do."""

    def forward(self, *tensors, **named):
        return torch.nn.functional.scaled_dot_product_attention(*tensors, **named)


model, original = Model(), torch.nn.functional.scaled_dot_product_attention
installed = attention.install(model)
for named, calls in [({"is_causal": True}, []), ({"attn_mask": views[0]}, ["sdpa masked"]), ({"scale": 1.0}, ["sdpa"])]:
    torch.calls.clear()
    model.forward(*views, **named)
    assert torch.calls == calls and torch.nn.functional.scaled_dot_product_attention is original, (named, torch.calls)
assert attention.stats()["it has a mask"] == 1
# Where there is no winner, PyTorch's own function is called, and not its replacement.
torch.calls.clear()
model.forward(*[torch.Tensor((1, 2, 3, 64)) for _ in "qkv"])
assert torch.calls == ["sdpa"]
installed.remove()
torch.calls.clear()
model.forward(*views, is_causal=True)
assert torch.calls == ["sdpa causal"]

# Queries see what optloop's causal mask says, and not what PyTorch's does.
torch.calls.clear()
op(torch.Tensor((1, 2, 3, 64)), torch.Tensor((1, 2, 8, 64)), torch.Tensor((1, 2, 8, 64)), 1)
assert torch.calls == ["tril 5", "sdpa masked"], torch.calls

# What torch.compile asks has the shape of what the op returns.
assert attention._op.fake(*[torch.Tensor((4, 16, 9, 128))] * 3, 1).shape == (4, 16, 9, 128)
print("ok")
