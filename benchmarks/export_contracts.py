"""Shape contracts of export against brute force: is a declaration accepted exactly when the program is valid on it?

    python -m benchmarks.export_contracts                 # 200 pairs, strict and non-strict
    python -m benchmarks.export_contracts --seed 17 -v    # one pair, with its program and what export says

Each seed gives a program (a module made of random conditions, branches and operators on sizes) and a declaration of
its sizes. The program is run eagerly on every combination of sizes that the declaration allows, or on those up to a
limit where a range has no end. It is *valid* on them if it raises nowhere and takes the same branches everywhere. Then

- export accepts the declaration exactly if it is valid;
- where it does not, it names a cause, and with the fixes that it suggests put in, it accepts;
- a program that was exported takes exactly the sizes on which the original is valid, among all up to a limit that fit
  the declaration, and gives the same results on them.

What cannot be decided, and is left out here:

- conditions that are not linear, on ranges without end: there is no procedure for these. Export refuses what it cannot
  prove. On ranges with an end it tries all values, up to 200,000 combinations;
- operators that take a size into account without failing on any, such as ``x[:5]``: export asks for ``size >= 5`` where
  it could say ``min(size, 5)``;
- sizes of 0 and 1, on which operators have rules of their own: decisions of the program itself are followed there,
  those inside of operators are not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.export.contract_checks import check, pair


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json")
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    seeds = range(options.count) if options.seed is None else [options.seed]
    table: dict[str, dict[str, int]] = {}
    wrong = 0
    for strict in (True, False):
        name = "strict" if strict else "non-strict"
        row = table[name] = {"pairs": 0, "accepted": 0, "refused": 0, "calls": 0, "wrong": 0}
        started = time.process_time()
        for seed in seeds:
            case = pair(seed)
            if options.verbose:
                print(f"--- {seed}\n{case.text}\n{case.dynamic_shapes}  "
                      f"{ {n: (d.min, d.max) for n, d in case.roots.items()} }  {case.example}")
            outcome = check(case, strict)
            row["pairs"] += 1
            row["accepted" if outcome.accepted else "refused"] += 1
            row["calls"] += outcome.gates
            if outcome.problems:
                row["wrong"] += 1
                print(f"seed {seed}, {name}: " + "; ".join(outcome.problems))
        wrong += row["wrong"]
        print(f"{name:10}  {row['pairs']} pairs: {row['accepted']} accepted, {row['refused']} refused, "
              f"{row['wrong']} wrong; {row['calls']} calls compared; {time.process_time() - started:.0f} s of CPU")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=2)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
