"""Runs printed kernels in Triton's own interpreter, on the CPU: `python interpreted.py softmax cat:dynamic`.

The interpreter has to be chosen before Triton is imported, so this is a process of its own. Torch stands in for what
the interpreter lacks or does in another way than a GPU: CUDA's math library and the rounding to bfloat16.
"""

from __future__ import annotations

import linecache
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton.language as tl
from triton.runtime import interpreter

TORCH_NAMES = {"rint": "round", "fast_dividef": "div"}
ASSEMBLY = {"ex2.approx.ftz.f32": "exp2", "rcp.approx.ftz.f32": "reciprocal"}


class Libdevice:
    """CUDA's math library, by torch."""

    def __getattr__(self, name):
        function = getattr(torch, TORCH_NAMES.get(name, name))

        def call(*args):
            like = next(arg for arg in args if isinstance(arg, tl.tensor))
            given = [torch.from_numpy(arg.handle.data.copy()) if isinstance(arg, tl.tensor) else arg for arg in args]
            dtype = next(arg.dtype for arg in given if isinstance(arg, torch.Tensor))
            found = function(*[arg if isinstance(arg, torch.Tensor) else torch.tensor(arg, dtype=dtype)
                               for arg in given])
            kind = like.dtype if found.dtype is not torch.bool else tl.int1
            shape = [int(size) for size in like.shape]
            handle = interpreter.TensorHandle(found.numpy(), kind)
            return tl.tensor(handle, tl.block_type(kind, shape) if shape else kind)

        return call


def assembly(text, kinds, args, *more):
    """A line of assembly, by torch."""
    return getattr(Libdevice(), ASSEMBLY[text.split()[0]])(*args)


def convert_float(data, source, target, rounding):
    """Between bfloat16, which is kept as integers, and others; rounded to the nearest even."""
    given = torch.from_numpy(data.copy())
    if source == tl.bfloat16:
        given = given.view(torch.bfloat16)
    made = given.to(getattr(torch, target.name.replace("bf", "bfloat").replace("fp", "float")))
    return made.view(torch.uint16).numpy() if target == tl.bfloat16 else made.numpy()


def patch_tensor(tensor, scope, patch=interpreter._patch_lang_tensor):
    patch(tensor, scope)
    # NumPy has no numbers of arrays of one element any more.
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


interpreter._patch_lang_tensor, interpreter._convert_float = patch_tensor, convert_float


def run(made, tensors, sizes=()):
    """Run a printed kernel on tensors, in the order of its parameters."""
    programs = made.programs.evaluate(dict(sizes)) if made.programs.free_symbols else made.programs.value
    launch(made, programs, tensors, [value for _, value in sizes])


def launch(made, programs, tensors, numbers):
    """Run so many programs of a kernel; ``numbers``: its sizes, then others."""
    source = made.source.replace("from triton.language.extra import libdevice", "")
    source = source.replace("tl.inline_asm_elementwise(", "assembly(")
    file = f"<kernel {made.name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": file, "libdevice": Libdevice(), "assembly": assembly}
    exec(compile(source, file, "exec"), names)
    if programs:
        names[made.name][(int(programs),)](*tensors, *numbers)


def main():
    """Compare programs of other tests with eager; ``name:dynamic`` for changing sizes, ``name:scan`` for scans."""
    import pytest

    from kernels.gpu import test_scans_and_scatters as scans
    from kernels.gpu import test_triton_printer as programs

    programs.run = scans.run_plan.__globals__["run"] = run
    known = {program.__name__: program for program in programs.PROGRAMS}
    for wanted in sys.argv[1:]:
        name, _, how = wanted.partition(":")
        try:
            if how == "scan":
                with pytest.MonkeyPatch.context() as patch:
                    scans.check(*scans.SCANS[name], monkeypatch=patch)
            else:
                programs.check_results(known[name], how == "dynamic")
        except Exception as error:
            # The interpreter does not run assembly.
            outcome = "assembly" if "inline_asm" in str(error) else f"{type(error).__name__}: {error}"
        else:
            outcome = "equal"
        print(f"{wanted} {outcome}", flush=True)


if __name__ == "__main__":
    main()
