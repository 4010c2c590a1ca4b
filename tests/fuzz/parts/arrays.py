"""Programs in NumPy: ufuncs, reductions, views, indexing, writes and scalars on arrays of many dtypes and layouts."""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 25
DTYPES = ("float64", "float64", "float32", "int64", "int32", "uint8", "bool", "complex128", "int16", "int8", "uint16",
          "uint32", "uint64", "float16", "complex64")
# arrays of two dimensions that lie in memory in several ways
LAYOUTS = ("{a}", "{a}", "{a}", "np.asfortranarray({a})", "{a}.T.copy().T", "np.repeat({a}, 2, axis=1)[:, ::2]",
           "np.repeat({a}, 2, axis=0)[::2]", "np.broadcast_to({a}[:1], {a}.shape)",
           "np.broadcast_to({a}[:, :1], {a}.shape)")
# the last argument of each call: some fit into few dtypes only
NUMBERS = ("2", "3", "5", "-2", "300", "70000", "2.5", "1e5", "np.float64(1.5)", "np.int64(2)", "np.float32(0.5)")
ELEMENTWISE = ("{a} + {b}", "{a} * {b}", "{a} - {n}", "{n} * {a}", "{a} / {b}", "np.maximum({a}, {b})", "-{a}",
               "abs({a})", "{a} > {b}", "{a} == {n}", "np.where({a} > {n}, {a}, {b})", "np.sqrt(np.abs({a}))",
               "np.exp(-np.abs({a}))", "{a} // {n}", "{a} % {n}", "{a} ** 2", "np.clip({a}, -1, 2)", "np.sign({a})",
               "{a}.astype(np.float32)", "np.floor({a} / 2)", "{a} & {b}", "~{a}", "np.logical_or({a}, {b})",
               "np.round({a} / 3, 1)", "np.isnan({a} / 1)", "{a}.astype(int)", "np.minimum({a}, {n})", "{a} + 1.5",
               "{a} * True", "np.conj({a})", "np.square({a})", "np.arctan2({a}, {b})", "np.zeros_like({a})",
               "{a}.copy()", "np.copy({a})", "{a} + k", "k - {a}", "{a} / k", "np.where({a} > 1, {a}, k)",
               "np.full_like({a}, k)", "np.isclose({a}, {b})", "np.nan_to_num({a})", "np.tril({a})",
               "np.heaviside({a}, 1)", "np.gcd({a}, 6)", "np.cbrt({a})", "np.array({a}, np.float32)",
               "np.clip({a}, None, k)", "{a}[:, ::-1] + 1", "np.interp({a}, [0, 1], [1, 3])",
               "np.ldexp({a}, 1100)", "np.ldexp({a}, -140)")
# the order in memory: asked for where arrays are made, and read
ORDERED = ("{a}.copy(order={o})", "np.copy({a}, order={o})", "np.array({a}, order={o})", "np.asarray({a}, order={o})",
           "{a}.astype(np.float32, order={o})", "{a}.astype({a}.dtype, order={o}, copy=False)", "{a}.T.copy({o}).T",
           "np.zeros_like({a}, order={o})", "np.full_like({a}, 2, order={o})", "np.asfortranarray({a})",
           "np.ascontiguousarray({a})", "np.array({a}, np.float64, order={o})", "np.asarray({a}.T, order={o}).T",
           "{a}[::-1].copy({o})", "np.ones({a}.shape, order='F')", "np.asarray({a}, np.float32, {o})")
READ = ("{a}.ravel(order={o})", "{a}.flatten({o})", "{a}.reshape(-1, order={r})", "{a}.tobytes({o})", "{a}.strides",
        "({a}.flags.c_contiguous, {a}.flags.f_contiguous)", "np.ravel({a}.T, {o})", "{a}.T.reshape(2, -1, order={r})",
        "np.ravel({a}[:, ::2], {o})", "{a}.copy({o}).ravel({o})", "np.compress([1, 0, 1], {a}, axis={x})",
        "{a}[None].copy({o}).flags.f_contiguous", "{a}[:, None].strides",
        "{a}[:, :1].copy({o}).ravel('K')", "np.stack([{a}, {b}], 2).copy({o})",
        "np.stack([{a}, {b}]).transpose(1, 2, 0).ravel({o})",
        "np.digitize({a}.real, [0, 2])")
# How their results round is nobody's word, and their bytes tell; what an array was changed with may be one of these.
ROUNDED = ("np.cbrt", "np.exp", "np.arctan2", "np.interp")
REDUCTIONS = ("{a}.sum()", "{a}.sum(axis={x})", "{a}.mean(axis={x}, keepdims=True)", "{a}.max(axis={x})", "{a}.min()",
              "np.any({a}, axis={x})", "{a}.all()", "np.std({a}, axis={x}, ddof={d})", "{a}.prod(axis={x})",
              "np.argmax({a}, axis={x})", "{a}.argmin()", "np.cumsum({a}, axis={x})", "np.count_nonzero({a})",
              "np.var({a})", "np.median({a})", "np.ptp({a}, axis={x})", "np.sort({a}, axis={x})",
              "np.diff({a}, axis={x})", "np.linalg.norm({a})", "np.percentile({a}, 30)", "{a}.sum(dtype=np.float64)",
              "np.mean({a}, where={a} > 0)", "np.max({a}, initial=1)", "np.sum({a}, axis={x}, initial=k)",
              "np.nanmax({a}, axis={x})", "np.median({a}, axis={x}, keepdims=True)",
              "np.maximum.accumulate({a}, axis={x})", "np.vdot({a}, {b})", "np.add.reduce({a}, axis={x})",
              "np.nansum({a} * np.nan, axis={x})", "np.nanmean(np.where({a} == 1, np.nan, {a}), axis={x})")
VIEWS = ("{a}.T", "{a}[{i}]", "{a}[:, {i}]", "{a}[::-1]", "{a}[1:, ::2]", "{a}.reshape(-1)", "{a}[..., None]",
         "np.flip({a}, {x})", "{a}.ravel()", "np.squeeze({a}[None])", "{a}[::-1, ::-1][1:]", "np.swapaxes({a}, 0, 1)",
         "np.broadcast_to({a}[0], {a}.shape)", "{a}[{i}, {i}]", "{a}.real", "np.diagonal({a})", "np.split({a}, 3)[1]",
         "np.flip({a}).reshape(-1)", "{a}[::-1].reshape(-1, 2)", "np.rot90({a}).reshape(2, -1)",
         "np.einsum('ij->ji', {a})")
INDEXED = ("{a}[[0, 2]]", "{a}[:, [1, 0, 1]]", "{a}[{a} > {n}]", "{a}[[0, 1], [2, 0]]", "{a}[np.argmax({a}[:, 0])]",
           "np.take({a}, [0, 3])", "np.nonzero({a})[0]", "{a}[{a}[:, 0] > {n}]", "{a}[1:, [0, 2]]",
           "{a}[[[0], [1]], [0, 1]]", "np.unique({a})", "np.concatenate([{a}, {b}], axis={x})",
           "np.stack([{a}, {b}])", "np.roll({a}, 1, axis={x})", "np.tile({a}, (1, 2))", "{a} @ {b}.T",
           "np.einsum('ij,ij->j', {a}, {b})", "np.vstack([{a}, {b}])", "np.pad({a}, 1)", "np.tril({a})",
           "np.repeat({a}, 2, axis={x})", "np.argsort({a}, axis={x}, kind='stable')", "{a}[:, [{i}]]",
           "np.delete({a}, {i}, axis={x})", "np.delete({a}, [0, 1], axis={x})", "np.add.outer({a}, {b})",
           "np.isin({a}, {b})", "np.setdiff1d({a}, {b}[0])", "np.choose(np.isnan({a}) * 1, [{a}, {b}])",
           "np.broadcast_arrays({a}, 3)[0] is {a}", "np.searchsorted(np.sort({a}[0]), {b}[0])",
           "np.searchsorted(np.sort(({a} / 0)[0]), {b}[0])", "np.intersect1d({a}, {b})", "np.tensordot({a}, {a})")
WRITES = ("{v}[{i}] = {n}", "{v} += {n}", "{v} *= {w}", "{v}[{v} > {n}] = 0", "{v}[:, {i}] = {v}[:, 0]",
          "{v}[::-1][0] = {n}", "{v}.T[{i}] += 1", "{v}[[0, 2, 0]] = {w}[:3]", "np.add({v}, {w}, out={v})",
          "{v}.fill({n})", "{v}[1:] -= {w}[:-1]", "{v}.sort(axis=0)", "{v} -= {v}[::-1]", "{v}[...] = {w}",
          "np.copyto({v}, {w}, where={v} > 0)", "{v}.fill(k)", "{v}[0, 0] = k", "np.putmask({v}, {v} > 0, {w})",
          "{v}[{v} > 1] *= 2", "np.put_along_axis({v}, np.array([[0]]), 1, {x})",
          "np.flip({v}).reshape(-1)[{i}] = {n}", "{v}[:, ::-1].reshape({v}.shape + (1,))[{i}] = {n}",
          "np.einsum('ij->ji', {v}[::-1])[{i}] = {n}", "{v}[1:] = {v}[:-1]", "{v}[:, :-1] = {v}[:, 1:]",
          "{v}[:] = {v}[::-1]", "{v}[:2, :2] = {v}.T[:2, :2]", "np.copyto({v}[1:], {v}[:-1])")
SCALARS = ("{s} * 2", "{s} + {n}", "float({s})", "np.sqrt(abs({s}))", "{s} > 1", "-{s}", "{a} * {s}", "int({s})",
           "np.float32({s})", "{s} // 2", "max({n}, 2) * {s}", "{s}.item()", "np.maximum({s}, {n})")


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Program(seed, _Writer(Dice(seed)).source())


class _Writer:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.count = 0
        self.matrices = ["x", "y"]
        self.scalars = ["x.sum()"]

    def text(self, form: str) -> str:
        dice = self.dice
        return form.format(
            a=dice.choice(self.matrices), b=dice.choice(self.matrices), v=dice.choice(self.matrices),
            w=dice.choice(self.matrices), s=dice.choice(self.scalars), n=dice.choice(("1", "2", "3", "0.5", "k")),
            x=dice.below(2), i=dice.below(3), d=dice.below(2), o=dice.choice(("'C'", "'F'", "'A'", "'K'")),
            r=dice.choice(("'C'", "'F'", "'A'")))

    def source(self) -> str:
        dice = self.dice
        lines = []
        for _ in range(dice.between(2, 6)):
            forms = dice.weighted(((5, ELEMENTWISE), (3, REDUCTIONS), (3, VIEWS), (3, INDEXED), (3, WRITES),
                                   (2, SCALARS), (3, ORDERED), (3, READ)))
            line = self.text(dice.choice(forms))
            if ".tobytes" in line and any(name in earlier for earlier in lines for name in ROUNDED):
                continue
            if forms is WRITES:
                lines.append(line)
                continue
            self.count += 1
            name = f"r{self.count}"
            lines += [f"{name} = {line}", f"out.append({name})"]
            if forms is ELEMENTWISE or forms is ORDERED:
                self.matrices.append(name)
            elif forms is SCALARS and not line.startswith(("float", "int(", "{a}")) and ".item" not in line:
                self.scalars.append(name) if "x *" not in line and "y *" not in line and " * " not in line else None
        kinds = [dice.choice(DTYPES), dice.choice(DTYPES)] if dice.chance(0.5) else [dice.choice(DTYPES)] * 2
        layouts = [dice.choice(LAYOUTS) for _ in kinds]
        calls = []
        varies, scalar = dice.chance(0.5), ""
        for number in range(4):
            rows = 3 if number < 2 or dice.chance(0.5) else 6
            arrays = [layout.format(a=f"array({kind!r}, {rows}, {number + at})")
                      for at, (kind, layout) in enumerate(zip(kinds, layouts, strict=True))]
            if number == 0 or varies:
                scalar = dice.choice(NUMBERS)
            calls.append(f"        (({', '.join(arrays)}, {scalar}), {{}}),\n")
        return (HEAD + "".join(f"        {line}\n" for line in lines) + "        return out\n\n    calls = [\n"
                + "".join(calls) + "    ]\n    return fn, calls, lambda index: None, lambda: {}\n")


HEAD = """import numpy as np


def array(kind, rows, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-4, 5, (rows, 4)) + (0.25 if kind[0] in "fc" else 0)
    return np.abs(numbers).astype(kind) if kind[0] in "ub" else numbers.astype(kind)


def make():
    np.seterr(all="ignore")

    def fn(x, y, k):
        out = []
"""
