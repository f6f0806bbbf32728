#!/usr/bin/env python3
"""Compares the baselines of an optloop session with the figures of sdpa_check.py. Needs only Python.

    python3 docs/measuring/compare_sdpa.py check.json 12

Prints optloop's time divided by the check's for every case and backend. Exits with 1 if the best time of a case, which
optloop reports, is off by more than 5%, or if nothing could be compared.
"""

import argparse
import json
import pathlib
import sqlite3
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
NOT_BACKENDS = {"regime", "best", "best_us", "error"}


def session_of(database, number):
    """Returns a session's workload, device and instant, and its times in microseconds by case and backend."""
    latest = "SELECT MAX(session_id) FROM baselines"
    number = number or database.execute(latest).fetchone()[0]
    about = database.execute(
        "SELECT s.workload, e.device_name, s.started_at, s.cases FROM sessions s "
        "JOIN environments e ON e.id = s.environment_id WHERE s.id = ?",
        [number],
    ).fetchone()
    if about is None:
        sys.exit(f"there is no session {number}" if number else "no session has a baseline")
    workload, device, at, cases = about
    # Databases from before there were regimes have warm times only.
    columns = {row[1] for row in database.execute("PRAGMA table_info(baselines)")}
    regime = "regime" if "regime" in columns else "'warm'"
    times = {case: {} for case in json.loads(cases)}
    rows = database.execute(f"SELECT case_name, name, median_ns, {regime} FROM baselines WHERE session_id = ?", [number])
    for case, name, median_ns, regime in rows:
        times.setdefault(case, {})[name] = (median_ns / 1e3, regime)
    return number, workload, device, at, times


def compare_case(case, ours, check):
    """Prints a line for every backend. Returns the ratio of the bests; none if they cannot be compared."""
    if "error" in check:
        print(f"{case:28} {check['error']}")
        return None
    ours = {name: us for name, (us, regime) in ours.items() if regime == check["regime"]}
    for name in sorted(set(ours) | set(check) - NOT_BACKENDS):
        mine, theirs = ours.get(name), check.get(name)
        figures = " ".join(f"{us:12.3f}" if us else f"{'-':>12}" for us in (mine, theirs))
        print(f"{case:28} {name:10} {figures} {f'{mine / theirs:8.3f}' if mine and theirs else ''}")
    if not ours:
        print(f"{case:28} the session has no {check['regime']} time")
        return None
    best = min(ours, key=ours.get)
    ratio = ours[best] / check["best_us"]
    print(f"{case:28} {'BEST':10} {ours[best]:12.3f} {check['best_us']:12.3f} {ratio:8.3f}  {best}, {check['best']}")
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("check", help="what sdpa_check.py printed")
    parser.add_argument("session", type=int, nargs="?", help="number of the session [default: the latest with baselines]")
    parser.add_argument("--database", default=PROJECT / ".optloop" / "optloop.db", help="[default: the project's]")
    parser.add_argument("--most", type=float, default=0.05, help="the largest deviation of a best [default: 0.05]")
    args = parser.parse_args()
    check = json.loads(pathlib.Path(args.check).read_text())
    if not pathlib.Path(args.database).is_file():
        sys.exit(f"there is no database {args.database}")
    database = sqlite3.connect(f"{pathlib.Path(args.database).resolve().as_uri()}?mode=ro", uri=True)
    number, workload, device, at, times = session_of(database, args.session)
    if device != check["device"]:
        sys.exit(f"not comparable: session {number} ran on {device}, the check on {check['device']}")
    if workload not in check["workloads"]:
        sys.exit(f"not comparable: session {number} is about {workload}, the check about {', '.join(check['workloads'])}")

    print(f"session {number}, {workload}, {device}, begun {at}; the check of {check['at']}")
    print(f"{'case':28} {'backend':10} {'optloop us':>12} {'check us':>12} {'ratio':>8}")
    checked = check["workloads"][workload]
    ratios = {case: compare_case(case, times[case], checked[case]) for case in checked if case in times}
    ratios = {case: ratio for case, ratio in ratios.items() if ratio}
    if not ratios:
        sys.exit("nothing could be compared")
    worst = max(ratios, key=lambda case: abs(ratios[case] - 1))
    off = abs(ratios[worst] - 1)
    print(f"worst of {len(ratios)} bests: {worst}, off by {off:.1%}; at most {args.most:.1%} is asked for")
    sys.exit(off > args.most)


if __name__ == "__main__":
    main()
