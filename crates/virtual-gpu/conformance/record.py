"""Records what a real GPU computes for every case: python3 record.py --out FOLDER

Writes expected.bin, the outputs one after the other, and expected.json: where each is, and what recorded it. Every file
of kernels runs in a process of its own, and a case that breaks the context is reported and left out, so that the rest
goes on. Every case runs twice; one that is not the same both times is reported as failed.
"""

import argparse
import base64
import ctypes
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # no folders of compiled Python in the repository

from driver import CudaError, Driver  # noqa: E402
from families.common import WIDTH, table_bytes  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# What an output holds before a kernel writes it, unless the case says otherwise.
UNWRITTEN = 0xA5
# Seconds for one file of kernels; the slowest takes a few.
LIMIT = 60


def fnv(data, state=0xCBF29CE484222325):
    """FNV-1a of 64 bits, to notice data that were recorded from another text or other operands."""
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


class TensorMap:
    """An argument that is a tensor map: of `data`, or of the output if that is None."""

    def __init__(self, value, data):
        self.value, self.data = value, data

    def fingerprint(self, state):
        """Adds what it says and what it is of."""
        value = self.value
        numbers = [value["element"], *value["dims"], *value["strides"], *value["box"], value["swizzle"]]
        return fnv(b"".join(number.to_bytes(4, "little") for number in numbers) + (self.data or b""), state)


def operands(tables, case):
    """Returns the bytes of every argument, None for the output, and the output's bytes before the launch."""
    size = sum(WIDTH[section["type"]] * section["count"] for section in case["out"])
    before = table_bytes(tables, case["init"]) if "init" in case else bytes([UNWRITTEN]) * size
    assert len(before) == size, (case["name"], len(before), size)
    args = []
    for arg in case["args"]:
        if "out" in arg:
            args.append(None)
        elif "table" in arg:
            args.append(table_bytes(tables, arg["table"]))
        elif "tensor_map" in arg:
            value = arg["tensor_map"]
            args.append(TensorMap(value, None if value["table"] is None else table_bytes(tables, value["table"])))
        else:
            args.append(arg["u32"])
    return args, before


def fingerprint(args, before):
    """Returns a number for the operands of a case."""
    state = fnv(before)
    for arg in args:
        if isinstance(arg, TensorMap):
            state = arg.fingerprint(state)
        elif arg is not None:
            state = fnv(arg.to_bytes(4, "little") if isinstance(arg, int) else arg, state)
    return f"{state:016x}"


def run_case(driver, function, case, args, before):
    """Runs a case once and returns its output."""
    out = driver.put(before)
    held, values = [out], []
    for arg in args:
        if isinstance(arg, int):
            values.append(ctypes.c_uint(arg))
            continue
        data = arg.data if isinstance(arg, TensorMap) else arg
        address = out
        if data is not None:
            address = driver.put(data)
            held.append(address)
        values.append(driver.tensor_map(address, arg.value) if isinstance(arg, TensorMap) else address)
    driver.launch(function, case["grid"], case["block"], case["cluster"], case["shared"], values)
    data = driver.get(out, len(before))
    for address in held:
        driver.free(address)
    return data


def child(ptx, first, path):
    """Runs the cases of one file from the given one on; a line per event goes to `path`, so that nothing is lost."""
    manifest = json.loads((HERE / "cases.json").read_text())
    cases = next(file["cases"] for file in manifest["files"] if file["ptx"] == ptx)
    with open(path, "a", encoding="utf-8") as log:

        def say(**event):
            log.write(json.dumps(event) + "\n")
            log.flush()

        driver = Driver()
        say(device=driver.describe())
        module = driver.load((HERE / "kernels" / ptx).read_text())
        for index in range(first, len(cases)):
            case = cases[index]
            say(start=index)
            args, before = operands(manifest["tables"], case)
            # An error here may have broken the context: the parent goes on in a new process.
            function = driver.function(module, case["kernel"])
            data = run_case(driver, function, case, args, before)
            again = run_case(driver, function, case, args, before)
            if data == again:
                say(end=index, data=base64.b64encode(data).decode(), operands=fingerprint(args, before))
            else:
                at = next(i for i in range(len(data)) if data[i] != again[i])
                say(end=index, error=f"not the same twice, first at byte {at}")


def record_file(ptx, cases, report):
    """Runs a file's cases, in a new process after each failure. Calls `report(index, event)` for each."""
    device, first = None, 0
    while first < len(cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "events"
            path.touch()
            command = [sys.executable, str(HERE / "record.py"), "--child", ptx, str(first), str(path)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
                error = (done.stderr.strip().split("\n") or [""])[-1] if done.returncode else ""
                error = error or (f"exit status {done.returncode}" if done.returncode else "")
            except subprocess.TimeoutExpired:
                error = f"no end within {LIMIT} s"
            events = [json.loads(line) for line in path.read_text().splitlines()]
        open_case = None
        for event in events:
            if "device" in event:
                device = event["device"]
            elif "start" in event:
                open_case = event["start"]
            else:
                report(event["end"], event)
                first, open_case = event["end"] + 1, None
        if open_case is not None:
            report(open_case, {"error": error or "ended within the case"})
            first = open_case + 1
        elif first < len(cases):
            # Nothing started: the file does not load, or there is no device.
            for index in range(first, len(cases)):
                report(index, {"error": error or "did not start"})
            first = len(cases)
    return device


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", help="folder for expected.bin and expected.json")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        ptx, first, path = options.child
        try:
            child(ptx, int(first), path)
        except (CudaError, OSError) as error:
            sys.exit(" ".join(str(error).split()))
        return
    manifest = json.loads((HERE / "cases.json").read_text())
    index, failed, data, device = {}, {}, bytearray(), None
    for file in manifest["files"]:
        ptx, cases = file["ptx"], file["cases"]
        text = (HERE / "kernels" / ptx).read_bytes()
        kernels = f"{fnv(text):016x}"

        def report(number, event, ptx=ptx, cases=cases, kernels=kernels):
            key = f"{ptx}/{cases[number]['name']}"
            if "error" in event:
                failed[key] = event["error"]
                print(f"FAILED {key}: {event['error']}", flush=True)
                return
            output = base64.b64decode(event["data"])
            entry = {"offset": len(data), "bytes": len(output), "ptx": kernels, "operands": event["operands"]}
            index[key] = entry
            data.extend(output)

        device = record_file(ptx, cases, report) or device
        print(f"{ptx}: {sum(key.startswith(ptx + '/') for key in index)} of {len(cases)} recorded", flush=True)
    provenance = {
        **(device or {}),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": "python3 crates/virtual-gpu/conformance/record.py --out FOLDER",
    }
    out = pathlib.Path(options.out or HERE / "expected")
    out.mkdir(parents=True, exist_ok=True)
    (out / "expected.bin").write_bytes(data)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in index.items())
    head = f'{{\n"provenance": {json.dumps(provenance)},\n"failed": {json.dumps(failed)},\n"cases": {{\n'
    (out / "expected.json").write_text(head + lines + "\n}\n}\n")
    print(f"{len(index)} recorded, {len(failed)} failed, {len(data)} bytes")


if __name__ == "__main__":
    main()
