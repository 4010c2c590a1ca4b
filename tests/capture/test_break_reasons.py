"""What breaks are called: the function that the program called, and a hint that fits."""

from __future__ import annotations

import itertools
import random
import re
import time
import warnings

import numpy
import pytest
import torch

import firesteel as fs

X = torch.randn(3, 3)
LINEAR = torch.nn.Linear(3, 3)
ARRAY = numpy.ones((3, 3), dtype=numpy.float32)
OBJECTS = numpy.array([1, 2, 3], dtype=object)
WIDE = ARRAY[::-1].astype(">f4").astype(numpy.float32)[::-1]
NUMBERS = itertools.chain([1.0] * 9, [2.0] * 9)
GENERATOR = random.Random(3)


@torch.library.custom_op("break_reasons::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


LIBRARY = torch.library.Library("break_reasons", "FRAGMENT")
LIBRARY.define("thrice(Tensor x) -> Tensor")
LIBRARY.impl("thrice", lambda x: x * 3, "CPU")


PROGRAMS = {
    "vmap": (lambda x: torch.vmap(lambda row: row + torch.rand(()))(x),
             "torch.func.vmap runs as plain Python: torch.func.vmap raises RuntimeError: vmap: called random operation",
             "fails as well"),
    "grad": (lambda x: torch.func.grad(lambda r: r * 2)(x), "grad of a function that does not return a scalar", ""),
    "jvp": (lambda x: torch.func.jvp(torch.sin, (x,), (x, x))[0], "jvp of primals and tangents with different", ""),
    "random": (lambda x: x + random.choices([1, 2])[0], "random.choices draws", "torch.rand"),
    "shuffle": (lambda x: x + random.sample([1, 2, 3], 2)[0], "random.sample draws", "torch.randint"),
    "generator": (lambda x: x + GENERATOR.sample([1, 2], 1)[0], "random.sample draws", "torch.rand"),
    "time": (lambda x: x + time.time(), "time.time depends on the clock", "outside of the compiled function"),
    "from_numpy": (lambda x: x + torch.from_numpy(WIDE), "torch.from_numpy takes an array", "make the tensor outside"),
    "array": (lambda x: x + float(OBJECTS.sum()), "'sum' (a NumPy array of object)", "use torch functions"),
    "method": (lambda x: x + float(ARRAY.byteswap()[0, 0]), "method 'byteswap' of a NumPy array", ""),
    "function": (lambda x: x + float(numpy.linalg.cond(ARRAY)), "np.linalg.cond is not captured",
                 "another function"),
    "open": (lambda x: x + len(open(__file__).read()) * 0, "open() acts on", "outside of the compiled function"),
    "custom_op": (lambda x: twice(x) + 1, "torch.ops.break_reasons.twice.default: it has no fake kernel",
                  "torch.library.register_fake('break_reasons::twice', "),
    "library": (lambda x: torch.ops.break_reasons.thrice(x) + 1, "torch.ops.break_reasons.thrice: it has no fake",
                "torch.library.register_fake('break_reasons::thrice', "),
    "iterator": (lambda x: x + next(NUMBERS), "next() on itertools.chain object", "make a list of it"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_what_the_program_called_and_says_what_to_do(name):
    function, reason, hint = PROGRAMS[name]
    with pytest.raises(fs.errors.GraphBreakError) as caught:  # running them may import torch's compiler, 3 s
        fs.compile(function, fullgraph=True)(X)
    found = caught.value
    assert reason in found.reason and hint in found.hint
    assert found.frames[-1].filename == __file__  # not a line of the library


def test_lbfgs():
    optimizer = torch.optim.LBFGS(LINEAR.parameters(), max_iter=1)

    def step(x):
        def closure():
            optimizer.zero_grad()
            loss = LINEAR(x).sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    assert "torch.optim.LBFGS decides on the values" in fs.explain(step)(X).break_reasons[0].reason


def test_errors_of_the_program_speak_of_its_tensors():
    def adds(x):
        return x + "text"

    with pytest.raises(TypeError, match="'Tensor' and 'str'"), fs.recording() as r:
        fs.compile(adds)(X)
    assert r.record.breaks[0].reason == \
        "operator.add raises TypeError: unsupported operand type(s) for +: 'Tensor' and 'str'"


def test_a_function_of_the_program_inside_of_a_library_breaks_for_itself():
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(lambda row: row * time.time())(x)

    with pytest.raises(fs.errors.FiresteelError, match="time.time depends on the clock"):
        fs.export.export(Branch(), (X,))


@pytest.mark.parametrize("make", [lambda: torch.jit.trace(LINEAR, (X,)), lambda: torch.jit.script(LINEAR)])
def test_torchscript(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = make()
    found = fs.explain(lambda x: scripted(x * 2) + 1)(X).break_reasons
    assert [one.reason for one in found] == ["TorchScript is compiled already, by another compiler"]
    assert found[0].hint == "call what it was made from"
    with pytest.raises(fs.errors.UserCodeError, match="(?s)is TorchScript.*Export the module that it was made from"):
        fs.export.export(scripted, (X,))


def loops(x):
    while x.sum() < 10:
        x = x + 1
    return x


class Loops(torch.nn.Module):
    def forward(self, x):
        return loops(x)


@pytest.mark.parametrize("options", [None, {"capture_branches": True}])
def test_loops_on_values(options):
    with pytest.raises(fs.errors.GraphBreakError, match="(?s)a loop depends on the value of a tensor.*fs.while_loop"):
        fs.compile(loops, fullgraph=True, options=options)(torch.ones(2))


@pytest.mark.parametrize("strict", [True, False])
def test_loops_on_values_in_exports(strict):
    with pytest.raises(fs.export.ExportError, match="(?s)a loop depends on the value of a tensor.*fs.while_loop"):
        fs.export.export(Loops(), (torch.ones(2),), strict=strict)


class Branches(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            print("positive")
            return x + 1
        return x - 1


class BranchesOnItem(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.sum().item() > 3 else x


def test_branches_on_values_in_exports():
    with pytest.raises(fs.export.ExportError) as caught:
        fs.export.export(Branches(), (torch.ones(2),), strict=False)
    assert "Why: a branch depends on the value of a tensor\n" in str(caught.value)
    assert "tensor.item()" not in str(caught.value)
    with pytest.raises(fs.export.ExportError) as caught:
        fs.export.export(Branches(), (torch.ones(2),))
    assert "such as printing" in str(caught.value) and "With strict=True" not in str(caught.value)
    with pytest.raises(fs.export.ExportError) as caught:
        fs.export.export(BranchesOnItem(), (torch.ones(2),), strict=False)
    assert "give the number a name" in str(caught.value) and "torch._check(tensor" not in str(caught.value)
    assert "_ops.py" not in str(caught.value)


@pytest.fixture
def one_process():
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


def test_other_processes(one_process):
    def waits(x):
        y = x * 2
        one_process.barrier()
        return y + 1

    assert "torch.distributed.barrier talks to other" in fs.explain(waits)(X).break_reasons[0].reason
    weights = []
    for wrap in (lambda module: module, lambda module: torch.nn.parallel.DistributedDataParallel(fs.compile(module)),
                 lambda module: fs.compile(torch.nn.parallel.DistributedDataParallel(module))):
        torch.manual_seed(0)
        module = wrap(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()))
        for _ in range(2):
            module(X).sum().backward()
        weights.append([parameter.grad for parameter in module.parameters()])
    torch.testing.assert_close(weights[1:], [weights[0]] * 2)


def drawn(x):
    import random

    return x + 1 if random.random() < 0.5 else x


def selected(x):
    chosen = x[x > 0]
    if chosen.shape[0] > 2:
        return chosen * 2
    return chosen


def unnamed(x):
    return x * 2 if x.max().item() > 2 else x


def rounds(x):
    for _ in range(x.max().item()):
        x = x + 1
    return x


@pytest.mark.parametrize("program, words", [
    (drawn, ["pass it in", "torch.where"]), (selected, ["torch._check(chosen.shape[0] > 2) or", "shape[0] <= 2)"]),
    (unnamed, ["give the number a name, n = ....item()", "torch._check(n >= 3)"]),
    (rounds, ["fs.while_loop", "n = ....item()"])])
def test_advice_about_data_uses_names_of_the_program(program, words):
    (reason, *_) = fs.explain(program)(torch.tensor([3, 4, 5])).break_reasons
    assert all(word in reason.hint for word in words), reason.hint
    for name in ("random()", "mask.sum()", "max_1"):
        assert name not in reason.hint.replace("torch.rand(())", "")


def test_advice_about_data_works():
    def stated(x):
        chosen = x[x > 0]
        torch._check(chosen.shape[0] > 2)
        if chosen.shape[0] > 2:
            return chosen * 2
        return chosen

    assert fs.compile(stated, fullgraph=True)(torch.tensor([3, 4, 5])).tolist() == [6, 8, 10]


def test_advice_inside_of_flex_attention():
    import hashlib

    from torch.nn.attention.flex_attention import flex_attention

    def score(s, b, h, q, k):
        hashlib.sha256(b"x")
        return s * 2

    q = torch.ones(1, 1, 4, 4)
    (reason,) = fs.explain(lambda q: flex_attention(q, q, q, score_mod=score))(q).break_reasons
    assert "custom operator" not in reason.hint and "functions given to flex_attention" in reason.hint


def test_sizes_in_messages_are_named():
    def product(x, y):
        try:
            return torch.mm(x, y["w"])
        except RuntimeError:
            return x

    args = torch.ones(3, 4), {"w": torch.ones(5, 6)}
    (reason,) = fs.explain(product, dynamic=True)(*args).break_reasons
    assert re.search(r"\(s0xs1 and s2xs3\) \(s0 = x\.shape\[0\] = 3, s1 = x\.shape\[1\] = 4, "
                     r"s2 = y\['w'\]\.shape\[0\] = 5, s3 = y\['w'\]\.shape\[1\] = 6\)$", reason.reason), reason
    assert reason.frames[-1].source == 'return torch.mm(x, y["w"])'


def test_an_error_of_a_whole_graph_is_the_programs_own():
    def product(x, y):
        return torch.mm(x, y["w"])

    with pytest.raises(RuntimeError, match=r"^mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x6\)$"):
        fs.compile(product, fullgraph=True, dynamic=True)(torch.ones(3, 4), {"w": torch.ones(5, 6)})
