"""Compares the leads of faster kernels with what the largest part of the slower kernel bounds.

    python3 docs/measuring/leads_over_bounds.py STORE...

STORE is a store of a session with ablations (`.optloop/optloop.db`). The slower and the faster kernel are of two families, and
compute the same case. The bound is the time of the slower one over its time without its largest part: a kind of instruction,
or the waits for asynchronous work. Prints the quartiles of ln(lead) / ln(bound), one median for each pair on a case.
"""

import math
import sqlite3
import statistics
import sys

# Parts below this are within the noise of an ablation.
MIN_BOUND = 1.02

ALL = ("nothing", "work", "all_kinds", "all_kinds_and_waits")


def kernels(store):
    """Yields the case, the family and the times without each part, in nanoseconds, of ablated kernels but first ones."""
    rows = store.execute(
        "SELECT a.case_name, a.iteration_id, i.family, a.removed, a.time_ns FROM ablations a "
        "JOIN iterations i ON i.id = a.iteration_id "
        "WHERE a.time_ns IS NOT NULL AND i.purpose <> 'initial'"
    )
    found = {}
    for case, iteration, family, removed, time_ns in rows:
        found.setdefault((case, iteration, family), {})[removed] = time_ns
    for (case, _, family), without in found.items():
        if "nothing" in without:
            yield case, family, without


def bound(without):
    """Returns how many times as fast a kernel is without its largest part."""
    whole = without["nothing"]
    shares = [1 - time_ns / whole for part, time_ns in without.items() if part not in ALL]
    if "all_kinds_and_waits" in without and "all_kinds" in without:
        shares.append((without["all_kinds"] - without["all_kinds_and_waits"]) / whole)
    return 1 / (1 - max(shares, default=0.0))


def shares_of_bounds(store):
    """Yields the case, the slower and the faster family, and the share of each lead in its bound."""
    by_case = {}
    for case, family, without in kernels(store):
        by_case.setdefault(case, []).append((without["nothing"], family, without))
    for case, found in by_case.items():
        found.sort(key=lambda kernel: kernel[0])
        best_ns, best, _ = found[0]
        for time_ns, family, without in found[1:]:
            most = bound(without)
            if family != best and most >= MIN_BOUND:
                yield (case, family, best), math.log(time_ns / best_ns) / math.log(most)


def main():
    pairs = {}
    for path in sys.argv[1:]:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
            for pair, share in shares_of_bounds(store):
                pairs.setdefault(pair, []).append(share)
    medians = [statistics.median(shares) for shares in pairs.values()]
    if len(medians) < 2:
        sys.exit("the stores have fewer than two pairs of ablated kernels of two families on a case: give more stores")
    for (case, slower, faster), shares in sorted(pairs.items()):
        print(f"{case}: {faster} over {slower}: {', '.join(f'{share:.2f}' for share in shares)}")
    lower, middle, upper = statistics.quantiles(medians, n=4)
    print(f"{len(medians)} pairs on a case: quartiles {lower:.2f}, {middle:.2f} and {upper:.2f}")


main()
