"""A coding agent for tests: it tries what it must not do, proposes a kernel, and ends early."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import urllib.request

project, other_port = sys.argv[1].removeprefix("project="), int(sys.argv[2])


def call(tool, arguments):
    """Calls a tool of optloop."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    headers = {
        "Authorization": "Bearer " + os.environ["OPTLOOP_MCP_TOKEN"],
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    sent = urllib.request.Request(os.environ["OPTLOOP_MCP_URL"], json.dumps(request).encode(), headers)
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)["result"]["structuredContent"]["result"]


def possible(attempts):
    """Returns the names of what went through."""
    found = []
    for name, attempt in attempts.items():
        try:
            attempt()
            found.append(name)
        except OSError:
            pass
    return found


def above():
    """Reads what the guard, or optloop above it, was given."""
    guard = os.getppid()
    optloop = int(pathlib.Path(f"/proc/{guard}/stat").read_text().rsplit(")", 1)[1].split()[1])
    for process in (guard, optloop):
        try:
            pathlib.Path(f"/proc/{process}/environ").read_bytes()
            return
        except OSError:
            pass
    raise PermissionError


run = len(os.listdir(".runs")) + 1 if os.path.isdir(".runs") else 1
os.makedirs(".runs", exist_ok=True)
open(f".runs/{run}", "w").close()
brief = sys.stdin.read()
assert brief == open(os.environ["OPTLOOP_BRIEF"]).read() and "`small` faster" in brief
assert json.load(open(".mcp.json"))["mcpServers"]["optloop"]["url"] == os.environ["OPTLOOP_MCP_URL"]
# A process that tries to outlive its agent.
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "an-optloop-test"], start_new_session=True)
if run == 1:
    went_through = possible({
        "read the project": lambda: open(project + "/config.toml"),
        "list the project": lambda: os.listdir(project),
        "read the store": lambda: open(project + "/.optloop/optloop.db"),
        "write into the project": lambda: open(project + "/templates/kernels/toy/kernel.cu.tera", "w"),
        "write beside its folder": lambda: open("../optloop-test-was-here", "w"),
        "write to shared memory": lambda: open("/dev/shm/optloop-test-was-here", "w"),
        "another server": lambda: socket.create_connection(("127.0.0.1", other_port)),
        "a datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "end optloop": lambda: os.kill(os.getppid(), 0),
        "variables of optloop": above,
    })
    variables = [name for name in ("OPTLOOP_TEST_NAMED", "OPTLOOP_TEST_PASSWORD") if name in os.environ]
    print(json.dumps({"went through": went_through, "variables": variables, "home": os.environ["HOME"] == os.getcwd()}))
    sys.exit(3)
if run == 2:
    call("task", {})
    kernel = {
        "claim": "smaller tiles", "speedup_low": 1.1, "speedup_high": 9.0, "base": "toy",
        "configurations": [{"TILE": 8, "THREADS": 64}],
    }
    iteration = call("evaluate", kernel)["evaluations"][0]["iteration"]
    assert call("compare", {"iteration": iteration, "with": 1})["cases"][0]["ratio"] > 1
    assert call("submit", {"iteration": iteration})["cases"][0]["verdict"] == "improved"
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    print(json.dumps({"type": "result", "result": "one kernel", "total_cost_usd": 0.25, "usage": usage}))
if run == 3:
    assert "This is run 3." in brief
    assert call("finish", {})["status"] == "ending"
    print("nothing is left")
