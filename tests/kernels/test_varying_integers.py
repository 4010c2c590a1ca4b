"""Integers that vary from call to call: negative, zero and huge ones in divisions, slices, shifts, pads and layouts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.gpu.values import TritonIndexPrinter
from firesteel.shapes import symbol

SMALL = (4, 6, -4, -5, 0, 3, 1, -1)
HUGE = (4, 6, -(2**31), 2**40, -(2**40), 2**62, -(2**63), 2**63 - 1, 2**63)
PROGRAMS: dict[str, Callable[..., Any]] = {
    "a quotient as a number": lambda x, n: x + n // 2,
    "a slice from a quotient": lambda x, n: x[:, n // 2 :] * 1,
    "a slice from a remainder": lambda x, n: x[:, n % 5 :] * 1,
    "a slice from the back": lambda x, n: x[:, -n:] * 2,
    "roll": lambda x, n: torch.roll(x, n, 0),
    "roll over all": lambda x, n: torch.roll(x, n),
    "pad in front": lambda x, n: F.pad(x, (n, 0)),
    "pad and cut": lambda x, n: F.pad(x, (n, -n)),
    "as_strided": lambda x, n: x.as_strided((2,), (n,)) * 2,
    "a negative divisor": lambda x, n: x * (7 // (n or -3)) + (n % -3),
    "a size that becomes zero": lambda x, n: (x.narrow(1, 0, n // 2) * 2).sum(),
    "tril": lambda x, n: x.tril(n // 2) * 2,
}


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slices that end beyond 64 bits, of entries that become too many
        yield


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return torch.equal(left, right) and (not left.numel() or left.stride() == right.stride())
    return left is right


@pytest.fixture(autouse=True)
def no_cache():
    with fs.config.patch(disk_cache=False, raise_on_internal_error=True):
        yield


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_integer_arguments(name: str, dynamic: bool | None) -> None:
    compiled = fs.compile(PROGRAMS[name], dynamic=dynamic)
    for n in SMALL:
        x = torch.arange(12.0).reshape(3, 4)
        assert same(outcome(PROGRAMS[name], x, n), outcome(compiled, x, n)), n


@pytest.mark.parametrize("name", ["a quotient as a number", "a slice from a quotient", "a slice from the back", "tril"])
def test_huge_arguments(name: str) -> None:
    compiled = fs.compile(PROGRAMS[name])
    for n in HUGE:
        x = torch.arange(12.0).reshape(3, 4)
        assert same(outcome(PROGRAMS[name], x, n), outcome(compiled, x, n)), n


@pytest.mark.parametrize("name", PROGRAMS)
def test_items_of_tensors(name: str) -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> Any:
        return PROGRAMS[name](x, t.item())

    compiled = fs.compile(program)
    for n in (*SMALL, 2**40, -(2**63), 2**63 - 1) if "roll" not in name and "pad" not in name else SMALL:
        x = torch.arange(12.0).reshape(3, 4)
        assert same(outcome(program, x, torch.tensor(n)), outcome(compiled, x, torch.tensor(n))), n


def test_a_product_that_needs_more_than_64_bits() -> None:
    def program(x: torch.Tensor, n: int, m: int) -> Any:
        return x[n * m * n :] + (n * m) % 1000

    compiled = fs.compile(program)
    for n, m in ((2, 3), (3, 5), (2**30, 2**30), (2**31 - 1, -(2**31)), (-(2**31), 2**31 - 1), (5, 0)):
        x = torch.arange(8.0)
        assert same(outcome(program, x, n, m), outcome(compiled, x, n, m)), (n, m)


def test_what_was_learned_before_serves_the_first_call(tmp_path: Path) -> None:
    source = "def program(x, n):\n    return x[:, n // 2:] * 1 + n // 2\n"
    x = torch.arange(12.0).reshape(3, 4)
    with fs.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        for numbers in ((4, 6, 2), (-4, -5)):
            space: dict[str, Any] = {}
            exec(compile(source, "program.py", "exec"), space)  # as another process would have it
            compiled = fs.compile(space["program"])
            for n in numbers:
                assert same(space["program"](x, n), compiled(x, n)), n
            assert n > 0 or len(compiled._firesteel_unit.entries) == 1
            fs.reset()


def test_places_in_a_storage() -> None:
    base = torch.arange(24.0)

    def at_the_start(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,), 0) * 2

    def behind(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((12,), (1,)) * 2

    def offset(x: torch.Tensor) -> torch.Tensor:
        return x[1:] * x.storage_offset()

    for program in (at_the_start, behind, offset):
        compiled = fs.compile(program)
        for x in (base[:4], base[3:7], base[15:19], torch.arange(4.0), torch.arange(20.0)[5:9]):
            assert same(outcome(program, x), outcome(compiled, x))


def test_windows_of_slices_share_an_entry() -> None:
    base, compiled = torch.arange(24.0), fs.compile(lambda x: x.as_strided((3, 2), (1, 1)) * 2)
    for start in (0, 3, 7):
        assert torch.equal(compiled(base[start : start + 4]), base[start : start + 4].unfold(0, 2, 1) * 2)
    assert len(compiled._firesteel_unit.entries) == 1


def test_an_empty_tensor_on_a_storage_that_is_not() -> None:
    base = torch.arange(24.0).reshape(4, 6)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,)).sum() + 1

    assert torch.equal(fs.compile(program)(base[2:2]), program(base[2:2]))


@pytest.mark.parametrize("strict", [True, False])
def test_an_exported_program_takes_negative_padding_from_data(strict: bool) -> None:
    class Padding(torch.nn.Module):
        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return F.pad(x, t.tolist()) * 2

    example = torch.ones(3, 4), torch.tensor([1, 2])
    module = fs.export.export(Padding(), example, strict=strict).module()
    for pads in ([1, 2], [-1, 2], [-2, -2], [0, 0], [-5, 1], [3, -4]):
        x, t = torch.arange(12.0).reshape(3, 4), torch.tensor(pads)
        assert same(outcome(Padding(), x, t), outcome(module, x, t)), pads


@pytest.mark.parametrize("index", [0, 3, -1, -4, 4, -5])
def test_a_view_at_an_index_from_data(index: int) -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return x[:, t.item()]

    compiled = fs.compile(program)
    for number in (1, index):
        x = torch.arange(12.0).reshape(3, 4)
        expected, actual = (outcome(f, x, torch.tensor(number)) for f in (program, compiled))
        assert same(expected, actual)
        if isinstance(actual, torch.Tensor):
            assert actual.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_a_division_by_an_item_that_is_zero() -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return x.triu(4 // (t.item() * 2)) * 2

    compiled = fs.compile(program)
    for number in (1, 0, -1, 0):
        x = torch.arange(12.0).reshape(3, 4)
        assert same(outcome(program, x, torch.tensor(number)), outcome(compiled, x, torch.tensor(number)))


def test_triton_rounds_quotients_of_signed_numbers_down() -> None:
    n, s = symbol("n"), symbol("s")
    printer = TritonIndexPrinter({}, lambda name: name, frozenset([n]))
    assert printer.print(s // 2) == "(s // 2)"
    assert printer.print(n // 2) == "floor_divide(n, 2)"
    assert printer.print((s + n) % 5) == "floor_modulo(n + s, 5)"
