#!/usr/bin/env python3
"""Times whole models with and without an export's winners, in turns, and compares their outputs.

    python3 docs/measuring/end_to_end.py EXPORT [MODEL ...]

EXPORT is the folder of `optloop export attention-prefill-bf16 --to torch`. Needs torch, transformers and timm. The models have random
weights: llama-8b-2k and llama-8b-8k (Llama 3 8B, one prompt), vit-b (ViT-B/16, 224 pixels, 64 images), vit-l336 (ViT-L/14, 16 images).
Times are those of CUDA graph replays, and of eager calls."""

import importlib
import json
import pathlib
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

SAMPLES = 15


def llama(tokens):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, attn_implementation="sdpa")
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
    ids = torch.randint(0, 128256, (1, tokens), device="cuda")
    # Only the last logits, as in generation.
    return model, lambda: model(input_ids=ids, use_cache=False, logits_to_keep=64).logits, tokens, "tokens"


def vit(name, images, pixels):
    import timm

    model = timm.create_model(name, pretrained=False).to("cuda", torch.bfloat16).eval()
    batch = torch.randn(images, 3, pixels, pixels, device="cuda", dtype=torch.bfloat16)
    return model, lambda: model(batch), images, "images"


MODELS = {
    "llama-8b-2k": lambda: llama(2048),
    "llama-8b-8k": lambda: llama(8192),
    "vit-b": lambda: vit("vit_base_patch16_224", 64, 224),
    "vit-l336": lambda: vit("vit_large_patch14_clip_336", 16, 336),
}


def captured(call):
    """Captures a call in a graph. Returns what replays it, and its output."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call()
    return graph.replay, output


def milliseconds(call):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def in_turns(calls):
    """Times calls in turns. Returns the median of each, and the median of the ratios of the first to the second."""
    for call in calls:
        milliseconds(call), milliseconds(call)
    times = [[milliseconds(call) for call in calls] for _ in range(SAMPLES)]
    medians = [statistics.median(column) for column in zip(*times)]
    ratios = sorted(before / after for before, after in times)
    return medians, statistics.median(ratios), (ratios[2], ratios[-3])


def attention_share(call):
    """Returns the share of the GPU's time that PyTorch's attention takes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    kernels = [event for event in profile.key_averages() if event.device_type == torch.autograd.DeviceType.CUDA]
    of = lambda found: sum(event.self_device_time_total for event in found)  # noqa: E731
    words = ("flash", "fmha", "sdpa", "attention", "attend")
    return of(event for event in kernels if any(word in event.key.lower() for word in words)) / of(kernels)


def alike(output, wanted):
    """Returns the relative error, and the share of rows with the same largest logit."""
    error = ((output - wanted).norm() / wanted.norm()).item()
    return {"relative_error": error, "same_top": (output.argmax(-1) == wanted.argmax(-1)).float().mean().item()}


def host_us(call, calls=200):
    """Returns the time that the host takes for a call, while the GPU lags behind."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    took = time.perf_counter() - begun
    torch.cuda.synchronize()
    return took / calls * 1e6


def measure_host(package):
    q, k, v = (torch.randn(1, 2048, heads, 128, device="cuda", dtype=torch.bfloat16).transpose(1, 2) for heads in (32, 8, 8))
    op, sdpa = getattr(package, package.__name__), torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        times = [host_us(lambda: sdpa(q, k, v, is_causal=True, enable_gqa=True)), host_us(lambda: op(q, k, v, CAUSAL=1))]
    return {"host_us_of_a_call": times}


def measure(name, package):
    model, call, count, what = MODELS[name]()
    found = {"model": name}
    with torch.no_grad():
        wanted = call().float()
        found["attention_share"] = attention_share(call)
        replay, _ = captured(call)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            other = call().float()
        # How far two backends of PyTorch are from each other.
        found["flash_alone"] = alike(other, wanted)
        installed = package.install(model)
        before = package.stats()
        output = call().float()
        found["counts"] = {key: n - before.get(key, 0) for key, n in package.stats().items() if n != before.get(key, 0)}
        with_winners, _ = captured(call)
        installed.remove()
        found["winners"] = alike(output, wanted)
        medians, ratio, around = in_turns([replay, with_winners])
        found["graph"] = {"ms": medians, f"{what}_per_s": [count / ms * 1e3 for ms in medians], "ratio": ratio, "around": around}

        def eager():
            handle = package.install(model)
            call()
            handle.remove()

        medians, ratio, around = in_turns([call, eager])
        found["eager"] = {"ms": medians, "ratio": ratio, "around": around}
    return found


def main():
    folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(MODELS)
    sys.path.insert(0, str(folder))
    package = importlib.import_module(next(folder.glob("*/__init__.py")).parent.name)
    package.load()
    print(json.dumps(measure_host(package)), flush=True)
    for name in names:
        print(json.dumps(measure(name, package)), flush=True)
        torch.cuda.empty_cache()


main()
