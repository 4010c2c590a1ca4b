"""Random programs plain against compiled, any number of them, for any time:

    python -m benchmarks.fuzz --part all --compiler all --count 2000 --jobs 2 --shrink --save findings
    python -m benchmarks.fuzz --part language autograd --compiler native --hours 8 --jobs 2
    python -m benchmarks.fuzz --replay findings/language_17_native.py --compiler native

Programs run in processes of their own, so that a crash or a hang is a finding like any other and the rest goes on.
Prints every finding (with `--shrink` the smallest program that shows it) and a table: for each part and compiler how
many programs ran, how many differed, crashed or did not end. Exits with 1 when anything was found.
"""

from __future__ import annotations

import sys

from tests.fuzz.campaign import main

if __name__ == "__main__":
    sys.exit(main())
