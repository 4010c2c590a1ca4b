"""Errors and exceptions, as the tutorial's chapter 8 and the library reference show them."""

import contextlib

import torch

from . import given


def catch_several(x):
    results = []
    for value in ("1", "a", None, [1]):
        try:
            results.append(x * int(value))
        except (ValueError, TypeError) as error:
            results.append(type(error).__name__)
    return results


class _B(Exception):
    pass


class _C(_B):
    pass


class _D(_C):
    pass


def class_hierarchy(x):
    out = []
    for cls in [_B, _C, _D]:
        try:
            raise cls()
        except _D:
            out.append("D")
        except _C:
            out.append("C")
        except _B:
            out.append("B")
    return x + len(out), out


def exception_arguments(x):
    try:
        raise Exception("spam", "eggs")
    except Exception as inst:
        a, b = inst.args
        return x, type(inst) is Exception, inst.args, str(inst), repr(inst), a + b


def divide_with_finally(x):
    log = []

    def divide(a, b):
        try:
            result = a / b
        except ZeroDivisionError as error:
            log.append(str(error))
        else:
            log.append(result)
        finally:
            log.append("finally")

    divide(2, 1)
    divide(2, 0)
    try:
        divide("2", "1")
    except TypeError as error:
        log.append(str(error))
    return x, log


def finally_overrides_return(x):
    def bool_return():
        try:
            return True
        finally:
            return False

    return x, bool_return()


def raise_from(x):
    try:
        try:
            {}["a"]
        except KeyError as error:
            raise RuntimeError("failed") from error
    except RuntimeError as error:
        return x, repr(error.__cause__), error.__suppress_context__, str(error)


def raise_from_none(x):
    try:
        try:
            int("a")
        except ValueError:
            raise RuntimeError("clean") from None
    except RuntimeError as error:
        return x, error.__cause__, type(error.__context__).__name__, error.__suppress_context__


def implicit_context(x):
    try:
        try:
            [][0]
        except IndexError:
            {}["k"]
    except KeyError as error:
        return x, repr(error.__context__), error.args


class _InputError(ValueError):
    def __init__(self, expression, message):
        super().__init__(message)
        self.expression = expression
        self.message = message


def user_defined(x):
    try:
        raise _InputError("1 +", "not complete")
    except ValueError as error:
        return x, error.expression, error.message, str(error), error.args


def reraise(x):
    seen = []
    try:
        try:
            raise NameError("HiThere")
        except NameError:
            seen.append("flew by")
            raise
    except NameError as error:
        return x + len(seen), str(error)


def escapes_with_message(x):
    y = x + 1
    raise ValueError(f"bad shape {tuple(y.shape)}")


def assertion(x):
    try:
        assert x.ndim == 3, f"expected 3 dimensions, got {x.ndim}"
    except AssertionError as error:
        return x, str(error)


def notes(x):
    try:
        raise TypeError("bad type")
    except Exception as error:
        error.add_note("Add some information")
        error.add_note("Add more")
        return x, error.__notes__


def exception_group(x):
    def f():
        raise ExceptionGroup("there were problems", [OSError("error 1"), SystemError("error 2"), ValueError("v")])

    out = []
    try:
        f()
    except* OSError as group:
        out.append([str(e) for e in group.exceptions])
    except* (SystemError, ValueError) as group:
        out.append(len(group.exceptions))
    return x * len(out), out


@given(lambda: ([],))
def cleanup_runs_before_error(x, log):
    try:
        log.append(x * 2)
        raise KeyError("k")
    finally:
        log.append("closed")


def unbound_after_except(x):
    error = "before"
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        return x, error
    except UnboundLocalError as unbound:
        return x, str(unbound)


def else_and_loop(x):
    for n in (1, 2, 3):
        try:
            if n == 2:
                raise StopAsyncIteration
        except StopAsyncIteration:
            continue
        else:
            x = x + n
        finally:
            x = x * 2
    return x


def with_traceback(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        again = error.with_traceback(None)
        return x, again is error, isinstance(error, Exception), error.__traceback__ is None


def error_from_torch(x):
    try:
        return x @ torch.ones(5)
    except RuntimeError as error:
        return x + 1, type(error).__name__, "size" in str(error) or "shape" in str(error)


def wrong_builtin_calls(x):
    messages = []
    for call in (
        lambda: len(5),
        lambda: int([]),
        lambda: [].append(),
        lambda: "a".join([1]),
        lambda: {}.get(),
        lambda: sum("ab"),
        lambda: abs("a"),
        lambda: range("a"),
    ):
        with contextlib.suppress(ValueError):
            try:
                call()
            except TypeError as error:
                messages.append(str(error))
    return x, messages


def attribute_error(x):
    class Empty:
        pass

    try:
        Empty().missing
    except AttributeError as error:
        return x, str(error), error.name, type(error.obj).__name__
