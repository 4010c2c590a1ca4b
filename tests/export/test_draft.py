"""Drafts: exports that go on, and report everything that stands in the way."""

import pytest
import torch

import firesteel as fs
from firesteel.export import Dim
from firesteel.export.draft import ProblemKind, draft_export


@torch.library.custom_op("firesteel_draft::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("firesteel_draft::first", mutates_args=())
def first(x: torch.Tensor) -> torch.Tensor:
    return x[:1].clone()


@first.register_fake
def _wrong(x):
    return torch.empty_like(x)


class Troubled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, y, k):
        self.calls.add_(1)
        z = torch.ops.firesteel_draft.twice(x) + 1
        if x.sum() > 0:
            z = z * 2
        a = k.item()
        if a // 2 >= 5:
            z = z + 3
        w = torch.ops.firesteel_draft.first(x)
        for i in range(int(k.item()) - 10):
            z = z + i
        return z + y, w


INPUTS = (torch.ones(4), torch.ones(4), torch.tensor(12))


def test_all_problems_are_reported_at_once():
    module = Troubled()
    program = draft_export(module, INPUTS)
    report = program.report
    assert report is not None and not report.successful
    assert [problem.kind for problem in report.problems] == [
        ProblemKind.MISSING_FAKE_KERNEL, ProblemKind.DATA_DEPENDENT, ProblemKind.DATA_DEPENDENT,
        ProblemKind.MISMATCHED_FAKE_KERNEL, ProblemKind.DATA_DEPENDENT]
    text = str(report)
    for part in ("firesteel_draft::twice", "if x.sum() > 0:", "torch._check(a >= 10)", "if a // 2 >= 5:",
                 "torch.float32[1]", "which is 12 in this run", "z = torch.ops.firesteel_draft.twice(x) + 1"):
        assert part in text
    assert all(problem.frames and not problem.frames[-1].in_torch for problem in report.problems)
    assert module.calls == 0  # nothing of the user's has changed
    assert torch.equal(INPUTS[0], torch.ones(4))


def test_the_draft_computes_and_checks():
    program = draft_export(Troubled(), INPUTS)
    module = program.module()
    for given in (INPUTS, (torch.rand(4) + 1, torch.rand(4), torch.tensor(12))):
        for got, expected in zip(module(*given), Troubled()(*given), strict=True):
            torch.testing.assert_close(got, expected)
    with pytest.raises(RuntimeError):
        module(-INPUTS[0], *INPUTS[1:])
    with pytest.raises(RuntimeError, match="== 12 does not hold"):
        module(*INPUTS[:2], torch.tensor(13))


def test_sizes_through_an_operator_without_a_rule():
    class Calls(torch.nn.Module):
        def forward(self, x, y):
            return torch.ops.firesteel_draft.twice(x) + y

    program = draft_export(Calls(), (torch.ones(4, 3), torch.ones(4, 3)),
                           dynamic_shapes={"x": {0: Dim("a")}, "y": {0: Dim("a")}})
    assert [problem.kind.name for problem in program.report.problems] == ["MISSING_FAKE_KERNEL"]
    x, y = torch.randn(7, 3), torch.randn(7, 3)
    torch.testing.assert_close(program.module()(x, y), 2 * x + y)


def test_declarations_are_corrected():
    class Adds(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    a, b = Dim("a"), Dim("b")
    program = draft_export(Adds(), (torch.ones(4), torch.ones(4)), dynamic_shapes={"x": {0: a}, "y": {0: b}})
    (problem,) = program.report.problems
    assert problem.kind is ProblemKind.CONSTRAINT_VIOLATION and problem.hint == "b = a"
    assert program.report.dynamic_shapes == {"x": {0: a}, "y": {0: a}}
    assert program.module()(torch.ones(9), torch.ones(9)).sum() == 18


def test_nothing_to_report():
    program = fs.export.draft_export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    assert program.report.successful and "with strict=False" in str(program.report)
    assert fs.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),)).report is None


@fs.disable
def plain_python(x):
    return x * 2


class Plain(torch.nn.Module):
    def forward(self, x):
        return plain_python(x) + 1


def test_strict_drafts():
    x = torch.ones(4, 3)
    program = draft_export(torch.nn.Linear(3, 2), (x,), strict=True)
    assert program.report.successful and str(program.report).endswith("exporting this program.")
    program = draft_export(Plain(), (x,), strict=True)
    assert [problem.kind.name for problem in program.report.problems] == ["NOT_CAPTURED"]
    assert "plain_python(x) + 1" in str(program.report)
    torch.testing.assert_close(program.module()(x), x * 2 + 1)
    program = draft_export(Plain(), (x,), dynamic_shapes={"x": {0: fs.export.Dim("n", max=9)}}, strict=True)
    assert program.module()(torch.ones(5, 3)).shape == (5, 3)


def test_random_numbers_are_not_used_up():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    draft_export(torch.nn.Dropout(), (torch.ones(8),))
    assert torch.equal(torch.rand(2), expected)
