#!/usr/bin/env python3
"""Measures PyTorch's scaled_dot_product_attention by itself, to check what optloop says of it.

    python3 docs/measuring/sdpa_check.py attention-fp16-d64 attention-decode --case b1h1s128 > check.json

It knows a workload's shapes from kernels/workloads/ and nothing else of optloop: own tensors, own captures, own timing, so that
a mistake in kernels/baselines/torch_sdpa.py shows. Compare with compare_sdpa.py. Needs Python 3.11 and a GPU.
"""

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time
import tomllib

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "kernels" / "workloads"
BACKENDS = ["flash", "efficient", "cudnn", "math", "default"]
NAMES = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}
# A replay of a millisecond, longer than what optloop takes: if the length of a sample mattered, the two would differ.
REPLAY_MS = 1.0
MOST_CALLS = 500
# After a replay of long calls the GPU rests this many times as long: busy all the time, it meets its power cap with them, and
# lowers its clocks by a tenth (H200, 2026-11-21). Short calls do not draw so much, and a GPU that rests is slower at first.
REST = 4
LONG_US = 100
REPLAYS = 101
# Larger score matrices take minutes and never win.
MOST_SCORES = 1 << 29


def cases_of(name):
    path = pathlib.Path(name) if name.endswith(".toml") else WORKLOADS / f"{name}.toml"
    workload = tomllib.loads(path.read_text())
    for case in workload["case"]:
        dims = {**workload.get("dims", {}), **case}
        yield case["name"], workload["dtype"], dims.get("regime", workload.get("regime", "warm")), dims


def tensors(dtype, dims, seed):
    torch.manual_seed(seed)
    kind = {"f16": torch.float16, "f32": torch.float32}[dtype]
    lengths = [dims["Sq"], dims["Sk"], dims["Sk"]]
    return [torch.randn(dims["B"], dims["H"], s, dims["D"], device="cuda", dtype=kind) for s in lengths]


def rotation(dtype, dims, regime):
    """Returns the inputs of the calls in turn: always the same where warm, four times L2 of different ones where cold."""
    first = tensors(dtype, dims, 0)
    if regime == "warm":
        return [first]
    l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    each = sum(t.numel() * t.element_size() for t in first)
    return [first] + [tensors(dtype, dims, seed) for seed in range(1, 2 + 4 * l2 // each)]


def graph_of(inputs, causal, calls):
    """Captures calls. The outputs of one pass over the inputs are all alive, so that each has memory of its own."""
    graph, kept = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph):
        for i in range(calls):
            if i % len(inputs) == 0:
                kept.clear()
            kept.append(F.scaled_dot_product_attention(*inputs[i % len(inputs)], is_causal=causal))
    return graph, kept


def replay_ms(graph):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    torch.cuda.synchronize()
    start.record()
    graph.replay()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop)


def rested_ms(graph, calls):
    took_ms = replay_ms(graph)
    if took_ms / calls * 1e3 > LONG_US:
        time.sleep(REST * took_ms / 1e3)
    return took_ms


def measure_us(inputs, causal):
    """Returns the median time of a call in a graph."""
    for _ in range(5):
        F.scaled_dot_product_attention(*inputs[0], is_causal=causal)
    torch.cuda.synchronize()
    sets = len(inputs)
    probe, kept = graph_of(inputs, causal, sets)
    replay_ms(probe)
    once = min(replay_ms(probe) for _ in range(5))
    del probe, kept
    calls = sets * max(1, min(MOST_CALLS // sets, round(REPLAY_MS / once + 0.5)))
    graph, kept = graph_of(inputs, causal, calls)
    for _ in range(5):
        replay_ms(graph)
    return 1e3 * statistics.median(rested_ms(graph, calls) for _ in range(REPLAYS)) / calls


def measure(dtype, regime, dims):
    causal = bool(dims["CAUSAL"])
    if causal and dims["Sq"] != dims["Sk"]:
        return {"error": "torch's causal mask is another where lengths differ"}
    inputs, found = rotation(dtype, dims, regime), {}
    for backend in BACKENDS:
        if backend == "math" and dims["B"] * dims["H"] * dims["Sq"] * dims["Sk"] > MOST_SCORES:
            continue
        try:
            with torch.no_grad():
                if backend == "default":
                    found[backend] = measure_us(inputs, causal)
                else:
                    with sdpa_kernel(NAMES[backend]):
                        found[backend] = measure_us(inputs, causal)
        except RuntimeError as error:
            print(f"  {backend}: {str(error).splitlines()[0]}", file=sys.stderr)
    gc.collect()
    torch.cuda.empty_cache()
    if not found:
        return {"error": "no backend runs"}
    best = min(found, key=found.get)
    return {"regime": regime, **{name: round(us, 4) for name, us in found.items()}, "best": best, "best_us": round(found[best], 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="+", help="names in kernels/workloads/, or files")
    parser.add_argument("--case", action="append", default=[], help="only this case (repeat for more)")
    parser.add_argument("--regime", choices=["warm", "cold"], help="instead of what the workload says")
    parser.add_argument("--device", type=int, default=0)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device")
    torch.cuda.set_device(args.device)
    # The first measurement of all would meet a GPU that has just left idle.
    awake = torch.ones((2048, 2048), device="cuda", dtype=torch.float16)
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        awake @ awake
        torch.cuda.synchronize()
    cases = {}
    for workload in args.workloads:
        for name, dtype, regime, dims in cases_of(workload):
            if not args.case or name in args.case:
                print(f"{workload} {name}", file=sys.stderr)
                cases.setdefault(workload, {})[name] = measure(dtype, args.regime or regime, dims)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    said = {"device": torch.cuda.get_device_name(), "versions": versions, "at": at, "workloads": cases}
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
