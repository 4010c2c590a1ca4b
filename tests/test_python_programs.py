"""A sample of the programs of plain Python: one graph each, and everything as in the plain run.

`python -m benchmarks.python_programs` runs all of them, beside torch.compile.
"""

from __future__ import annotations

import pytest
from tests.python_programs import arguments, programs, subjects

import firesteel as fs
from capture.differential import assert_same_facts, observe

SAMPLE = [(subject, name) for subject in subjects() for name in list(programs(subject))[::9]]
# What breaks; these are compiled without fullgraph.
BREAKING = {"generator_from_outside", "bytes_and_bytearray", "bytes_tools"}


def test_there_are_enough_programs() -> None:
    assert sum(len(programs(subject)) for subject in subjects()) >= 400


@pytest.mark.parametrize(("subject", "name"), SAMPLE)
def test_program(subject: str, name: str) -> None:
    program = programs(subject)[name]
    plain = observe(program, arguments(program), None)
    compiled = fs.compile(program, backend="eager", fullgraph=name not in BREAKING)
    for _ in range(2):
        assert_same_facts(plain, observe(compiled, arguments(program), None))
