"""Saved programs that are damaged: what loading and running them gives."""

from __future__ import annotations

import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

import firesteel as fs
from firesteel.export import ExportedProgram, SavedProgramError


def flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_bytes(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at : at + 16] = rng.randbytes(min(16, len(data) - at))


def truncate(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def cut_out(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randrange(1, 200)]


def put_in(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.randrange(1, 100))


BYTES = (flip_bits, flip_bits, flip_bits, set_bytes, truncate, cut_out, put_in)


def swap_parts(source: Path, target: Path, rng: random.Random) -> None:
    """Give a part the contents of another, or leave it out, or write it twice."""
    with zipfile.ZipFile(source) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist()]
    first, second = rng.sample(range(len(parts)), 2)
    match rng.randrange(3):
        case 0:
            parts[first], parts[second] = ((parts[first][0], parts[second][1]), (parts[second][0], parts[first][1]))
        case 1:
            del parts[first]
        case _:
            parts.append((parts[first][0], parts[second][1]))
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name), data)


def outcome(path: Path, inputs: tuple[Any, ...], want: Any) -> tuple[str, str]:
    """What loading and running a file gives: error, equal, wrong or crash (an error that is not of a saved program)."""
    try:
        got = fs.export.load(path).module()(*inputs)
    except SavedProgramError as error:
        return "error", str(error)
    except Exception as error:
        return "crash", f"{type(error).__name__}: {error}"
    try:
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    except AssertionError as error:
        return "wrong", str(error)
    return "equal", ""


def damage_all(
    program: ExportedProgram, inputs: tuple[Any, ...], folder: Path, count: int, seed: int
) -> dict[str, Any]:
    """How many damaged files had which outcome, and what went wrong."""
    rng = random.Random(seed)
    whole, damaged = folder / "whole", folder / "damaged"
    fs.export.save(program, whole)
    content = whole.read_bytes()
    found: dict[str, Any] = {"error": 0, "equal": 0, "wrong": 0, "crash": 0, "problems": []}
    for number in range(count):
        if number % 5 == 4:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of zipfile, about a name that is there twice
                swap_parts(whole, damaged, rng)
        else:
            data = bytearray(content)
            rng.choice(BYTES)(data, rng)
            damaged.write_bytes(data)
        want = fs.export.load(whole).module()(*inputs)  # programs may change their buffers: from the start each time
        what, why = outcome(damaged, inputs, want)
        found[what] += 1
        if what in ("wrong", "crash"):
            found["problems"].append(f"{number}: {why}"[:500])
    return found
