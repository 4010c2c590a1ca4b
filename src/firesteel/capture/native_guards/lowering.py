"""From the sources and guards of an entry to the table of the native checker.

A guard is recognised by its condition, taken apart at its ``and``s. What is not recognised stays Python. A load is only
lowered where it means the same as its Python text for the objects at hand: the dictionary of an instance whose class
does not redefine ``__dict__``, items of plain dictionaries with string keys, elements of plain lists and tuples.
"""

from __future__ import annotations

import ast
import collections
import ctypes
import functools
import gc
import inspect
import re
import struct
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ... import torch_compat
from ...native import memory
from ...native.checker import Checker
from ...native.objects import builtin_parts, c_function, has_string_keys, mro_offset
from ...native.program import Op, Program, TensorFacts
from ...native.tensors import read
from ...shapes import ShapeGuard, Symbol
from ...shapes.checker_rows import Expressions, OnlyInPython
from ...torch_compat.thread_state import native_questions
from ..guards import Guard, held
from ..source import (
    AttrSource,
    ClosureSource,
    ConstantSource,
    GlobalsSource,
    InstanceDictSource,
    ItemSource,
    LocalSource,
    ModuleTableSource,
    SizeSource,
    Source,
    StrideSource,
    WeakConstant,
    class_is_permanent,
    item_source,
)

FUNCTION_PARTS = {"__closure__": "PyFunction_GetClosure", "__defaults__": "PyFunction_GetDefaults",
                  "__kwdefaults__": "PyFunction_GetKwDefaults"}
ELEMENTS: dict[type, str] = {list: "PyList_GetItem", tuple: "PyTuple_GetItem"}
TABLES = (dict, collections.OrderedDict)


class GuardLowering:
    """Builds the program of one entry, with the arguments of a call for which all guards hold."""

    def __init__(self, checker: Checker, parameters: list[str], args: tuple[Any, ...],
                 symbol_sources: Mapping[Symbol, Source] | None = None) -> None:
        self.checker = checker
        self.symbol_sources = symbol_sources or {}
        self.program = Program(len(parameters))
        self.found: dict[Source, tuple[int, Any]] = {}
        self.receivers: dict[int, int] = {}
        self.outside_modes = False  # whether the program has checked that no function mode is active
        self.fixed: dict[Source, None] = {}  # sources whose object is known to be of one type
        self.tensors: dict[int, None] = {}  # registers that are known to hold a tensor
        self.expressions = Expressions(self.program, self._symbol)
        for position, (name, value) in enumerate(zip(parameters, args, strict=True)):
            self.found[LocalSource(name)] = position, value

    # Loads

    def load(self, source: Source) -> tuple[int, Any]:
        """The register of a source, and the object that it leads to for the arguments at hand."""
        known = self.found.get(source)
        if known is None:
            known = self.found[source] = self._load(source)
        return known

    def _load(self, source: Source) -> tuple[int, Any]:
        kind = type(source)
        if kind is ConstantSource:
            holder = source.holder  # type: ignore[attr-defined]
            if holder._weak:
                raise OnlyInPython
            self.fixed[source] = None
            obj = holder.obj
            if type(obj) is types.MappingProxyType:
                # the members of a class; the dictionary behind the proxy is the same as long as there is the class
                (obj,) = gc.get_referents(obj)
            return self.program.load(Op.CONSTANT, a=self.program.keep(obj)), obj
        if kind is GlobalsSource:
            return self.load(source.parent)  # type: ignore[attr-defined]
        if kind is InstanceDictSource:
            return self._instance_dict(source.parent)  # type: ignore[attr-defined]
        if kind is ModuleTableSource:
            return self._item(*self.load(InstanceDictSource(source.parent)), source.table)  # type: ignore[attr-defined]
        if kind is ItemSource or kind is ClosureSource:
            register, table = self.load(source.parent)  # type: ignore[attr-defined]
            key = source.key  # type: ignore[attr-defined]
            if type(key) is str:
                return self._item(register, table, key)
            if type(key) is int:
                return self._element(register, table, key)
        if kind is AttrSource:
            return self._attribute(*self.load(source.parent), source.attribute)  # type: ignore[attr-defined]
        if kind is SizeSource or kind is StrideSource:
            return self._extent(*self.load(source.parent), source)  # type: ignore[attr-defined]
        raise OnlyInPython

    def _extent(self, register: int, tensor: Any, source: Any) -> tuple[int, int]:
        """A size or stride: a number, not an object."""
        if register not in self.tensors or not 0 <= source.dim < tensor.dim():
            raise OnlyInPython
        if type(source) is SizeSource:
            return self.program.load(Op.SIZE, register, index=source.dim), tensor.size(source.dim)
        return self.program.load(Op.STRIDE, register, index=source.dim), tensor.stride(source.dim)

    def _symbol(self, symbol: Symbol) -> int:
        """The register of the number that a symbol stands for."""
        source = self.symbol_sources.get(symbol)
        if source is None:
            raise OnlyInPython
        register, value = self.load(source)
        if type(source) is SizeSource or type(source) is StrideSource:
            return register
        if type(value) is not int:
            raise OnlyInPython
        return self.program.load(Op.INTEGER, register)

    def _instance_dict(self, parent: Source) -> tuple[int, Any]:
        register, obj = self.load(parent)
        kind = type(obj)
        if not plain_dict(kind):
            raise OnlyInPython
        table = obj.__dict__
        if type(table) is not dict:
            raise OnlyInPython
        if parent not in self.fixed:
            # more than the Python text asks for, so that `__dict__` is sure to mean the same
            self.check_type(register, kind)
            self.fixed[parent] = None
        return self.program.load(Op.INSTANCE_DICT, register), table

    def _item(self, register: int, table: Any, key: str) -> tuple[int, Any]:
        if type(table) is not dict or not has_string_keys(table) or key not in table:
            raise OnlyInPython
        key = sys.intern(key)  # names of attributes are interned, and equal addresses compare fastest
        return self.program.load(Op.ITEM, register, self.program.keep(key), hash(key)), table[key]

    def _element(self, register: int, items: Any, index: int) -> tuple[int, Any]:
        getter = ELEMENTS.get(type(items))
        if getter is None or not 0 <= index < len(items):
            raise OnlyInPython
        load = self.program.load(Op.ELEMENT, register, self.program.keep(type(items)), c_function(getter), index)
        return load, items[index]

    def _attribute(self, register: int, obj: Any, attribute: str) -> tuple[int, Any]:
        if type(obj) is types.CellType and attribute == "cell_contents":
            return self.program.load(Op.CELL, register), obj.cell_contents
        if type(obj) is type and type(member := inspect.getattr_static(obj, attribute, None)) is types.FunctionType:
            # A class of an ordinary metaclass gives its functions as they are, and only strings are looked up.
            if not all(type(key) is str for base in obj.__mro__ for key in vars(base)):
                raise OnlyInPython
            name = self.program.keep(sys.intern(attribute))
            return self.program.load(Op.CLASS_FUNCTION, register, name), member
        part = FUNCTION_PARTS.get(attribute)
        if type(obj) is types.FunctionType and part is not None and getattr(obj, attribute) is not None:
            return self.program.load(Op.FUNCTION_PART, register, b=c_function(part)), getattr(obj, attribute)
        raise OnlyInPython

    def tensors_in(self, sources: list[Source]) -> list[int]:
        """The registers of tensors that have been checked, whose storage can be read."""
        registers = [self.load(source)[0] for source in sources]
        if self.checker.tensors is None or self.checker.tensors.storage is None or \
                not all(register in self.tensors for register in registers):
            raise OnlyInPython
        return registers

    # Checks

    def guard(self, guard: Guard | ShapeGuard) -> None:
        """Lower a whole guard, or raise OnlyInPython and leave the program as it was."""
        mark = self._mark()
        try:
            if isinstance(guard, ShapeGuard):
                self.expressions.check(guard.expr)
                return
            self._guard(guard)
        except OnlyInPython:
            self._undo(mark)
            raise
        self.outside_modes |= guard.kind == "global state"

    def source(self, source: Source) -> int:
        """The register of a source; OnlyInPython leaves the program as it was."""
        mark = self._mark()
        try:
            return self.load(source)[0]
        except OnlyInPython:
            self._undo(mark)
            raise

    def _tables(self) -> tuple[dict[Any, Any], ...]:
        return self.found, self.fixed, self.receivers, self.tensors, self.expressions.known

    def _mark(self) -> tuple[int, ...]:
        return len(self.program.rows), self.program.registers, *map(len, self._tables())

    def _undo(self, mark: tuple[int, ...]) -> None:
        """Forget everything added since the mark. Tensors' descriptions and kept objects may stay."""
        del self.program.rows[mark[0]:]
        self.program.registers = mark[1]
        for table, size in zip(self._tables(), mark[2:], strict=True):
            while len(table) > size:
                table.popitem()

    def _guard(self, guard: Guard) -> None:
        atoms = conditions(guard.template, 1 + len(guard.others), len(guard.constants))
        constants = guard.constants
        sources = [guard.source, *guard.others]
        if guard.kind == "tensor":
            self._tensor(guard, atoms)
            return
        typed = None
        for atom in atoms:
            if match := re.fullmatch(r"type\(_0\) is (\w+)", atom):
                typed = match[1]
        for atom in atoms:
            if not any(lower(self, match, sources, constants, typed)
                       for pattern, lower in RULES if (match := pattern.fullmatch(atom)) is not None):
                raise OnlyInPython

    def check_type(self, register: int, kind: Any) -> None:
        if type(kind) is WeakConstant:
            self.program.check(Op.WEAK_TYPE, register, self.program.keep(kind.ref))
        elif class_is_permanent(kind):
            self.program.check(Op.TYPE, register, self.program.keep(kind))
        else:
            self.program.check(Op.WEAK_TYPE, register, self.program.keep(WeakConstant(kind).ref))

    def check_is(self, register: int, obj: Any) -> None:
        if type(obj) is WeakConstant:
            self.program.check(Op.WEAK_IS, register, self.program.keep(obj.ref))
        else:
            self.program.check(Op.IS, register, self.program.keep(obj))

    def _tensor(self, guard: Guard, atoms: tuple[str, ...]) -> None:
        if self.checker.tensors is None or not self.outside_modes:
            raise OnlyInPython  # inside of a mode torch's getters run Python
        assert guard.source is not None
        values: dict[str, Any] = {}
        extents: dict[str, dict[int, int]] = {"size": {}, "stride": {}}
        for atom in atoms:
            for name, pattern in TENSOR_ATOMS:
                if (match := pattern.fullmatch(atom)) is not None:
                    values[name] = match
                    break
            else:
                if (match := TENSOR_EXTENT.fullmatch(atom)) is None:
                    raise OnlyInPython
                extents[match[1]][int(match[2])] = int(match[3])
        if not {"type", "dtype", "requires_grad", "device", "keys"} <= values.keys():
            raise OnlyInPython

        def constant(name: str, group: int = 1) -> Any:
            return held(guard.constants[int(values[name][group])])

        kind = constant("type")
        register, tensor = self.load(guard.source)
        if kind not in {torch.Tensor, torch.nn.Parameter} or constant("keys", 1) is not torch_compat.dispatch_keys:
            raise OnlyInPython
        # The guard holds for the tensor at hand, whose dtype and device the numbers are read from.
        place = self.checker.tensors.implementation
        dtype, device_type, index = (read(place, tensor, name) for name in ("dtype", "device_type", "device_index"))
        if None in (dtype, device_type, index):
            raise OnlyInPython
        if tensor.dtype is not constant("dtype") or tensor.device != constant("device"):
            raise OnlyInPython
        shape: tuple[int | None, ...]
        strides: tuple[int | None, ...]
        if "shape" in values:
            shape = ast.literal_eval(values["shape"][1])
        elif "dim" in values:
            shape = tuple(extents["size"].get(dim) for dim in range(int(values["dim"][1])))
        else:
            raise OnlyInPython
        if "strides" in values:
            strides = ast.literal_eval(values["strides"][1])
        else:
            strides = tuple(extents["stride"].get(dim) for dim in range(len(shape)))
        if len(shape) != len(strides) or any(not 0 <= dim < len(shape) for dims in extents.values() for dim in dims):
            raise OnlyInPython
        leaf = values["is_leaf"][1] == "True" if "is_leaf" in values else None
        self.program.tensor(register, TensorFacts(
            kind, constant("keys", 2).raw_repr(), shape, strides, dtype, device_type, index,
            values["requires_grad"][1] == "True", leaf))
        self.tensors[register] = None


TENSOR_ATOMS = [(name, re.compile(pattern)) for name, pattern in (
    ("type", r"type\(_0\) is _k(\d+)"),
    ("shape", r"_0\.shape == (\([\d, ]*\))"),
    ("dtype", r"_0\.dtype is _k(\d+)"),
    ("strides", r"_0\.stride\(\) == (\([\d, ]*\))"),
    ("dim", r"_0\.dim\(\) == (\d+)"),
    ("requires_grad", r"_0\.requires_grad is (True|False)"),
    ("device", r"_0\.device == _k(\d+)"),
    ("keys", r"_k(\d+)\(_0\) == _k(\d+)"),
    ("is_leaf", r"_0\.is_leaf is (True|False)"),
)]
TENSOR_EXTENT = re.compile(r"_0\.(size|stride)\((\d+)\) == (\d+)")
"""One size or stride, where others are free."""


def plain_dict(kind: type) -> bool:
    """Whether ``obj.__dict__`` is the instance dictionary for objects of a class."""
    if kind is types.ModuleType:
        return True
    definition = next((vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)), None)
    return (type(definition) is types.GetSetDescriptorType and not issubclass(kind, type)
            and kind.__getattribute__ is object.__getattribute__)


@functools.lru_cache(maxsize=4096)
def conditions(template: str, sources: int, constants: int) -> tuple[str, ...]:
    """The parts of a guard's condition: ``_0`` is the source, ``_1`` and on the others, ``_k0`` a constant.

    >>> conditions("type({0}) is {k[0]} and {0} == 'a and b'", 1, 1)
    ('type(_0) is _k0', "_0 == 'a and b'")
    """
    text = template.format(*(f"_{i}" for i in range(sources)), k=[f"_k{i}" for i in range(constants)])
    tree = ast.parse(text, mode="eval").body
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    return tuple(ast.unparse(part) for part in parts)


# Rules: pattern of a part of a condition -> what is added to the program; False means that the rule does not apply

Sources = list[Source | None]
RULES: list[tuple[re.Pattern[str], Callable[..., bool]]] = []
SINGLETONS = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
TYPES: dict[str, type] = {"int": int, "str": str, "float": float, "list": list, "tuple": tuple, "dict": dict}


def rule(pattern: str) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    def register(function: Callable[..., bool]) -> Callable[..., bool]:
        RULES.append((re.compile(pattern, re.DOTALL), function))
        return function

    return register


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise OnlyInPython from None  # not one constant but an expression of several


def _source(sources: Sources, index: int) -> Source:
    source = sources[index]
    if source is None:
        raise OnlyInPython
    return source


@rule("True")
def lower_presence(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    low.load(_source(sources, 0))
    return True


@rule(r"type\(_0\) is (?:_k(\d+)|(\w+))")
def lower_type(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    source = _source(sources, 0)
    kind = constants[int(match[1])] if match[1] is not None else TYPES.get(match[2])
    if kind is None:
        return False
    low.check_type(low.load(source)[0], kind)
    low.fixed[source] = None
    return True


@rule(r"_0 is (?:_k(\d+)|(None|True|False|Ellipsis|NotImplemented))")
def lower_identity(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    source = _source(sources, 0)
    low.check_is(low.load(source)[0], constants[int(match[1])] if match[1] is not None else SINGLETONS[match[2]])
    low.fixed[source] = None
    return True


@rule("_0 is (not )?_1")
def lower_same(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    left, right = low.load(_source(sources, 0))[0], low.load(_source(sources, 1))[0]
    low.program.check(Op.NOT_SAME if match[1] else Op.SAME, left, other=right)
    return True


@rule(r"len\(\{(id\(_\d+\)(?:, id\(_\d+\))*)\}\) == (\d+)")
def lower_distinct(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    numbers = [int(number) for number in re.findall(r"id\(_(\d+)\)", match[1])]
    if len(numbers) != int(match[2]):
        return False
    memory.all_different(low.program, [low.load(_source(sources, number))[0] for number in numbers])
    return True


@rule(r"_k(\d+)\(_0\) == _k\1\(_1\)")
def lower_same_memory(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    if constants[int(match[1])] is not torch_compat.storage_address:
        return False
    left, right = low.tensors_in([_source(sources, 0), _source(sources, 1)])
    low.program.check(Op.SAME_STORAGE, left, other=right)
    return True


@rule(r"_k(\d+)\(\(([_\d, ]*)\), \(([_\d, ]*)\), \(([_\d, ]*)\)\)")
def lower_separate_memory(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    if constants[int(match[1])] is not torch_compat.share_no_memory:
        return False
    written, others, allocated = (
        low.tensors_in([_source(sources, int(number)) for number in re.findall(r"_(\d+)", part)])
        for part in (match[2], match[3], match[4]))
    if allocated and (low.checker.tensors is None or low.checker.tensors.resizable is None):
        return False
    memory.share_no_memory(low.program, written, others, allocated)
    return True


@rule(r"_0 == (-?\d+|'.*'|\".*\")")
def lower_plain_constant(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    value = _literal(match[1])
    if typed != type(value).__name__:
        return False  # without a check of the type 1 == True == 1.0
    register = low.load(_source(sources, 0))[0]
    if type(value) is str:
        low.program.check(Op.STR, register, low.program.keep(value))
        return True
    if not -(1 << 63) <= value < 1 << 63:
        return False
    low.program.check(Op.INT, register, low.program.keep(value), value)
    return True


@rule(r"_0 == _k(\d+)")
def lower_float(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    value = constants[int(match[1])]
    if type(value) is not float or typed != "float" or value == 0 or value != value:
        return False
    low.program.check(Op.FLOAT, low.load(_source(sources, 0))[0], b=_bits(value))
    return True


@rule(r"repr\(_0\) == '(-?0\.0)'")
def lower_zero(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    if typed != "float":
        return False
    low.program.check(Op.FLOAT, low.load(_source(sources, 0))[0], b=_bits(float(match[1])))
    return True


def _bits(value: float) -> int:
    return int(struct.unpack("=q", struct.pack("=d", value))[0])


@rule(r"len\(_0\) == (\d+)")
def lower_length(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, obj = low.load(_source(sources, 0))
    if type(obj) not in {list, tuple, dict}:
        return False
    low.program.check(Op.LENGTH, register, low.program.keep(type(obj)), int(match[1]))
    return True


@rule(r"len\(_0\) >= (\d+)")
def lower_least_length(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    source = _source(sources, 0)
    if type(low.load(source)[1]) is not list:
        return False
    low.load(item_source(source, int(match[1]) - 1))  # a list without such an item is refused
    return True


@rule(r"\[\*_0\] == (\[.*\])")
def lower_keys(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, table = low.load(_source(sources, 0))
    keys = _literal(match[1])
    if type(table) is not dict or list(table) != keys or not has_string_keys(table):
        return False
    # the dictionary's own strings, so that comparing addresses is mostly enough
    low.program.check(Op.KEYS, register, low.program.keep(tuple(table)), len(keys))
    return True


@rule(r"('.*'|\".*\") not in _0")
def lower_missing(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, table = low.load(_source(sources, 0))
    if type(table) is not dict or not has_string_keys(table):
        return False
    key = sys.intern(_literal(match[1]))
    low.program.check(Op.MISSING, register, low.program.keep(key), hash(key))
    return True


@rule(r"not \((_0\['\w+'\](?: or _0\['\w+'\])*)\)")
def lower_no_hooks(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, table = low.load(_source(sources, 0))
    names = re.findall(r"_0\['(\w+)'\]", match[1])
    if type(table) is not dict or not has_string_keys(table) \
            or not all(type(table.get(name)) in TABLES for name in names):
        return False
    for name in map(sys.intern, names):
        low.program.check(Op.ITEM_EMPTY, register, low.program.keep(name), hash(name))
    return True


@rule(r"_0\.__mro__ is _k(\d+)")
def lower_bases(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, cls = low.load(_source(sources, 0))
    if type(sources[0]) is not ConstantSource or not isinstance(cls, type):
        return False
    low.program.check(Op.FIELD_IS, register, low.program.keep(constants[int(match[1])]), index=mro_offset())
    return True


@rule(r"_0\.__code__ is _k(\d+)")
def lower_code(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    register, function = low.load(_source(sources, 0))
    if type(function) is not types.FunctionType:
        return False
    low.program.check(Op.CODE, register, low.program.keep(constants[int(match[1])]))
    return True


@rule(r"_k(\d+)\(\) (?:is (?:_k(\d+)|(None|True|False))|== (\d+))")
def lower_global_state(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    query = constants[int(match[1])]
    try:
        address, receiver = builtin_parts(query)
    except ValueError:
        return False
    if query not in torch_compat.STATE_QUERIES:
        return False
    if match[4] is not None:
        expected: Any = int(match[4])
        if expected > 256:  # only small numbers are always the same object
            return False
    else:
        expected = constants[int(match[2])] if match[2] is not None else SINGLETONS[match[3]]
    native = native_questions().get(query)
    if native is not None:
        low.program.check(Op.ANSWER_IS, 0, native.argument, native.function,
                          index=native.mask << 16 | native.result(expected))
        return True
    register = low.receivers.get(id(receiver))
    if register is None:
        register = low.receivers[id(receiver)] = low.program.load(Op.CONSTANT, a=low.program.keep(receiver))
    low.program.check(Op.CALL_IS, register, low.program.keep(expected), address)
    return True


@rule(r"_k(\d+)\['(\w+)'\] is _k(\d+)")
def lower_variable(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    table = constants[int(match[1])]
    register = low.program.load(Op.CONSTANT, a=low.program.keep(table))
    low.check_is(low._item(register, table, match[2])[0], constants[int(match[3])])
    return True


@rule(r"_k(\d+)\.value == _k(\d+)\.value or _k\d+\(\)")
def lower_stamp(low: GuardLowering, match: Any, sources: Sources, constants: Any, typed: Any) -> bool:
    current, known = (constants[int(match[i])] for i in (1, 2))
    if type(current) is not ctypes.c_uint32 or type(known) is not ctypes.c_uint32:
        return False
    low.program.keep(current)
    low.program.keep(known)
    low.program.check(Op.SAME_TAG, 0, ctypes.addressof(current), ctypes.addressof(known))
    return True
