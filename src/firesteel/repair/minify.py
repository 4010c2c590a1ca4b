"""`minify`: from a script that fails to the smallest one that fails in the same way, with the stage and the operator.

A failure of a stage behind the capture is looked for in the captured graph first, which becomes a script of its own: a
straight line of operators with drawn inputs. What only fails with the Python around it is made small as it is.
"""

from __future__ import annotations

import ast
import copy
import os
import re
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import UserCodeError
from ..repro_scripts.scripts import versions
from . import edits
from .apart import where_forks_work
from .asked_for import asking_the_same
from .children import in_child, run_python
from .failure import PROGRAM, RUN, Failure
from .levels import scripts_behind
from .locals import local_sources
from .operators import Misjudged
from .plain_places import make_plain, opcodes_of, plain_places
from .probe import execute
from .session import Progress, Session, Tried
from .shrinker import Shrinker

LEVELS = ("source", "capture", "autodiff", "kernels")
"""What a script is made of: the program as it is, its captured graph, a functional graph, the operators of a kernel."""
LEAST_LIMIT = 6.0


class NoFailure(UserCodeError):
    """There is nothing to make small."""

    headline = "There is nothing to make small."


@dataclass
class Minified:
    """What became of a script."""

    text: str
    failure: Failure
    level: str
    attempts: int
    seconds: float
    path: str = ""
    confirmed: bool = False
    """Whether the script fails when plain python runs it."""

    @property
    def lines(self) -> int:
        """Lines of the script that are not empty."""
        return sum(1 for line in self.text.splitlines() if line.strip())


def minify(path: str, after: str | None = None, *, limit: float = 300.0, each: float = 60.0,
           out: str | None = None, progress: Progress = lambda _: None) -> Minified:
    """Make the script of a failure small, and write the result to ``out``.

    ``after``: "source", "capture", "autodiff" or "kernels": what the script is to be made of; None takes the captured
    graph where it fails in the same way. ``limit``: seconds for everything, ``each`` for one run.
    """
    if after not in (None, *LEVELS):
        raise UserCodeError(f"after={after!r}", f"choose one of {', '.join(LEVELS)}")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    out = out or f"{os.path.splitext(path)[0]}.min.py"
    result: Minified = where_forks_work(_minify, text, after, out, limit, each, os.path.dirname(os.path.abspath(path)),
                                        progress=progress)
    return result


def _minify(text: str, after: str | None, out: str, limit: float, each: float, folder: str, *,
            progress: Progress) -> Minified:
    session = Session(limit, each, folder, progress)
    try:
        progress("running the script")
        first = session.run(text, look=True, limit=min(2 * each, limit / 2))
        return minify_tried(session, text, first, after, out)
    finally:
        session.close()


def minify_tried(session: Session, text: str, first: Tried, after: str | None, out: str) -> Minified:
    """The rest of `minify`, for a script that was run once."""
    began = time.monotonic()
    if first.failure is None:
        raise NoFailure("the script ends without a failure of firesteel",
                        "results are compared with eager where the script calls fs.check(f)(*args)")
    if first.failure.stage == PROGRAM:
        hint = "a script is needed that runs in plain PyTorch"
        if "torch.compile" in text and "firesteel" not in text:
            hint = "torch.compile is torch's own here: begin the script with import firesteel; firesteel.install()"
        raise NoFailure(f"the script fails by itself: {first.failure.error}: "
                        f"{first.failure.message.partition(chr(10))[0]}", hint)
    text, first = _checked(session, text, first)
    assert first.failure is not None
    session.progress(f"it fails: {first.failure}")
    # A run that fails is quick, and one that hangs shows it soon.
    session.impatient = first.failure.kind == "hang"
    session.each = min(session.each, LEAST_LIMIT if session.impatient else max(LEAST_LIMIT, 4 * first.seconds))
    chosen, level, failure = choose(session, text, first, after)
    chosen = _seeded(session, chosen, failure)
    shrinker = Shrinker(chosen, lambda candidate: _is_same(session, candidate, failure),
                        lambda candidate: values_in(session, candidate), lambda: session.is_over)
    _follow(session, shrinker)
    try:
        small = shrinker.shrink()
    except KeyboardInterrupt:
        with open(out, "w", encoding="utf-8") as file:
            file.write(headed(shrinker.text, failure))
        raise KeyboardInterrupt(f"{out} is the smallest script so far") from None
    final = refined(session, small, failure)
    final = replace(final, line=re.sub(r"^(script|guards|walked|operators)(_\d+)?\.py:\d+: ", "", final.line))
    result = Minified(headed(small, final), final, level, session.tried, time.monotonic() - began, out)
    with open(out, "w", encoding="utf-8") as file:
        file.write(result.text)
    left = min(max(30.0, 4 * session.each), session.end - time.monotonic())
    result.confirmed = confirm(out, final, max(5.0, left))
    return result


def _checked(session: Session, text: str, first: Tried) -> tuple[str, Tried]:
    """Of a program in which a call of compiled code raises: the script that checks that call, which knows the stage."""
    failure = first.failure
    if failure is not None and (failure.kind, failure.stage) == ("exception", RUN):
        for function in first.functions:
            tried = session.run(function, look=True)
            if tried.failure is not None and tried.failure.stage not in (PROGRAM, RUN) \
                    and (tried.failure.kind, tried.failure.error) == (failure.kind, failure.error):
                return function, tried
    return text, first


def _is_same(session: Session, candidate: str, failure: Failure) -> bool:
    found = session.failure(candidate)
    return found is not None and found.is_same(failure)


def _seeded(session: Session, text: str, failure: Failure) -> str:
    """A script that draws the same numbers in every process, where it still fails with them: children share theirs."""
    tree = ast.parse(text)
    edits.seed(tree)
    candidate = edits.source(tree)
    return candidate if candidate != edits.source(ast.parse(text)) and _is_same(session, candidate, failure) else text


def _follow(session: Session, shrinker: Shrinker) -> None:
    """Say how it goes."""
    attempt = shrinker.attempt

    def followed(edit: edits.Edit) -> bool:
        kept = attempt(edit)
        session.progress(f"{len(shrinker.text.splitlines())} lines, {shrinker.attempts} attempts")
        return kept

    shrinker.attempt = followed  # type: ignore[method-assign]


def choose(session: Session, text: str, first: Tried, after: str | None) -> tuple[str, str, Failure]:
    """The script to begin with, its level and how it fails."""
    failure = first.failure
    assert failure is not None
    same = [graph for one in first.graphs if (graph := asking_the_same(one, text)) is not None]
    if after in ("autodiff", "kernels"):
        for graph in [*reversed(same), text]:
            for behind in scripts_behind(session, graph, after):
                candidate = asking_the_same(behind, text)
                found = session.failure(candidate) if candidate is not None else None
                if candidate is not None and found is not None and (
                        found.is_same_elsewhere(failure) or found.kind == failure.kind
                        and found.stage == failure.stage):
                    return candidate, after, found
        raise NoFailure(f"no {'functional graph' if after == 'autodiff' else 'kernel'} fails as the script does, in "
                        f"{failure.stage}", 'leave "after" out')
    if after != "source" and failure.stage not in ("capture", "guards"):
        for graph in reversed(same):
            found = session.failure(graph)
            if found is not None and found.is_same_elsewhere(failure):
                return graph, "capture", found
        if after == "capture":
            raise NoFailure(f"no captured graph fails as the script does, in {failure.stage}", 'leave "after" out')
    for function in first.functions if after != "source" else ():
        found = session.failure(function)
        if found is not None and found.is_same(failure):
            return function, "source", found
    again = session.failure(text)
    if again is None or not again.is_same(failure):
        raise NoFailure(f"it does not fail in the same way every time: first {failure}, then {again}",
                        "seed the random numbers, and wait for threads")
    return text, "source", again


def values_in(session: Session, text: str) -> Mapping[str, str]:
    """What the variables of a script's function hold, as source."""
    found = edits.called_function(ast.parse(text))
    if found is None:
        return {}
    path = os.path.join(session._work.name, "looked_at.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    name = found[0].name

    def child(_: Any) -> dict[str, str]:
        session.prepare()
        return local_sources(path, name, lambda: execute(path, session.folder))

    ended = in_child(child, session.limits())
    return ended.value if isinstance(ended.value, dict) else {}


def refined(session: Session, text: str, failure: Failure) -> Failure:
    """A failure with the operator, and the stage of code that crashes or raises when it is called."""
    found = session.failure(text) or failure
    if found.kind != "difference" and (found.stage == RUN or found.kind == "exception"
                                       and found.stage in ("lower", "schedule", "generate", "host")):
        walked = walk_script(session, text)  # a graph may be bad since an earlier stage
        if walked is not None and walked.stage not in (RUN, found.stage):
            found = replace(found, stage=walked.stage, operators=walked.operators or found.operators,
                            line=walked.line or found.line)
    left, wrong = operators_left(session, text)
    if wrong is not None and found.stage not in ("guards", "fake tensors"):
        return replace(found, stage="fake tensors", operators=(wrong.operator,), line=wrong.line or found.line,
                       message=f"{found.message} ({wrong.text})")
    if found.stage == "capture":
        found = replace(found, operators=(*found.operators, *faulty_expressions(session, text)))
        return replace(found, line=found.line or last_line(text))
    known = [name for name in found.operators if not left or _among(name, left)]
    if not found.operators and len(left) > 1:
        left = likeliest_first(left, mending_expression(session, text))
    if not known and found.stage.startswith("pass "):
        known = left  # a pass may have put others in their place
    line = found.line or last_line(text)
    return replace(found, operators=tuple(known) or found.operators or tuple(left), line=line)


def _among(name: str, left: list[str]) -> bool:
    base = name.split(".")[1:2]
    return name in left or any(base == other.split(".")[1:2] for other in left if "." in other)


def last_line(text: str) -> str:
    """The line of a small script that matters: the last one of its function that is not trivial."""
    found = edits.called_function(ast.parse(text))
    if found is None:
        return ""
    return ast.unparse(found[0].body[-1])


def operators_left(session: Session, text: str) -> tuple[list[str], Misjudged | None]:
    """The ATen operators that a script's function still calls in eager, in order, and the first of which a rule for
    fake tensors says something wrong."""
    def child(_: Any) -> tuple[list[str], Misjudged | None]:
        from . import checking
        from .operators import RuleCheck

        session.prepare()
        check = RuleCheck()
        original = checking.outcome

        class Stop(BaseException):
            pass

        def once(*given: Any) -> Any:
            try:
                with check:
                    original(*given)
            finally:
                raise Stop

        checking.outcome = once  # type: ignore[assignment]
        path = os.path.join(session._work.name, "operators.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            execute(path, session.folder)
        except BaseException:
            pass
        names = list(dict.fromkeys(name for name, _ in check.calls if name not in _TRIVIAL))
        return names, check.found[0] if check.found else None

    ended = in_child(child, session.limits())
    return ended.value if isinstance(ended.value, tuple) else ([], None)


def likeliest_first(operators: list[str], mended: tuple[str, str] | None) -> list[str]:
    """Operators with those first that the expression calls which mends a script.

    >>> likeliest_first(["aten.unsqueeze.default", "aten.convolution.default"], ("CALL", "torch.conv2d(x, weight)"))
    ['aten.convolution.default', 'aten.unsqueeze.default']
    """
    if mended is None:
        return operators
    called = mended[1].partition("(")[0].rpartition(".")[2]
    stem = re.sub(r"\d+d$", "", called)

    def distance(name: str) -> int:
        base = name.split(".")[1] if "." in name else name
        return 0 if base == called else 1 if stem and base.startswith(stem) else 2

    return sorted(operators, key=distance)


def faulty_expressions(session: Session, text: str) -> list[str]:
    """The opcode and the expression at fault; where that is not known, the opcodes that are left of the function."""
    mended = mending_expression(session, text)
    return [" ".join(mended)] if mended is not None else opcodes_of(ast.parse(text))


def mending_expression(session: Session, text: str) -> tuple[str, str] | None:
    """The smallest expression of a script's function that mends it when plain Python computes it, outside of graphs,
    behind the name of its opcode."""
    tree = ast.parse(text)
    for at in plain_places(tree):
        if time.monotonic() > session.end - session.reserve / 3:
            break
        candidate = copy.deepcopy(tree)
        name, expression = make_plain(candidate, at)
        if session.failure(edits.source(candidate)) is None:
            return name, expression  # small ones come first
    return None


_TRIVIAL = frozenset({"aten.detach.default", "aten.alias.default", "aten.t.default", "aten.ones_like.default",
                      "aten.randn.generator"})


def walk_script(session: Session, text: str) -> Failure | None:
    """The stage of a script's call, found by looking at all of them, where a call as a whole does not tell."""
    from . import checking

    def work() -> None:
        class Walking(checking.Check):
            """Walks in place of a call."""

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                from ..errors import AccuracyError
                from .checking import CheckedCall

                error = AccuracyError("walk: it fails when it is called", None)
                error.call = CheckedCall(self.function, args, kwargs, self.options, False)  # type: ignore[attr-defined]
                raise error

        checking.Check = Walking  # type: ignore[misc]
        path = os.path.join(session._work.name, "walked.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        execute(path, session.folder)

    return session.call(work).failure


def headed(text: str, failure: Failure) -> str:
    """A script with its header."""
    message = failure.message.strip().splitlines()
    lines = [f"firesteel fails in the stage: {failure.stage}",
             *([f"operator: {', '.join(failure.operators[:3])}"] if failure.operators else []),
             *textwrap.wrap(f"{failure.kind}: {failure.error}: {message[0] if message else ''}", 112)[:3], versions()]
    header = "\n".join(lines).replace("\\", "/").replace('"""', "'''")
    return f'"""{header}\n"""\n{text}'


def confirm(path: str, failure: Failure, limit: float) -> bool:
    """Whether plain python fails with a script."""
    status, written = run_python([path], limit, os.path.dirname(os.path.abspath(path)))
    if status is None:
        return failure.kind == "hang"
    if failure.kind == "crash":
        return status < 0
    if failure.kind == "difference":
        place = failure.seen.rpartition(" ")[2]
        return status != 0 and "AccuracyError" in written and f"Why: {place}" in written
    return status != 0 and failure.error in written


def summary(result: Minified) -> str:
    """What people are told."""
    failure = result.failure
    lines = [f"stage: {failure.stage}", f"operator: {', '.join(failure.operators[:3]) or 'not known'}"]
    if failure.line:
        lines.append(f"line: {failure.line}")
    lines.append(f"{failure.kind}: {failure.error}: {(failure.message.splitlines() or [''])[0]}")
    state = "fails with plain python" if result.confirmed else "does not fail with plain python in the same way"
    lines.append(f"{result.path}: {result.lines} lines, {state}; {result.attempts} runs, {result.seconds:.0f} s")
    return "\n".join(lines)
