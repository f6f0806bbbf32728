"""Counts with a real GPU's own counters what the cases do: python3 count.py --out FOLDER

Runs the recorder under Nsight Compute (`ncu`, with leave to read the counters) and writes counts.json: per case the
sectors and requests of global memory, the wavefronts of shared memory and the floating-point operations.
"""

import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # no folders of compiled Python in the repository

HERE = pathlib.Path(__file__).resolve().parent
FILES = [
    "memory.ptx",
    "matrix.ptx",
    "async.ptx",
    "attention_scalar.ptx",
    "attention_scalar_f32.ptx",
    "attention_split.ptx",
    "attention_mma.ptx",
]
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "fadd": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "fmul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
}


def count_file(ptx, cases):
    """Returns the metrics of every case of a file, from the first of its two launches."""
    with tempfile.TemporaryDirectory() as folder:
        child = [sys.executable, str(HERE / "record.py"), "--child", ptx, "0", str(pathlib.Path(folder) / "events")]
        options = ["--csv", "--print-units", "base", "--clock-control", "none", "--metrics", ",".join(METRICS.values())]
        done = subprocess.run(["ncu", *options, *child], capture_output=True, text=True, timeout=300, check=False)
    start = done.stdout.find('"ID"')
    if start < 0:
        sys.exit(f"ncu printed no table: {(done.stdout + done.stderr).strip()[-400:]}")
    launches = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        launches.setdefault(int(row["ID"]), {})[row["Metric Name"]] = row["Metric Value"]
    counts = {}
    for index, case in enumerate(cases):
        values = launches.get(2 * index, {})
        counts[f"{ptx}/{case['name']}"] = {
            name: int(float(values[metric].replace(",", ""))) for name, metric in METRICS.items() if metric in values
        }
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True, help="folder for counts.json")
    out = pathlib.Path(parser.parse_args().out)
    manifest = json.loads((HERE / "cases.json").read_text())
    counts = {}
    for file in manifest["files"]:
        if file["ptx"] in FILES:
            counts |= count_file(file["ptx"], file["cases"])
            print(file["ptx"], len(counts), flush=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in counts.items())
    (out / "counts.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
