"""`bisect`: the first stage at which a function's compiled code goes wrong, and the operator, kernel or guard.

A call is checked as a whole. Where it fails or differs from eager, all stages are walked, the captured graph is made
small, and what is left names the operator. Where it does not, everything that the function reads is changed in turn,
to find a guard that is missing; and where there is a GPU, all of it is done there too.
"""

from __future__ import annotations

import ast
import math
import os
import time
import types
from dataclasses import dataclass, field
from typing import Any

import torch

from .apart import where_forks_work
from .children import Limits, in_child
from .failure import Failure
from .guards import Stale, look_for_stale
from .minify import Minified, headed, minify_tried
from .probe import execute
from .session import Progress, Session, Tried

STAGES = ("eager", "capture", "fake tensors", "trace", "differentiate", "partition", "pass", "lower", "schedule",
          "generate", "host", "guards")


@dataclass
class Bisection:
    """What was found; nothing without a `failure`."""

    failure: Failure | None
    minified: Minified | None = None
    changes: int = 0
    """How many changes were made to look for missing guards."""
    seconds: float = 0.0
    complete: bool = True
    """Whether the time sufficed."""
    devices: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        where = " and ".join(self.devices)
        if self.failure is None:
            rest = "" if self.complete else "; the time was up before everything was looked at"
            return (f"nothing differs from eager on {where}: results, gradients, {self.changes} changes of what it "
                    f"reads{rest} ({self.seconds:.0f} s)")
        failure = self.failure
        lines = [f"stage: {failure.stage}", f"operator: {', '.join(failure.operators[:3]) or 'not known'}"]
        if failure.line:
            lines.append(f"line: {failure.line}")
        lines.append(f"{failure.kind}: {failure.error}: {(failure.message.splitlines() or [''])[0]}")
        if self.minified is not None:
            state = "fails" if self.minified.confirmed else "does not fail"
            lines.append(f"{self.minified.path}: {self.minified.lines} lines, {state} with plain python "
                         f"({self.seconds:.0f} s)")
        return "\n".join(lines)


def bisect_script(path: str, target: str, arguments: str, options: str, *, limit: float = 300.0, each: float = 60.0,
                  out: str | None = None, guards: bool = True, progress: Progress = lambda _: None,
                  loaded: types.ModuleType | None = None) -> Bisection:
    """Find the first stage that goes wrong for a call of a file's function; ``options`` are arguments of `compile`.
    ``loaded``: the file as a module, where this process has imported it."""
    with open(path, encoding="utf-8") as file:
        text = _without_main(file.read())
    text = f"{text}\nimport torch\nimport firesteel as fs\nfs.check({target}{options})({arguments})\n"
    out = out or f"{os.path.splitext(path)[0]}.bisect.py"
    return bisect_apart(text, out, guards, limit, each, os.path.dirname(os.path.abspath(path)), progress=progress,
                        loaded=loaded)


def bisect_apart(text: str, out: str, guards: bool, limit: float, each: float, folder: str, *,
                 progress: Progress = lambda _: None, **here: Any) -> Bisection:
    """`bisect_text` in children of this process, or of a new one where forks of this one lack something. ``here``: more
    arguments of the session in the first case."""
    result: Bisection = where_forks_work(_bisect, text, out, guards, limit, each, folder, progress=progress, **here)
    return result


def _bisect(text: str, out: str, guards: bool, *given: Any, **more: Any) -> Bisection:
    session = Session(*given, **more)
    try:
        return bisect_text(session, text, out, guards)
    finally:
        session.close()


def bisect_text(session: Session, text: str, out: str, guards: bool = True) -> Bisection:
    """Find the first stage that goes wrong in a script that ends with ``fs.check(f)(...)``."""
    began = time.monotonic()
    result = Bisection(None, devices=["the CPU"])
    session.progress("eager, captured graph, functional graph, passes, kernels")
    first = session.run(text, look=True, limit=2 * session.each)
    if first.failure is None and _has_gpu():
        session.progress("on the GPU")
        text_there = _on_gpu(text)
        first = session.run(text_there, look=True, limit=2 * session.each)
        result.devices.append("the GPU")
        text = text_there if first.failure is not None else text
    if first.failure is None and guards:
        session.each = min(session.each, max(10.0, 4 * first.seconds))
        stale, result.changes, result.complete = _stale_in(session, text)
        if stale is not None:
            text = guard_script(text, stale.change.text)
            first = session.run(text, look=False)
            failure = Failure("difference", "guards", "stale result", f"after {stale.change.text} (it was "
                              f"{stale.change.before}) {stale.difference}", operators=(stale.change.place,),
                              line=stale.change.text)
            result.failure = failure
            if first.failure is not None:
                result.minified = _minified(session, text, first, out)
                result.minified.text = headed(_without_head(result.minified.text), failure)
                with open(out, "w", encoding="utf-8") as file:
                    file.write(result.minified.text)
    elif first.failure is not None:
        result.minified = _minified(session, text, first, out)
        result.failure = result.minified.failure
    result.complete &= not session.is_over
    result.seconds = time.monotonic() - began
    return result


def _has_gpu() -> bool:
    """Whether children can use a GPU. This process does not ask itself: what it has begun with a GPU, a child lacks."""
    return not torch.cuda.is_initialized() and in_child(lambda _: torch.cuda.is_available(), Limits(60.0)).value is True


def _minified(session: Session, text: str, first: Tried, out: str) -> Minified:
    return minify_tried(session, text, first, None, out)


def _without_head(text: str) -> str:
    tree = ast.parse(text)
    return ast.unparse(ast.Module(tree.body[1:], [])) + "\n"


def _without_main(text: str) -> str:
    """A file without what it does when it is run as a program."""
    tree = ast.parse(text)
    tree.body = [statement for statement in tree.body if not (
        isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test))]
    return ast.unparse(tree)


def _last_call(text: str) -> tuple[ast.Module, ast.Call, ast.Call]:
    """A script before its last line, and the two calls of that: ``fs.check(f)`` and the call of what it gives."""
    tree = ast.parse(text)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and isinstance(last.value.func, ast.Call)
    return tree, last.value.func, last.value


_COLLECT = "def called_with(*args, **kwargs):\n    return (list(args), kwargs)\n"


def guard_script(text: str, change: str) -> str:
    """A script that checks a call, changes something, and checks the call again."""
    tree, made, call = _last_call(text)
    uses = f"args, kwargs = called_with({', '.join(ast.unparse(one) for one in [*call.args, *call.keywords])})"
    call_again = "checked(*args, **kwargs)"
    if not call.keywords:
        uses = f"args = [{', '.join(map(ast.unparse, call.args))}]"
        call_again = "checked(*args)"
    head = ast.unparse(tree) + "\n" + (_COLLECT if call.keywords else "")
    return f"{head}{uses}\nchecked = {ast.unparse(made)}\n{call_again}\n{change}\n{call_again}\n"


def _stale_in(session: Session, text: str) -> tuple[Stale | None, int, bool]:
    """A change that compiled code does not notice, how many changes were made, and whether these were all."""
    tree, made, call = _last_call(text)
    target = ast.unparse(made.args[0])
    uses = f"args, kwargs = called_with({', '.join(ast.unparse(one) for one in [*call.args, *call.keywords])})"
    path = os.path.join(session._work.name, "guards.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{ast.unparse(tree)}\n{_COLLECT}{uses}\n")
    options = {str(one.arg): ast.literal_eval(one.value) for one in made.keywords}
    done = total = 0

    def work(report: Any) -> Any:
        import sys

        session.prepare()
        execute(path, session.folder)
        return look_for_stale(vars(sys.modules["__main__"]), target, options, done, report)

    def listen(report: Any) -> None:
        nonlocal total
        if report[0] == "change":
            total = report[2]
            session.progress(f"guards: change {report[1] + 1} of {total}")

    while not session.is_over:
        ended = in_child(work, session.limits(math.inf), listen)
        numbers = [report[1] for report in ended.reports if report[0] == "change"]
        if isinstance(ended.value, Stale):
            return ended.value, numbers[-1] + 1, True
        done = numbers[-1] + 1 if numbers else total
        if ended.done and done >= total or not numbers:
            return None, total, True
    return None, done, False


def _on_gpu(text: str) -> str:
    """A script whose last call happens on the GPU."""
    tree, made, call = _last_call(text)
    return (f"{ast.unparse(tree)}\nfrom firesteel.repair.devices import on_gpu\n"
            f"function, args, kwargs = on_gpu({ast.unparse(made.args[0])}, "
            f"{', '.join(ast.unparse(one) for one in [*call.args, *call.keywords])})\n"
            f"fs.check(function{''.join(f', {ast.unparse(one)}' for one in made.keywords)})(*args, **kwargs)\n")


def source_of_function(function: Any) -> types.FunctionType | None:
    """The Python function behind something that can be called."""
    plain = function.forward if isinstance(function, torch.nn.Module) else function
    plain = getattr(plain, "__func__", plain)
    return plain if isinstance(plain, types.FunctionType) else None
