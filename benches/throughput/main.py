#!/usr/bin/env python3
"""Evaluations a minute of optloop and of Kernel Tuner, on the same kernel, GPU and minute.

    python3 benches/throughput/main.py [--optloop target/release/optloop] [--seconds 60] [--size 512]

Both tune examples/convolution/convolution.cu on one image of SIZE x SIZE with the same parameters and constraint, and both
draw random configurations. optloop compiles, launches and checks every variant with all of its screening checks. Kernel
Tuner runs twice: without a check, and with `answer`, its comparison with a reference output. Needs numpy, PyTorch,
kernel_tuner and one of its CUDA backends (CuPy).

A line of JSON for each run: the evaluations, the seconds, and the evaluations a minute. For optloop, the minute begins with
the first variant of the search, after the baselines, and the line has the share of the wall time for which the GPU executed
kernels in samples that count, and the mean time of a compilation beside the others.
"""

import argparse
import json
import re
import sqlite3
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/convolution"
FILTER = 15
# 8192 configurations, none with so many unrolled products that its compilation takes seconds.
PARAMS = {
    "BX": [16, 32, 48, 64, 80, 96, 112, 128],
    "BY": list(range(1, 17)),
    "TX": [1, 2, 3, 4],
    "TY": [1, 2, 3, 4],
    "PAD": [0, 1, 2, 3],
}
SHARED_BYTES = "((BY * TY + 14) * (BX * TX + 14 + PAD) + 225) * 4"
CONSTRAINTS = [f"{SHARED_BYTES} <= 49152", "BX * BY <= 1024"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optloop", default="target/release/optloop", type=lambda path: Path(path).resolve())
    parser.add_argument("--seconds", default=60, type=int)
    parser.add_argument("--size", default=512, type=int)
    parser.add_argument("--proposer", default="random")
    args = parser.parse_args()
    for run in (
        lambda: optloop(args),
        lambda: kernel_tuner(args, checked=False),
        lambda: kernel_tuner(args, checked=True),
    ):
        print(json.dumps(run()), flush=True)


def optloop(args):
    """Runs a session in a new project, and counts what it evaluated."""
    with tempfile.TemporaryDirectory() as folder:

        def call(*words):
            done = subprocess.run([args.optloop, *words], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"optloop {words[0]} failed: {done.stderr.strip()}")
            return done.stdout

        call("init", ".")
        values = [word for name, values in PARAMS.items() for word in ("--values", f"{name}={','.join(map(str, values))}")]
        constraints = [word for constraint in CONSTRAINTS for word in ("--constraint", constraint)]
        shapes = ["--shape", "image=H + F - 1, W + F - 1", "--shape", "filter=F,F", "--shape", "out=H,W"]
        case = ["--case", f"H={args.size},W={args.size},F={FILTER}", "--flop", "2 * H * W * F * F"]
        grid = ["--grid", "ceil_div(W, BX * TX), ceil_div(H, BY * TY)", "--block", "BX,BY"]
        oracle = ["--oracle", str(EXAMPLE / "convolution.py")]
        # `add` would tune the unrolling of the outer loop, too, which the other tool does not.
        values += ["--values", "UNROLL_24=1"]
        call("add", str(EXAMPLE / "convolution.cu"), *oracle, *shapes, *case, *grid, *values, *constraints)
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "A project"]):
            subprocess.run([*git, *words], cwd=folder, check=True)
        budget = f"{args.seconds + 15}s"
        words = ["--workload", "convolution", "--budget", budget, "--proposer", args.proposer, "--no-early-stop", "--trust"]
        call("start", *words)
        report = json.loads(call("report", "--format", "json"))
        rows = [row.split(",") for row in call("report", "--format", "csv").splitlines()]
        with sqlite3.connect(f"{folder}/.optloop/optloop.db") as store:
            compile_ms = store.execute("SELECT avg(compile_ms) FROM artifacts").fetchone()[0]
    return counted(report, rows, compile_ms)


def counted(report, rows, compile_ms):
    """Counts the variants of the search that were launched and checked, from the first one's start to the last one's end."""
    column = {name: place for place, name in enumerate(rows[0])}
    at = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    search = [row for row in rows[1:] if row[column["purpose"]] == "screening"]
    measured = {row[column["hash"]] for row in search if row[column["outcome"]] == "measured"}
    seconds = max(at(row[column["ended_at"]]) for row in search) - min(at(row[column["started_at"]]) for row in search)
    return {
        "tool": "optloop",
        "proposer": report["session"]["proposer"],
        "device": report["session"]["device"],
        "evaluations": len(measured),
        "seconds": round(seconds, 1),
        "per_minute": round(60 * len(measured) / seconds),
        "compile_ms": round(compile_ms),
        "gpu_timing_share": round(report["phases"]["timing_s"] / report["session"]["wall_s"], 3),
        "phases_s": {row["phase"]: round(row["seconds"], 1) for row in report["phases"]["rows"]},
    }


def kernel_tuner(args, checked):
    """Tunes for as long as optloop, and counts the configurations that ran."""
    import kernel_tuner
    import numpy
    import torch

    size = args.size
    rng = numpy.random.default_rng(1)
    image = rng.standard_normal((size + FILTER - 1, size + FILTER - 1), dtype=numpy.float32)
    weights = rng.standard_normal((FILTER, FILTER), dtype=numpy.float32)
    output = numpy.zeros((size, size), dtype=numpy.float32)
    pixels = torch.nn.functional.conv2d(*(torch.from_numpy(one).double()[None, None] for one in (image, weights)))
    answer = [pixels[0, 0].float().numpy() if place == 2 else None for place in range(5)]
    # Kernel Tuner defines the parameters itself.
    source = (EXAMPLE / "convolution.cu").read_text()
    for name in PARAMS:
        source = re.sub(rf"^#define {name} .*$", "", source, flags=re.MULTILINE)
    begun = time.monotonic()
    results, _ = kernel_tuner.tune_kernel(
        "convolution",
        source,
        (size, size),
        [image, weights, output, numpy.int32(size), numpy.int32(size)],
        PARAMS,
        grid_div_x=["BX", "TX"],
        grid_div_y=["BY", "TY"],
        block_size_names=["BX", "BY", "block_size_z"],
        restrictions=CONSTRAINTS,
        answer=answer if checked else None,
        atol=1e-3,
        strategy="random_sample",
        strategy_options={"max_fevals": 100_000, "time_limit": args.seconds},
        lang="cupy",
        quiet=True,
    )
    seconds = time.monotonic() - begun
    ran = [one for one in results if isinstance(one.get("time"), float)]
    return {
        "tool": f"Kernel Tuner {kernel_tuner.__version__ if hasattr(kernel_tuner, '__version__') else ''}".strip(),
        "checked": checked,
        "evaluations": len(ran),
        "seconds": round(seconds, 1),
        "per_minute": round(60 * len(ran) / seconds),
    }


if __name__ == "__main__":
    main()
