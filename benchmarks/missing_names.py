"""Takes private names of torch away from firesteel, one at a time, and sees what a user would.

    python -m benchmarks.missing_names [--names torch._C._dispatch_keys ...] [--quick]

For each name a forked process hides it from firesteel's code (torch itself still has it, as a release without the name
would have something else), runs a few programs plain and compiled, and compares. What may happen: a message that names
what is missing, with programs running as plain ones do, or another way with the same results. Anything else, an error
without a reason or other results, is a finding. The last line is the rate; the exit status is 1 below 95%.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import io
import json
import os
import select
import signal
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

SECONDS = 300
BAR = 0.95


# ---------------------------------------------------------------------------------------------------------------------
# hiding


def hide(name: str) -> None:
    """Let firesteel's code find no such name from now on."""
    if "." not in name:
        _hide_function(name)
        return
    *path, last = name.split(".")
    owner: Any = importlib.import_module("torch")
    dotted = "torch"
    for part in path[1:]:
        plain = part.removesuffix("()")
        dotted += f".{plain}"
        owner = getattr(owner, plain, None) or importlib.import_module(dotted)
        if plain is not part:
            owner = owner()
    _hide_attribute(owner, last, everywhere=path[-1].endswith("()") or isinstance(owner, torch._ops.OpOverload))


def _asked_by_firesteel() -> bool:
    asker = sys._getframe(2).f_globals.get("__name__") or ""
    return asker == "firesteel" or asker.startswith("firesteel.")


def _hide_attribute(owner: Any, attribute: str, everywhere: bool) -> None:
    """Hide an attribute of one object, or of all objects of its class."""
    cls: Any = type(owner)

    def hiding(usual: Any) -> Any:
        def find(self: Any, name: str) -> Any:
            if name == attribute and (everywhere or self is owner) and _asked_by_firesteel():
                raise AttributeError(f"{owner!r} has no attribute {name!r}")
            return usual(self, name)

        return find

    if cls is types.ModuleType:
        owner.__class__ = type("Module", (types.ModuleType,), {"__getattribute__": hiding(cls.__getattribute__)})
        return
    try:
        cls.__getattribute__ = hiding(cls.__getattribute__)
        if hasattr(cls, "__getattr__"):  # asked after the other
            cls.__getattr__ = hiding(cls.__getattr__)
    except TypeError:  # a class in C: taken away for everybody
        for base in (owner if isinstance(owner, type) else cls).__mro__:
            if attribute in vars(base):
                del gc.get_referents(vars(base))[0][attribute]
                ctypes.pythonapi.PyType_Modified(ctypes.py_object(base))


def _hide_function(name: str) -> None:
    dispatch = importlib.import_module("firesteel.torch_compat.dispatch")
    library = dispatch._library()

    class Library:
        def __getattr__(self, asked: str) -> Any:
            if asked == name:
                raise AttributeError(asked)
            return getattr(library, asked)

    dispatch._library = Library


# ---------------------------------------------------------------------------------------------------------------------
# programs


class Block(nn.Module):
    """A little of what models have."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.outer, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.outer(torch.nn.functional.gelu(self.inner(self.norm(x))))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 3 * ctx.saved_tensors[0] ** 2


def _data(*shape: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).sin()


def sizes(compile_: Callable[..., Any]) -> list[Any]:
    """One function, several sizes and dtypes, a view as a result, a change in place."""
    @compile_
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y.mul_(2)
        z = torch.softmax(x @ y, -1).sum(0)
        return z, x.t(), torch.where(x > 0, x, 0).mean(), torch.cumsum(z, 0)

    found: list[Any] = []
    for rows in (3, 4, 5):
        x, y = _data(rows, 8), _data(8, 6)
        found += [*f(x, y), y]
    return found


def training(compile_: Callable[..., Any]) -> list[Any]:
    """Steps of two optimizers."""
    found: list[Any] = []
    for kind in (torch.optim.SGD, torch.optim.Adam):
        model = Block()
        compiled = compile_(model)
        optimizer = kind(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            compiled(_data(4, 8)).square().sum().backward()
            compile_(lambda: optimizer.step())() if kind is torch.optim.SGD else optimizer.step()
        found += [p.detach() for p in model.parameters()] + [model.calls]
    return found


def breaks(compile_: Callable[..., Any]) -> list[Any]:
    """A graph break, a custom function, modes of the thread, random numbers."""
    @compile_
    def f(x: torch.Tensor) -> torch.Tensor:
        y = Cube.apply(x)
        if y.sum().item() > 1000:
            return y
        with torch.no_grad():
            z = x.cos()
        with torch.autocast("cpu", torch.bfloat16):
            w = (x @ x.t()).float()
        return y.sum() + z.sum() + w.sum() + torch.nn.functional.dropout(x, 0.5).sum()

    x = _data(4, 4).requires_grad_()
    torch.manual_seed(1)
    out = f(x)
    out.backward()
    return [out.detach(), x.grad]


def exporting(compile_: Callable[..., Any]) -> list[Any]:
    """A program that is exported."""
    model = Block().eval()
    x = _data(4, 8)
    if compile_ is not _plain:
        import firesteel as fs

        return [fs.export.export(model, (x,)).module()(x)]
    return [model(x)]


PROGRAMS = {"sizes": sizes, "training": training, "breaks": breaks, "exporting": exporting}


def _plain(target: Any) -> Any:
    return target


def _run(program: Callable[..., Any], compile_: Callable[..., Any]) -> Any:
    try:
        return program(compile_)
    except Exception as error:
        return error


def _differs(plain: Any, compiled: Any) -> bool:
    if isinstance(plain, Exception) or isinstance(compiled, Exception):
        return type(plain) is not type(compiled)
    return any(a.shape != b.shape or a.dtype != b.dtype or not torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
               for a, b in zip(plain, compiled, strict=True))


def look(name: str, programs: dict[str, Any], expected: dict[str, Any]) -> tuple[str, str]:
    """What happens without a name: "message", "fallback", or "unexplained" or "wrong" with the details."""
    hide(name)
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            import firesteel as fs

            compile_ = fs.compile
        except Exception as error:
            return ("message" if name in str(error) else "unexplained"), f"import: {error!r}"
        nothing_is_compiled = compile_(_data) is _data
        for title, program in programs.items():
            if nothing_is_compiled and title not in ("sizes", "exporting"):
                continue  # as plain ones are
            compiled = _run(program, compile_)
            if isinstance(compiled, Exception) and name in str(compiled):
                texts.append(str(compiled))
            elif _differs(expected[title], compiled) and _differs(_run(program, _plain), compiled):
                kind = "unexplained" if isinstance(compiled, Exception) else "wrong"
                return kind, f"{title}: {compiled!r}"[:500]
    ours = [str(one.message) for one in caught if "firesteel" in type(one.message).__module__]
    unclear = [text for text in ours if name not in text]
    if unclear:
        return "unexplained", unclear[0][:500]
    texts += ours
    return ("message", texts[0]) if texts else ("fallback", "")


# ---------------------------------------------------------------------------------------------------------------------
# processes


def apart(work: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """What a function returns in a forked process; a text if it crashes or hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with open(writer, "wb") as out:
            torch.save(work(), out)
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    text = b""
    if ready:
        while part := os.read(reader, 1 << 16):
            text += part
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    os.waitpid(child, 0)
    if not text:
        return "it hangs" if not ready else "it crashes"
    return torch.load(io.BytesIO(text), weights_only=False)


def plain_results(programs: dict[str, Any]) -> dict[str, Any]:
    """What programs compute that are not compiled."""
    found = apart(lambda: {title: program(_plain) for title, program in programs.items()})
    assert isinstance(found, dict), found
    return found


def look_apart(name: str, programs: dict[str, Any], expected: dict[str, Any]) -> tuple[str, str]:
    """`look` in a forked process."""
    found = apart(lambda: look(name, programs, expected))
    return ("unexplained", found) if isinstance(found, str) else found


def names() -> list[str]:
    """Those that this torch has, read without importing what uses them."""
    listed = json.loads(os.popen(
        f"{sys.executable} -c \"import json; from firesteel.torch_compat import private_names as p; "
        "print(json.dumps([n for n in p.PRIVATE_NAMES if p.is_there(n)]))\"").read())
    return list(listed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", help="only these")
    parser.add_argument("--quick", action="store_true", help="only the first program")
    options = parser.parse_args()
    torch.set_num_threads(1)
    programs = dict(list(PROGRAMS.items())[:1]) if options.quick else PROGRAMS
    expected = plain_results(programs)
    counts: Counter[str] = Counter()
    for name in options.names or names():
        began = time.perf_counter()
        kind, details = look_apart(name, programs, expected)
        counts[kind] += 1
        shown = f"  {details}" if kind in ("unexplained", "wrong") or options.names else ""
        print(f"{kind:12}{time.perf_counter() - began:6.1f} s  {name}{shown}", flush=True)
    total = counts.total()
    good = counts["message"] + counts["fallback"]
    print(f"{', '.join(f'{kind} {count}' for kind, count in sorted(counts.items()))}; torch {torch.__version__}")
    print(f"explained or another way: {good} of {total} names, {good / total:.1%}")
    return 0 if good >= BAR * total else 1


if __name__ == "__main__":
    sys.exit(main())
