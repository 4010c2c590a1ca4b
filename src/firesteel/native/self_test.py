"""The checker's test of itself: every row, on objects for which it holds and on objects for which it does not.

It runs when the checker is made, so that a Python or torch with other objects than expected is noticed.
"""

from __future__ import annotations

import collections
import ctypes
import operator
import struct
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .memory import all_different, share_no_memory
from .objects import Instance, NativeUnavailable, builtin_parts, c_function, mro_offset
from .program import Op, Program
from .tensors import TensorLayout

if TYPE_CHECKING:
    from .checker import Checker

LEAST = -(1 << 63)
Sample = tuple[Callable[[Program], Any], list[Any], list[Any]]
"""What adds rows to a program, values for which they hold, and values for which they do not."""


def self_test(checker: Checker) -> None:
    """Run every operation on objects that hold and objects that do not."""
    for number, (op, holds, fails) in enumerate((*_of_objects(), *_of_numbers(), *_of_memory(checker.tensors))):
        program = Program(1)
        op(program)
        run = checker.function(program, [program.registers - 1], [0])
        for value in holds:
            answer = run(value)
            if answer is None or answer[1] is not value or len(answer) != 2 or len(answer[0]) != 1:
                raise NativeUnavailable(f"the self-test failed: sample {number} refused {value!r:.40}")
        for value in fails:
            if run(value) is not None or run() is not None:
                raise NativeUnavailable(f"the self-test failed: sample {number} accepted {value!r:.40}")


def _of_objects() -> list[Sample]:
    instance = Instance()
    instance.a = 1
    def inner() -> Any:
        return instance

    cell = inner.__closure__[0]  # type: ignore[index]
    code, key = inner.__code__, "some key"
    table = {key: 1, "other": 2}
    tuple_item, closure = c_function("PyTuple_GetItem"), c_function("PyFunction_GetClosure")
    tags = (ctypes.c_uint32 * 3)(7, 7, 8)

    def same_tags(p: Program, first: int) -> None:
        p.keep(tags)
        p.check(Op.SAME_TAG, 0, ctypes.addressof(tags) + 4 * first, ctypes.addressof(tags) + 4 * first + 4)

    def answers(p: Program, mask: int, wanted: int) -> None:
        p.check(Op.ANSWER_IS, 0, 0, c_function("PyGILState_Check"), index=mask << 16 | wanted)

    weak, answer, order = weakref.ref(Instance), builtin_parts(sys.is_finalizing), mro_offset()
    return [
        (lambda p: p.load(Op.CONSTANT, a=p.keep(key)), [1], []),
        (lambda p: p.load(Op.INSTANCE_DICT), [instance], [inner, 1, object()]),
        (lambda p: p.load(Op.ITEM, 0, p.keep(key), hash(key)), [table], [{}, {key: 1, 2: 3}, [key], None]),
        (lambda p: p.check(Op.MISSING, 0, p.keep(key), hash(key)), [{}, {"a": 1}], [table, {1: 1}, [key]]),
        (lambda p: p.check(Op.ITEM_EMPTY, 0, p.keep(key), hash(key)),
         [{key: {}}, {key: collections.OrderedDict()}], [{key: {1: 2}}, {}, {key: []}, 1]),
        (lambda p: p.check(Op.TYPE, 0, p.keep(int)), [1, 2], [True, "a", None]),
        (lambda p: p.check(Op.IS, 0, p.keep(None)), [None], [0, False]),
        (lambda p: p.check(Op.SAME, 0, other=0), [1], []),
        (lambda p: p.check(Op.INT, 0, p.keep(1 << 40), 1 << 40), [int("1099511627776")], [1, -1, 1 << 70, 1.0, None]),
        (lambda p: p.check(Op.STR, 0, p.keep(key)), [key, " ".join(["some", "key"])], ["some keys", b"some key", None]),
        (lambda p: p.check(Op.FLOAT, 0, b=struct.unpack("=q", struct.pack("=d", 0.0))[0]), [0.0], [-0.0, 1.0, 0, None]),
        (lambda p: p.check(Op.LENGTH, 0, p.keep(list), 2), [[1, 2]], [[], (1, 2), None]),
        (lambda p: p.load(Op.ELEMENT, 0, p.keep(tuple), tuple_item, 1), [(1, 2), (1, 2, 3)], [(1,), (), [1, 2], None]),
        (lambda p: p.check(Op.KEYS, 0, p.keep((key, "other")), 2),
         [table, {" ".join(["some", "key"]): 0, "other": 1}],
         [{}, {key: 1, "z": 2}, {"other": 1, key: 2}, {key: 1, 2: 1}, []]),
        (lambda p: p.check(Op.CODE, 0, p.keep(code)), [inner], [_of_objects, None, 1]),
        (lambda p: p.load(Op.CELL), [cell], [types.CellType(), 1]),
        (lambda p: p.load(Op.FUNCTION_PART, b=closure), [inner], [_of_objects, 1]),
        (lambda p: p.check(Op.WEAK_TYPE, 0, p.keep(weak)), [instance], [Instance, 1]),
        (lambda p: p.check(Op.WEAK_IS, 0, p.keep(weak)), [Instance], [instance, 1]),
        (lambda p: p.check(Op.NOT_SAME, 0, other=p.load(Op.CONSTANT, a=p.keep(key))), [1, "x"], [key]),
        (lambda p: p.load(Op.CLASS_FUNCTION, p.load(Op.CONSTANT, a=p.keep(Program)), p.keep("check")), [1], []),
        (lambda p: p.load(Op.CLASS_FUNCTION, p.load(Op.CONSTANT, a=p.keep(Instance)), p.keep("a")), [], [1]),
        (lambda p: p.check(Op.FIELD_IS, 0, p.keep(bool.__mro__), index=order), [bool], [int, str]),
        (lambda p: same_tags(p, 0), [1], []),
        (lambda p: same_tags(p, 1), [], [1]),
        (lambda p: p.check(Op.CALL_IS, 0, p.keep(False), answer[0]), [1], []),
        (lambda p: p.check(Op.CALL_IS, 0, p.keep(True), answer[0]), [], [1]),
        (lambda p: answers(p, 1, 1), [1], []),
        (lambda p: answers(p, 2, 0), [1], []),
        (lambda p: answers(p, 1, 0), [], [1]),
    ]


def _of_numbers() -> list[Sample]:
    """Rows on numbers. Sizes and strides are left out: a test of Python's layout should not depend on torch's."""
    largest = -(LEAST + 1)

    def of(op: Op, expected: int, a: int = 0, b: int = 0) -> Callable[[Program], None]:
        """The result of a row on the argument, and for some rows the constant 7, is `expected`."""

        def build(program: Program) -> None:
            seven = program.load(Op.CONSTANT, a=7)
            x = program.load(Op.INTEGER, 0)
            program.check(Op.EQUAL, program.load(op, x, a, b, index=seven), b=expected)

        return build

    def inverse(op: Op, expected: int) -> Callable[[Program], None]:
        """Like `of`, with 7 on the left."""

        def build(program: Program) -> None:
            x = program.load(Op.INTEGER, 0)
            program.check(Op.EQUAL, program.load(op, program.load(Op.CONSTANT, a=7), index=x), b=expected)

        return build

    def choose(program: Program) -> None:
        x = program.load(Op.INTEGER, 0)
        program.check(Op.EQUAL, program.load(Op.CHOOSE, x, b=program.load(Op.CONSTANT, a=9),
                                             index=program.load(Op.CONSTANT, a=8)), b=8)

    refused = [1 << 63, LEAST - 1, True, 1.0, "1", None]
    samples: list[Sample] = [
        (lambda p: p.load(Op.INTEGER, 0), [0, -5, 300, largest, LEAST], refused),
        (lambda p: p.check(Op.EQUAL, p.load(Op.INTEGER, 0), b=-300), [-300], [300, 0, *refused]),
        (lambda p: p.check(Op.DIFFERENT, p.load(Op.INTEGER, 0), b=5), [4, LEAST, largest], [5, *refused]),
        (lambda p: p.check(Op.AT_LEAST, p.load(Op.INTEGER, 0), b=-2), [-2, 0, largest], [-3, LEAST, *refused]),
        (of(Op.SCALE, -6, -4, 2), [2], [-2, 3, largest, LEAST]),
        (of(Op.SCALE, 2, 0, 2), [0, largest, LEAST], []),
        (of(Op.SCALE, LEAST, 1, 1), [], [largest]),
        (of(Op.ADD_SCALED, 1, -3), [2], [1, largest, LEAST]),
        (of(Op.MULTIPLY, -21), [-3], [3, largest, LEAST]),
        (choose, [1, -1], [0]),
    ]
    for op, function in ((Op.FLOORDIV, operator.floordiv), (Op.MOD, operator.mod), (Op.MIN, min), (Op.MAX, max)):
        for x in (-15, -14, -1, 0, 6, 7, 20, LEAST, largest):
            samples.append((of(op, function(x, 7)), [x], []))
            if x or op in (Op.MIN, Op.MAX):
                samples.append((inverse(op, function(7, x)), [x], []))
            else:
                samples.append((inverse(op, 0), [], [0]))
    for op, function in ((Op.IS_EQUAL, operator.eq), (Op.IS_AT_LEAST, operator.ge)):
        samples.extend((of(op, int(function(x, 7)), b=7), [x], []) for x in (6, 7, 8))
    least_by_minus_one: Sample = (lambda p: p.load(
        Op.FLOORDIV, p.load(Op.INTEGER, 0), index=p.load(Op.CONSTANT, a=-1)), [5], [LEAST])
    return [*samples, least_by_minus_one]


def _of_memory(tensors: TensorLayout | None) -> list[Sample]:
    """Rows on sets of objects and of storages."""
    objects = [object() for _ in range(40)]

    def different(p: Program) -> None:
        all_different(p, [0, *(p.load(Op.CONSTANT, a=p.keep(obj)) for obj in objects)])

    samples: list[Sample] = [
        (different, [1, "x", different, 2], [objects[0], objects[20], objects[-1]])]
    if tensors is None or tensors.storage is None:
        return samples
    known = [torch.ones(3) for _ in range(20)]

    def constants(p: Program) -> list[int]:
        return [p.load(Op.CONSTANT, a=p.keep(t)) for t in known]

    def written(p: Program) -> None:
        share_no_memory(p, [0, *constants(p)], [], [])

    def read(p: Program) -> None:
        share_no_memory(p, constants(p)[:10], [0, p.registers - 1, 0], [])

    def written_allocated(p: Program) -> None:
        share_no_memory(p, [0, *constants(p)], [], [0])

    def read_allocated(p: Program) -> None:
        share_no_memory(p, constants(p), [0], [0])

    def same(p: Program) -> None:
        p.check(Op.SAME_STORAGE, 0, other=p.load(Op.CONSTANT, a=p.keep(known[0])))

    apart = [torch.ones(3), torch.ones(2, 2).t(), torch.nn.Parameter(torch.ones(1))]
    foreign = [torch.from_numpy(numpy.ones(3)), torch.frombuffer(bytearray(8), dtype=torch.int32)]
    if tensors.resizable is not None:
        samples += [(check, apart, foreign) for check in (written_allocated, read_allocated)]
    return [*samples, (written, [*apart, *foreign], [known[0], known[-1][1:], known[5].view(3, 1)]),
            (read, [*apart, known[15]], [known[0], known[9][1:]]),
            (same, [known[0], known[0][1:].detach()], [known[1], torch.ones(3)])]
