"""A plan as one function over libtorch's C interface: what Python does for `compile`, done without Python.

    i32 fs.run(model, inputs, outputs)

Inputs are checked against what the plan was compiled for, sizes are read from them, memory is allocated and freed,
kernels and operators are called in order. Tensors that the program owns lie in slots, which are emptied in the end,
also after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ... import torch_compat
from ...devices import DeviceKind, kind_of
from ...functional.subprograms import Subprogram
from ...shapes import Expr, Symbol, const, maximum
from ...shapes.polynomials import parts
from ...torch_compat import native_calls
from ..host.lifetimes import lifetimes
from ..host.plan_emitter import PlanEmitter, bytes_of
from ..huge_pages import may_be_large
from ..ir import Buffer, BufferRef, ExternCall
from ..plan import KernelPlan, Launch, Step, WriteBack
from . import gpu, own_calls
from .checked_code import CheckedFunction, PackageModule
from .numbers import Numbers
from .operators import INTO, NotCallable, OperatorCalls, constant_of
from .subprograms import call_subprogram

NONE, TENSOR, INTEGER, NUMBER, TRUTH = range(5)
"""Kinds of values that a model takes and returns; the header has the same numbers."""
VALUE = "{ i32, i32, i64 }"
HANDLES_AT = 4
"""Words of a model in front of the handles of its weights."""

@dataclass
class Contract:
    """What a program asks of its inputs beyond what its plan says."""

    names: Sequence[str]
    """Of the inputs that a caller gives, for messages."""
    ranges: Mapping[Symbol, tuple[int | None, int | None]] = field(default_factory=dict)
    conditions: Sequence[tuple[Expr, str]] = ()
    """What must hold, with a text for people."""


class ProgramPrinter(PlanEmitter[str]):
    """Writes the function of one plan."""

    def __init__(self, plan: KernelPlan, module: PackageModule, weights: Mapping[str, int],
                 kernels: Mapping[int, str | int], contract: Contract, product: str | None, bodies: Mapping[int, str],
                 on_gpu: gpu.GpuKernels | None = None) -> None:
        """``weights``: the place of a buffer among the model's; ``kernels``: the functions of kernels, or their numbers
        ``on_gpu``, by identity; ``product``: that of our own matrix product; ``bodies``: those of branches and loops,
        by identity."""
        if plan.constants.keys() - weights.keys():
            raise NotCallable("a constant inside of a branch or loop")
        known = lifetimes(plan)
        super().__init__(known, {known.group(buffer) for buffer in known.objects})
        self.plan = plan
        self.module = module
        self.weights = weights
        self.kernels = kernels
        self.contract = contract
        self.product = product
        self.bodies = bodies
        self.on_gpu = on_gpu
        self.gpu_index = "0"
        self.code = CheckedFunction(module, "")
        self.symbols: dict[Symbol, str] = {}
        self.numbers = Numbers(self.code, self._symbol)
        self.operators = OperatorCalls(self.code, self.numbers, self)
        self.given: dict[str, str] = {}
        """Inputs as the caller gave them."""
        self.owned: dict[str, list[int]] = {}
        self.memory: dict[str, int] = {}
        self.temporary: list[int] = []
        self.free_slots: list[int] = []
        self.free_memory: list[int] = []
        self.slots = self.memories = 0
        self.widest = [1, 1, 1]

    def print(self, name: str = "fs.run") -> str:
        """The text of the function."""
        if self.on_gpu is not None:
            at = self.code.value(f"getelementptr i64, ptr %model, i64 {gpu.DEVICE_AT}")
            self.gpu_index = self.code.value(f"trunc i64 {self.code.load('i64', at)} to i32")
        self._inputs()
        self.walk(enumerate(self.plan.steps))
        self._results()
        return self._finish(name)

    def _finish(self, name: str) -> str:
        code, slots, memories = self.code, max(self.slots, 1), max(self.memories, 1)
        code.signature = f"internal i32 @{name}(ptr %model, ptr %inputs, ptr %outputs)"
        code.allocas[:0] = [
            f"%slots = alloca [{slots} x ptr], align 8", f"%memories = alloca [{memories} x ptr], align 8",
            f"%launch.buffers = alloca [{self.widest[0]} x ptr], align 8",
            f"%launch.sizes = alloca [{self.widest[1]} x i64], align 8",
            f"%launch.numbers = alloca [{self.widest[2]} x double], align 8"]
        code.allocas += [f"call void @llvm.memset.p0.i64(ptr %{array}, i8 0, i64 {8 * count}, i1 false)"
                         for array, count in (("slots", slots), ("memories", memories))]
        release = f"call void @fs.drop_all(ptr %slots, i64 {slots}, ptr %memories, i64 {memories})"
        for status, label in enumerate(("", "failed", "refused")):
            if label:
                code.start(label)
            code.line(release)
            code.line(f"ret i32 {status}")
        self.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
        return str(code)

    # Slots

    def _take(self) -> int:
        if self.free_slots:
            return self.free_slots.pop()
        self.slots += 1
        return self.slots - 1

    def _slot(self, number: int) -> str:
        return self.code.element("ptr", "%slots", number)

    def slot(self) -> str:
        """The address of a slot for a tensor that lives until the end of the step."""
        number = self._take()
        self.temporary.append(number)
        return self._slot(number)

    def _own(self, buffer: str) -> str:
        """A slot for a tensor that lives as long as the memory of a buffer."""
        number = self._take()
        self.owned.setdefault(self.lifetimes.group(buffer), []).append(number)
        return self._slot(number)

    def _drop_temporary(self) -> None:
        for number in self.temporary:
            self.code.line(f"call void @fs.drop(ptr {self._slot(number)})")
        self.free_slots += self.temporary
        self.temporary = []

    def emit(self, step: Step) -> None:
        super().emit(step)
        self._drop_temporary()

    def release(self, roots: Sequence[str]) -> None:
        for root in roots:
            for number in self.owned.pop(root, ()):
                self.code.line(f"call void @fs.drop(ptr {self._slot(number)})")
                self.free_slots.append(number)
            if root in self.memory:
                number = self.memory.pop(root)
                self.code.line(f"call void @fs.drop_memory(ptr {self.code.element('ptr', '%memories', number)})")
                self.free_memory.append(number)

    # Inputs

    def _demand(self, condition: str, message: str, numbers: Sequence[str] = ()) -> None:
        """Refuse inputs with a message unless an i1 is true."""
        self.code.fail_unless(condition, message, numbers, "refused")

    def _symbol(self, symbol: Symbol) -> str:
        try:
            return self.symbols[symbol]
        except KeyError:
            raise NotCallable(f"nothing says what {symbol} is") from None

    def _inputs(self) -> None:
        users = [item for item in self.plan.inputs if not (isinstance(item, Buffer) and item.name in self.weights)]
        for position, (item, name) in enumerate(zip(users, self.contract.names, strict=True)):
            at = self.code.value(f"getelementptr {VALUE}, ptr %inputs, i64 {position}")
            kind = self.code.load("i32", at)
            place = self.code.value(f"getelementptr {VALUE}, ptr {at}, i32 0, i32 2")
            if isinstance(item, Buffer):
                self._tensor_input(item, name, kind, self.code.load("ptr", place))
            else:
                self._number_input(item, name, kind, place)
        for item in users:
            if isinstance(item, Buffer):
                self._solve_sizes(item)
        for item, name in zip(users, self.contract.names, strict=True):
            if isinstance(item, Buffer):
                self._check_sizes(item, name)
        for symbol, (lower, upper) in self.contract.ranges.items():
            self._check_range(symbol, lower, upper)
        for condition, text in self.contract.conditions:
            if all(symbol in self.symbols for symbol in condition.free_symbols):
                self._demand(self.numbers.truth(condition), f"the inputs do not fulfil {text}")
        for item in users:
            if isinstance(item, Buffer):
                self._lay_out_input(item)

    def _number_input(self, symbol: Symbol, name: str, kind: str, place: str) -> None:
        code = self.code
        wanted = {"int": INTEGER, "float": NUMBER, "bool": TRUTH}[symbol.kind]
        self._demand(code.value(f"icmp eq i32 {kind}, {wanted}"), f"the input {name} is not of kind {symbol.kind}")
        if symbol.kind == "float":
            self.symbols[symbol] = code.load("double", place)
        else:
            value = code.load("i64", place)
            self.symbols[symbol] = code.value(f"icmp ne i64 {value}, 0") if symbol.kind == "bool" else value

    def _tensor_input(self, buffer: Buffer, name: str, kind: str, handle: str) -> None:
        code = self.code
        self._demand(code.value(f"icmp eq i32 {kind}, {TENSOR}"), f"the input {name} is not a tensor")
        self._demand(code.value(f"icmp ne ptr {handle}, null"), f"the input {name} is not a tensor")
        self.given[buffer.name] = self.handles[buffer.name] = handle
        device, index = self.device(buffer.device)
        where = kind_of(buffer.device)
        self._demand_of(handle, "device_type", device, f"the input {name} is not {where.label}")
        if not where.is_host:
            self._demand_of(handle, "device_index", index,
                            f"the input {name} is on GPU number %lld, the model on GPU number %lld")
        self._demand_of(handle, "dtype", str(native_calls.dtype_number(buffer.dtype)),
                        f"the input {name} is not of dtype {str(buffer.dtype)[6:]}")
        code.call_torch("get_dim", [f"ptr {handle}", f"ptr {code.scratch('i64')}"])
        ndim = code.load("i64", code.scratch("i64"))
        self._demand(code.value(f"icmp eq i64 {ndim}, {len(buffer.shape)}"),
                         f"the input {name} has %lld dimensions, expected {len(buffer.shape)}", [ndim])
        for symbol, (origin, _, _) in self.plan.symbols.items():
            if origin == buffer.name and symbol not in self.symbols:
                self._bind(symbol)

    def _demand_of(self, handle: str, what: str, wanted: str, message: str) -> None:
        """Refuse a tensor of which libtorch does not say what is wanted."""
        code = self.code
        code.call_torch(f"get_{what}", [f"ptr {handle}", f"ptr {code.scratch('i32')}"])
        has = code.load("i32", code.scratch("i32"))
        is_it = code.value(f"icmp eq i32 {has}, {wanted}")
        shown = [code.value(f"sext i32 {number} to i64") for number in (has, wanted)] if "%lld" in message else []
        self._demand(is_it, message, shown)

    def _solve_sizes(self, buffer: Buffer) -> None:
        """A size ``2*s0 + 1`` says what s0 is, where nothing else does."""
        code = self.code
        for dim, size in enumerate(buffer.shape):
            unknown = [symbol for symbol in size.free_symbols if symbol not in self.symbols]
            constant, terms = parts(size)
            if len(unknown) == 1 and len(terms) == 1 and terms[0][0] is unknown[0]:
                code.call_torch("get_size", [f"ptr {self.given[buffer.name]}", f"i64 {dim}",
                                                        f"ptr {code.scratch('i64')}"])
                rest = code.value(f"sub i64 {code.load('i64', code.scratch('i64'))}, {constant}")
                self.symbols[unknown[0]] = code.value(f"call i64 @fs.floordiv(i64 {rest}, i64 {terms[0][1]})")

    def _bind(self, symbol: Symbol) -> None:
        """The value of a symbol that is a size or stride of a tensor."""
        code = self.code
        origin, kind, dim = self.plan.symbols[symbol]
        code.call_torch(f"get_{kind}", [f"ptr {self.handles[origin]}", f"i64 {dim}",
                                                   f"ptr {code.scratch('i64')}"])
        self.symbols[symbol] = code.load("i64", code.scratch("i64"))

    def _check_sizes(self, buffer: Buffer, name: str) -> None:
        code = self.code
        for dim, size in enumerate(buffer.shape):
            if isinstance(size, Symbol) and self.plan.symbols.get(size) == (buffer.name, "size", dim):
                continue
            code.call_torch("get_size", [f"ptr {self.given[buffer.name]}", f"i64 {dim}",
                                                    f"ptr {code.scratch('i64')}"])
            has, wanted = code.load("i64", code.scratch("i64")), self.numbers.integer(size)
            self._demand(code.value(f"icmp eq i64 {has}, {wanted}"),
                             f"the input {name} has size %lld in dimension {dim}, expected %lld", [has, wanted])

    def _check_range(self, symbol: Symbol, lower: int | None, upper: int | None) -> None:
        code = self.code
        if symbol not in self.symbols:
            return
        value = self.symbols[symbol]
        origin, kind, dim = self.plan.symbols.get(symbol, ("", "", 0))
        users = [item.name for item in self.plan.inputs if isinstance(item, Buffer) and item.name in self.given]
        where = f"the number {symbol}"
        if origin in users:
            where = f"the input {self.contract.names[self._user_position(origin)]} has {kind} %lld in dimension {dim}"
        else:
            where = f"the number {symbol} is %lld"
        for bound, sign, words in ((lower, "sge", "at least"), (upper, "sle", "at most")):
            if bound is not None:
                self._demand(code.value(f"icmp {sign} i64 {value}, {bound}"),
                                 f"{where}, expected {words} {bound}", [value])

    def _user_position(self, name: str) -> int:
        users = [item for item in self.plan.inputs if not (isinstance(item, Buffer) and item.name in self.weights)]
        return next(at for at, item in enumerate(users) if isinstance(item, Buffer) and item.name == name)

    def _lay_out_input(self, buffer: Buffer) -> None:
        """Copy an input whose strides are not those that the program was compiled for."""
        name = buffer.name
        if name not in self.lifetimes.layouts:
            return
        viewed = any(isinstance(output, BufferRef) and output.buffer == name and output.shape is not None
                     for output in self.plan.outputs)
        if viewed:
            sizes, strides = self._extents(buffer.shape), self._extents(buffer.strides)
            fine = self.code.value(f"call i1 @fs.has_strides(ptr {self.handles[name]}, i64 {len(buffer.shape)}, "
                                   f"ptr {sizes}, ptr {strides})")
            called = self.contract.names[self._user_position(name)]
            self._demand(fine, f"the input {called} has other strides than the example had, and a result is "
                                        "a view of it")
        else:
            self._lay_out(buffer)

    def _lay_out(self, buffer: Buffer) -> None:
        self.handles[buffer.name] = self.laid_out(self.handles[buffer.name], buffer.shape, buffer.strides,
                                                  buffer, self._own(buffer.name), self.on_gpu is not None)

    def laid_out(self, handle: str, shape: Sequence[Expr], strides: Sequence[Expr], kind: Buffer | BufferRef, slot: str,
                 aligned: bool = False) -> str:
        """The handle of a tensor with given strides: the same, or that of a copy, which lies in a slot. It has the
        dtype and device of the buffer ``kind``, and begins where kernels on a GPU want it if it has to be
        ``aligned``."""
        code, place = self.code, self.code.scratch("ptr")
        buffer = self.plan.buffers[kind.buffer] if isinstance(kind, BufferRef) else kind
        device, index = self.device(buffer.device)
        code.checked(f"@fs.lay_out(ptr {handle}, i64 {len(shape)}, ptr {self._extents(shape)}, "
                     f"ptr {self._extents(strides)}, i32 {native_calls.dtype_number(kind.dtype or buffer.dtype)}, "
                     f"i32 {device}, i32 {index}, i64 {gpu.ALIGNMENT - 1 if aligned else 0}, ptr {slot}, ptr {place})",
                     "copying a tensor")
        return code.load("ptr", place)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For code that does not always run: what it computes is not there afterwards."""
        kept = [(known, dict(known)) for known in (self.handles, self.addresses, self.numbers.known)]
        yield
        for known, before in kept:
            known.clear()
            known.update(before)  # type: ignore[arg-type]

    # Buffers

    def device(self, device: torch.device) -> tuple[str, str]:
        """A device as libtorch numbers it: its type, and which one it is."""
        number = str(constant_of(f"device_type_{device.type}"))
        if kind_of(device).is_host:
            return number, "0"
        if self.on_gpu is None or (device.index or 0) != self.on_gpu.index:
            raise NotCallable(f"something on {device} in a program for another device")
        return number, self.gpu_index

    def device_kind(self, reference: BufferRef) -> DeviceKind:
        """What kind of device a buffer is on."""
        return kind_of(self.plan.buffers[reference.buffer].device)

    def _extents(self, exprs: Sequence[Expr]) -> str:
        return self.code.array("i64", [self.numbers.integer(expr) for expr in exprs])

    def find_tensor(self, buffer: str) -> str:
        at = self.code.value(f"getelementptr ptr, ptr %model, i64 {HANDLES_AT + self.weights[buffer]}")
        return self.code.load("ptr", at)

    def find_address(self, root: str) -> str:
        code, handle = self.code, self.tensor(root)
        if self.on_gpu is not None and root in self.given:
            kept = self.plan.buffers[root]
            handle = self.laid_out(handle, kept.shape, kept.strides, kept, self._own(root), aligned=True)
        code.call_torch("get_data_ptr", [f"ptr {handle}", f"ptr {code.scratch('ptr')}"])
        return code.load("ptr", code.scratch("ptr"))

    def argument(self, reference: BufferRef) -> str:
        """The handle of a buffer, or of a view of it that lives until the end of the step."""
        buffer = self.plan.buffers.get(reference.buffer)
        if buffer is None or reference.is_whole(buffer):
            return self.tensor(reference.buffer)
        slot = self.slot()
        self.view(reference, slot)
        return self.code.load("ptr", slot)

    def dtype_of(self, reference: BufferRef) -> torch.dtype | None:
        """The dtype of a buffer or view with dimensions; None for one without."""
        buffer = self.plan.buffers[reference.buffer]
        shape = buffer.shape if reference.shape is None else reference.shape
        return (reference.dtype or buffer.dtype) if shape else None

    def view(self, reference: BufferRef, slot: str) -> None:
        """A strided view of a buffer, into a slot."""
        code = self.code
        assert reference.shape is not None and reference.strides is not None
        base = self.tensor(reference.buffer)
        sizes, strides = self._extents(reference.shape), self._extents(reference.strides)
        offset = self.numbers.integer(reference.offset) if reference.offset is not None else "0"
        old = self.plan.buffers[reference.buffer].dtype
        if reference.dtype in (None, old):
            code.call_torch("_reinterpret_tensor", [
                f"ptr {base}", f"i64 {len(reference.shape)}", f"ptr {sizes}", f"ptr {strides}", f"i64 {offset}",
                f"ptr {slot}"])
            return
        dtype = reference.dtype
        assert dtype is not None
        code.call_torch("get_storage_offset", [f"ptr {base}", f"ptr {code.scratch('i64')}"])
        start = code.value(f"mul i64 {code.load('i64', code.scratch('i64'))}, {old.itemsize}")
        moved = code.value(f"mul i64 {offset}, {dtype.itemsize}")
        code.call_torch("_alloc_from_pool", [
            f"ptr {base}", f"i64 {code.value(f'add i64 {start}, {moved}')}",
            f"i32 {native_calls.dtype_number(dtype)}", f"i64 {len(reference.shape)}", f"ptr {sizes}",
            f"ptr {strides}", f"ptr {slot}"])

    def new_tensor(self, buffer: Buffer) -> None:
        """Allocate a tensor for a buffer."""
        code, slot = self.code, self._own(buffer.name)
        device, index = self.device(buffer.device)
        code.call_torch("empty_strided", [
            f"i64 {len(buffer.shape)}", f"ptr {self._extents(buffer.shape)}", f"ptr {self._extents(buffer.strides)}",
            f"i32 {native_calls.dtype_number(buffer.dtype)}", f"i32 {device}", f"i32 {index}", f"ptr {slot}"])
        self.handles[buffer.name] = code.load("ptr", slot)
        self._advise(buffer)

    def _advise(self, buffer: Buffer) -> None:
        """Huge pages for memory that is large, or may be."""
        size = bytes_of(buffer)
        if self.on_gpu is None and may_be_large(size):
            self.code.line(f"call void @fs.advise(ptr {self.address(buffer.name)}, i64 {self.numbers.integer(size)})")

    def has_plain_memory(self, buffer: Buffer) -> bool:
        return self.on_gpu is None

    def new_view(self, buffer: Buffer, root: str) -> None:
        slot = self._own(buffer.name)
        self.view(BufferRef(root, buffer.shape, buffer.strides, const(0)), slot)
        self.handles[buffer.name] = self.code.load("ptr", slot)

    def new_memory(self, buffer: Buffer) -> None:
        name, code = buffer.name, self.code
        size = self.numbers.integer(maximum((bytes_of(buffer) + 63) // 64 * 64, 64))
        code.module.declare("aligned_alloc", "ptr", "i64, i64")
        address = code.value(f"call ptr @aligned_alloc(i64 64, i64 {size})")
        code.fail_unless(code.value(f"icmp ne ptr {address}, null"), "there is not enough memory")
        number = self.free_memory.pop() if self.free_memory else self.memories
        self.memories = max(self.memories, number + 1)
        code.line(f"store ptr {address}, ptr {code.element('ptr', '%memories', number)}, align 8")
        self.memory[name], self.addresses[name] = number, address
        self._advise(buffer)

    def launch(self, step: Launch) -> None:
        code, kernel = self.code, self.kernels[id(step.kernel)]
        if isinstance(kernel, int):
            assert self.on_gpu is not None
            gpu.launch(self, step, self.on_gpu, kernel)
            return
        parts = ([self.address(name) for name in step.buffers], [self.numbers.integer(size) for size in step.sizes],
                 [self.numbers.double(number) for number in step.numbers])
        arrays = ("%launch.buffers", "%launch.sizes", "%launch.numbers")
        for index, (type_, array, values) in enumerate(zip(("ptr", "i64", "double"), arrays, parts, strict=True)):
            self.widest[index] = max(self.widest[index], len(values))
            for at, value in enumerate(values):
                code.line(f"store {type_} {value}, ptr {code.element(type_, array, at)}, align 8")
        function = code.module.declare(kernel, "void", "ptr, ptr, ptr")
        code.line(f"call void @{function}({', '.join(f'ptr {array}' for array in arrays)})")

    # Calls

    def call(self, step: ExternCall) -> None:
        if isinstance(step.target, Subprogram):
            call_subprogram(self, step)
            return
        own = own_calls.CALLS.get(step.target)
        if own is not None:
            own(self, step)
            return
        if not isinstance(step.target, torch_compat.OpOverload):
            raise NotCallable(f"{getattr(step.target, '__name__', step.target)} is a Python function")
        name = torch_compat.operator_name(step.target)
        own = own_calls.OPERATORS.get(name)
        if own is not None:
            own(self, step)
        elif name.startswith("firesteel."):
            raise NotCallable(f"{name} exists in Python only")
        else:
            self.call_operator(step)

    def call_operator(self, step: ExternCall) -> None:
        """Call an operator of libtorch; its results become buffers."""
        name = torch_compat.operator_name(step.target)
        wanted = [output for output in step.outputs if output is not None]
        into = INTO.get(name)
        if into is not None and wanted:
            self.new_tensor(self.plan.buffers[wanted[0]])
            kwargs = {**step.kwargs, "out": BufferRef(wanted[0])}
            self.operators.call(ExternCall(into, step.args, kwargs, step.outputs, True), [], [])
            return
        results: list[str | None] = []
        if not step.out:
            results = [self._own(output) if output in self.plan.buffers else None for output in step.outputs]
        dtypes = [self.plan.buffers[output].dtype for output in wanted if output in self.plan.buffers]
        words = self.operators.call(step, results, dtypes)
        if not step.out:
            self.take_results(step, results, words)

    def slot_for(self, output: str | None) -> str:
        """A slot for a result, which need not be wanted."""
        return self.slot() if output is None else self._own(output)

    def take_results(self, step: ExternCall, slots: Sequence[str | None], words: Sequence[str] = ()) -> None:
        """Handles in slots, and integers, become the results of a call."""
        for output, slot in zip(step.outputs, slots, strict=True):
            if output is not None and slot is not None:
                self.handles[output] = self.code.load("ptr", slot)
        self._bind_results(step, words)
        for output in step.outputs:
            if output is not None and output in self.lifetimes.layouts:
                self._lay_out(self.plan.buffers[output])

    def _bind_results(self, step: ExternCall, words: Sequence[str]) -> None:
        """Numbers that a call brought forth."""
        numbers = [output for output in step.outputs if output is not None and output not in self.plan.buffers]
        for symbol, (origin, kind, _) in self.plan.symbols.items():
            if origin in step.outputs and symbol not in self.symbols:
                if kind == "number":
                    self.symbols[symbol] = words[numbers.index(origin)]
                else:
                    self._bind(symbol)

    def write_back(self, step: WriteBack) -> None:
        target = self.given.get(step.target) or self.tensor(step.target)
        self.code.call_torch("copy_", [f"ptr {target}", f"ptr {self.argument(step.source)}", "i32 0"],
                             f"writing to {step.target}")

    # Results

    def _results(self) -> None:
        code = self.code
        results: list[tuple[int, str, str]] = []
        for output in self.plan.outputs:
            if isinstance(output, BufferRef):
                number = self._take()
                slot = self._slot(number)
                self._result(output, slot)
                results.append((TENSOR, slot, "ptr"))
            else:
                results.append(self._number_result(output))
        for position, (kind, value, type_) in enumerate(results):
            at = code.value(f"getelementptr {VALUE}, ptr %outputs, i64 {position}")
            place = code.value(f"getelementptr {VALUE}, ptr {at}, i32 0, i32 2")
            code.line(f"store i32 {kind}, ptr {at}, align 8")
            if kind == TENSOR:
                # The caller owns it from here.
                code.line(f"store ptr {code.load('ptr', value)}, ptr {place}, align 8")
                code.line(f"store ptr null, ptr {value}, align 8")
            else:
                code.line(f"store {type_} {value}, ptr {place}, align 8")

    def _result(self, output: BufferRef, slot: str) -> None:
        code, root = self.code, self.lifetimes.group(output.buffer)
        if root in self.weights:
            # The memory of weights goes when the model does, so it is not given away.
            if output.shape is None:
                code.call_torch("clone", [f"ptr {self.tensor(output.buffer)}", f"ptr {slot}"])
            else:
                code.call_torch("clone", [f"ptr {self.argument(output)}", f"ptr {slot}"])
                self._drop_temporary()
        elif output.shape is None:
            handle = self.given.get(output.buffer) or self.tensor(output.buffer)
            code.call_torch("new_tensor_handle", [f"ptr {handle}", f"ptr {slot}"])
        else:
            self.view(output, slot)

    def _number_result(self, output: Any) -> tuple[int, str, str]:
        if output is None:
            return NONE, "0", "i64"
        kind = output.kind if isinstance(output, Expr) else type(output).__name__
        expr = output if isinstance(output, Expr) else const(output) if kind in ("int", "float", "bool") else None
        if expr is None:
            return NONE, "0", "i64"  # a text or the like: the description of the model has it
        if kind == "float":
            return NUMBER, self.numbers.double(expr), "double"
        return TRUTH if kind == "bool" else INTEGER, self.numbers.integer(expr), "i64"
