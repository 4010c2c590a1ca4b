"""The machine that code is made for: its vectors, its name for LLVM, and the libraries that code may call."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import fields
from typing import Any

import torch

from ...locks import new_lock
from ...records import dataclass


@dataclass(frozen=True)
class Tuning:
    """What can be chosen for one kernel; 0 leaves the choice to the printer."""

    unroll: int = 0
    """Vectors in an iteration of a loop."""
    accumulators: int = 0
    """Vectors that a reduction adds to in turn."""
    grain: int = 0
    """The least work that is worth a thread, in reads of an element."""
    stream: int = 0
    """Bytes of results from which on they are written past the cache."""

    def __str__(self) -> str:
        chosen = [f"{one.name}={value}" for one in fields(self) if (value := getattr(self, one.name))]
        return " ".join(chosen) or "default"


UNTUNED = Tuning()


@dataclass(frozen=True)
class Target:
    """A kind of CPU. `vector_bytes` is the width of the vectors that kernels are written in."""

    cpu: str
    features: str
    vector_bytes: int
    tuning: Tuning = UNTUNED
    checked: bool = False
    """Whether kernels look at every address before they use it, see `bounds`."""
    architecture: str = "x86_64"

    @property
    def has_masks(self) -> bool:
        """Whether any vector operation can be masked, as in AVX-512."""
        return self.vector_bytes == 64

    @property
    def has_dot_products(self) -> bool:
        """Whether there are dot products of pairs of 16-bit integers (AVX-512 VNNI)."""
        return self.has_masks and "+avx512vnni" in self.features

    @property
    def attributes(self) -> str:
        """What every function says about itself: vectors of full width are registers, not pairs of halves."""
        bits = 8 * self.vector_bytes
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    @property
    def description(self) -> str:
        tuning = "" if self.tuning == UNTUNED else f"{self.tuning} "
        checked = "checked " if self.checked else ""
        architecture = "" if self.architecture == "x86_64" else f"{self.architecture} "
        return f"{checked}{tuning}{architecture}{self.cpu} {self.vector_bytes} {self.features}"


@functools.cache
def host() -> Target:
    """The CPU that this process runs on."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    wide = all(features.get(name) for name in ("avx512f", "avx512bw", "avx512dq", "avx512vl"))
    narrow = features.get("avx2") and features.get("fma") and features.get("f16c")
    return Target(llvm.get_host_cpu_name(), features.flatten(), 64 if wide else 32 if narrow else 16,
                  architecture=host_architecture())


def avx2() -> Target:
    """A CPU of the generation before AVX-512; code for it runs on later ones too."""
    return Target("x86-64-v3", "", 32)


def aarch64() -> Target:
    """Any 64-bit ARM CPU: vectors of 16 bytes (NEON). Wider ones (SVE) have no fixed width and are not used."""
    return Target("generic", "+neon", 16, architecture="aarch64")


@functools.cache
def host_architecture() -> str:
    """The architecture of this process, by the name that LLVM has for it."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def new_machine(cpu: str, features: str, architecture: str = "") -> Any:
    """A target machine of LLVM. Code is position-independent: the same bytes can be loaded anywhere."""
    llvm = _llvm()
    if architecture in ("", host_architecture()):
        kind = llvm.Target.from_default_triple()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        kind = llvm.Target.from_triple(f"{architecture}-unknown-linux-gnu")
    machine = kind.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small", jit=True)
    machine.set_asm_verbosity(False)
    return machine


_initialised = False
_initialising = new_lock()


def _llvm() -> Any:
    """The binding of LLVM with the symbols of torch's library, loaded on first use."""
    global _initialised
    import llvmlite.binding as llvm

    with _initialising:
        if not _initialised:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            folder = os.path.join(os.path.dirname(torch.__file__), "lib")
            for ending in ("so", "dylib"):
                name = os.path.join(folder, f"libtorch_cpu.{ending}")
                if os.path.exists(name):
                    llvm.load_library_permanently(name)
            _initialised = True
    return llvm


llvm_binding = _llvm


@functools.cache
def has_symbol(name: str) -> bool:
    """Whether this process has a function of that name for kernels to call."""
    return _llvm().address_of_symbol(name) is not None
