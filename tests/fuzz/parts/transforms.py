"""Programs of torch.func's transforms (vmap, grad, vjp, jvp, jacobians, hessians), nested in every order, with
closures, random numbers, changes in place, modes, chunks and gradients around them.

Every value has a shape made of the sizes ``a`` and ``b``; a function takes and returns one shape, or returns a scalar.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 14

HEADER = """
import math
import torch
import torch.nn.functional as F
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

LOG = []


def tensor(shape, seed, requires_grad):
    # Derivatives of derivatives multiply their roundings: in double precision those are not seen.
    numbers = torch.arange(1, 1 + math.prod(shape), dtype=torch.float64)
    # No two alike: which of two equal numbers is the larger is decided by their roundings.
    return ((numbers * (seed + 0.7)).sin().reshape(shape) + 0.1).requires_grad_(requires_grad)


def use(fn, args, kwargs):
    torch.manual_seed(5)
    results = fn(*args, **kwargs)
    leaves = [arg for arg in args if arg.requires_grad]
    total = sum(result.sum() for result in results if result.requires_grad)
    found = torch.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, torch.Tensor) else ()
    # how gradients lie in memory is the affair of autograd
    return ([result.detach() for result in results], [result.requires_grad for result in results],
            [None if each is None else each.clone(memory_format=torch.contiguous_format) for each in found],
            torch.rand(()))
"""

POINTWISE = (
    (2, "{p} * {q}"), (2, "{p} + {q}"), (1, "{p}.sin()"), (1, "{p}.tanh() * 2"), (0.7, "torch.sigmoid({p}) - {q}"),
    (0.7, "{p} * n"), (0.5, "{p}.square() + k"), (0.5, "torch.where({p} > 0.3, {p}, {q} * 0.1)"),
    (0.5, "{p}.exp() * 0.2"),
    (0.4, "{p}.detach() * {q}"), (0.4, "{p} / (1 + {q}.square())"), (0.4, "torch.maximum({p}, {q})"),
    (0.3, "{p}.clamp(-0.8, 0.8) * {q}"), (0.3, "{p} - {q}.mean()"), (0.3, "{p} * {q}.sum().cos()"),
    (0.3, "torch.zeros_like({p}) + {q}"), (0.3, "{p}.clone().mul_(0.5).add_({q})"),
)
SHAPED = (
    (1, "{p}.softmax(-1)"), (1, "{p}.cumsum(0) * 0.3"), (0.7, "{p}.flip(0) + {q}"), (0.7, "{p}.roll(1, 0)"),
    (0.5, "torch.cat([{p}[1:], {q}[:1]])"), (0.5, "{p}.sort(0).values"), (0.5, "F.layer_norm({p}, {p}.shape[-1:])"),
    (0.5, "{p}[torch.arange({p}.shape[0]).flip(0)]"), (0.5, "{p}.index_add(0, torch.tensor([0]), {q}[:1])"),
    (0.4, "{p}.gather(0, {q}.argsort(0))"), (0.4, "{p}.unsqueeze(0).expand(2, *{p}.shape).sum(0)"),
    (0.4, "torch.stack([{p}, {q}]).amax(0)"), (0.4, "{p}.reshape(-1).reshape({p}.shape)"),
    (0.3, "F.pad({p}, (1, 0))[..., :-1] + {q}"), (0.3, "{p}.narrow(0, 0, 1) * {q}"),
)
MATRICES = ((1, "{p} @ {q}.t() @ {p} * 0.2"), (0.7, "{p}.t().contiguous().t() + {q}"),
            (0.5, "torch.einsum('ij,ij->ij', {p}, {q})"), (0.5, "{p} * {q}.norm(dim=1, keepdim=True)"))
LOSSES = ((2, "{p}.sum()"), (1, "{p}.square().mean()"), (1, "({p} * {q}).sum()"), (0.7, "{p}.logsumexp(-1).sum()"),
          (0.5, "{p}.var()"), (0.5, "{p}.norm()"), (0.3, "({p} - {q}).abs().amax()"))


class _Writer:
    """Writes nested functions; each scope has names of values by shape."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.count = 0

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, scope: dict[str, list[str]], shape: str) -> str:
        names = scope[shape]
        return names[-1] if self.dice.chance(0.5) else self.dice.choice(names)

    def plain(self, scope: dict[str, list[str]], shape: str, random: bool) -> str:
        p, q = self.pick(scope, shape), self.pick(scope, shape)
        if random and self.dice.chance(0.3):
            return self.dice.choice((f"{p} + torch.rand_like({q})", f"F.dropout({p}, 0.4) + {q}",
                                     f"{p} * torch.randn({q}.shape, dtype={p}.dtype)"))
        table = POINTWISE + (SHAPED if shape else ()) + (MATRICES if len(shape) == 2 else ())
        return self.dice.weighted(table).format(p=p, q=q)

    def body(self, scope: dict[str, list[str]], shape: str, depth: int, indent: str, random: bool) -> list[str]:
        """Statements that end with a new value of a shape, the last in its list."""
        lines: list[str] = []
        for _ in range(self.dice.between(1, 3)):
            value = self.name()
            if depth and self.dice.chance(0.55):
                made, expression = self.transform(scope, shape, depth - 1, indent, random)
                lines += made
            elif self.dice.chance(0.07):
                expression = self.plain(scope, shape, random)
                lines += [f"{indent}with torch.no_grad():", f"{indent}    {value} = {expression}"]
                expression = f"{value} * 1"
            else:
                expression = self.plain(scope, shape, random)
            lines.append(f"{indent}{value} = {expression}")
            scope[shape].append(value)
        return lines

    def function(self, scope: dict[str, list[str]], shape: str, depth: int, indent: str, result: str, random: bool,
                 second: str | None = None) -> tuple[str, list[str]]:
        """A nested function of one shape, or of two arguments; ``result`` is "map", "loss" or "aux"."""
        name, argument = self.name("f"), self.name("p")
        inner = {each: list(names) for each, names in scope.items()}
        inner.setdefault(shape, []).append(argument)
        arguments = [argument]
        if second is not None:
            arguments.append(self.name("p"))
            inner.setdefault(second, []).insert(0, arguments[1])
        more = indent + "    "
        lines = [f"{indent}def {name}({', '.join(arguments)}):"]
        if self.dice.chance(0.05):
            lines.append(f"{more}LOG.append(len(LOG))")
        lines += self.body(inner, shape, depth, more, random)
        value = inner[shape][-1]
        if result == "map":
            lines.append(f"{more}return {value}")
        else:
            loss = self.dice.weighted(LOSSES[:3] if not shape else LOSSES).format(p=value, q=self.pick(inner, shape))
            lines.append(f"{more}return {loss}" + (f", {{'aux': {value}}}" if result == "aux" else ""))
        return name, lines

    def transform(self, scope: dict[str, list[str]], shape: str, depth: int, indent: str, random: bool) -> \
            tuple[list[str], str]:
        """Nested functions and an expression of a shape that transforms them."""
        p, q = self.pick(scope, shape), self.pick(scope, shape)
        kinds = ["grad", "grad", "grad_and_value", "aux", "vjp", "jvp", "argnums"]
        if shape:
            kinds += ["vmap"] * 6 + ["vmap_two"]
        if len(shape) == 1:
            kinds += ["jacrev", "jacfwd", "hessian", "vmap_vjp"]
        kind = self.dice.choice(kinds)
        if kind in ("vmap", "vmap_two"):
            return self.vmap(scope, shape, depth, indent, random, kind == "vmap_two")
        result = {"grad": "loss", "grad_and_value": "loss", "aux": "aux", "hessian": "loss", "argnums": "loss"}
        # random numbers in what vmap runs without saying so are errors, which are drawn now and then
        drawing = random and kind not in ("jacfwd", "hessian")
        name, lines = self.function(scope, shape, depth, indent, result.get(kind, "map"), drawing,
                                    shape if kind == "argnums" else None)
        expression = {
            "grad": f"grad({name})({p})", "grad_and_value": f"grad_and_value({name})({p})[0]",
            "aux": f"sum((lambda g, aux: [g, aux['aux']])(*grad({name}, has_aux=True)({p})))",
            "argnums": f"sum(grad({name}, argnums=({self.dice.choice(('0, 1', '1, 0', '-1, 0'))}))({p}, {q}))",
            "vjp": f"vjp({name}, {p})[1]({q})[0]", "jvp": f"sum(jvp({name}, ({p},), ({q},)))",
            "jacrev": f"jacrev({name}{self.dice.choice(('', ', chunk_size=2'))})({p}) @ {q}",
            "jacfwd": f"jacfwd({name})({p}) @ {q}", "hessian": f"hessian({name})({p}) @ {q}",
            "vmap_vjp": f"vmap(vjp({name}, {p})[1])(torch.eye({p}.shape[0], dtype={p}.dtype))[0] @ {q}",
        }[kind]
        return lines, expression

    def vmap(self, scope: dict[str, list[str]], shape: str, depth: int, indent: str, random: bool, two: bool) -> \
            tuple[list[str], str]:
        """vmap over one dimension of a value, and perhaps of a second one, or with it as a whole."""
        p, q = self.pick(scope, shape), self.pick(scope, shape)
        dim = self.dice.below(len(shape))
        part = shape[:dim] + shape[dim + 1:]
        mode = self.dice.choice(("", "", ", randomness='different'", ", randomness='same'"))
        chunk = ", chunk_size=2" if self.dice.chance(0.15) else ""
        settings = f", out_dims={dim}{mode}{chunk}"  # a negative one of what has no slices crashes torch
        drawing = bool(mode) and not (chunk and "same" in mode)
        if not two:
            name, lines = self.function(scope, part, depth, indent, "map", drawing)
            return lines, f"vmap({name}, in_dims={dim}{settings})({p})"
        whole = self.dice.chance(0.5)
        name, lines = self.function(scope, part, depth, indent, "map", drawing, shape if whole else part)
        return lines, f"vmap({name}, in_dims=({dim}, {None if whole else dim}){settings})({p}, {q})"


def generate(seed: int) -> Program:
    """A program of nested transforms, called with a few sizes."""
    dice = Dice(seed)
    writer = _Writer(dice)
    scope = {"ab": ["x", "y"], "b": ["w"], "": ["s"], "a": ["u"]}
    lines: list[str] = []
    shapes = []
    for _ in range(dice.between(1, 2)):
        shape = dice.choice(("ab", "ab", "b", "b", ""))
        shapes.append(shape)
        made, expression = writer.transform(scope, shape, dice.between(0, 2), "        ", True)
        name = writer.name()
        lines += [*made, f"        {name} = {expression}"]
        scope[shape].append(name)
    results = ", ".join(scope[shape][-1] for shape in dict.fromkeys(shapes))
    program = [HEADER, "\n", "def make():", "    k = 0.5", "    LOG.clear()", "    def fn(x, y, w, u, s, n=2):", *lines,
               f"        return {results},", "    calls = []"]
    needs = dice.chance(0.5)
    for call in range(dice.between(2, 3)):
        a, b = (dice.between(2, 4) for _ in range(2))
        gradients = [needs and dice.chance(0.7) for _ in range(5)]
        given = ", ".join(f"tensor({shape}, {number}, {flag})" for number, (shape, flag) in enumerate(
            zip(((a, b), (a, b), (b,), (a,), ()), gradients, strict=True), 1))
        if call and dice.chance(0.3):
            given = f"*calls[{call - 1}][0]"
        more = dice.choice(("", "", "'n': 3"))
        program.append(f"    calls.append((({given},), {{{more}}}))")
    program += ["    return fn, calls, lambda index: None, lambda: {'log': list(LOG)}, use"]
    return Program(seed, "\n".join(program) + "\n")
