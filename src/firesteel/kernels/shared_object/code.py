"""Writing LLVM text for host programs: straight-line functions in which every call may fail.

A function has one way through and one way out on failure. So a value, once computed, is there for all that follows,
and what has to be released in case of a failure lies in slots that start out empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...torch_compat import c_interface

FOR_CUDA = "cuda_"
"""How the names of functions begin that only the libtorch with CUDA has."""
_SPELLED = [chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in range(256)]


class ModuleText:
    """Declarations, constants and functions of one module."""

    def __init__(self) -> None:
        self._declarations: dict[str, str] = {}
        self._constants: dict[str, str] = {}
        self.functions: list[str] = []
        self.gpu_functions: dict[str, None] = {}
        """Functions of libtorch's part for CUDA that are called. They are looked for when a model is loaded."""

    def declare(self, name: str, result: str, parameters: Sequence[str], weak: bool = False) -> str:
        """A function from outside; a weak one may be missing."""
        linkage = "extern_weak " if weak else ""
        self._declarations[name] = f"declare {linkage}{result} @{name}({', '.join(parameters)})"
        return name

    def declare_torch(self, name: str) -> str:
        """One of libtorch's C functions, by the name that `c_interface.FUNCTIONS` has for it."""
        return self.declare(c_interface.symbol(name), *c_interface.FUNCTIONS[name])

    def constant(self, type_: str, value: str, align: int = 8) -> str:
        """The name of a constant in memory."""
        key = f"{type_} {value}, align {align}"
        if key not in self._constants:
            self._constants[key] = f"@c{len(self._constants)}"
        return self._constants[key]

    def string(self, text: str | bytes) -> str:
        """The name of a text with a zero behind it."""
        return self.binary((text.encode() if isinstance(text, str) else text) + b"\0", 1)

    def binary(self, data: bytes, align: int = 16) -> str:
        """The name of bytes."""
        return self.constant(f"[{len(data)} x i8]", f'c"{"".join(map(_SPELLED.__getitem__, data))}"', align)

    def integers(self, numbers: Sequence[int]) -> str:
        """The name of an array of integers of 64 bits."""
        if not numbers:
            return "null"
        return self.constant(f"[{len(numbers)} x i64]", f"[{', '.join(f'i64 {number}' for number in numbers)}]")

    def pointers(self, names: Sequence[str]) -> str:
        """The name of an array of addresses of constants."""
        if not names:
            return "null"
        return self.constant(f"[{len(names)} x ptr]", f"[{', '.join(f'ptr {name}' for name in names)}]")

    def text(self) -> str:
        constants = [f"{name} = private unnamed_addr constant {key}" for key, name in self._constants.items()]
        return "\n".join([*constants, *self._declarations.values(), *self.functions]) + "\n"


class FunctionText:
    """One function being written, straight on."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self._count = 0
        self._scratch: dict[str, str] = {}

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def value(self, text: str) -> str:
        """A new value."""
        name = f"%{self.name()}"
        self.lines.append(f"{name} = {text}")
        return name

    def alloca(self, type_: str) -> str:
        """Memory for the time of the call."""
        name = f"%{self.name()}"
        self.allocas.append(f"{name} = alloca {type_}, align 8")
        return name

    def scratch(self, type_: str) -> str:
        """Memory for one value that is read as soon as it is there."""
        if type_ not in self._scratch:
            self._scratch[type_] = self.alloca(type_)
        return self._scratch[type_]

    def load(self, type_: str, at: str) -> str:
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
        made = self.alloca(f"[{len(values)} x {type_}]")
        for index, value in enumerate(values):
            self.line(f"store {type_} {value}, ptr {self.element(type_, made, index)}, align 8")
        return made

    # Ways out

    def fail_unless(self, condition: str, message: str, numbers: Sequence[str] = (), way: str = "failed") -> None:
        """Leave with a message unless an i1 is true; ``%lld`` in it stand for the numbers."""
        good, bad = self.name(), self.name()
        self.line(f"br i1 {condition}, label %{good}, label %{bad}")
        self.line(f"{bad}:")
        given = "".join(f", i64 {number}" for number in numbers)
        self.module.declare("snprintf", "i32", ["ptr", "i64", "ptr", "..."])
        self.line(f"call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr "
                  f"{self.module.string(message)}{given})")
        self.line(f"br label %{way}")
        self.line(f"{good}:")

    def checked(self, call: str, where: str) -> None:
        """A call that returns 0 when all went well, as libtorch's C functions do; ``where`` says what it does."""
        code = self.value(f"call i32 {call}")
        good, bad = self.name(), self.name()
        self.line(f"br i1 {self.value(f'icmp eq i32 {code}, 0')}, label %{good}, label %{bad}")
        self.line(f"{bad}:")
        self.line(f"call void @fs.torch_failed(ptr {self.module.string(where)})")
        self.line("br label %failed")
        self.line(f"{good}:")

    def call_torch(self, name: str, arguments: Sequence[str], where: str = "") -> None:
        """Call one of libtorch's C functions; arguments are typed values."""
        symbol = c_interface.symbol(name)
        if name.startswith(FOR_CUDA):
            self.module.gpu_functions[symbol] = None
            function = self.load("ptr", f"@fs.gpu.{symbol}")
        else:
            function = f"@{self.module.declare(symbol, 'i32', [argument.split(' ', 1)[0] for argument in arguments])}"
        self.checked(f"{function}({', '.join(arguments)})", where or symbol)
