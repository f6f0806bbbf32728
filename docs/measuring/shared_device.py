#!/usr/bin/env python3
"""Several clients of one `optloop mcp --listen` compare kernels with themselves, in turns on one device.

Usage: shared_device.py ADDRESS FAMILY CLIENTS COMPARISONS CONFIGURATION [CONFIGURATION ...]

Each client evaluates a configuration (JSON), submits the first one, and compares its own with itself. Prints how many of
these were called faster or slower, and how long a call took. Needs Python alone."""

import json
import statistics
import sys
import threading
import time
import urllib.request

ADDRESS, FAMILY, CLIENTS, COMPARISONS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CONFIGURATIONS = [json.loads(text) for text in sys.argv[5:]]


def call(tool, arguments):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(f"http://{ADDRESS}/mcp", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        result = json.load(answer)["result"]
    if result.get("isError"):
        raise SystemExit(f"{tool}: {result['content'][0]['text']}")
    return result["structuredContent"]["result"]


def evaluate(configuration):
    claim = {"claim": "a client's own", "speedup_low": 0.5, "speedup_high": 2.0}
    verdict = call("evaluate", {"base": FAMILY, "configurations": [configuration], **claim})["evaluations"][0]
    if verdict.get("iteration") is None:
        raise SystemExit(f"not evaluated: {verdict}")
    return verdict["iteration"]


def client(number, first, records):
    began = time.monotonic()
    own = evaluate(CONFIGURATIONS[number % len(CONFIGURATIONS)])
    records["evaluate"].append(time.monotonic() - began)
    began = time.monotonic()
    call("submit", {"iteration": first})
    records["submit"].append(time.monotonic() - began)
    for _ in range(COMPARISONS // CLIENTS):
        began = time.monotonic()
        case = call("compare", {"iteration": own, "with": own})["cases"][0]
        records["compare"].append(time.monotonic() - began)
        (low, high), noise = case["ci"], max(case["noise"] or 0.0, 0.002)
        records["ratio"].append(case["ratio"])
        records["faster"] += low > 1.0 + noise
        records["slower"] += high < 1.0 - noise


def main():
    first = evaluate(CONFIGURATIONS[0])
    records = {"evaluate": [], "submit": [], "compare": [], "ratio": [], "faster": 0, "slower": 0}
    began = time.monotonic()
    threads = [threading.Thread(target=client, args=(number, first, records)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    for tool in ("evaluate", "submit", "compare"):
        times = records[tool]
        print(f"{tool}: {len(times)} calls, median {statistics.median(times):.1f} s, longest {max(times):.1f} s")
    ratios = records["ratio"]
    print(f"{len(ratios)} comparisons of a kernel with itself in {seconds:.0f} s: {records['faster']} faster, "
          f"{records['slower']} slower, ratios from {min(ratios):.4f} to {max(ratios):.4f}")


main()
