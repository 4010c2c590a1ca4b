"""A fixed sample of every generator's programs behaves the same plain and compiled, and programs depend on the seed
alone."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from .harness import check
from .parts import parts

pytestmark = pytest.mark.usefixtures("quick_collections")

COMPILERS = ("firesteel", "native-checked", "firesteel-dynamic", "native-dynamic", "aot_eager", "native",
             "native-dynamic-checked", "native-waiting", "native-staged", "firesteel-whole", "firesteel-dynamic-whole")
SAMPLE = 15
"""Programs of a part that the tests run, about two seconds. A part with quicker or slower ones has its own `SAMPLE`."""
DIGESTED = 8


def _module(part: str) -> types.ModuleType:
    return importlib.import_module(f"tests.fuzz.parts.{part}")


@pytest.mark.parametrize("part", parts())
def test_sample_matches(part: str) -> None:
    failures = []
    for seed in range(getattr(_module(part), "SAMPLE", SAMPLE)):
        compilers = [name for name in COMPILERS if name not in getattr(_module(part), "NOT_BY", ())]
        compiler = compilers[seed % len(compilers)]
        report = check(parts()[part](seed), compiler)
        if report.differences:
            failures.append(f"seed {seed}, {compiler}: " + "; ".join(report.differences[:3]))
    assert not failures, "\n".join(failures)


def digests() -> dict[str, str]:
    """What identifies the first programs of each part."""
    sources = {name: "".join(generate(seed).source for seed in range(DIGESTED)) for name, generate in parts().items()}
    return {name: hashlib.sha256(source.encode()).hexdigest() for name, source in sources.items()}


def test_programs_do_not_depend_on_the_process() -> None:
    root = Path(__file__).parents[2]
    code = "import json; from tests.fuzz.test_parts import digests; print(json.dumps(digests()))"
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == digests()
