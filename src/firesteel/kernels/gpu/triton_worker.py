"""Machine code of one Triton function. As a program, it compiles what it is sent (see `workers`).

It imports nothing of this package, nor torch: a process that runs it has to load Triton and nothing else.

    request    {"source", "name", "types", "multiples", "arch", "options"} as JSON, after its length
    answer     {"name", "shared"} or {"error"} as JSON, after its length and that of the code, which follows
"""

from __future__ import annotations

import hashlib
import json
import linecache
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

LENGTH = struct.Struct("=q")
LENGTHS = struct.Struct("=qq")
IDLE_SECONDS = 30.0
"""After so long without work the program ends."""

_import_lock = threading.Lock()


class Code(NamedTuple):
    """Machine code, the name that its function has there, and bytes of shared memory."""

    code: bytes
    name: str
    shared: int


class NeedsMemory(Exception):
    """A function for which Triton wants memory of its own at every launch."""


def import_triton() -> Any:
    """Triton; the first time takes a few tenths of a second."""
    with _import_lock:
        import triton
        import triton.backends.compiler
        import triton.compiler

        return triton


def machine_code(source: str, name: str, types: Sequence[str], multiples: Sequence[int], arch: int,
                 options: dict[str, Any]) -> Code:
    """Compile the function of that name in a Python source for an architecture such as 90.

    ``types`` are those of its parameters in Triton's notation, ``multiples`` the positions of those that are multiples
    of 16.
    """
    triton = import_triton()
    function = _function(source, name)
    program = triton.compiler.ASTSource(
        fn=function, signature=dict(zip(function.arg_names, types, strict=True)), constexprs={},
        attrs={(number,): [["tt.divisibility", 16]] for number in multiples})
    code, data = _stages(triton, program, triton.backends.compiler.GPUTarget("cuda", arch, 32), options)
    if data.get("global_scratch_size") or data.get("profile_scratch_size"):
        raise NeedsMemory("a kernel that needs memory of its own")
    return Code(code, data["name"], data["shared"])


def _stages(triton: Any, source: Any, target: Any, options: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Triton's stages one after the other, without the cache around them: that hashes all of Triton first, and keeps
    what we keep ourselves. Where they are not as expected, its own entry does the same."""
    try:
        from triton._C.libtriton import ir

        backend = triton.compiler.make_backend(target)
        parsed = backend.parse_options({**options, **source.parse_options()})
        context, data = ir.context(), {**parsed.__dict__}
        ir.load_dialects(context)
        backend.load_dialects(context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, parsed, source.language)
        module = source.make_ir(target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(),
                                context)
    except (ImportError, AttributeError, TypeError):
        compiled = triton.compile(source, target=target, options=options)
        return compiled.asm["cubin"], compiled.metadata._asdict()
    for stage in stages.values():
        module = stage(module, data)
    return module, data


def _function(source: str, name: str) -> Any:
    """The function of a source; Triton asks for the source of functions again."""
    # The name gets into the code, which is to be the same in every process.
    file = f"<firesteel kernel {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": file}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names[name]


# As a program


def read_exactly(file: IO[bytes], size: int) -> bytes:
    """So many bytes. Raises `EOFError` where they end before."""
    pieces = []
    while size:
        piece = file.read(size)
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _serve(given: IO[bytes], answers: IO[bytes]) -> None:
    import_triton()
    while True:
        ready, _, _ = select.select([given], [], [], IDLE_SECONDS)
        if not ready:
            return
        try:
            [length] = LENGTH.unpack(read_exactly(given, LENGTH.size))
            request = json.loads(read_exactly(given, length))
        except EOFError:
            return
        code = b""
        try:
            answer = machine_code(**request)
            head, code = {"name": answer.name, "shared": answer.shared}, answer.code
        except Exception as error:
            text = str(error).strip()
            head = {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}
        data = json.dumps(head).encode()
        answers.write(LENGTHS.pack(len(data), len(code)) + data + code)
        answers.flush()


def main() -> None:
    """Compile what comes in until there is nothing more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the program means the program
    # Nothing that a library prints may get among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _serve(sys.stdin.buffer.raw, answers)  # type: ignore[union-attr]
    except (BrokenPipeError, KeyboardInterrupt):
        pass


if __name__ == "__main__":
    main()
