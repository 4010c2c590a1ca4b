"""Programs about gradients: Functions of every kind, derivatives of derivatives, hooks, modes, forward mode."""

from __future__ import annotations

from ..harness import run_program
from ..program import Program
from ..values import Dice

SAMPLE = 12
TRIES = 20

# Results that a Function's forward computes from x; with y where the function has one.
FORWARDS = (
    (3, "x"), (1, "x.view_as(x)"), (1, "x[:]"), (1, "x.contiguous()"), (1, "x.to(x.dtype)"), (0.5, "x.clone()"),
    (1, "x * 2"), (1, "x.sin()"), (1, "x.exp()"), (0.5, "x.t().t()"), (0.5, "x.detach()"),
    (0.5, "x.view(-1).view(2, 3)"), (0.5, "x.expand(2, 3)"), (0.5, "Inner.apply(x)"), (0.5, "Inner.apply(x * 2).cos()"),
)
PAIRS = ((2, "x, x * 2"), (1, "x * 2, x.cos()"), (1, "x.sin(), x"), (1, "x * 2, x > 0.7"), (1, "x * 2, 3"),
         (1, "x[:1], x[1:]"), (0.7, "x, x"), (0.5, "x * 2, None"), (0.5, "x * 2, Box(x * 3)"), (0.5, "x * 2, [x * 3]"))
# All are linear in g, as gradients are: how often a backward is called for one result is nothing to rely on.
BACKWARDS = ((3, "-g"), (1, "g * 3"), (1, "g.clone().mul_(2)"), (0.5, "g.flip(0)"), (0.5, "torch.zeros_like(g)"),
             (0.3, "None"), (1, "g if ctx.needs_input_grad[0] else None"), (0.5, "Scale.apply(g)"),
             (0.5, "g.expand(2, 3)"))
WITH_SAVED = ((2, "g * saved"), (1, "g * saved.cos()"), (1, "-g * saved.detach()"), (0.5, "saved.square() * g"))

# Expressions over tensors a and b of one shape.
EXPRESSIONS = (
    (3, "{a} * {b}"), (2, "{a} + {b}"), (1, "{a} + 1"), (1, "{a} * 2"), (1, "{a}.sin()"), (1, "{a}.exp()"),
    (1, "{a}.tanh()"), (0.7, "{a}.relu()"), (0.7, "torch.sigmoid({a})"), (0.7, "{a} @ {b}.t() @ {a}"),
    (0.5, "{a}.softmax(-1)"), (0.5, "{a}.cumsum(0)"), (0.7, "{a}[0] + {b}"), (0.7, "{a} - {b}.mean()"),
    (0.7, "{a}.view(-1).view(2, 3)"), (0.5, "{a}.t().t()"), (0.5, "{a}.expand(2, 3)"), (0.7, "{a}.detach()"),
    (0.5, "{a}.clone()"), (0.5, "torch.where({a} > 1, {a}, {b})"), (0.5, "F.dropout({a}, 0.5)"),
    (0.5, "{a} * torch.rand_like({b})"), (0.5, "{a} * random.random()"),
    (0.5, "{a}.pow(3)"), (0.3, "{a}.data"), (0.5, "torch.cat([{a}[1:], {b}[:1]])"),
    (0.3, "{a}.square().sum() * {b}"), (0.4, "checkpoint(lambda t: t.sin() * t, {a}, use_reentrant=False)"),
    (0.5, "F.layer_norm({a}, (3,))"), (0.3, "{a}.to({a}.dtype, copy=True)"), (0.5, "{a} * torch.ones_like({b})"),
    (0.5, "ops.scaled({a}, 1.5)"), (0.5, "ops.squared({a})[0]"), (0.3, "ops.changing({a})"), (0.4, "helper({a})"),
    (0.4, "model({a})"),
)
IN_PLACE = (
    (2, "{a}.mul_(2)"), (1, "{a}.add_({b})"), (1, "{a}[0] = {b}[1]"), (1, "{a}.relu_()"), (1, "{a}[1:].mul_({b}[:1])"),
    (0.5, "{a}.t()[0] = 1"), (0.5, "{a}.detach().mul_(2)"), (0.3, "{a}.zero_()"), (0.5, "{a}.copy_({b})"),
    (0.3, "ops.increment_({a}.detach())"), (0.4, "torch.mul({b}.detach(), 2, out={a}.detach())"),
)
KINDS = ((6, "compute"), (1.5, "in place"), (1, "mode"), (0.4, "break"), (0.4, "branch"), (0.5, "grad"),
         (0.3, "backward"), (0.3, "hook"), (0.3, "detach"), (0.3, "require"), (0.2, "retain"), (0.3, "inference"))
# Of programs that give arguments a history by writing to them.
WRITING_KINDS = ((8, "write"), (2, "compute"), (1, "in place"), (0.5, "mode"), (1, "branch"), (0.2, "detach"))
# What is written to through, and the writes: a value that requires grad gives all of it a history.
WRITTEN_VIEWS = (
    (2, "{a}[::2]"), (1, "{a}[0]"), (1, "{a}.t()"), (1, "{a}[:, 1:]"), (1, "{a}.view(-1)[2:]"), (1, "{a}[:]"),
    (1, "{a}.unbind()[1]"), (0.7, "{a}.chunk(2)[0]"), (0.5, "{a}.split(1)[1][0]"), (0.5, "{a}.t().split([1, 2])[1]"),
    (0.5, "{a}.unbind(1)[2].view(2)"), (0.7, "{a}.detach()"), (0.7, "{a}.detach()[1]"), (0.5, "{a}.data[:1]"),
    (1, "{a}"),
)
WRITES = ((2, "{v}.mul_({b}.mean())"), (1, "{v}.add_({b}.sum())"), (1, "{v} *= {b}.mean()"), (1, "{v}[0] = {b}[1, 1]"),
          (0.7, "{v}.mul_(2)"), (0.5, "{v}[1:].sub_({b}.max())"), (0.5, "{v}.copy_({b}.mean())"))
RESULTS = ((5, "{a}"), (1, "{a}[1:]"), (1, "{a}.t()"), (0.7, "{a}.sum()"), (0.7, "{a}.view(-1)"), (0.5, "{a}.detach()"),
           (0.4, "{a}.unbind()[1]"), (0.3, "{a}.requires_grad"), (0.3, "{a}.is_leaf"))
MODES = ((2, "torch.no_grad()"), (2, "torch.enable_grad()"), (1, "torch.set_grad_enabled(False)"))
# Inside of the function only around what cannot break the graph: the counting backend's own mode must not outlast it.
OUTSIDE_MODES = (*MODES, (0.5, "torch.inference_mode()"))
SAFE = ("{a} * 2", "{a}.sin()", "{a} + {b}", "{a}[:]", "{a}.detach()")
DETACHED = ("{a} * 2", "{a}.sin()", "{a} + {b}", "{a}[:]", "{a} @ {b}.t() @ {a}", "{a}.exp()")
ARGUMENTS = ((4, "leaf({n})"), (2, "leaf({n}) * 1"), (1, "leaf({n}).exp()"), (1, "plain({n})"),
             (0.5, "leaf({n}, 4)[1:3]"), (0.5, "leaf({n}, 3)[:, None, 0].expand(3, 3)[:2]"))
# Those that may be written to, and have a history afterwards.
WRITTEN_ARGUMENTS = ((3, "plain({n})"), (3, "leaf({n}) * 1"), (0.3, "leaf({n})"), (0.7, "plain({n}, 4)[1:3]"))

HEADER = '''\
import random

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from tests.fuzz import autograd_operators as ops

DTYPE = torch.float64  # rounding is not what this is about
LEAVES = []


class Box:
    def __init__(self, value):
        self.value = value


class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * x * 3


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 2


def plain(n, rows=2):
    # Squares: in a row with its mean in the middle, a norm would make a rounding error of that. No view: what autograd
    # makes of a view that was told to require grad is past understanding.
    return torch.linspace(0.4 + 0.1 * n, 1.6 - 0.1 * n, 3 * rows, dtype=DTYPE).reshape(rows, 3).square()


def leaf(n, rows=2):
    LEAVES.append(plain(n, rows).requires_grad_())
    return LEAVES[-1]


def written(t, other):
    other = other * 1
    t.mul_(other.mean())
    return other + 1 if other.sum() > 0.37 else other


'''

# How a call is used. `fn(*args)` is the call; what is returned is compared.
USES = {
    "plain": (3, '''\
    return fn(*args)
'''),
    "one after the other": (3, '''\
    result = fn(*args)
    found = []
    for start in ops.starts(result)ORDER:
        found.append(ops.attempt(lambda: start.sum().backward(RETAIN)))
    for start in ops.starts(result)[:1]:
        found.append(ops.attempt(lambda: start.sum().backward()))
    return found, ops.gradients(found, LEAVES), ops.dense(result)
'''),
    "between results": (1, '''\
    result = fn(*args)
    found = [ops.attempt(lambda: torch.autograd.grad(one.sum(), other, retain_graph=True, allow_unused=True))
             for one in ops.starts(result) for other in ops.starts(result) if one is not other]
    for start in ops.starts(result)[-1:]:
        start.retain_grad()
    for start in ops.starts(result)[:1]:
        ops.hook(start, lambda g: g * 2)
    found.append(ops.attempt(lambda: sum([start.sum() for start in ops.starts(result)]).backward()))
    return ops.dense(found), ops.gradients(found, [*LEAVES, *ops.starts(result)[-1:]]), ops.dense(result)
'''),
    "all together": (1.5, '''\
    result = fn(*args)
    ones = [torch.ones_like(start) for start in ops.starts(result)]
    found = ops.attempt(lambda: torch.autograd.backward(ops.starts(result), ones))
    return found, ops.gradients(found, LEAVES), ops.dense(result)
'''),
    "second derivatives": (4, '''\
    result = fn(*args)
    total = sum([(start * (n + 1)).cos().sum() for n, start in enumerate(ops.starts(result))], torch.zeros(()))
    leaves = [leaf for leaf in LEAVES if leaf.requires_grad]
    first = ops.attempt(lambda: torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
    again = [ops.attempt(lambda: torch.autograd.grad(g.square().sum(), leaves, retain_graph=True, allow_unused=True))
             for g in (first if isinstance(first, tuple) else []) if g is not None]
    return ops.dense(first), ops.dense(again), ops.dense(result)
'''),
    "penalty": (2, '''\
    result = fn(*args)
    leaves = [leaf for leaf in LEAVES if leaf.requires_grad]
    total = sum([start.sum() for start in ops.starts(result)], torch.zeros(()))
    gradients = ops.attempt(lambda: torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
    if not isinstance(gradients, tuple):
        return gradients
    penalty = sum([(g.norm() - 1).square() for g in gradients if g is not None], torch.zeros(()))
    done = ops.attempt(lambda: (total + penalty).backward())
    return ops.dense(gradients), done, ops.gradients(done, LEAVES)
'''),
    "hessian": (1, '''\
    leaves = [leaf for leaf in LEAVES if leaf.requires_grad]
    result = fn(*args)
    rows = []
    for start in ops.starts(result)[:2]:
        first = ops.attempt(lambda: torch.autograd.grad(
            start.square().sum(), leaves, create_graph=True, allow_unused=True))
        rows += [first] if isinstance(first, str) else []
        for g in first if isinstance(first, tuple) else []:
            if g is not None:
                rows += [ops.attempt(lambda: torch.autograd.grad(
                    g.view(-1)[i], leaves, retain_graph=True, allow_unused=True)) for i in (0, 4)]
    return ops.dense(rows)
'''),
    "batched": (1, '''\
    result = fn(*args)
    leaves = [leaf for leaf in LEAVES if leaf.requires_grad]
    found = []
    for start in ops.starts(result)[:2]:
        many = torch.stack([torch.ones_like(start), torch.full_like(start, 2)]).detach()
        found.append(ops.attempt(lambda: torch.autograd.grad(
            start, leaves, many, is_grads_batched=True, retain_graph=True, allow_unused=True)))
    return ops.dense(found)
'''),
    "strange gradients": (1, '''\
    result = fn(*args)
    found = [ops.attempt(lambda: start.backward(ops.strange(start, "STRANGE"), retain_graph=True))
             for start in ops.starts(result)[:2]]
    gradients = ops.gradients(found, LEAVES)
    for leaf in LEAVES:
        leaf.grad = None
    return found, gradients, ops.dense(result)
'''),
    "backward in a mode": (0.5, '''\
    result = fn(*args)
    with ops.Doubled():
        found = [ops.attempt(lambda: start.sum().backward(retain_graph=True)) for start in ops.starts(result)[:2]]
    return found, ops.gradients(found, LEAVES), ops.dense(result)
'''),
    "forward mode": (2, '''\
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(arg.detach(), torch.full_like(arg, 0.5)) if DUAL else arg
                 for n, arg in enumerate(args)]
        result = fn(*duals)
        parts = [forward_ad.unpack_dual(item) for item in (result if isinstance(result, tuple) else [result])
                 if isinstance(item, torch.Tensor) and item.is_floating_point()]
        return [(ops.dense(part.primal), ops.dense(part.tangent)) for part in parts]
'''),
    "hooks": (2, '''\
    seen = []
    for n, leaf in enumerate(LEAVES):
        if leaf.requires_grad:
            leaf.register_hook(lambda g, n=n: (seen.append((n, ops.dense(g))), g * 2)[1])
            leaf.register_post_accumulate_grad_hook(lambda p, n=n: seen.append(("post", n, ops.dense(p.grad))))
    for arg in args:
        if arg.requires_grad and not arg.is_leaf:
            arg.retain_grad()
    result = fn(*args)
    for start in ops.starts(result) if len(ops.starts(result)) == 1 else []:  # of several, each sees its own only
        ops.hook(start, lambda g: g * 3)
        if not start.is_leaf:
            start.retain_grad()
    found = [ops.attempt(lambda: start.sum().backward(retain_graph=True)) for start in ops.starts(result)]
    return (found, ops.gradients(found, [*LEAVES, *args, *ops.starts(result)[:1]]),
            sorted(seen, key=lambda entry: repr(entry[:-1])) if "refused" not in repr(found) else 0, ops.dense(result))
'''),
    "retained": (1.5, '''\
    result = fn(*args)
    found = []
    for _ in range(2):
        for start in ops.starts(result):
            found.append(ops.attempt(lambda: start.cos().sum().backward(retain_graph=True)))
    found.append([ops.attempt(lambda: start.sum().backward()) for start in ops.starts(result)[:1]])
    return found, ops.gradients(found, LEAVES)
'''),
    "in a mode": (2, '''\
    with MODE:
        result = fn(*args)
    return result
'''),
    "modes around both": (1, '''\
    with MODE:
        with MODE2:
            result = fn(*args)
        found = [ops.attempt(lambda: torch.autograd.grad(start.sum(), LEAVES, allow_unused=True))
                 for start in ops.starts(result)[:1]]
    return ops.dense(result), ops.dense(found)
'''),
    "saved tensors elsewhere": (1, '''\
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        result = fn(*args)
    found = [ops.attempt(lambda: start.sum().backward(retain_graph=True)) for start in ops.starts(result)[:1]]
    return found, ops.gradients(found, LEAVES)
'''),
    "saved tensors changed": (0.7, '''\
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2 if t.is_floating_point() else t, lambda t: t):
        result = fn(*args)
    found = [ops.attempt(lambda: start.sum().backward(retain_graph=True)) for start in ops.starts(result)[:1]]
    return found, ops.gradients(found, LEAVES)
'''),
    "saved tensors by rows": (0.7, '''\
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        result = fn(*[arg.t().contiguous().t() for arg in args])
    found = [ops.attempt(lambda: start.sum().backward(retain_graph=True)) for start in ops.starts(result)[:1]]
    return found, ops.gradients(found, LEAVES)
'''),
    "into the next call": (1, '''\
    result = fn(*args)
    next = [item for item in (result if isinstance(result, tuple) else [result])
            if isinstance(item, torch.Tensor) and item.shape == (2, 3) and item.dtype is DTYPE]
    if next:
        result = fn(next[0], *args[1:])
    found = [ops.attempt(lambda: start.sum().backward()) for start in ops.starts(result)[:1]]
    return found, ops.gradients(found, LEAVES), ops.dense(result)
'''),
    "jacobian": (1, '''\
    def of(*tensors):
        return tuple(ops.starts(fn(*tensors)))
    given = tuple(arg.detach() for arg in args)
    return ops.dense(ops.attempt(lambda: torch.autograd.functional.jacobian(of, given, vectorize=VECTORIZE)))
'''),
}

# What eager says of programs that are not drawn: backward would need a tensor that was changed or detached in place,
# which compiled code may have no need of, and hooks that were called without a gradient, because a Function returned
# None.
REFUSALS = ("inplace operation", "in-place operation", "detached in-place", "'NoneType' and 'int'")


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.functions: list[tuple[str, int, int]] = []  # name, number of arguments, number of results
        self.kinds: dict[str, str] = {}  # the second argument of each
        self.text = ""
        self.names = 0
        self.writes = False  # whether it is about arguments that are written to
        self.seen: list[str] = []  # those of these views that the program returns

    def program(self) -> str:
        dice = self.dice
        self.text = HEADER
        for number in range(dice.between(0, 2)):
            self.function(f"Fn{number}")
        self.text += "def helper(t):\n    " + ("return t * t.sin()\n" if not self.functions or dice.chance(0.5) else
                                              f"return {self.applied('t', 't')} * 2\n") + "\n\n"
        self.text += "class Model(torch.nn.Module):\n    def forward(self, t):\n        "
        self.text += f"return {self.applied('t', 't') if self.functions else 't.cos()'}\n\n\nmodel = Model()\n\n\n"
        count = dice.between(1, 3)
        names = ["x", "y", "z"][:count]
        self.text += f"def fn({', '.join(names)}):\n"
        self.writes = dice.chance(0.25)
        self.body(list(names), [], "    ", dice.between(1, 6))
        self.use()
        self.make(count)
        return self.text

    def function(self, name: str) -> None:
        dice = self.dice
        several = dice.chance(0.3)
        dirty = not several and dice.chance(0.12)
        other = dice.weighted([(5, ""), (2, ", y"), (1, ", k"), (0.5, ", k=None")])
        result = dice.weighted(PAIRS) if several else dice.weighted(FORWARDS)
        setup = dice.chance(0.3) and not dirty
        saved = dice.weighted([(3, ""), (2, "x"), (1, "result"), (0.7, "middle"), (0.5, "attribute")])
        if saved in ("result", "middle") and (several or setup):
            saved = "x"
        forward, keep = [], []
        if dirty:
            forward += ["x.mul_(2)", "ctx.mark_dirty(x)"]
            result, saved = "x", ""
        if dice.chance(0.06) and other == ", y":
            forward.append("y.add_(1)")
        if saved == "middle":
            forward.append("middle = x * 3")
        forward.append(f"result = {result}")
        if saved in ("x", "result", "middle"):
            keep.append(f"ctx.save_for_backward({saved}{', None' if dice.chance(0.2) else ''})")
        elif saved == "attribute":
            keep.append("ctx.kept = x")
        if ", k" in other:
            keep.append("ctx.k = k")
        if "x > " in result:
            keep.append("ctx.mark_non_differentiable(result[1])")
        materialize = dice.chance(0.8)
        if not materialize:
            keep.append("ctx.set_materialize_grads(False)")
        lines = [f"class {name}(torch.autograd.Function):", "    @staticmethod"]
        if setup:
            names = {"": "x, *_", ", y": "x, y"}.get(other, "x, k, *_")
            lines += [f"    def forward(x{other}):", *(f"        {line}" for line in forward), "        return result",
                      "", "    @staticmethod", "    def setup_context(ctx, inputs, result):",
                      f"        {names} = inputs", *(f"        {line}" for line in keep), "        pass", ""]
        else:
            lines += [f"    def forward(ctx, x{other}):", *(f"        {line}" for line in [*forward, *keep]),
                      "        return result", ""]
        lines.append("    @staticmethod")
        if dice.chance(0.12):
            lines.append("    @torch.autograd.function.once_differentiable")
        lines.append(f"    def backward(ctx, g{', h' if several else ''}):")
        if saved in ("x", "result", "middle"):
            lines.append("        saved = ctx.saved_tensors[0]")
        elif saved == "attribute":
            lines.append("        saved = ctx.kept")
        if several:
            if result == "x[:1], x[1:]":
                lines.append("        g = None if g is None or h is None else torch.cat([g, h * 2])")
            else:
                lines.append("        g = g if not isinstance(h, torch.Tensor) else h if g is None else g + h * 2")
        if not materialize or several:
            lines.append(f"        if g is None:\n            return {'None, None' if other else 'None'}")
        gradient = dice.weighted(WITH_SAVED) if saved and dice.chance(0.7) else dice.weighted(BACKWARDS)
        if ", k" in other and dice.chance(0.5):
            gradient = f"{gradient} * ctx.k" if gradient != "None" and "if" not in gradient else gradient
        second = {"": "", ", y": ", g * 5" if dice.chance(0.5) else ", None"}.get(other, ", None")
        lines += [f"        return {gradient}{second}", "", ""]
        self.text += "\n".join(lines) + "\n"
        self.functions.append((name, 2 if other else 1, 2 if several else 1))
        self.kinds[name] = other

    def applied(self, a: str, b: str) -> str:
        name, count, results = self.dice.choice(self.functions)
        arguments = a
        if count == 2:
            arguments += f", {b}" if self.kinds[name] == ", y" else f", {self.dice.choice(['2', '0.5', '3'])}"
        return f"{name}.apply({arguments})" + ("[0]" if results == 2 else "")

    def body(self, inputs: list[str], fresh: list[str], indent: str, count: int, returns: bool = True) -> None:
        dice = self.dice
        for _ in range(count):
            names = inputs + fresh
            a, b = dice.choice(names[-4:] if dice.chance(0.6) else names), dice.choice(names)
            kind = dice.weighted(WRITING_KINDS if self.writes else [
                (4 if self.functions else 0, "apply"), *KINDS])
            if kind == "compute":
                self.assign(fresh, indent, dice.weighted(EXPRESSIONS).format(a=a, b=b))
            elif kind == "apply":
                name, many, results = dice.choice(self.functions)
                more = "" if many == 1 else f", {b}" if self.kinds[name] == ", y" else ", 2"
                value = f"{name}.apply({a}{more})"
                if results == 2 and dice.chance(0.5):
                    new = self.name()
                    self.text += f"{indent}{new}, {new}o = {value}\n"
                    fresh.append(new)
                else:
                    wrapped = dice.weighted([(4, "{v}"), (1, "{v} * 2"), (1, "{v} + {b}")])
                    self.assign(fresh, indent, wrapped.format(v=value + ("[0]" if results == 2 else ""), b=b))
            elif kind == "in place":
                target = dice.choice(fresh) if fresh and dice.chance(0.8) else a
                self.text += f"{indent}{dice.weighted(IN_PLACE).format(a=target, b=b)}\n"
            elif kind == "mode" and len(indent) < 12:
                self.text += f"{indent}with {dice.weighted(MODES)}:\n{indent}    pass\n"
                self.body(inputs, fresh, indent + "    ", dice.between(1, 2), returns=False)
            elif kind == "break":
                self.text += f"{indent}print(type({a}).__name__)\n"
            elif kind == "branch":
                # Not 0: sums of what is centred are rounding errors.
                self.text += f"{indent}if {a}.sum() > 0.37:\n"
                self.text += f"{indent}    {a} = {dice.weighted(EXPRESSIONS).format(a=a, b=b)}\n"
            elif kind == "grad":
                create = dice.choice(["True", "False"])
                new = self.name()
                self.text += (f"{indent}{new} = torch.autograd.grad({a}.square().sum(), {b}, create_graph={create}, "
                              f"retain_graph=True, allow_unused=True)[0] if {a}.requires_grad and {b}.requires_grad "
                              f"else {b}\n{indent}{new} = {b} if {new} is None else {new}\n")
                fresh.append(new)
            elif kind == "backward":
                self.text += f"{indent}if {a}.requires_grad:\n"
                retain = dice.choice(["retain_graph=True", "retain_graph=True", ""])
                self.text += f"{indent}    {a}.square().sum().backward({retain})\n"
            elif kind == "hook":
                self.text += f"{indent}if {a}.requires_grad:\n{indent}    ops.hook({a}, lambda g: g * 2)\n"
            elif kind == "detach":
                # Of a tensor that nothing has saved: torch refuses some derivatives of the others, or gets them wrong.
                self.assign(fresh, indent, dice.choice(DETACHED).format(a=a, b=b))
                self.text += f"{indent}{fresh[-1]}.detach_()\n"
            elif kind == "require":
                new = self.name()
                self.text += f"{indent}{new} = {a}.detach(){dice.choice(['', '.clone()', '[:]'])}.requires_grad_()\n"
                fresh.append(new)
            elif kind == "inference":
                self.text += f"{indent}with torch.inference_mode():\n"
                self.assign(fresh, indent + "    ", dice.choice(SAFE).format(a=a, b=b))
            elif kind == "write":
                self.write(inputs, fresh, indent)
            elif kind == "retain":
                self.text += f"{indent}if {a}.requires_grad:\n{indent}    {a}.retain_grad()\n"
        if returns:
            names = inputs + fresh
            found = [dice.weighted(RESULTS).format(a=dice.choice(names[-4:])) for _ in range(dice.between(1, 3))]
            found += self.seen + [name for name in inputs if self.writes and dice.chance(0.5)]
            single = len(found) == 1 and dice.chance(0.2)
            self.text += f"{indent}return {', '.join(found)}{',' if single else ''}\n\n\n"

    def write(self, inputs: list[str], fresh: list[str], indent: str) -> None:
        """Writes to an argument, or to something that was computed, through a view that may be older than a break."""
        dice = self.dice
        target = dice.choice(fresh) if fresh and dice.chance(0.3) else dice.choice(inputs)
        view, source = self.name(), dice.choice(inputs + fresh)
        self.text += f"{indent}{view} = {dice.weighted(WRITTEN_VIEWS).format(a=target)}\n"
        if dice.chance(0.4):  # a break
            self.text += f"{indent}if {source}.sum() > 0.37:\n{indent}    {source} = {source} * 1\n"
        if dice.chance(0.4):
            source = dice.choice(inputs)
            self.text += f"{indent}{dice.choice(['{a}.mul_(2)', '{a}[0] = 1', '{a}.relu_()']).format(a=source)}\n"
        write = dice.weighted(WRITES).format(v=view, b=source)
        if dice.chance(0.15):  # by code that is called for itself
            write = f"{source} = written({view}, {source})"
            self.seen += [source, target]
        if dice.chance(0.7):
            self.text += (f"{indent}try:\n{indent}    {write}\n{indent}except RuntimeError as error:\n"
                          f"{indent}    print('a leaf' if 'a leaf' in str(error) else 'refused')\n")
        else:
            self.text += f"{indent}{write}\n"
        if dice.chance(0.2):
            self.seen.append(view)

    def assign(self, fresh: list[str], indent: str, value: str) -> None:
        new = self.name()
        self.text += f"{indent}{new} = {value}\n"
        fresh.append(new)

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def use(self) -> None:
        dice = self.dice
        text = dice.weighted([(weight, body) for weight, body in USES.values()])
        if self.writes and dice.chance(0.3):
            text = USES["between results"][1]
        if "autograd.grad(" in self.text:  # what is differentiated inside lies in memory as it does without hooks
            text = text.replace("pin_memory=True", "")
        text = text.replace("ORDER", dice.choice(["", "[::-1]"]))
        text = text.replace("RETAIN", dice.choice(["", "retain_graph=True"]))
        text = text.replace("MODE2", dice.weighted(OUTSIDE_MODES)).replace("MODE", dice.weighted(OUTSIDE_MODES))
        text = text.replace("DUAL", dice.choice(["True", "n == 0"]))
        text = text.replace("STRANGE", dice.choice(["sparse", "negated", "zeros", "wrapped", "labelled"]))
        text = text.replace("VECTORIZE", dice.choice(["True", "False"]))
        self.text += "def use(fn, args, kwargs):\n" + text + "\n\n"

    def make(self, count: int) -> None:
        dice = self.dice
        kinds = [dice.weighted(WRITTEN_ARGUMENTS if self.writes else ARGUMENTS) for _ in range(count)]
        calls = []
        for number in range(dice.between(1, 3)):
            if dice.chance(0.2):
                kinds[dice.below(count)] = dice.weighted(ARGUMENTS)
            calls.append([kind.format(n=position + number) for position, kind in enumerate(kinds)])
        self.text += "def make():\n    del LEAVES[:]\n    calls = []\n"
        for arguments in calls:
            if count > 1 and dice.chance(0.1):
                self.text += f"    same = {arguments[0]}\n"
                arguments[0] = "same"
                arguments[1] = dice.choice(["same", "same[:]", "same * 2"])
            self.text += f"    calls.append((({', '.join(arguments)},), {{}}))\n"
        self.text += ("    return fn, calls, lambda index: [setattr(leaf, 'grad', None) for leaf in LEAVES], "
                      "lambda: {'leaves': LEAVES}, use\n")


def generate(seed: int) -> Program:
    """The program of a seed: the first of several draws that eager runs without saying something in `REFUSALS`."""
    for attempt in range(TRIES):
        program = Program(seed, _Writer(seed * TRIES + attempt).program())
        try:
            calls = run_program(program).calls
        except TypeError:  # of a hook that was called without a gradient
            continue
        facts = [fact for call in calls for fact in call.facts]
        texts = [str(fact[1]) for _, fact in facts if isinstance(fact, tuple) and fact[0] == "str"]
        # A view whose base got a history by another write is a leaf for autograd, which it refuses to change, as long
        # as nobody has asked for the view's own history.
        leaves = any("a leaf" in call.stdout for call in calls)
        if not leaves and not any(refusal in text for text in texts for refusal in REFUSALS):
            break
    return program
