"""contextlib and the with statement."""

import contextlib
import io
from contextlib import (
    AbstractContextManager,
    ContextDecorator,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)

import torch

from . import given

_LOG = []


@contextmanager
def _tag(name, log):
    log.append(f"<{name}>")
    try:
        yield name.upper()
    finally:
        log.append(f"</{name}>")


def generator_context(x):
    log = []
    with _tag("h1", log) as name:
        x = x * 2
        log.append(name)
    return x, log


def exception_in_body(x):
    log = []
    try:
        with _tag("p", log):
            raise ValueError("inside")
    except ValueError as error:
        log.append(str(error))
    return x, log


def suppressed(x):
    with suppress(KeyError, IndexError):
        x = x + 1
        {}["missing"]
        x = x * 100
    return x


def several_managers(x):
    log = []
    with _tag("a", log) as a, _tag("b", log) as b:
        log.append(a + b)
    with (
        _tag("c", log),
        _tag("d", log),
    ):
        x = x + len(log)
    return x, log


def exit_stack(x):
    log = []
    with ExitStack() as stack:
        names = [stack.enter_context(_tag(n, log)) for n in "ab"]
        stack.callback(log.append, "callback")
        stack.push(lambda *details: log.append("push"))
    return x * len(names), log


def exit_stack_pop_all(x):
    log = []
    with ExitStack() as stack:
        stack.callback(log.append, 1)
        later = stack.pop_all()
    log.append("between")
    later.close()
    return x, log


def null_context(x):
    with nullcontext(5) as n:
        x = x * n
    with nullcontext():
        return x


def closing_things(x):
    class Page:
        closed = False

        def close(self):
            self.closed = True

    page = Page()
    with closing(page) as p:
        x = x + 1
    return x, p is page, page.closed


class _Track(ContextDecorator):
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *exc):
        self.log.append("out")
        return False


def as_decorator(x):
    log = []

    @_Track(log)
    def activity(y):
        log.append("body")
        return y * 2

    return activity(x), log


def contextmanager_as_decorator(x):
    log = []

    @_tag("f", log)
    def f(y):
        return y + 1

    return f(f(x)), log


class _Suppressing(AbstractContextManager):
    def __exit__(self, kind, value, traceback):
        self.value = str(value)
        return True


def swallowing(x):
    with _Suppressing() as s:
        raise RuntimeError("gone")
    return x, s.value


def return_inside(x):
    log = []

    def f():
        with _tag("r", log):
            return x + 1

    return f(), log


def loop_control_inside(x):
    log = []
    for n in range(4):
        with _tag(str(n), log):
            if n == 1:
                continue
            if n == 2:
                break
            x = x + n
    return x, log


def generator_does_not_stop(x):
    @contextmanager
    def twice():
        yield 1
        yield 2

    try:
        with twice():
            pass
    except RuntimeError as error:
        return x, str(error)


def generator_swallows(x):
    @contextmanager
    def handles():
        try:
            yield
        except ZeroDivisionError:
            pass

    with handles():
        1 / 0
    return x + 1


def redirected(x):
    f = io.StringIO()
    with redirect_stdout(f):
        print("hidden", 1)
    return x, f.getvalue()


def torch_contexts(x):
    with torch.no_grad(), contextlib.ExitStack() as stack:
        y = x * 2
        inside = torch.is_grad_enabled()
    return y, inside, torch.is_grad_enabled()


class _Saved:
    def __init__(self, owner, **values):
        self.owner, self.values = owner, values

    def __enter__(self):
        self.old = {k: getattr(self.owner, k) for k in self.values}
        for k, v in self.values.items():
            setattr(self.owner, k, v)

    def __exit__(self, *exc):
        for k, v in self.old.items():
            setattr(self.owner, k, v)


class _Settings:
    scale = 1.0


@given(lambda: (_Settings(),))
def temporary_settings(x, settings):
    with _Saved(settings, scale=3.0):
        y = x * settings.scale
    return y, settings.scale


def nested_suppress_and_finally(x):
    log = []
    with suppress(ValueError):
        try:
            raise ValueError
        finally:
            log.append("cleanup")
    log.append("after")
    return x, log


def missing_enter(x):
    class Nothing:
        pass

    try:
        with Nothing():
            pass
    except TypeError as error:
        return x, str(error)


def with_target_unpacking(x):
    @contextmanager
    def pair():
        yield (x, 2)

    with pair() as (a, b):
        return a * b
