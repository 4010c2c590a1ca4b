"""Object files to a shared object, with the linker of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from ...errors import FiresteelError

LINKERS = ("ld", "ld.lld", "lld", "cc", "gcc", "clang")
TORCH = "libtorch_cpu.so"
VECTOR_MATH = "libmvec.so.1"
_EXPORTS = "{ global: firesteel_model_*; firesteel_last_error; firesteel_interface_version; local: *; };\n"


class LinkError(FiresteelError):
    """A shared object could not be made."""

    headline = "A package needs the system's linker."


def find_linker() -> str:
    """The first linker on the path; the environment variable CC goes before. Raises `LinkError`."""
    for name in (os.environ.get("CC", ""), *LINKERS):
        program = shutil.which(name) if name else None
        if program is not None:
            return program
    raise LinkError(f"none of {', '.join(LINKERS)} is on the path",
                    "install a linker, for instance the package binutils or gcc, or name one in the variable CC; "
                    "programs that run a package do not need it")


def link(objects: Sequence[bytes], name: str, empty: bytes) -> bytes:
    """A shared object that takes the functions of libtorch from the process that loads it; ``empty`` is an object file
    with nothing in it."""
    linker = find_linker()
    with tempfile.TemporaryDirectory(prefix="firesteel_") as folder:
        names = [os.path.join(folder, f"{number}.o") for number in range(len(objects))]
        for path, data in zip(names, objects, strict=True):
            _write(path, data)
        exports, output = os.path.join(folder, "exports"), os.path.join(folder, name)
        _write(exports, _EXPORTS.encode())
        stubs = []
        # Whatever else code calls, libtorch needs too. Names of vector functions begin with _ZGV.
        for library in (TORCH, *([VECTOR_MATH] if any(b"_ZGV" in data for data in objects) else [])):
            stubs.append(_stub(linker, folder, library, empty))
        _run(linker, name, ["--no-as-needed", "--gc-sections", f"--version-script={exports}", "-s"], output,
             [*names, *stubs])
        with open(output, "rb") as file:
            return file.read()


def _stub(linker: str, folder: str, library: str, empty: bytes) -> str:
    """An empty library: enough to note that the real one is needed, and read much faster than that."""
    output = os.path.join(folder, library)
    _write(f"{output}.o", empty)
    _run(linker, library, [], output, [f"{output}.o"])
    return output


def _run(linker: str, name: str, options: Sequence[str], output: str, files: Sequence[str]) -> None:
    tool = os.path.basename(linker)
    options = ["-shared", "-soname", name, "--build-id=none", "-z", "noexecstack", "-z", "relro", *options]
    if tool in ("ld", "ld.lld", "ld.bfd", "ld.gold", "lld"):
        command = [linker, *(["-flavor", "gnu"] if tool == "lld" else []), *options, "-o", output, *files]
    else:
        command = [linker, "-shared", "-nostdlib", f"-Wl,{','.join(options)}", "-o", output, *files]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LinkError(f"{linker} failed: {(done.stderr or done.stdout).strip()[:2000]}",
                        "another linker can be named in the environment variable CC")


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
