"""Shows the two speeds of a replayed CUDA graph, and what switches a process between them.

    python3 docs/measuring/graph_state.py

Needs only a GPU: it calls the CUDA driver through ctypes. Prints the time of an empty
kernel as a node of a graph, in microseconds, after each step. A second process of the same program is the other user of the GPU.
"""

import ctypes
import statistics
import subprocess
import sys

driver = ctypes.CDLL("libcuda.so.1")
KERNELS, REPLAYS = 90, 40
# A kernel without effect. The driver compiles it for its device.
EMPTY = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n\0"


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    if status != 0:
        raise SystemExit(f"{name} failed with CUDA error {status}")


def made(name, *arguments):
    """Returns the handle that a call writes to its first argument."""
    handle = ctypes.c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    return handle


def open_device():
    device = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", device))


class Process:
    def __init__(self):
        open_device()
        self.kernel = made("cuModuleGetFunction", made("cuModuleLoadData", EMPTY), b"empty")
        self.stream = made("cuStreamCreate", 1)
        self.before, self.after = made("cuEventCreate", 0), made("cuEventCreate", 0)
        self.timed = self.uploaded(KERNELS)
        self.launch(self.timed)

    def uploaded(self, kernels):
        """Returns a graph that is uploaded and not launched."""
        call("cuStreamBeginCapture_v2", self.stream, 1)
        for _ in range(kernels):
            call("cuLaunchKernel", self.kernel, 1, 1, 1, 32, 1, 1, 0, self.stream, None, None)
        captured = ctypes.c_void_p()
        call("cuStreamEndCapture", self.stream, ctypes.byref(captured))
        graph = made("cuGraphInstantiateWithFlags", captured, ctypes.c_ulonglong(0))
        call("cuGraphDestroy", captured)
        call("cuGraphUpload", graph, self.stream)
        call("cuStreamSynchronize", self.stream)
        return graph

    def launch(self, graph):
        call("cuGraphLaunch", graph, self.stream)
        call("cuStreamSynchronize", self.stream)

    def node_us(self):
        return round(statistics.median(self.replay_us() for _ in range(REPLAYS)) / KERNELS, 3)

    def replay_us(self):
        call("cuEventRecord", self.before, self.stream)
        call("cuGraphLaunch", self.timed, self.stream)
        call("cuEventRecord", self.after, self.stream)
        call("cuEventSynchronize", self.after)
        elapsed_ms = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(elapsed_ms), self.before, self.after)
        return elapsed_ms.value * 1e3


def serve():
    process = Process()
    for _ in sys.stdin:
        print(process.node_us(), flush=True)


def main():
    process = Process()
    process.node_us()

    def show(step):
        print(f"{process.node_us():6.3f}  {step}", flush=True)

    show("one graph, launched before")
    small = process.uploaded(2)
    show("a graph of 2 kernels waits for its first launch")
    waiting = process.uploaded(32)
    show("a graph of 32 kernels waits")
    process.launch(waiting)
    show("it was launched")
    another = process.uploaded(32)
    show("another one waits")
    call("cuGraphExecDestroy", another)
    show("it was destroyed without a launch")
    neighbour = subprocess.Popen(
        [sys.executable, __file__, "neighbour"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    neighbour.stdin.write("\n")
    neighbour.stdin.flush()
    neighbour.stdout.readline()
    show("another process has used the GPU")
    third = process.uploaded(32)
    show("a new graph waits")
    call("cuGraphExecDestroy", small)
    call("cuGraphExecDestroy", third)
    neighbour.stdin.close()
    neighbour.wait()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["neighbour"] else main()
