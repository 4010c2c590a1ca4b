"""Decisions about symbolic sizes against brute force: wrong answers (there must be none), completeness and time.

python -m benchmarks.shape_decisions                  # 10,000 random questions under random assumptions
python -m benchmarks.shape_decisions --count 100000 --seed 7 --show 20

`tests/shapes/brute_force.py` makes the questions and says what is true.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from tests.shapes.brute_force import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many questions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="show so many constant answers that were not found")
    options = parser.parse_args()
    tally = run(options.count, options.seed)
    by_kind = Counter(text.partition(":")[0] for text in tally.missed)
    print(f"questions            {tally.questions:8}")
    print(f"  decided true       {tally.answers['true']:8}")
    print(f"  decided false      {tally.answers['false']:8}")
    print(f"  unknown            {tally.answers['unknown']:8}")
    print(f"same everywhere      {tally.constant.total():8}   of those in bounded boxes")
    for kind, number in sorted(tally.constant.items()):
        print(f"  {kind + ', found':<18} {number - by_kind[kind]:8}   of {number} ({1 - by_kind[kind] / number:.1%})")
    print(f"rewrites checked     {tally.numbers:8}   simplify, replace and interval of each")
    print(f"guard sets           {tally.guard_sets:8}   {tally.guards_recorded} questions, {tally.guards_kept} guards")
    print(f"time per decision    {tally.seconds / tally.questions * 1e6:8.1f} us")
    print(f"wrong                {len(tally.wrong):8}")
    for text in tally.wrong[:20]:
        print("  WRONG", text)
    for text in random.Random(0).sample(tally.missed, min(options.show, len(tally.missed))):
        print("  missed", text)
    if tally.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
