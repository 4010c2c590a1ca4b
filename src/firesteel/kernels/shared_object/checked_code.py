"""Writing the functions of packages: straight-line code in which every call may fail.

A function has one way through and one way out on failure. So a value, once computed, is there for all that follows,
and what has to be released in case of a failure lies in slots that start out empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...torch_compat import c_interface
from ..llvm_writer import Function, Module

FOR_CUDA = "cuda_"
"""How the names of functions begin that only the libtorch with CUDA has."""


class PackageModule(Module):
    """The module of a shared object."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu_functions: dict[str, None] = {}
        """Functions of libtorch's part for CUDA that are called. They are looked for when a model is loaded."""

    def declare_torch(self, name: str) -> str:
        """One of libtorch's C functions, by the name that `c_interface.FUNCTIONS` has for it."""
        result, parameters = c_interface.FUNCTIONS[name]
        return self.declare(c_interface.symbol(name), result, ", ".join(parameters))


class CheckedFunction(Function):
    """One function being written, straight on; it leaves through the blocks ``failed`` and ``refused``."""

    def __init__(self, module: PackageModule, signature: str) -> None:
        super().__init__(signature)
        self.module = module
        self._scratch: dict[str, str] = {}

    def alloca(self, type_: str, count: str = "", align: int = 8) -> str:
        """Memory for the time of the call."""
        return super().alloca(type_, count, align)

    def scratch(self, type_: str) -> str:
        """Memory for one value that is read as soon as it is there."""
        if type_ not in self._scratch:
            self._scratch[type_] = self.alloca(type_)
        return self._scratch[type_]

    def load(self, type_: str, at: str) -> str:
        """A value from memory."""
        return self.value(f"load {type_}, ptr {at}, align {4 if type_ == 'i32' else 1 if type_ == 'i8' else 8}")

    def element(self, type_: str, array: str, index: int) -> str:
        """The address of an element."""
        return array if index == 0 else self.value(f"getelementptr {type_}, ptr {array}, i64 {index}")

    def array(self, type_: str, values: Sequence[str]) -> str:
        """An array with these contents; constants of integers lie in the module."""
        if not values:
            return "null"
        if type_ == "i64" and not any(value.startswith("%") for value in values):
            return self.module.integers([int(value) for value in values])
        place = self.alloca(f"[{len(values)} x {type_}]")
        for index, value in enumerate(values):
            self.line(f"store {type_} {value}, ptr {self.element(type_, place, index)}, align 8")
        return place

    # Ways out

    def fail_unless(self, condition: str, message: str, numbers: Sequence[str] = (), way_out: str = "failed") -> None:
        """Leave with a message unless an i1 is true; ``%lld`` in it stand for the numbers."""
        given = "".join(f", i64 {number}" for number in numbers)
        self.module.declare("snprintf", "i32", "ptr, i64, ptr, ...")
        self._leave_saying(condition, f"call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr "
                                      f"{self.module.string(message)}{given})", way_out)

    def checked(self, call: str, where: str) -> None:
        """A call that returns 0 when all went well, as libtorch's C functions do; ``where`` says what it does."""
        code = self.value(f"call i32 {call}")
        self._leave_saying(self.value(f"icmp eq i32 {code}, 0"),
                           f"call void @fs.torch_failed(ptr {self.module.string(where)})", "failed")

    def _leave_saying(self, condition: str, message: str, way_out: str) -> None:
        good, bad = self.labels("good", "bad")
        self.branch(condition, good, bad)
        self.start(bad)
        self.line(message)
        self.jump(way_out)
        self.start(good)

    def call_torch(self, name: str, arguments: Sequence[str], where: str = "") -> None:
        """Call one of libtorch's C functions; arguments are typed values."""
        symbol = c_interface.symbol(name)
        if name.startswith(FOR_CUDA):
            self.module.gpu_functions[symbol] = None
            function = self.load("ptr", f"@fs.gpu.{symbol}")
        else:
            types = ", ".join(argument.split(" ", 1)[0] for argument in arguments)
            function = f"@{self.module.declare(symbol, 'i32', types)}"
        self.checked(f"{function}({', '.join(arguments)})", where or symbol)
