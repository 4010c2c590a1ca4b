"""`draft_export`: an export that goes on where it cannot decide, and lists everything that stands in the way.

Forward runs once as Python, on fake tensors with real ones beside them. Where a decision depends on data, the real
values decide, and the program checks that they would again. Where an operator has no rule for fake tensors, its real
result says what the fake one looks like. Where sizes do not fit the declaration, the declaration is changed. Each of
these is a problem in the report, with the line it comes from and what to do about it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from .. import shapes, torch_compat
from ..errors import FiresteelError, UserFrame, format_user_stack
from ..fake import FakeError, FakeTensor
from ..fake.rules.data_dependent import new_size
from ..functional.operators import Operator
from ..shapes.symnode import expr_of, make_symint
from .assembly import assemble
from .constraints import ConstraintViolationError
from .dynamic_shapes import as_structure, declare
from .errors import ExportError
from .exporting import export
from .lifting import flat_arguments
from .nonstrict import _Run
from .pre_dispatch import PreDispatchRecorder
from .program import ExportedProgram
from .suggested_fixes import refine_dynamic_shapes_from_suggested_fixes

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class ProblemKind(enum.Enum):
    """What can stand in the way of an export."""

    DATA_DEPENDENT = "a decision depends on data"
    MISSING_FAKE_KERNEL = "an operator has no rule for fake tensors"
    MISMATCHED_FAKE_KERNEL = "an operator's rule for fake tensors disagrees with its result"
    CONSTRAINT_VIOLATION = "sizes do not fit the declaration"
    NOT_CAPTURED = "strict export cannot take a step of the program"


@dataclass(frozen=True)
class Problem:
    """One thing that stands in the way."""

    kind: ProblemKind
    reason: str
    hint: str = ""
    frames: tuple[UserFrame, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.kind.value}: {self.reason}"]
        if self.frames:
            parts.append(format_user_stack(self.frames, "     "))
        if self.hint:
            parts.append("     What to do: " + self.hint.replace("\n", "\n       "))
        return "\n".join(parts)


@dataclass
class DraftReport:
    """All problems that a draft met."""

    problems: list[Problem] = field(default_factory=list)
    dynamic_shapes: Any = None
    """The declaration that the draft was made with in the end."""
    strict: bool = True
    """Whether strict export was tried, which `export` does unless it is told otherwise."""

    @property
    def successful(self) -> bool:
        """Whether `export` with the same ``strict`` will do as well."""
        return not self.problems

    def add(self, problem: Problem) -> None:
        """Note a problem once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def __str__(self) -> str:
        if self.successful and self.strict:
            return "Nothing stands in the way of exporting this program."
        if self.successful:
            return ("Nothing stands in the way of exporting this program with strict=False; "
                    "draft_export(..., strict=True) tells about strict export, the default of export.")
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"{count} to solve before this program can be exported:"]
        lines += [f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1)]
        return "\n".join(lines)


class _DraftRecorder(PreDispatchRecorder):
    """A recorder that runs every operator on real tensors as well."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.report = DraftReport()
        self.values: dict[shapes.Symbol, Any] = {}
        """What the numbers that data decides are in this run."""
        self._reals: dict[int, torch.Tensor] = {}
        self._alive: list[Any] = []

    def pair(self, fake: Any, real: torch.Tensor) -> None:
        """From now on a real tensor stands beside a fake one."""
        self._reals[id(fake)] = real
        self._alive.append(fake)

    def from_real(self, t: torch.Tensor, layout: Any = None) -> FakeTensor:
        fake = super().from_real(t, layout)
        if id(fake) not in self._reals and type(t) is not FakeTensor:
            # Parameters are the bulk of the memory, and programs do not write to them.
            self.pair(fake, t.detach() if isinstance(t, torch.nn.Parameter) else t.detach().clone())
        return fake

    def _lift_fresh(self, tensor: torch.Tensor) -> FakeTensor:
        fake = super()._lift_fresh(tensor)
        self.pair(fake, tensor.clone())
        return fake

    # Operators

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is _ATEN.is_nonzero.default and not self._inside:
            # bool(tensor): in the graph it is a number, so that what it was can be checked.
            return bool(self.call(_ATEN.item.default, args, kwargs))
        return super().call(func, args, kwargs)

    def _assuming(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        assert self.shape_env is not None
        try:
            settle, self.shape_env.settle = self.shape_env.settle, None
            try:
                return super()._assuming(operator, args, kwargs)
            finally:
                self.shape_env.settle = settle
        except shapes.UndecidableError:
            return super()._assuming(operator, args, kwargs)  # now with the values of this run
        except (FakeError, NotImplementedError) as error:
            real = self._run_real(operator.func, args, kwargs)
            if real is None:
                raise
            self.report.add(Problem(
                ProblemKind.MISSING_FAKE_KERNEL, str(error).partition(" (")[0],
                f"Say what its result looks like: @torch.library.register_fake(\"{_qualified(operator.func)}\").",
                self._frames()))
            return self._like(real, args)

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> torch.fx.Node:  # type: ignore[override]
        real = self._run_real(func, args, kwargs)
        if real is not None:
            self._match(func, result, real)
        return super().record(func, args, kwargs, result)

    def _run_real(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result on real tensors; None where one of them is not known."""
        try:
            real_args, real_kwargs = self._real(args), self._real(kwargs)
        except KeyError:
            return None
        return func(*real_args, **real_kwargs)

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._reals[id(value)] if type(value) is FakeTensor else value
        if isinstance(value, _SYMBOLIC):
            return self._number(expr_of(value))
        if isinstance(value, (tuple, list)):
            return type(value)([self._real(item) for item in value])
        if isinstance(value, dict):
            return {key: self._real(item) for key, item in value.items()}
        return value

    def _number(self, expr: shapes.Expr) -> Any:
        assert self.shape_env is not None
        known = {symbol: self.values[symbol] if symbol in self.values else self.shape_env.hints[symbol]
                 for symbol in expr.free_symbols}
        return expr.evaluate(known)

    def _match(self, func: Any, fake: Any, real: Any) -> None:
        """Pair results, learn what data decided, and compare what the fake ones look like."""
        if isinstance(fake, (tuple, list)) and isinstance(real, (tuple, list)):
            for one, other in zip(fake, real, strict=True):
                self._match(func, one, other)
        elif isinstance(fake, FakeTensor) and isinstance(real, torch.Tensor):
            self.pair(fake, real)
            if fake.dim() != real.dim() or fake.dtype is not real.dtype:
                self._mismatch(func, fake, real)
                return
            for size, actual in zip(fake.shape, real.shape, strict=True):
                self._learn(size, actual)
                if self._known(size) not in (None, actual):
                    self._mismatch(func, fake, real)
                    return
        elif isinstance(fake, _SYMBOLIC):
            self._learn(fake, real)

    def _learn(self, number: Any, actual: Any) -> None:
        if isinstance(number, _SYMBOLIC):
            expr = expr_of(number)
            assert self.shape_env is not None
            if isinstance(expr, shapes.Symbol) and expr not in self.shape_env.hints:
                self.values.setdefault(expr, actual)

    def _known(self, size: Any) -> Any:
        try:
            return self._number(expr_of(size)) if isinstance(size, _SYMBOLIC) else size
        except KeyError:
            return None

    def _mismatch(self, func: Any, fake: FakeTensor, real: torch.Tensor) -> None:
        self.report.add(Problem(
            ProblemKind.MISMATCHED_FAKE_KERNEL,
            f"{func} gives {real.dtype}{list(real.shape)}, its rule {fake.dtype}[{', '.join(map(str, fake.shape))}]",
            f"Correct the function registered with torch.library.register_fake for \"{_qualified(func)}\".",
            self._frames()))

    def _like(self, real: Any, args: tuple[Any, ...]) -> Any:
        """Fakes of real results; where inputs have symbolic sizes, theirs are numbers that the program reads."""
        if isinstance(real, (tuple, list)):
            return type(real)([self._like(item, args) for item in real])
        if not isinstance(real, torch.Tensor):
            return real
        if not any(isinstance(arg, FakeTensor) and torch_compat.has_symbolic_layout(arg) for arg in args):
            return self.from_real(real)
        env = self.shape_env
        assert env is not None
        sizes = [new_size(self, "a size that the operator decides", None).expr for _ in real.shape]
        for size, actual in zip(sizes, real.shape, strict=True):
            self.values[size] = actual
        strides: list[shapes.Expr] = [shapes.as_expr(1)]
        for size in reversed(sizes[1:]):
            strides.insert(0, strides[0] * size)
        return self.from_real(real.contiguous(), ([make_symint(env, size) for size in sizes],
                                                  [make_symint(env, stride) for stride in strides[: len(sizes)]]))

    def settled(self, error: shapes.UndecidableError) -> Any:
        """What the values of this run say about something undecidable, noted as a problem."""
        try:
            value = self._number(error.expr)
        except (KeyError, ArithmeticError):
            return None
        answer = error.suggestions[0 if value else -1] if error.expr.kind == "bool" else \
            error.suggestions[0].replace("...", str(value)).partition("  #")[0]
        name = str(error).partition("\n")[0].partition(", which depends")[0].partition("`")[2]
        # A number that the program gives no name can only be left out.
        always = "leave out the other case." if "tensor.item()" in answer else f"state it before that line: {answer}"
        self.report.add(Problem(
            ProblemKind.DATA_DEPENDENT, f"`{name} is needed, which is {value!r} in this run",
            f"If that always holds, {always}\nOtherwise keep both cases with fs.cond, or compute with tensors.",
            _of_the_user(error.provenance.frames)))
        return value

    def _frames(self) -> tuple[UserFrame, ...]:
        origin = self.origin if self.locate is None else self.locate()
        return _of_the_user(origin.get("user_frames", ()))


def _of_the_user(frames: tuple[UserFrame, ...]) -> tuple[UserFrame, ...]:
    """The frames up to the last that is not torch's own."""
    last = max((at for at, frame in enumerate(frames) if not frame.in_torch), default=len(frames) - 1)
    return frames[:last + 1]


def _qualified(func: Any) -> str:
    return str(getattr(func, "_name", func)).partition(".")[0]


class _DraftRun(_Run):
    recorder_class = _DraftRecorder

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.recorder, _DraftRecorder)
        self.env.settle = self.recorder.settled


def _captured(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None,
              preserved: Sequence[str], report: DraftReport) -> ExportedProgram | None:
    """The program of strict export; None, and a problem, where there is none."""
    try:
        program = export(mod, args, kwargs, dynamic_shapes=report.dynamic_shapes,
                         preserve_module_call_signature=preserved)
    except ConstraintViolationError:
        return None  # running the program meets the same conflicts, and mends them
    except ExportError as error:
        report.add(Problem(ProblemKind.NOT_CAPTURED, error.reason, error.hint or "", _of_the_user(tuple(error.frames))))
        return None
    program.report = report
    return program


def draft_export(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
                 dynamic_shapes: Any = None, strict: bool = False,
                 preserve_module_call_signature: Sequence[str] = ()) -> ExportedProgram:
    """Export a program as far as it goes, and say all that stands in the way: ``program.report``.

    The program that comes out is right for the example inputs, and for others that take the same decisions; it checks
    that they do. With ``strict`` it is that of strict export where there is one; otherwise what stands in the way of
    that is one of the problems.

    >>> class Chooses(torch.nn.Module):
    ...     def forward(self, x):
    ...         if x.sum() > 0:
    ...             return x + 1
    ...         return x - 1
    >>> program = draft_export(Chooses(), (torch.ones(3),))
    >>> [problem.kind.name for problem in program.report.problems]
    ['DATA_DEPENDENT']
    >>> program.module()(torch.ones(3))
    tensor([2., 2., 2.])
    """
    report = DraftReport(dynamic_shapes=as_structure(mod, args, kwargs, dynamic_shapes), strict=strict)
    if strict:
        program = _captured(mod, args, kwargs, preserve_module_call_signature, report)
        if program is not None:
            return program
    for _ in range(5):
        arguments = flat_arguments(mod, args, dict(kwargs or {}))
        declared = declare(mod, args, arguments.kwargs, report.dynamic_shapes)
        run = _DraftRun(mod, arguments, declared)
        with torch.random.fork_rng(enabled=True):
            traced = run.run()
        assert isinstance(run.recorder, _DraftRecorder)
        for problem in run.recorder.report.problems:
            report.add(problem)
        try:
            program = assemble(traced, declared)
        except ConstraintViolationError as error:
            for conflict in error.conflicts:
                report.add(Problem(ProblemKind.CONSTRAINT_VIOLATION, conflict.reason, "\n".join(error.fixes),
                                   _of_the_user(conflict.provenance.frames)))
            report.dynamic_shapes = refine_dynamic_shapes_from_suggested_fixes(str(error), report.dynamic_shapes)
            continue
        program.report = report
        return program
    raise FiresteelError("the declared sizes do not settle: " + str(report))
