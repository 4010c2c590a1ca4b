"""Runs Triton source on the CPU, program after program: `triton` and `triton.language` as far as kernels use them.

Pointers are a tensor's elements and an offset; blocks are tensors. Like Triton, it refuses what has the wrong shape.
"""

import ast
import functools
import types

import torch

from firesteel.torch_compat import cuda_random

NUMBER = (int, float, bool)
TORCH_NAMES = {"rint": "round", "fast_dividef": "div"}
ASSEMBLY = {"ex2.approx.ftz.f32": torch.exp2, "rcp.approx.ftz.f32": torch.reciprocal}


class Pointer:
    def __init__(self, elements, offset=0, races=None):
        self.elements, self.offset, self.races = elements, offset, races

    def __add__(self, offset):
        return Pointer(self.elements, self.offset + offset, self.races)


def tensor(value):
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def load(pointer, mask=None, other=None, eviction_policy=None):
    offset = tensor(pointer.offset)
    if mask is not None:
        mask = tensor(mask).expand(offset.shape)  # a mask has the shape of the pointers
        offset = torch.where(mask, offset, 0)
    assert not offset.numel() or offset.min() >= 0, "a negative index"
    if pointer.races is not None:
        pointer.races.load(pointer.elements, offset, mask)
    if mask is None:
        return pointer.elements[offset]
    inside = pointer.elements[offset] if mask.any() else torch.zeros(offset.shape, dtype=pointer.elements.dtype)
    return torch.where(mask, inside, torch.tensor(other, dtype=inside.dtype))


def store(pointer, value, mask=None, eviction_policy=None):
    offset = tensor(pointer.offset)
    value = torch.as_tensor(value, dtype=pointer.elements.dtype).expand(offset.shape)
    mask = tensor(True if mask is None else mask).expand(offset.shape)
    assert not mask.any() or offset[mask].min() >= 0, "a negative index"
    if pointer.races is not None:
        pointer.races.store(pointer.elements, offset, mask)
    pointer.elements[offset[mask]] = value[mask]


def divided(a, b):
    """``a // b``, which Triton rounds towards zero; something where ``b`` is zero."""
    if isinstance(a, NUMBER) and isinstance(b, NUMBER):
        return a // b
    a, b = typed(a, b)
    return torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc")


def left_over(a, b):
    """``a % b``, which has the sign of ``a``."""
    if isinstance(a, NUMBER) and isinstance(b, NUMBER):
        return a % b
    a, b = typed(a, b)
    return torch.fmod(a, torch.where(b == 0, 1, b))


class Libdevice:
    """CUDA's math library, by torch."""

    def __getattr__(self, name):
        function = getattr(torch, TORCH_NAMES.get(name, name))
        return lambda *args: function(*(args if len(args) == 1 else typed(*args)))


def extreme(exact, other):
    def chosen(a, b, propagate_nan=None):
        a, b = typed(a, b)
        return (exact if propagate_nan or not a.is_floating_point() else other)(a, b)

    return chosen


class AsTriton(ast.NodeTransformer):
    """What means something else in Triton than in torch."""

    def visit_BinOp(self, node):  # noqa: N802
        self.generic_visit(node)
        name = {ast.FloorDiv: "divided", ast.Mod: "left_over"}.get(type(node.op))
        return node if name is None else ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])

    def visit_Call(self, node):  # noqa: N802
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.keywords:
            node = ast.Call(ast.Attribute(node.func.value, "view", ast.Load()), node.args, [])
        return node


@functools.lru_cache(maxsize=64)
def code_of(source, name):
    tree = ast.parse(source)
    tree.body = [part for part in tree.body if not isinstance(part, (ast.Import, ast.ImportFrom))]
    return compile(ast.fix_missing_locations(AsTriton().visit(tree)), f"<kernel {name}>", "exec")


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
        if function is torch.add:
            pointer.elements.index_put_((offset[mask],), value[mask], accumulate=True)
            return
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


class Stopped(BaseException):
    """The end of a program: on a GPU nothing comes after a failed assertion."""


def device_assert(fine, message, mask=None):
    if not (tensor(fine) | (False if mask is None else ~mask)).all():
        raise Stopped(message)


def language(program, races=None):
    tl = types.SimpleNamespace(
        program_id=lambda axis: torch.tensor(0 if axis else program), arange=torch.arange, load=load, store=store,
        where=where,
        full=lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        zeros=lambda shape, dtype: torch.zeros(shape, dtype=dtype),
        dot=lambda a, b, c: a.to(c.dtype) @ b.to(c.dtype) + c,
        sum=lambda x, axis: x.sum(axis, dtype=x.dtype), reduce=reduce, associative_scan=associative_scan,
        philox=philox, uint32=torch.uint32,
        atomic_add=atomic(torch.add), atomic_max=atomic(torch.maximum), atomic_min=atomic(torch.minimum),
        maximum=extreme(torch.maximum, torch.fmax), minimum=extreme(torch.minimum, torch.fmin),
        div_rn=lambda a, b: torch.div(*typed(a, b)), sqrt_rn=torch.sqrt, sqrt=torch.sqrt, abs=torch.abs, erf=torch.erf,
        floor=torch.floor, ceil=torch.ceil, broadcast_to=lambda x, shape: tensor(x).expand(shape),
        debug_barrier=lambda: races and races.barrier(), constexpr=int, PropagateNan=types.SimpleNamespace(ALL=1),
        int1=torch.bool, device_assert=device_assert,
        multiple_of=lambda x, number: x, max_contiguous=lambda x, number: x, fma=fused_multiply_add, exp=torch.exp,
        inline_asm_elementwise=lambda text, kinds, args, *more: ASSEMBLY[text.split()[0]](*args),
        float64=torch.float64, float32=torch.float32, float16=torch.float16, bfloat16=torch.bfloat16,
        int64=torch.int64, int32=torch.int32, int16=torch.int16, int8=torch.int8, uint8=torch.uint8,
    )  # fmt: skip
    return tl


def run(made, tensors, sizes=()):
    """Run a printed kernel on tensors, in the order of its parameters."""
    programs = made.programs.evaluate(dict(sizes)) if made.programs.free_symbols else made.programs.value
    run_programs(made, range(programs), tensors, [value for _, value in sizes])


def run_programs(made, programs, tensors, numbers, races=None):
    """Run some programs of a kernel, in that order; ``numbers``: its sizes, then others. ``races`` is told of all."""
    code = code_of(made.source, made.name)
    pointers = [Pointer(torch.as_strided(t, (t.untyped_storage().nbytes() // t.element_size(),), (1,), 0),
                        t.storage_offset(), races) for t in tensors]  # fmt: skip
    given = [torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None) for value in numbers]
    for program in programs:
        if races is not None:
            races.begin(program)
        names = {"tl": language(program, races), "libdevice": Libdevice(), "divided": divided, "left_over": left_over,
                 "triton": types.SimpleNamespace(jit=lambda function: function)}
        exec(code, names)
        names[made.name](*pointers, *given)
