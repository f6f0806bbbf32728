"""Times PyTorch's scaled_dot_product_attention, every backend, as optloop's baseline for attention.

Speaks the baseline protocol of optloop, version 1: one JSON object a line. On start it says
    {"protocol": 1, "versions": {"torch": "…", …}}
Then each request
    {"dtype": "f16", "dims": {"B": 1, …}, "device": 0, "min_sample_ns": 200000, "samples": 100, "seed": 1}
is answered with
    {"backends": [{"name": "flash", "launches_per_sample": 40, "samples_ns": [ … ]}, {"name": "math", "error": "…"}]}
A sample is one replay of a CUDA graph of `launches_per_sample` calls, divided by their number, over warm buffers: exactly
how optloop times its own variants.
"""

import json
import math
import sys
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

warnings.filterwarnings("ignore")

BACKENDS = {
    "flash": [SDPBackend.FLASH_ATTENTION],
    "efficient": [SDPBackend.EFFICIENT_ATTENTION],
    "cudnn": [SDPBackend.CUDNN_ATTENTION],
    "math": [SDPBackend.MATH],
}
DTYPES = {"f16": torch.float16, "f32": torch.float32}
# Above this the math backend's score matrix takes minutes and gigabytes, and it never wins.
MATH_LIMIT_BYTES = 2 << 30
MAX_LAUNCHES = 1000


def replay_ns(graph, events):
    events[0].record()
    graph.replay()
    events[1].record()
    events[1].synchronize()
    return events[0].elapsed_time(events[1]) * 1e6


def capture(call, launches):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    return graph


def time_backend(call, request):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()

    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    launches = 1
    for probe in (1, 10):
        graph = capture(call, probe)
        replay_ns(graph, events)
        each = replay_ns(graph, events) / probe
        launches = max(1, min(MAX_LAUNCHES, math.ceil(request["min_sample_ns"] / each)))
        if launches == 1:
            break
    graph = capture(call, launches)
    for _ in range(2):
        replay_ns(graph, events)
    samples = [replay_ns(graph, events) / launches for _ in range(request["samples"])]
    return {"launches_per_sample": launches, "samples_ns": samples}


def answer(request):
    dims = request["dims"]
    torch.cuda.set_device(request["device"])
    generator = torch.Generator("cuda").manual_seed(request["seed"])
    dtype = DTYPES[request["dtype"]]

    def tensor(rows):
        shape = (dims["B"], dims["H"], rows, dims["D"])
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype)

    q, k, v = tensor(dims["Sq"]), tensor(dims["Sk"]), tensor(dims["Sk"])
    scores_bytes = dims["B"] * dims["H"] * dims["Sq"] * dims["Sk"] * 4
    found = []
    for name, backend in BACKENDS.items():
        if name == "math" and scores_bytes > MATH_LIMIT_BYTES:
            found.append({"name": name, "error": f"its scores would take {scores_bytes >> 30} GiB"})
            continue
        try:
            with torch.no_grad(), sdpa_kernel(backend):
                timed = time_backend(
                    lambda: scaled_dot_product_attention(q, k, v, is_causal=dims["CAUSAL"] == 1), request
                )
            found.append({"name": name, **timed})
        except Exception as error:
            text = str(error).strip()
            found.append({"name": name, "error": text.splitlines()[0] if text else type(error).__name__})
    return {"backends": found}


def main():
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device")
    versions = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": str(torch.backends.cudnn.version()),
    }
    print(json.dumps({"protocol": 1, "versions": versions}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
