"""Programs that write to tensors which share memory in some calls and not in others: arguments, buffers, parameters and
variables of a closure, by themselves and in lists that may hold one of them twice."""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 10
SLOTS = ("x", "y", "m.a", "m.b", "m.w", "held")
# Of memory that overlaps in part these say nothing that depends on the order in which elements are written; the others
# are mostly refused.
ALONE = ("{s}.add_({k})", "{s}.mul_({k})", "{s}.zero_()", "{s}[{i}] = {k}.0", "{s}.data.add_({k})", "{s}.fill_({k})",
         "torch._foreach_add_([{s}, {t}, {u}], {k})", "torch._foreach_mul_([{s}, {s}, {t}], {k}.0)",
         "torch._foreach_neg_([{s}, {t}])", "torch._foreach_zero_([{s}, {t}])", "{s}.clamp_(max={k})",
         "torch.as_strided({s}, {layout}).add_({k})", "{s}.as_strided({layout})[:1] = {k}.0",
         "{s}[1:].as_strided({layout}).mul_({k})", "{s}.view(torch.int32).as_strided({layout}).fill_({k})",
         "{s}.view(torch.int16).as_strided({layout}).zero_()", "{s}[::2].mul_({k})",
         "{s}.data = {s}.data * {k}", "{s}.data = {t}.data", "{s}.data = {t}.detach()[:]",
         "{s}.data = torch.ones(3) * {k}", "{s}.data = {s}.data.clone().add_({k})",
         "w = torch.empty(0); w.set_({s}.detach() * {k}); w.add_(1); out.append(w)",
         "w = copy.deepcopy([{s}.data.clone(), {t}.data]); w[0].add_({k}); out.append(w)",
         "w = copy.copy({s}.detach()); w.mul_({k}); out.append(w)",
         "w = {s}.as_strided({layout}); w += {k}; out.append(w)", "out.append({s}.as_strided_({layout}).mul_({k}))")
TOGETHER = ("{s}.add_({t})", "{s}.copy_({t})", "{s}.sub_({t}, alpha={k})", "torch.add({t}, {u}, out={s})", "{s} += {t}",
            "{s}.lerp_({t}, 0.5)", "{s}.addcmul_({t}, {u})",
            "out.append(F.batch_norm(table, {s}, ones, training=True))",
            "torch._foreach_add_([{s}, {t}], [{u}, {s}])", "torch._foreach_copy_([{s}, {t}], [{t}, {s}])",
            "torch._foreach_lerp_([{s}, {t}], [{t}, {u}], 0.5)",
            "torch._foreach_addcmul_([{s}, {s}], [{t}, {u}], [{u}, {t}])",
            "torch._foreach_sub_([{s}, {t}, {s}], [{u}, {u}, {t}], alpha={k})",
            "torch._foreach_mul_([{s}, {t}], [{k}.0, 0.5])", "torch._foreach_add_([{s}, {t}], {u}.sum())")
READS = ("out.append({s}.data_ptr() == {t}.data_ptr())", "out.append({s}[{i}:].data_ptr() == {t}.data_ptr())",
         "out.append({s}.untyped_storage().data_ptr() != {t}.untyped_storage().data_ptr())",
         "out.append(len({{{s}.data_ptr(), {t}.data_ptr(), {u}.data_ptr()}}))",
         "out.append({s}.untyped_storage().nbytes() == {t}.untyped_storage().nbytes())",
         "out.append(len({{id({s}), id({t}), id({u})}}))", "out.append(id({s}) in [id({t}), id({u})])",
         "out.append({{id({s}): 1, id({t}): 2}}.get(id({u}), 3))", "out.append(len({{hash({s}), hash({t})}}))",
         "seen = set(); seen.add(id({s})); out.append(id({t}) in seen)", "out.append([{s}._is_view(), {t}._is_view()])",
         "out.append(len(set(map(id, copy.deepcopy([m.a, m.b, m.w.data])))))", "out.append({s}.retains_grad)",
         "out.append(copy.deepcopy({s}.detach()))", "out.append(list(m.state_dict().values()))",
         "out.append({s} * {k})", "out.append({s}.sum())", "out.append({s} + {t})", "out.append({s})",
         "out.append({s}.view(3, 1))", "out.append(torch._foreach_add([{s}, {t}], {k}))", "out.append({s}[1:])",
         "out.append({s}.as_strided({layout}) * {k})", "out.append({s}.view(torch.int16).as_strided({layout}))")
LAYOUTS = ("(2,), (1,)", "(2,), (1,)", "(3,), (1,)", "(2,), (2,)", "(4,), (1,)", "(1,), (1,)", "(2, 2), (2, 1)",
           "(2, 1), (1, 1)", "(2, 2), (1, 2)")

HEAD = """import copy

import torch
import torch.nn.functional as F


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.arange(3.0))
        self.register_buffer("b", torch.ones(3))
        self.w = torch.nn.Parameter(torch.tensor([2.0, -1.0, 0.5]))


def make():
    bases = [torch.arange(9.0) - 5 * number for number in range(3)]
    arrays = [torch.arange(9.0).numpy() * number for number in (1, 2)]
    m, held = Module(), torch.full((3,), 4.0)
    table = torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, -3.0]])

    def fn(x, y):
        nonlocal held
        out, ones = [], torch.ones(3)
        with torch.set_grad_enabled({grad}):
"""


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Program(seed, _Writer(Dice(seed)).source())


class _Writer:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.partial = dice.chance(0.2)  # whether memory may overlap in part
        self.grad = dice.chance(0.3)
        self.slots = dice.sample(SLOTS, dice.between(2, 4))
        self.arrays = dice.chance(0.15)  # whether arguments are made of arrays of NumPy

    def source(self) -> str:
        dice = self.dice
        lines = [self.statement(dice.chance(0.5)) for _ in range(dice.between(2, 5))] + [self.statement(False)]
        calls, before = [], []
        for number in range(4):
            apart = number == 0 and dice.chance(0.8)
            calls.append(f"        (({self.argument(apart)}, {self.argument(apart)}), {{}}),\n")
            changes = [] if apart else [self.change() for _ in range(dice.between(0, 2))]
            if changes:
                before.append(f"        if index == {number}:\n" + "".join(f"            {line}\n" for line in changes))
        return (HEAD.format(grad=self.grad) + "".join(f"            {line}\n" for line in lines)
                + "        return out\n\n    calls = [\n" + "".join(calls) + "    ]\n\n    def before(index):\n"
                "        nonlocal held\n" + "".join(before) + "\n    def observe():\n"
                "        numbers = [array.tolist() for array in arrays]\n"
                "        return {'bases': bases, 'arrays': numbers, 'state': [m.a, m.b, m.w, held]}\n\n"
                "    return fn, calls, before, observe\n")

    def statement(self, writes: bool) -> str:
        dice = self.dice
        forms = READS if not writes else ALONE if dice.chance(0.8 if self.partial else 0.4) else TOGETHER
        text = dice.choice(forms)
        slots = [slot for slot in self.slots if not (writes and self.grad and slot == "m.w")] or ["x"]
        # Eager refuses to say whether a view of a parameter requires grad after a write that autograd did not see.
        slot = dice.choice(slots)
        if text.endswith(("view(3, 1))", "[1:])")) and slot == "m.w":
            slot = "m.w.detach()"
        return text.format(s=slot, t=dice.choice(slots), u=dice.choice(slots), k=dice.between(2, 3),
                           i=dice.below(3), layout=self.layout() if "{layout}" in text else "")

    def layout(self) -> str:
        """Sizes and strides, and at times the place in the storage."""
        dice = self.dice
        return dice.choice(LAYOUTS) + (f", {dice.below(4)}" if dice.chance(0.3) else "")

    def place(self) -> str:
        """A part of one of the memories."""
        begin = self.dice.below(4) if self.partial else self.dice.choice((0, 3))
        return f"bases[{self.dice.below(3)}][{begin}:{begin + 3}]"

    def argument(self, apart: bool) -> str:
        dice = self.dice
        if self.arrays:
            return f"torch.from_numpy(arrays[{int(apart) or dice.below(2)}][{self.place().split('[', 2)[2]})"
        if apart or dice.chance(0.25):
            return f"torch.full((3,), {dice.between(1, 5)}.0)"
        return dice.weighted(((4, self.place()), (1, f"{self.place()}.detach()"), (1, "m.a"), (1, "m.w.detach()"),
                              (1, "m.w.data"), (1, "m.b.view(3)"), (1, "m.state_dict()['b']"), (1, "held")))

    def change(self) -> str:
        dice = self.dice
        return dice.weighted((
            (3, f"m.{dice.choice('ab')} = {self.place()}"), (2, f"m.{dice.choice('abw')}.data = {self.place()}"),
            (1, "m.b = m.a[:]"), (1, "m.b.data = m.a.data"), (1, "m.b = m.a"), (1, "m.w.data = m.a"),
            (1, "m.a = torch.zeros(4)[1:]"), (1, "m.b = torch.ones(3)"), (2, f"held = {self.place()}"),
            (1, "held = m.a"), (1, "held = m.w.detach()"), (1, "held = torch.ones(3)")))
