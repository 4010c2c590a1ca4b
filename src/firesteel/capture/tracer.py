"""The tracer: the state of one capture and the operations that the interpreter performs on Values."""

from __future__ import annotations

import builtins
import collections
import threading
import types
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes, torch_compat
from ..errors import UserFrame
from ..events import OBSERVERS
from . import (
    builtin_text,
    calls,
    classes,
    drawn_numbers,
    gradient_hooks,
    gradients,
    modules,
    number_rules,
    numpy_calls,
    object_operators,
    objects,
    operators,
    pure_functions,
    sparse_tensors,
    storages,
    tensor_copies,
    tensor_subclasses,
    torch_calls,
    torch_functions,
    torch_generators,
    wrapping,
)
from .branch_copies import Branches
from .cached_functions import CachedCalls
from .checkpointing import Checkpoints
from .dynamism import Dynamism
from .early_numbers import EarlyNumbers
from .effects import Effects
from .graph import GraphBuilder
from .guards import Guard, GuardSet, has_at, hold, is_constant_key, keys_of, same_constant, stamp_condition
from .iterables import ask_for_length
from .made_classes import MadeClasses
from .number_nodes import NumberNodes
from .objects import find_on_class
from .program_threads import is_state_of_optimizer, several_threads
from .reliance import Reliance
from .replaced_builtins import as_the_program_sees_them
from .signals import GraphBreak, NotConstant, UserRaise
from .source import (
    ConstantSource,
    GlobalsSource,
    LocalSource,
    Source,
    StorageSource,
    call_source,
    item_source,
)
from .symbols import Symbols
from .torch_functions import TorchFunctions
from .undecidable import decided_in_python
from .values.arrays import ArrayValue
from .values.base import LazyValue, Value
from .values.constants import ConstantValue, NumberValue
from .values.functions import CellValue
from .values.mappings import DictValue, SetValue
from .values.objects import ClassValue, ExceptionValue
from .values.opaque import OpaqueValue
from .values.sequences import MOST_ITEMS, ListValue, SequenceValue, TupleValue

if TYPE_CHECKING:
    from ..fake import FakeMode
    from .frame import Frame
    from .unrolling import Rounds
    from .values.modules import ModuleValue


class Tracer:
    """One attempt to capture a frame."""

    # What Values need of the modules that are built on them is handed to them with the tracer.
    constant = ConstantValue
    make_tuple = TupleValue
    make_exception = ExceptionValue
    builtin_text = builtin_text
    number_rules = number_rules
    arrays = numpy_calls
    object_operators = object_operators
    objects = objects
    pure_functions = pure_functions
    operators = operators
    binary = operators.binary
    compare = operators.compare
    same = operators.same_object
    wrap = wrapping.wrap
    wrap_subclass = tensor_subclasses.wrap_subclass
    python_object = wrapping.value_of_known
    call_function = calls.call_function
    call_object = calls.call_object
    inline = calls.inline
    call_class = classes.call_class
    call_tensor_class = torch_functions.call_tensor_class
    call_module = modules.call_module
    call_torch = torch_calls.call_torch
    tensor_list = torch_calls.tensor_list
    deep_copy = tensor_copies.deep_copy
    call_sparse = sparse_tensors.call_sparse
    wrap_sparse = sparse_tensors.wrap_sparse
    draw_tensor = torch_generators.call_with_generator
    wrap_generator = torch_generators.wrap_generator
    guard_places = storages.guard_places
    backward = gradients.backward
    register_hook = gradient_hooks.register

    def __init__(self, fake: FakeMode, dynamism: Dynamism, compiler: Any = None) -> None:
        self.fake = fake
        self.compiler = compiler
        self.graph = GraphBuilder()
        self.guards = GuardSet()
        self.effects = Effects()
        self.shape_env = shapes.ShapeEnv(self.provenance)
        fake.shape_env = self.shape_env
        fake.name_of = self.name_of
        self.symbols = Symbols(self, dynamism)
        self.number_nodes = NumberNodes(self)
        self.early_numbers = EarlyNumbers()
        # how many of the environment's checks have become assertions, and the places where they must not
        self.asserted = 0
        self.refused: Collection[str] = ()
        self.sizes_settle = True
        self.unsettled: Collection[str] = ()
        self.unrolled: dict[int, Rounds] = {}
        self.began_in_inference_mode = torch.is_inference_mode_enabled()
        self.operation = ""
        self.known: dict[int, Value] = {}
        # modules by the identity of their tables, which the program may come to on other ways
        self.table_owners: dict[int, tuple[ModuleValue, str]] = {}
        self.array_state = numpy_calls.ArrayState()
        self.draws = drawn_numbers.Draws(self)
        self.kept_alive: list[Any] = []
        self.frames: list[Frame] = []
        # whether the capture begins in the middle of a function, whose variables are its arguments
        self.resumed = False
        self.tensor_of_fake: dict[int, Any] = {}
        self.globals_values: dict[int, DictValue] = {}
        self.classes: dict[type, ClassValue] = {}
        self.touched_state: dict[str, Any] = {}
        self.entered_modes: list[Any] = []
        # what the program has said to whoever enters hooks on saved tensors
        self.packing_refusals: list[str | None] = []
        # modules that are relied on to have no hooks, by identity
        self.unhooked: dict[int, Any] = {}
        # tensors with hooks that this program registers, and how often they had been changed then
        self.hooked: list[tuple[Any, int]] = []
        self.generators: list[Any] = []
        self.reliance = Reliance()
        self.made_classes = MadeClasses()
        # the step of the root frame that is being executed
        self.root_step = 0
        # autograd functions whose backward must not be run on fakes
        self.untraceable: set[type] = set()
        self.checkpoints = Checkpoints()
        # the storages of tensors that were copied, by the memo of the copy
        self.copied_storages: dict[int, tuple[Value, set[int]]] = {}
        self.branches = Branches()
        self.caches = CachedCalls()
        self.inlined: set[types.CodeType] = set()
        self.torch_functions = TorchFunctions()

    # Where the user's program stands

    def user_frames(self) -> tuple[UserFrame, ...]:
        return tuple(frame.user_frame() for frame in self.frames if not frame.hidden)

    def module_stack(self) -> tuple[Any, ...]:
        """The modules whose methods are running, outermost first, each with the frame that it is called in."""
        stack: list[Any] = []
        for frame in self.frames:
            names = frame.code.co_varnames
            owner = frame.locals.get(names[0]) if names and frame.code.co_argcount else None
            if owner is None and names and frame.code.co_argcount and names[0] in frame.cells:
                owner = frame.cells[names[0]].content
            module = getattr(owner, "real", None)
            if isinstance(module, torch.nn.Module) and (not stack or stack[-1][0] is not module):
                stack.append((module, frame))
        return tuple(stack)

    def provenance(self) -> shapes.Provenance:
        """Who asks about sizes at this moment."""
        operation = "" if self.compiler.exports and self.operation and decided_in_python() else self.operation
        return shapes.Provenance(self.user_frames(), "", operation)

    def name_of(self, fake: Any) -> str:
        """What a tensor is called in messages."""
        value = self.tensor_of_fake.get(id(fake))
        return "tensor" if value is None else str(value.node.name)

    # Guards

    def guard(self, source: Source | None, kind: str, template: str, constants: tuple[Any, ...] = (),
              others: tuple[Source, ...] = ()) -> None:
        if self.made_classes.own(source):
            return  # the program makes it anew in every call
        frames = self.frames
        here = self.user_frames() if OBSERVERS else (frames[-1].user_frame(),) if frames else ()
        self.guards.add(Guard(source, kind, template, tuple(hold(obj) for obj in constants), here, others))

    def in_one_step(self, container: Value, method: str) -> None:
        """Python reads and changes a container in one step, and of several threads only one gets an item.

        Compiled code reads before its graph and changes behind it: that is the same as long as there is one thread. A
        variable that goes on behind a break is taken for the function's own, and who wants one graph gets it.
        """
        source = container.source
        if source is None or self.resumed and isinstance(source, LocalSource) or self.compiler.fullgraph \
                or is_state_of_optimizer(self, container):
            return
        if several_threads():
            raise GraphBreak(f"{method} of a {container.python_type().__name__} that other threads may change")
        known = ConstantSource.of(threading._active, "threads")  # type: ignore[attr-defined]
        self.guards.add(Guard(known, "threads", "(len({0}) == 1 or not {k[0]}())", (several_threads,),
                              text="no other thread runs code of the program"))

    def guard_stamp(self, stamp: torch_compat.Stamp, text: str = "") -> None:
        """Rely on what a stamp says: that a class of torch has torch's own methods, or which names a class has."""
        if stamp not in self.reliance.stamps:
            self.reliance.stamps.append(stamp)
            constants: list[Any] = []

            def name(obj: Any) -> str:
                constants.append(obj)
                return f"{{k[{len(constants) - 1}]}}"

            condition = stamp_condition(stamp, name)
            self.guards.add(Guard(None, "class", condition, tuple(constants),
                                  text=text or f"the methods of {stamp.cls.__name__} are torch's own"))

    def guard_keys(self, source: Source, real: Any) -> None:
        """Rely on all keys of a dictionary and their order."""
        keys = keys_of(real)
        if not all(is_constant_key(key) for key in keys):
            self.guard(source, "length", f"{{k[0]}}({{0}}) == {len(keys)}" if isinstance(real, dict)
                       else f"len({{0}}) == {len(keys)}", (dict.__len__,))
            known = [(position, key) for position, key in enumerate(keys) if is_constant_key(key)]
            if known:
                self.guard(source, "keys", "{k[1]}({k[2]}({0}), {k[0]})", (known, has_at, keys_of))
        elif isinstance(source, StorageSource):
            self.guard(source, "keys", "{k[2]}({k[0]}({0}), {k[1]})", (keys_of, keys, same_constant))
        elif all(type(key) is str for key in keys):
            self.guard(source, "keys", "[*{0}] == " + repr(keys).replace("{", "{{").replace("}", "}}"))
        else:
            self.guard(source, "keys", "{k[1]}([*{0}], {k[0]})", (keys, same_constant))

    def key_value(self, key: Any, source: Source, position: int) -> Value:
        """The Value of a real dictionary key."""
        if is_constant_key(key):
            return self.python_object(key)
        return self.wrap(key, item_source(call_source(source, keys_of), position))

    # Making Values

    def make_dict(self, items: dict[str, Value]) -> DictValue:
        return DictValue({name: (ConstantValue(name), value) for name, value in items.items()})

    def looked_up(self, real: Any, source: Source) -> LazyValue:
        """The Value of what a lookup has found that might have failed: the capture relies on its being there."""
        value = LazyValue(self, real, source)
        self.reliance.looked_up.append(value)
        return value

    def remember(self, real: Any, value: Value) -> None:
        """Later sources that lead to the same object give the same Value."""
        self.known[id(real)] = value
        self.kept_alive.append(real)

    def cell(self, real: types.CellType, source: Source | None) -> CellValue:
        known = self.known.get(id(real))
        if isinstance(known, CellValue):
            if source is not None and known.source is not None and source != known.source:
                self.guard(source, "same object", "{0} is {1}", (), (known.source,))
            return known
        if source is None:
            source = ConstantSource.of(real, "closure")
        value = CellValue(source, real)
        self.remember(real, value)
        return value

    def globals_of(self, table: dict[str, Any]) -> DictValue:
        return self.table_of_module(table, GlobalsSource(ConstantSource.of(table, "globals")))

    def table_of_module(self, table: dict[str, Any], where: Source) -> DictValue:
        """The attributes of a module: the same Value as the globals of its functions, whichever is met first."""
        value = self.globals_values.get(id(table))
        if value is None:
            known = self.known.get(id(table))
            real = as_the_program_sees_them() if table is vars(builtins) else table
            value = known if isinstance(known, DictValue) else DictValue({}, where, real)
            self.globals_values[id(table)] = value
            self.remember(table, value)
        return value

    def class_value(self, cls: type) -> ClassValue:
        """The one Value of a class: attributes that the program sets on it are seen wherever it is met."""
        value = self.classes.get(cls)
        if value is None:
            value = self.classes[cls] = ClassValue(cls)
        return value

    # Constants and errors

    def constant_of(self, value: Value) -> Any:
        """The Python value, specialising numbers of the graph; breaks when it is not known."""
        value = value.realize()
        if isinstance(value, NumberValue):
            return value.specialize(self).value
        if isinstance(value, ArrayValue) and value.scalar and value.real is not None:
            return value.specialize(self)
        if isinstance(value, (ListValue, DictValue)) and value.source is not None:
            value.elements(self) if isinstance(value, ListValue) else value.fill(self)
        number_rules.specialize_within(self, value)
        try:
            return value.as_constant()
        except NotConstant as error:
            raise GraphBreak(f"the value of {value.describe()} is not known while capturing ({error})") from None

    def fold(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Value:
        """Compute with constants now; an exception is the user's."""
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            raise self.raised(error) from None
        if hasattr(type(result), "__next__"):
            raise GraphBreak("an iterator, which every call needs one of")
        return self.python_object(result)

    def user_errors(self, function: Callable[[], Any]) -> Any:
        """Run bookkeeping whose exceptions are the user program's own."""
        try:
            return function()
        except (IndexError, ValueError, TypeError, KeyError, OverflowError) as error:
            raise self.raised(error) from None

    def exception(self, error: BaseException) -> ExceptionValue:
        """The Value of an exception instance that Python raised while folding."""
        value = ExceptionValue(type(error), [self.python_object(arg) for arg in error.args])
        if isinstance(error, (NameError, AttributeError, ImportError)) and isinstance(error.name, str):
            value.attrs["name"] = ConstantValue(error.name)
        return value

    def raised(self, error: BaseException) -> UserRaise:
        return UserRaise(self.exception(error))

    def as_exception(self, value: Value) -> Value:
        """What ``raise value`` raises: an instance, or a class to be instantiated."""
        value = value.realize()
        if isinstance(value, ClassValue) and issubclass(value.cls, BaseException):
            return self.call(value, [], {}).realize()
        if isinstance(value, ExceptionValue):
            return value
        if isinstance(value, OpaqueValue) and isinstance(value.real, BaseException):
            return value
        raise self.raised(TypeError("exceptions must derive from BaseException"))

    def leave_modes(self) -> None:
        """Leave what the capture has entered and the program has not left when the capture ends."""
        while self.entered_modes:
            self.entered_modes.pop().__exit__(None, None, None)

    # Operations

    def call(self, function: Value | None, args: list[Value], kwargs: dict[str, Value]) -> Value:
        assert function is not None
        return function.realize().call(self, args, kwargs)

    def call_method(self, obj: Value, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.call(obj.realize().get_attr(self, name), args, kwargs)

    def truth(self, value: Value) -> bool:
        return value.realize().truth(self)

    def get_attr(self, obj: Value, name: str) -> Value:
        obj = obj.realize()
        try:
            return obj.get_attr(self, name)
        except UserRaise as raised:
            # Python tells an error that does not say so itself what was looked for, and where.
            error = raised.value
            if isinstance(error, ExceptionValue) and error.source is None and issubclass(error.cls, AttributeError):
                known = error.attrs.setdefault("name", ConstantValue(name))
                if known is not None and known.is_constant() and known.as_constant() == name:
                    error.attrs.setdefault("obj", obj)
            raise

    def has_attr(self, obj: Value, name: str) -> bool:
        obj = obj.realize()
        try:
            obj.get_attr(self, name)
        except UserRaise as raised:
            if issubclass(raised.value.python_type(), AttributeError):
                return False
            raise
        except GraphBreak:
            # what cannot be captured as a value may still be known to exist
            kind = obj.python_type()
            if find_on_class(kind, name)[1] is not None and "__getattribute__" not in vars(kind):
                return True
            raise
        return True

    def get_item(self, obj: Value, key: Value) -> Value:
        return obj.realize().get_item(self, key)

    def iterate(self, obj: Value) -> Value:
        return obj.realize().iterate(self)

    def next_item(self, iterator: Value) -> Value | None:
        return iterator.realize().next_item(self)

    def iterate_lazily(self, obj: Value, hint: bool = False) -> Iterator[Value]:
        """The items of an iterable, one by one: what happens to each of them may change what comes behind it.

        With `hint`, its length is asked for too, as ``list(obj)`` does.
        """
        obj = obj.realize()
        if isinstance(obj, SequenceValue) and obj.builtin is not collections.deque:  # which notices its changes
            yield from obj.elements(self)
            return
        iterator = self.iterate(obj)
        if hint:
            ask_for_length(self, obj)
        for _ in range(MOST_ITEMS):
            item = self.next_item(iterator)
            if item is None:
                return
            yield item
        raise GraphBreak("an iterator without end, or with more than a million items")

    def to_list(self, obj: Value, hint: bool = False) -> list[Value]:
        """The items of an iterable; with `hint`, its length is asked for too, as ``list(obj)`` does."""
        obj = obj.realize()
        if isinstance(obj, SequenceValue):
            return list(obj.elements(self))
        if isinstance(obj, SetValue):
            return obj.ordered(self)
        return list(self.iterate_lazily(obj, hint))

