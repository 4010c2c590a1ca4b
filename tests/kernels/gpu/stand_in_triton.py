"""Runs Triton source on the CPU, program after program: `triton` and `triton.language` as far as kernels use them.

Pointers are a tensor's elements and an offset; blocks are tensors. Like Triton, it refuses what has the wrong shape.
"""

import re
import types

import torch

from firesteel.torch_compat import cuda_random

NUMBER = (int, float, bool)
ASSEMBLY = {"ex2.approx.ftz.f32": torch.exp2}


class Pointer:
    def __init__(self, elements, offset=0):
        self.elements, self.offset = elements, offset

    def __add__(self, offset):
        return Pointer(self.elements, self.offset + offset)


def tensor(value):
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def load(pointer, mask=None, other=None, eviction_policy=None):
    offset = tensor(pointer.offset)
    if mask is None:
        return pointer.elements[offset]
    mask = tensor(mask).expand(offset.shape)  # a mask has the shape of the pointers
    inside = pointer.elements[torch.where(mask, offset, 0)]
    return torch.where(mask, inside, torch.tensor(other, dtype=inside.dtype))


def store(pointer, value, mask=None, eviction_policy=None):
    offset = tensor(pointer.offset)
    value = torch.as_tensor(value, dtype=pointer.elements.dtype).expand(offset.shape)
    mask = tensor(True if mask is None else mask).expand(offset.shape)
    pointer.elements[offset[mask]] = value[mask]


def typed(a, b):
    """Python numbers take the dtype of what they meet."""
    if isinstance(a, NUMBER):
        a = torch.tensor(a, dtype=b.dtype if isinstance(b, torch.Tensor) else None)
    return a, torch.tensor(b, dtype=a.dtype) if isinstance(b, NUMBER) else b


def where(condition, a, b):
    return torch.where(tensor(condition), *typed(a, b))


def reduce(x, axis, function):
    """Halves, until one is left; of a tuple, several at once. Blocks are powers of two."""
    parts = x if isinstance(x, tuple) else (x,)
    while parts[0].shape[axis] > 1:
        halves = [part.chunk(2, axis) for part in parts]
        made = function(*(half[0] for half in halves), *(half[1] for half in halves))
        parts = made if isinstance(x, tuple) else (made,)
    found = tuple(part.select(axis, 0) for part in parts)
    return found if isinstance(x, tuple) else found[0]


def associative_scan(x, axis, function):
    """Each part with those before it: at distances of 1, 2, 4 and so on."""
    distance, length = 1, x.shape[axis]
    while distance < length:
        earlier, later = x.narrow(axis, 0, length - distance), x.narrow(axis, distance, length - distance)
        x = torch.cat([x.narrow(axis, 0, distance), function(earlier, later)], axis)
        distance *= 2
    return x


def atomic(function):
    def combine(pointer, value, mask=None, sem=None):
        offset = tensor(pointer.offset)
        value = torch.as_tensor(value, dtype=pointer.elements.dtype).expand(offset.shape)
        mask = tensor(True if mask is None else mask).expand(offset.shape)
        for at, one in zip(offset[mask].tolist(), value[mask], strict=True):
            pointer.elements[at] = function(pointer.elements[at], one)

    return combine


def fused_multiply_add(a, b, c):
    b, c = typed(b, a)[0], typed(c, a)[0]
    if a.dtype is torch.float64:
        return a * b + c
    return (a.double() * b.double() + c.double()).to(a.dtype)


def philox(seed, *counter):
    return cuda_random._philox(int(seed), list(torch.broadcast_tensors(*[word.long() for word in counter])))


def language(program):
    tl = types.SimpleNamespace(
        program_id=lambda axis: torch.tensor(0 if axis else program), arange=torch.arange, load=load, store=store,
        where=where,
        full=lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        zeros=lambda shape, dtype: torch.zeros(shape, dtype=dtype),
        dot=lambda a, b, c: a.to(c.dtype) @ b.to(c.dtype) + c,
        sum=lambda x, axis: x.sum(axis, dtype=x.dtype), reduce=reduce, associative_scan=associative_scan,
        philox=philox, uint32=torch.uint32,
        atomic_add=atomic(torch.add), atomic_max=atomic(torch.maximum), atomic_min=atomic(torch.minimum),
        maximum=lambda a, b, propagate_nan=None: torch.maximum(*typed(a, b)),
        minimum=lambda a, b, propagate_nan=None: torch.minimum(*typed(a, b)),
        div_rn=lambda a, b: torch.div(*typed(a, b)), sqrt_rn=torch.sqrt, sqrt=torch.sqrt, abs=torch.abs, erf=torch.erf,
        floor=torch.floor, ceil=torch.ceil, broadcast_to=lambda x, shape: tensor(x).expand(shape),
        debug_barrier=lambda: None, constexpr=int, PropagateNan=types.SimpleNamespace(ALL=1), int1=torch.bool,
        multiple_of=lambda x, number: x, fma=fused_multiply_add, exp=torch.exp,
        inline_asm_elementwise=lambda text, kinds, args, *more: ASSEMBLY[text.split()[0]](*args),
        float64=torch.float64, float32=torch.float32, float16=torch.float16, bfloat16=torch.bfloat16,
        int64=torch.int64, int32=torch.int32, int16=torch.int16, int8=torch.int8, uint8=torch.uint8,
    )  # fmt: skip
    libdevice = types.SimpleNamespace(
        exp=torch.exp, log=torch.log, tanh=torch.tanh, sin=torch.sin, cos=torch.cos, rint=torch.round, pow=torch.pow,
        expm1=torch.expm1, log1p=torch.log1p, sqrt=torch.sqrt, rsqrt=torch.rsqrt,
        fast_dividef=lambda a, b: torch.div(*typed(a, b)),
    )  # fmt: skip
    return tl, libdevice


def run(made, tensors, sizes=()):
    """Run a printed kernel on tensors, in the order of its parameters."""
    lines = [line for line in made.source.splitlines() if not line.startswith(("import", "from"))]
    programs = made.programs.evaluate(dict(sizes)) if made.programs.free_symbols else made.programs.value
    text = re.sub(r"\.to\((tl\.\w+), bitcast=True\)", r".view(\1)", "\n".join(lines))
    code = compile(text, made.name, "exec")
    for program in range(programs):
        tl, libdevice = language(program)
        names = {"tl": tl, "libdevice": libdevice, "triton": types.SimpleNamespace(jit=lambda function: function)}
        exec(code, names)
        pointers = [Pointer(torch.as_strided(t, (t.untyped_storage().nbytes() // t.element_size(),), (1,), 0),
                            t.storage_offset()) for t in tensors]  # fmt: skip
        names[made.name](*pointers, *[torch.tensor(value) for _, value in sizes])
