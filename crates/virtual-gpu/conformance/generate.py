"""Writes kernels/*.ptx (those that are generated) and cases.json. Run in any folder: python3 generate.py"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True  # no folders of compiled Python in the repository

from families import attention, banks, compiled, convert, floating, integer, matrix, tensor, warp
from families.common import WIDTH, Suite, table_bytes

HERE = pathlib.Path(__file__).resolve().parent


def main():
    suite = Suite()
    for family in (integer, floating, convert, warp, matrix, compiled, attention, banks, tensor):
        family.add(suite)
    for name, text in suite.sources.items():
        (HERE / "kernels" / name).write_text("// Written by generate.py.\n" + text)
    value = {
        "tables": suite.tables,
        "files": [{"ptx": name, "cases": cases} for name, cases in suite.files.items()],
    }
    lines = ["{", '"tables": {']
    lines += [",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value["tables"].items()), "},", '"files": [']
    files = []
    for file in value["files"]:
        cases = ",\n".join(json.dumps(case) for case in file["cases"])
        files.append('{"ptx": %s, "cases": [\n%s\n]}' % (json.dumps(file["ptx"]), cases))
    lines += [",\n".join(files), "]", "}"]
    (HERE / "cases.json").write_text("\n".join(lines) + "\n")
    cases = [case for file in value["files"] for case in file["cases"]]
    size = sum(sum(WIDTH[s["type"]] * s["count"] for s in case["out"]) for case in cases)
    forms = sum(len(case["out"]) for case in cases)
    inputs = sum(len(table_bytes(suite.tables, name)) for name in suite.tables)
    print(f"{len(cases)} cases, {forms} forms, {size} bytes of output, {inputs} bytes of operands")


if __name__ == "__main__":
    main()
