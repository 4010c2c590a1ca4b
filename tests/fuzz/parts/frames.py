"""What a program sees of its own frames and of the life of its objects: warnings, log records, `sys._getframe`,
tracebacks, weak references, signatures; behind breaks and in callees too.

Not drawn: how often a tensor was changed in place (`_version`), which a graph that writes once cannot tell.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 10
NOT_BY = ("firesteel-whole", "firesteel-dynamic-whole")  # which call through a frame of their own

HEADER = '''\
import contextlib
import functools
import gc
import inspect
import logging
import sys
import traceback
import warnings
import weakref

import torch

SEEN = []


class Handler(logging.Handler):
    def emit(self, record):
        SEEN.append(("log", record.funcName, record.lineno, record.filename, record.getMessage()))


logger = logging.Logger(__name__)
logger.setLevel(logging.INFO)
logger.addHandler(Handler())


class Thing:
    def __init__(self, name):
        self.name = name


class Noticed(Thing):
    def __del__(self):
        SEEN.append(("end of", self.name))


@contextlib.contextmanager
def entered(name):
    try:
        yield name
    finally:
        SEEN.append(("left", name))


def broken():
    return torch.zeros(1).item()


def own(frames):
    """The frames of this program, from the innermost on, without those of who runs it."""
    return [(name, line) for filename, name, line in frames if filename == __file__]


def stack_of(frame):
    found = []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found


def names_there():
    return sorted(sys._getframe(1).f_locals)


def caught_frames(error):
    return own((f.filename, f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__))


def noting(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        SEEN.append("noted")
        return function(*args, **kwargs)
    return wrapper

'''

# Statements; {n} is a fresh number. Each sees something of its frame or of an object's life.
STATEMENTS = (
    (3, ["warnings.warn('w{n}', stacklevel={level})"]),
    (1, ["warnings.warn(UserWarning('u{n}'))"]),
    (1, ["warnings.warn('d{n}', DeprecationWarning, {level})"]),
    (1, ["out.append(torch.tensor(x{copied}))"]),
    (0.5, ["out.append(x.new_tensor(x + {n}))"]),
    (3, ["logger.info('l{n}')"]),
    (1, ["logger.warning('v%d %s', {n}, 'a')"]),
    (1, ["logger.info('s{n}', stacklevel={level})"]),
    (2, ["out.append(sys._getframe().f_code.co_name)"]),
    (2, ["out.append(sys._getframe({depth}).f_code.co_name)"]),
    (1, ["out.append(sys._getframe().f_lineno)"]),
    (1, ["out.append(sys._getframe({depth}).f_lineno)"]),
    (1, ["out.append(inspect.currentframe().f_back.f_code.co_name)"]),
    (1, ["out.append(own(stack_of(inspect.currentframe())))"]),
    (1, ["out.append(own((f.filename, f.name, f.lineno) for f in traceback.extract_stack()))"]),
    (0.3, ["out.append(own((f.filename, f.function, f.lineno) for f in inspect.stack({context})))"]),
    (0.5, ["out.append(sorted(sys._getframe().f_locals))"]),
    (0.5, ["out.append(names_there())"]),
    (0.3, ["y{n} = x + {n}", "{maybe_break}", "out.append(inspect.currentframe().f_locals['y{n}'])"]),
    (2, ["try:", "    failing(x, {n})", "except ValueError as error:", "    out.append(caught_frames(error))"]),
    (1, ["try:", "    raise KeyError({n})", "except KeyError as error:", "    out.append(caught_frames(error))"]),
    (1, ["try:", "    x.reshape(7, 7, {n})", "except RuntimeError as error:", "    out.append(caught_frames(error))"]),
    (2, ["y{n} = x * {n}", "r{n} = weakref.ref(y{n})", "{maybe_break}", "{maybe_called}", "del y{n}", "{maybe_break}",
         "out.append(r{n}() is None)"]),
    (2, ["t{n} = Thing({n})", "r{n} = weakref.ref(t{n})", "{maybe_break}", "{maybe_called}", "t{n} = None",
         "{maybe_break}", "out.append(r{n}() is None)"]),
    (1, ["t{n} = Thing({n})", "r{n} = weakref.ref(t{n})", "{maybe_break}", "out.append(r{n}() is t{n})"]),
    (1, ["y{n} = [x + {n}]", "r{n} = weakref.ref(y{n}[0])", "{maybe_break}", "y{n}.clear()", "{maybe_break}",
         "out.append(r{n}() is None)"]),
    (1, ["t{n} = Thing({n})", "t{n}.own = t{n}", "r{n} = weakref.ref(t{n})", "{maybe_break}", "del t{n}",
         "gc.collect()", "out.append(r{n}() is None)"]),
    (1, ["t{n} = {held}", "r{n} = weakref.ref(t{n}{item})", "{maybe_break}", "{maybe_called}", "{maybe_break}",
         "{let_go}", "{maybe_break}", "out.append(r{n}() is None)"]),
    (1, ["t{n} = Noticed({n})", "{maybe_break}", "SEEN.append('before {n}')", "{let_go}", "{maybe_break}",
         "SEEN.append('after {n}')"]),
    (0.5, ["t{n} = entered({n})", "t{n}.__enter__()", "{maybe_break}", "SEEN.append('inside {n}')", "{let_go}",
           "{maybe_break}", "SEEN.append('behind {n}')"]),
    (1, ["x[0] = {n}", "x.mul_(2)", "{maybe_break}"]),
    (1, ["out.append(str(inspect.signature(helper0)))"]),
    (1, ["out.append((helper0.__name__, helper0.__defaults__, helper0.__kwdefaults__))"]),
    (1, ["x = x + {n}"]),
    (1, ["broken()"]),
    (1, ["out.append(x.{reduce}(dim=1, correction={correction}))"]),
    (1, ["out.append(torch.{reduce}(x[:1], 0))"]),
)


class _Writer:
    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed * 11 + 5)
        self.count = 0
        # A function that is not compiled, as one whose variables are looked at, is called from frames of firesteel's.
        seldom = ("f_locals", "names_there", "entered") if self.dice.chance(0.7) else ("{depth}", "f_back", "stack_of")
        self.statements = [(weight, lines) for weight, lines in STATEMENTS
                           if not any(word in line for line in lines for word in seldom)]

    def statement(self, helpers: int) -> list[str]:
        dice = self.dice
        self.count += 1
        if helpers and dice.chance(0.25):
            call = f"out.append(helper{dice.below(helpers)}(x, out))"
            return [call] if dice.chance(0.7) else ["for _ in range(2):", f"    {call}"]
        lines = []
        held, item = dice.choice((("Thing({n})", ""), ("[Thing({n})]", "[0]"), ("{'a': (Thing({n}), 1)}", "['a'][0]"),
                                  ("Thing(Thing({n}))", ".name")))
        for line in dice.weighted(self.statements):
            text = line.replace("{held}", held).replace("{item}", item)
            if text == "{let_go}":  # else the function's end does
                text = dice.choice(("", "", "", "del t{n}", "t{n} = None"))
            if text == "{maybe_called}":
                text = dice.choice(("", "out.append(r{n}() is not None)"))
            text = text.replace("{n}", str(self.count)).replace("{level}", str(dice.between(1, 3)))
            text = text.replace("{depth}", str(dice.between(0, 1 + helpers // 3)))
            text = text.replace("{copied}", dice.choice(("", ", dtype=torch.float64", ", requires_grad=True")))
            text = text.replace("{context}", dice.choice(("", "0")))
            text = text.replace("{reduce}", dice.choice(("std", "var")))
            text = text.replace("{correction}", str(dice.between(0, 4)))
            if text == "{maybe_break}":
                text = dice.choice(("broken()", "", "print('b')"))
            if text:
                lines.append(text)
        if dice.chance(0.15):
            lines = [dice.choice(("with torch.no_grad():", "with torch.autocast('cpu', torch.bfloat16):",
                                  "if x.shape[0] > 1:", "for _ in range(2):")),
                     *("    " + line for line in lines)]
        return lines

    def function(self, name: str, parameters: str, helpers: int) -> str:
        dice = self.dice
        lines = [f"def {name}({parameters}):"]
        if dice.chance(0.2) and helpers:
            lines.insert(0, "@noting")
        if name == "fn":
            lines.append("    out = []")
        for _ in range(dice.between(1, 2 if name != "fn" else 4)):
            lines += ["    " + line for line in self.statement(helpers)]
        lines.append("    return out, x * 2" if name == "fn" else "    return x.sum()")
        return "\n".join(lines) + "\n\n\n"

    def program(self, seed: int) -> Program:
        dice = self.dice
        source = [HEADER, "def failing(x, n):\n    if n % 2:\n        broken()\n    raise ValueError(x.shape, n)\n\n\n"]
        helpers = dice.weighted(((3, 1), (2, 2), (1, 3)))
        for index in range(helpers):
            extra = dice.choice(("", "", ", a=1", ", a=1, *, b=(2,)"))
            source.append(self.function(f"helper{index}", f"x, out{extra}", index))
        defaults = dice.choice(("", "", ", flag=3", ", flag=None, *, other='a'"))
        source.append(self.function("fn", f"x{defaults}", helpers))
        shapes = ((2, 3), (2, 3), (3, 2))[:dice.between(1, 3)]  # a new one is compiled anew
        source.append(f"""\
def use(fn, args, kwargs):
    SEEN.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter({dice.choice(("'always'", "'always'", "'default'"))})
        result = fn(*args, **kwargs)
    found = [(str(w.message)[:40], w.category.__name__, w.lineno, w.filename == __file__) for w in warned
             if w.category.__name__ != "FiresteelWarning"
             and (w.filename == __file__ or 'degrees' in str(w.message) or len(str(w.message)) < 5)]
    about = (str(inspect.signature(fn)), fn.__defaults__, fn.__kwdefaults__, fn.__name__, fn.__qualname__, fn.__doc__,
             inspect.getfullargspec(fn).defaults)
    return result, found, list(SEEN), about


def make():
    calls = [((torch.arange(6.0).reshape(shape),), {{}}) for shape in {shapes}]
    return fn, calls, lambda index: None, lambda: {{}}, use
""")
        return Program(seed, "".join(source))


def generate(seed: int) -> Program:
    """A program whose functions look at their frames."""
    return _Writer(seed).program(seed)
