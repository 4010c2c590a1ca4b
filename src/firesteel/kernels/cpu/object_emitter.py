"""LLVM IR to object files, by several threads at once.

Each thread has an emitter of its own: a context, a target machine and passes of LLVM. The binding lets one call at a
time into LLVM; only the making of machine code, which takes most of the time and touches nothing that emitters share,
is let in beside others.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ...locks import new_lock
from .target import Target, llvm_binding, new_machine

MOST_THREADS = 8


class ObjectEmitter:
    """Makes object files, one after the other."""

    def __init__(self, cpu: str, features: str, architecture: str) -> None:
        self.llvm = llvm = llvm_binding()
        self.context = llvm.create_context()
        self.machine = new_machine(cpu, features, architecture)
        self.builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(speed_level=2))
        self.manager = manager = llvm.create_new_function_pass_manager()
        manager.add_sroa_pass()
        manager.add_instruction_combine_pass()
        manager.add_simplify_cfg_pass()

    def object_code(self, text: str) -> bytes:
        """LLVM IR as an object file. Raises RuntimeError for what is not valid IR."""
        return self._emit(self._optimised(text))

    def assembly(self, text: str) -> str:
        """LLVM IR as assembly, for people."""
        listing: str = self.machine.emit_assembly(self._optimised(text))
        return listing

    def _optimised(self, text: str) -> Any:
        """The few passes that code with explicit vectors needs; LLVM's standard pipeline takes ten times as long."""
        module = self.llvm.parse_assembly(text, self.context)
        module.verify()
        for function in module.functions:
            if not function.is_declaration:
                self.manager.run(function, self.builder)
        return module

    def _emit(self, module: Any) -> bytes:
        library = self.llvm.ffi.lib
        emit = getattr(library.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
        if emit is None:  # another release of the binding
            data: bytes = self.machine.emit_object(module)
            return data
        with self.llvm.ffi.OutputString() as message:
            buffer = emit(self.machine, module, 1, message)
            if not buffer:
                raise RuntimeError(str(message))
        try:
            start, size = library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer)
            return ctypes.string_at(start, size)
        finally:
            library.LLVMPY_DisposeMemoryBuffer(buffer)


_lock = new_lock()
_idle: dict[tuple[str, str, str], list[ObjectEmitter]] = {}


@contextmanager
def emitter(target: Target) -> Iterator[ObjectEmitter]:
    """An emitter that nobody else uses meanwhile."""
    kind = target.cpu, target.features, target.architecture
    with _lock:
        free = _idle.setdefault(kind, [])
        mine = free.pop() if free else None
    if mine is None:
        mine = ObjectEmitter(*kind)
    yield mine
    # After an error it is dropped: what state LLVM left it in is not known.
    with _lock:
        free.append(mine)


def object_code(text: str, target: Target) -> bytes:
    """LLVM IR as an object file."""
    with emitter(target) as mine:
        return mine.object_code(text)


def object_codes(texts: Iterable[str], count: int, target: Target) -> Iterator[bytes]:
    """LLVM IR as object files, in the same order. Texts are taken while earlier ones are worked on."""
    threads = min(count, _processors(), MOST_THREADS)
    if threads < 2:
        yield from (object_code(text, target) for text in texts)
        return
    with ThreadPoolExecutor(threads, "firesteel_emitter") as pool:
        pending: list[Future[bytes]] = []
        try:
            pending.extend(pool.submit(object_code, text, target) for text in texts)
            yield from (future.result() for future in pending)
        finally:
            for future in pending:
                future.cancel()


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
