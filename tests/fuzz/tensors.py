"""Expressions for tensors of a wanted shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .values import BATCH, FOUR, ONE, THREE, TWO, Dim, Type, Unavailable, tensor

if TYPE_CHECKING:
    from .writer import Writer

Table = list[tuple[float, str]]

# Shape in = shape out. The magnitudes stay tame so that loops and repeated calls do not end in infinities.
FLOAT_SAME_SHAPE: Table = [
    (2, "torch.relu($like(self))"),
    (2, "$like(self).tanh()"),
    (1, "torch.sigmoid($like(self))"),
    (1, "$like(self).abs()"),
    (1, "-$like(self)"),
    (1, "$like(self).cos()"),
    (1, "torch.sin($like(self))"),
    (1, "$like(self).clamp(-2, 2)"),
    (1, "$like(self).clamp(min=$float)"),
    (1, "F.gelu($like(self))"),
    (1, "F.silu($like(self))"),
    (1, "torch.exp(-$like(self).abs())"),
    (1, "($like(self).abs() + 1).sqrt()"),
    (1, "torch.log1p($like(self).abs())"),
    (1, "$like(self).clamp(-3, 3) ** 2"),
    (2, "$like(self) * $float"),
    (2, "$like(self) + $int"),
    (1, "$float - $like(self)"),
    (1, "$like(self) / ($like(self).abs() + 1)"),
    (1, "$like(self).clone()"),
    (1, "$like(self).detach()"),
    (0.5, "$like(self).contiguous()"),
    (0.5, "$like(self).double().add(1).float()"),
    (0.5, "$like(self).to(torch.float64).to(torch.float32)"),
    (0.5, "torch.lerp($like(self), $like(self), 0.25)"),
    (0.5, "torch.addcmul($like(self), $like(self), $like(self), value=0.5)"),
    (1, "torch.where($like(self) > 0, $like(self), $like(self))"),
    (1, "$like(self).masked_fill($like(self) < 0, $float)"),
    (1, "torch.maximum($like(self), $like(self))"),
    (0.5, "F.dropout($like(self), 0.5)"),
    (0.5, "F.dropout($like(self), 0.3, training=False)"),
    (0.5, "torch.rand_like($like(self))"),
    (0.5, "torch.add($like(self), $like(self), alpha=2)"),
    (0.5, "operator.mul($like(self), 0.5)"),
    (1, "$like(self) if $bool else $like(self)"),
    (1, "$use(scale_shift)($like(self), shift=$float)"),
    (1, "$use(scale_shift)($like(self), $float)"),
    (1, "$use(apply_all)($like(self), torch.tanh, lambda p: p + 1, negate=$bool)"),
    (1, "$use(gated)($like(self), mode='tanh')"),
    (0.5, "$use(gated)($like(self))"),
    (0.5, "$use(without_grad)($like(self))"),
    (0.5, "$v(obj[Scaler])($like(self))"),
    (0.5, "torch.stack([$like(self), $like(self)]).mean(0)"),
    (0.5, "functools.reduce(torch.add, [$like(self), $like(self)])"),
    (0.5, "sum([$like(self), $like(self)])"),
    (0.5, "(lambda p: p * 2)($like(self))"),
]
# Of rank one or more.
FLOAT_ALONG: Table = [
    (1, "$like(self).softmax(-1)"),
    (0.5, "F.log_softmax($like(self), dim=0)"),
    (0.5, "$like(self).cumsum(0) * 0.5"),
    (0.5, "$like(self).flip(0)"),
    (0.5, "$like(self).roll(1, -1)"),
    (0.5, "$like(self).sort(dim=-1)[0]"),
    (0.5, "$like(self) - $like(self).mean(-1, keepdim=True)"),
    (0.5, "$like(self) / ($like(self).norm(dim=0, keepdim=True) + 1)"),
    (0.5, "torch.cat([$like(self)[:1], $like(self)[1:]])"),
    (0.5, "torch.cat([$like(self)[1:], $like(self)[:1]], dim=0)"),
    (0.5, "torch.stack(list($like(self).unbind(0)))"),
    (0.5, "$like(self).reshape(-1).view($like(self).shape)"),
    (0.5, "$like(self)[..., None].squeeze(-1)"),
    # A ramp is added: gradients of rows that are constant would be rounding errors, far from 0.
    (0.5, "F.layer_norm($like(self) + torch.linspace(0, 1, $like(self).shape[-1]), $like(self).shape[-1:])"),
]
INT_SAME_SHAPE: Table = [
    (2, "$like(self) + $int"),
    (1, "$like(self) * 2 % 7"),
    (1, "$like(self) // 2"),
    (1, "$like(self) - $like(self)"),
    (1, "$like(self).clamp(0, 5)"),
    (1, "torch.where($like(self) > 1, $like(self), $like(self))"),
    (1, "$like(self) & 3"),
]
BOOL_SAME_SHAPE: Table = [
    (1, "~$like(self)"),
    (1, "$like(self) & $like(self)"),
    (1, "$like(self) | $like(self)"),
    (1, "torch.logical_xor($like(self), $like(self))"),
]
REDUCTIONS: Table = [
    (2, "{}.sum({})"),
    (2, "{}.mean({})"),
    (1, "{}.amax(dim={})"),
    (1, "{}.max({})[0]"),
    (1, "{}.min(dim={}).values"),
    (1, "torch.logsumexp({}, dim={})"),
    (0.5, "{}.std(dim={}, unbiased=False)"),
]

Production = Callable[["Writer", Type, int], str]


def sizes(shape: tuple[Dim, ...]) -> str:
    return "(" + "".join(f"{dim.source()}, " for dim in shape) + ")"


def tensor_source(writer: Writer, type: Type, depth: int) -> str:
    """Source of an expression of this tensor type; the deeper, the more operators."""
    fitting = [variable for variable in writer.variables if variable.type == type]
    if fitting and writer.dice.chance(0.85 if depth <= 0 else 0.2):
        return writer.dice.choice(fitting).name
    if depth <= 0:
        return _construct(writer, type)
    candidates = list(PRODUCTIONS[type.dtype])
    while candidates:
        production = writer.dice.weighted(candidates)
        try:
            return production(writer, type, depth)
        except Unavailable:
            candidates = [pair for pair in candidates if pair[1] is not production]
    return _construct(writer, type)


def _construct(writer: Writer, type: Type) -> str:
    """A new tensor made of no other, or of a bare variable."""
    dice, shape = writer.dice, sizes(type.shape)
    if type.dtype == "bool":
        return dice.choice([f"torch.ones({shape}, dtype=torch.bool)", f"(torch.rand({shape}) > 0.5)"])
    if type.dtype == "int":
        return dice.choice([f"torch.full({shape}, {dice.between(0, 5)})", f"torch.randint(0, 6, {shape})"])
    options = [
        (1.0, f"torch.zeros({shape})"),
        (1.0, f"torch.ones({shape})"),
        (1.0, f"torch.full({shape}, {dice.choice(['0.5', '-1.0', '2.0'])})"),
        (1.0, f"x.new_zeros({shape})"),
        (1.0, f"x.new_full({shape}, 1.5)"),
        (0.5, f"torch.rand({shape})"),
        (0.5, f"torch.randn({shape})"),
    ]
    if type.rank:
        other = writer.find("T").name
        options.append((2.0, f"({other}.sum() * 0.1).expand({shape})"))
        options.append((2.0, f"torch.full({shape}, 0.5) * {other}.mean()"))
    else:
        options.append((4.0, "x.mean()"))
    return dice.weighted(options)


def _from_table(table: Table, rank: int = 0) -> Production:
    def produce(writer: Writer, type: Type, depth: int) -> str:
        if type.rank < rank:
            raise Unavailable
        return writer.first_of(table, depth, {"self": type})

    return produce


def _broadcast(writer: Writer, type: Type, depth: int) -> str:
    """A binary operator whose right side is smaller."""
    if not type.rank:
        raise Unavailable
    left = tensor_source(writer, type, depth - 1)
    shape = list(type.shape[writer.dice.below(type.rank + 1) :])
    for axis in range(len(shape)):
        if writer.dice.chance(0.2):
            shape[axis] = ONE
    right = tensor_source(writer, tensor(tuple(shape)), depth - 1)
    operator = writer.dice.choice(["+", "-", "*"])
    return f"(({left}) {operator} ({right}))"


def _reduce(writer: Writer, type: Type, depth: int) -> str:
    if not type.rank and writer.dice.chance(0.6):
        inner = tensor_source(writer, tensor(writer.dice.choice([(BATCH, FOUR), (FOUR,)])), depth - 1)
        return f"({inner})" + writer.dice.choice([".sum()", ".mean()", ".max()", ".norm()"])
    if type.rank > 2:
        raise Unavailable
    axis = writer.dice.below(type.rank + 1)
    dim = writer.dice.choice([FOUR, THREE, BATCH])
    inner = tensor_source(writer, tensor((*type.shape[:axis], dim, *type.shape[axis:])), depth - 1)
    return writer.dice.weighted(REDUCTIONS).format(f"({inner})", axis)


def _select(writer: Writer, type: Type, depth: int) -> str:
    if type.rank > 2:
        raise Unavailable
    dim = writer.dice.choice([FOUR, BATCH, THREE])
    inner = tensor_source(writer, tensor((dim, *type.shape), type.dtype), depth - 1)
    return f"({inner})[{writer.dice.choice(dim.safe_indices)}]"


def _slice(writer: Writer, type: Type, depth: int) -> str:
    """A part of something larger along the first axis."""
    if not type.rank:
        raise Unavailable
    first = type.shape[0]
    if first == TWO and writer.dice.chance(0.5):
        inner = tensor_source(writer, tensor((BATCH, *type.shape[1:]), type.dtype), depth - 1)
        return f"({inner})[:2]"
    if first == BATCH:
        inner = tensor_source(writer, tensor((Dim(1, 1), *type.shape[1:]), type.dtype), depth - 1)
        return f"({inner})" + writer.dice.choice(["[1:]", "[:-1]", ".narrow(0, 1, x.shape[0])"])
    if first == Dim(1, 1):
        inner = tensor_source(writer, tensor((BATCH, *type.shape[1:]), type.dtype), depth - 1)
        return f"torch.cat([({inner}), ({inner})[:1]])"
    if first.batch == 0 and 1 < first.const < 5:
        indices = [writer.dice.below(2) for _ in range(first.const)]
        inner = tensor_source(writer, tensor((BATCH, *type.shape[1:]), type.dtype), depth - 1)
        return f"({inner})[{indices}]"
    raise Unavailable


def _join(writer: Writer, type: Type, depth: int) -> str:
    """`stack` or `cat` along an axis of constant size."""
    axes = [axis for axis, dim in enumerate(type.shape) if not dim.batch and 1 < dim.const < 5]
    if not axes:
        raise Unavailable
    axis = writer.dice.choice(axes)
    count = type.shape[axis].const
    before, after = type.shape[:axis], type.shape[axis + 1 :]
    if writer.dice.chance(0.5):
        parts = [tensor_source(writer, tensor(before + after), depth - 2) for _ in range(count)]
        return f"torch.stack([{', '.join(parts)}], dim={axis})"
    split = writer.dice.between(1, count - 1)
    parts = [tensor_source(writer, tensor((*before, Dim(0, n), *after)), depth - 1) for n in (split, count - split)]
    return f"torch.cat([{', '.join(parts)}], {axis})"


def _matmul(writer: Writer, type: Type, depth: int) -> str:
    if type.rank not in (1, 2, 3):
        raise Unavailable
    inner = writer.dice.choice([FOUR, FOUR, THREE, BATCH])
    if type.rank == 1:
        left = tensor_source(writer, tensor((*type.shape, inner)), depth - 1)
        right = tensor_source(writer, tensor((inner,)), depth - 1)
        return f"(({left}) @ ({right}))"
    left = tensor_source(writer, tensor((*type.shape[:-1], inner)), depth - 1)
    right = tensor_source(writer, tensor((inner, type.shape[-1])), depth - 1)
    forms = ["({} @ {})", "torch.matmul({}, {})"]
    if type.rank == 2:
        forms += ["torch.mm({}, {})", "torch.einsum('ij,jk->ik', {}, {})", "F.linear({}, {}.t())"]
    return writer.dice.choice(forms).format(f"({left})", f"({right})") + " * 0.5"


def _view(writer: Writer, type: Type, depth: int) -> str:
    shape = type.shape
    if type.rank == 1:
        if shape[0] == Dim(4, 0):
            inner = tensor_source(writer, tensor((BATCH, FOUR), type.dtype), depth - 1)
            return f"({inner})" + writer.dice.choice([".flatten()", ".reshape(-1)", ".reshape(x.shape[0] * 4)"])
        inner = tensor_source(writer, tensor((shape[0], ONE), type.dtype), depth - 1)
        return f"({inner})" + writer.dice.choice([".squeeze(1)", "[:, 0]", ".flatten()"])
    if type.rank == 2:
        inner = tensor_source(writer, tensor((shape[1], shape[0]), type.dtype), depth - 1)
        return f"({inner})" + writer.dice.choice(
            [".t()", ".transpose(0, 1)", ".mT", ".permute(1, 0)", ".T.contiguous()"]
        )
    if type.rank == 3:
        if writer.dice.chance(0.5):
            inner = tensor_source(writer, tensor((shape[0], shape[2]), type.dtype), depth - 1)
            return f"({inner}).unsqueeze(1).expand({', '.join(dim.source() for dim in shape)})"
        inner = tensor_source(writer, tensor((shape[1], shape[0], shape[2]), type.dtype), depth - 1)
        return f"({inner}).permute(1, 0, 2)"
    raise Unavailable


def _model(writer: Writer, type: Type, depth: int) -> str:
    if not type.rank or type.shape[-1] != FOUR:
        raise Unavailable
    model = writer.find("obj[Net]").name
    argument = tensor_source(writer, type, depth - 1)
    return f"{model}({argument})" if writer.dice.chance(0.7) else f"{model}({argument}, gain=0.5)"


def _from_container(writer: Writer, type: Type, depth: int) -> str:
    options = []
    for variable in writer.variables:
        if variable.type.item == type and variable.type.kind in ("list", "tuple", "deque"):
            options += [f"{variable.name}[0]", f"{variable.name}[-1]", f"sum({variable.name})"]
        elif variable.type.item == type and variable.type.kind == "dict":
            options += [f"{variable.name}['a']", f"{variable.name}.get('b')"]
        elif variable.type.item == type and variable.type.kind == "fn":
            options += [f"{variable.name}({tensor_source(writer, type, depth - 1)})"]
    if not options:
        raise Unavailable
    return writer.dice.choice(options)


def _cast(writer: Writer, type: Type, depth: int) -> str:
    if type.dtype == "float":
        inner = tensor_source(writer, type.with_shape(type.shape, writer.dice.choice(["int", "bool"])), depth - 1)
        return f"({inner})" + writer.dice.choice([".float()", ".to(torch.float32)", ".type(torch.float32)"])
    if type.dtype == "int":
        inner = tensor_source(writer, type.with_shape(type.shape, writer.dice.choice(["float", "bool"])), depth - 1)
        return f"({inner})" + writer.dice.choice([".long()", ".to(torch.int64)"])
    inner = tensor_source(writer, type.with_shape(type.shape, "int"), depth - 1)
    return f"({inner}).bool()"


def _compare(writer: Writer, type: Type, depth: int) -> str:
    left = tensor_source(writer, type.with_shape(type.shape, "float"), depth - 1)
    if writer.dice.chance(0.5):
        right = writer.dice.choice(["0", "0.5", "1"])
    else:
        right = tensor_source(writer, type.with_shape(type.shape, "float"), depth - 1)
    return f"(({left}) {writer.dice.choice(['>', '<', '>=', '=='])} ({right}))"


def _index_of(writer: Writer, type: Type, depth: int) -> str:
    if type.rank > 2:
        raise Unavailable
    inner = tensor_source(writer, tensor((*type.shape, FOUR)), depth - 1)
    return f"({inner})" + writer.dice.choice([".argmax(-1)", ".argmin(dim=-1)", ".sort(-1)[1].sum(-1)"])


def _arange(writer: Writer, type: Type, depth: int) -> str:
    if type.rank != 1:
        raise Unavailable
    return f"torch.arange({type.shape[0].source()})"


PRODUCTIONS: dict[str, list[tuple[float, Production]]] = {
    "float": [
        (8, _from_table(FLOAT_SAME_SHAPE)),
        (3, _from_table(FLOAT_ALONG, rank=1)),
        (4, _broadcast),
        (2, _reduce),
        (1, _select),
        (1, _slice),
        (1, _join),
        (2, _matmul),
        (2, _view),
        (3, _model),
        (2, _from_container),
        (1, _cast),
    ],
    "int": [(3, _from_table(INT_SAME_SHAPE)), (1, _cast), (1, _index_of), (1, _arange), (0.5, _select), (0.5, _view)],
    "bool": [(1, _from_table(BOOL_SAME_SHAPE)), (4, _compare), (0.5, _cast)],
}
