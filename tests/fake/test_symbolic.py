"""Operators on fake tensors with symbolic sizes: what the results look like, and which guards they leave."""

import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from firesteel.fake import FakeMode, FakeTensor
from firesteel.fake.tensor import new_fake
from firesteel.shapes import ShapeEnv
from firesteel.shapes.symnode import expr_of, make_symbolic, make_symint

CPU = torch.device("cpu")


class World:
    """An environment with sizes s0 = 4, s1 = 6, s2 = 8, s3 = 4, s4 = 6, and tensors of them."""

    def __init__(self, hints=(4, 6, 8, 4, 6)):
        self.env, self.mode = ShapeEnv(), FakeMode()
        self.symbols = [self.env.new_symbol(hint, f"x.size({i})", lower=2) for i, hint in enumerate(hints)]
        self.sizes = [make_symint(self.env, s) for s in self.symbols]

    def tensor(self, shape, dtype=torch.float32):
        """A contiguous tensor; "s0" in the shape is a symbol, an int itself."""
        sizes = [self.sizes[int(size[1:])] if isinstance(size, str) else size for size in shape]
        return new_fake(sizes, None, dtype, CPU)

    def guards(self):
        return sorted(str(guard.expr) for guard in self.env.guards)

    def run(self, fn, *args):
        return self.mode.run(fn, args)


def shape(x):
    return [str(expr_of(size)) for size in x.shape]


def stride(x):
    return [str(expr_of(size)) for size in x.stride()]


# name: program, shapes of its tensors, shapes of the results, guards
PROGRAMS = {
    "unary": (torch.sin, [["s0", "s1"]], [["s0", "s1"]], []),
    "same symbols": (torch.add, [["s0", "s1"], ["s0", "s1"]], [["s0", "s1"]], []),
    "equal hints": (torch.add, [["s0"], ["s3"]], [["s0"]], ["s0 == s3"]),
    "broadcast 1": (torch.mul, [["s0", 1], ["s1"]], [["s0", "s1"]], []),
    "broadcast row": (torch.mul, [["s0", "s1"], ["s1"]], [["s0", "s1"]], []),
    "symbol and constant": (torch.add, [["s0", 3], ["s0", 3]], [["s0", "3"]], []),
    "specialised": (torch.add, [["s0"], [4]], [["4"]], ["s0 == 4"]),
    "where": (lambda x, y: torch.where(x > 0, x, y), [["s0", "s1"], ["s1"]], [["s0", "s1"]], []),
    "masked fill": (lambda x: x.masked_fill(x > 0, 1.0), [["s0", "s1"]], [["s0", "s1"]], []),
    "transposed": (lambda x: x.t() + 1, [["s0", "s1"]], [["s1", "s0"]], []),
    "transposed and not": (lambda x, y: x.t() + y, [["s0", "s1"], ["s1", "s0"]], [["s1", "s0"]], []),
    "permuted": (lambda x: x.permute(2, 0, 1).exp(), [["s0", "s1", "s2"]], [["s2", "s0", "s1"]], []),
    "view flat": (lambda x: x.view(-1), [["s0", "s1"]], [["s0*s1"]], []),
    "view product": (lambda x: x.view(x.shape[0] * x.shape[1], 3), [["s0", "s1", 3]], [["s0*s1", "3"]], []),
    "view split": (lambda x: x.view(x.shape[0], x.shape[1], 4, 8), [["s0", "s1", 32]], [["s0", "s1", "4", "8"]], []),
    "view divides": (lambda x: x.view(-1, 4), [["s0", "s1"]], [["s0*s1//4", "4"]], ["s0*s1 % 4 == 0"]),
    "heads": (
        lambda x: x.view(x.shape[0], -1, 4, 8).transpose(1, 2).reshape(x.shape[0], -1, 8),
        [["s0", "s1", 32]], [["s0", "4*s1", "8"]], [],
    ),
    "flatten": (lambda x: x.flatten(1), [["s0", "s1", "s2"]], [["s0", "s1*s2"]], []),
    "contiguous": (lambda x: x.contiguous(), [["s0", "s1"]], [["s0", "s1"]], []),
    "contiguous copy": (lambda x: x.transpose(1, 2).contiguous(), [["s0", "s1", 3]], [["s0", "3", "s1"]], []),
    "expand": (lambda x: x[None].expand(5, -1, -1), [["s0", "s1"]], [["5", "s0", "s1"]], []),
    "expand to symbol": (lambda x, y: x.expand(y.shape[0], -1), [[1, 3], ["s0"]], [["s0", "3"]], []),
    "squeeze": (lambda x: x.squeeze(), [["s0", 1, "s1"]], [["s0", "s1"]], []),
    "first": (lambda x: x[0], [["s0", "s1"]], [["s1"]], []),
    "last": (lambda x: x[-1], [["s0", "s1"]], [["s1"]], []),
    "fourth": (lambda x: x[3], [["s0", "s1"]], [["s1"]], ["s0 >= 4"]),
    "slice": (lambda x: x[:, :5], [["s0", "s1"]], [["s0", "5"]], ["s1 >= 5"]),
    "slice from": (lambda x: x[:, 1:], [["s0", "s1"]], [["s0", "s1 - 1"]], []),
    "slice ends": (lambda x: x[:, 1:-1], [["s0", "s1"]], [["s0", "s1 - 2"]], []),
    "slice steps": (lambda x: x[:, ::2], [["s0", "s1"]], [["s0", "(s1 + 1)//2"]], []),
    "slice of slice": (lambda x: x[1:][1:] + 1, [["s0", "s1"]], [["s0 - 2", "s1"]], []),
    "slice by size": (lambda x, y: x[: y.shape[0]], [["s1"], ["s0"]], [["s0"]], ["s0 <= s1"]),
    "split": (lambda x: x.split(32, -1), [["s0", "s1", 96]], [["s0", "s1", "32"]] * 3, []),
    "chunk": (lambda x: x.chunk(2, 0), [["s0"]], [["(s0 + 1)//2"], ["s0 - (s0 + 1)//2"]], ["..."]),
    "split with sizes": (lambda x: x.split([2, 4], 1), [["s0", "s1"]], [["s0", "2"], ["s0", "4"]], ["s1 == 6"]),
    "cat": (lambda x, y: torch.cat([x, y]), [["s0", "s2"], ["s1", "s2"]], [["s0 + s1", "s2"]], []),
    "cat checks": (lambda x, y: torch.cat([x, y]), [["s0", "s1"], ["s2", "s4"]], [["s0 + s2", "s1"]], ["s1 == s4"]),
    "stack": (lambda x, y: torch.stack([x, y], 1), [["s0"], ["s0"]], [["s0", "2"]], []),
    "mm": (torch.mm, [["s0", "s1"], ["s4", "s2"]], [["s0", "s2"]], ["s1 == s4"]),
    "matmul": (torch.matmul, [["s0", "s1", 32], [32, 16]], [["s0", "s1", "16"]], []),
    "attention scores": (
        lambda q: q @ q.transpose(-1, -2), [["s0", 4, "s1", 8]], [["s0", "4", "s1", "s1"]], [],
    ),
    "linear": (F.linear, [["s0", "s1", 32], [16, 32], [16]], [["s0", "s1", "16"]], []),
    "bias": (torch.addmm, [[16], ["s0", 32], [32, 16]], [["s0", "16"]], []),
    "layer norm": (lambda x, w: F.layer_norm(x, (32,), w, w), [["s0", "s1", 32], [32]], [["s0", "s1", "32"]], []),
    "layer norm by size": (lambda x: F.layer_norm(x, x.shape[1:]), [["s0", "s1"]], [["s0", "s1"]], []),
    "softmax": (lambda x: x.softmax(-1), [["s0", "s1"]], [["s0", "s1"]], []),
    "dropout": (lambda x: F.dropout(x, 0.5), [["s0", "s1"]], [["s0", "s1"]], []),
    "mean": (lambda x: x.mean(1), [["s0", "s1", 3]], [["s0", "3"]], []),
    "sum all": (torch.sum, [["s0", "s1"]], [[]], []),
    "amax": (lambda x: x.amax(-1, keepdim=True), [["s0", "s1"]], [["s0", "1"]], []),
    "argmax": (lambda x: x.argmax(-1), [["s0", "s1"]], [["s0"]], []),
    "max": (lambda x: tuple(x.max(1)), [["s0", "s1"]], [["s0"]] * 2, []),
    "cumsum": (lambda x: x.cumsum(1), [["s0", "s1"]], [["s0", "s1"]], []),
    "topk": (lambda x: tuple(x.topk(3)), [["s0", "s1"]], [["s0", "3"]] * 2, ["s1 >= 3"]),
    "sort": (lambda x: tuple(x.sort()), [["s0", "s1"]], [["s0", "s1"]] * 2, []),
    "triu": (torch.triu, [["s0", "s1"]], [["s0", "s1"]], []),
    "pad": (lambda x: F.pad(x, (1, 2)), [["s0", "s1"]], [["s0", "s1 + 3"]], []),
    "repeat": (lambda x: x.repeat(2, 3), [["s0", "s1"]], [["2*s0", "3*s1"]], []),
    "repeat interleave": (lambda x: x.repeat_interleave(2, 1), [["s0", "s1", 3]], [["s0", "2*s1", "3"]], []),
    "embedding": (lambda i, w: F.embedding(i.long(), w), [["s0", "s1"], [10, 5]], [["s0", "s1", "5"]], []),
    "gather": (lambda x, i: x.gather(1, i.long()), [["s0", "s1"], ["s0", "s1"]], [["s0", "s1"]], []),
    "index": (lambda x, i: x[i.long()], [["s0", "s1"], ["s2"]], [["s2", "s1"]], []),
    "index pairs": (lambda x, i: x[i.long(), i.long()], [["s0", "s1"], ["s2"]], [["s2"]], []),
    "conv": (
        lambda x, w: F.conv2d(x, w, padding=1), [["s0", 3, "s1", "s2"], [8, 3, 3, 3]], [["s0", "8", "s1", "s2"]], [],
    ),
    "strided conv": (
        lambda x, w: F.conv2d(x, w, stride=2),
        [["s0", 3, "s1", "s2"], [8, 3, 3, 3]],
        [["s0", "8", "(s1 + 1)//2 - 1", "(s2 + 1)//2 - 1"]],
        ["s1 >= 3", "s2 >= 3"],
    ),
    "conv1d": (lambda x, w: F.conv1d(x, w, padding=1), [["s0", 3, "s1"], [8, 3, 3]], [["s0", "8", "s1"]], []),
    "transposed conv": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [["s0", 3, "s1", "s2"], [3, 8, 2, 2]], [["s0", "8", "2*s1", "2*s2"]], [],
    ),
    "max pool": (lambda x: F.max_pool2d(x, 2), [["s0", 3, "s1", "s2"]], [["s0", "3", "s1//2", "s2//2"]], []),
    "avg pool": (
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        [["s0", 3, "s1", "s2"]], [["s0", "3", "(s1 + 1)//2", "(s2 + 1)//2"]], [],
    ),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 1), [["s0", 3, "s1", "s2"]], [["s0", "3", "1", "1"]], []),
    "upsample": (
        lambda x: F.interpolate(x, scale_factor=2), [["s0", 3, "s1", "s2"]], [["s0", "3", "2*s1", "2*s2"]], [],
    ),
    "batch norm": (
        lambda x, p: F.batch_norm(x, p * 1, p * 2, p, p, True),
        [["s0", 3, "s1", "s2"], [3]], [["s0", "3", "s1", "s2"]], [],
    ),
    "group norm": (lambda x: F.group_norm(x, 3), [["s0", 3, "s1", "s2"]], [["s0", "3", "s1", "s2"]], []),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t.long()), [["s0", 10], ["s0"]], [[]], []),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        [["s0", 4, "s1", 8]], [["s0", "4", "s1", "8"]], [],
    ),
    "arange": (lambda x: torch.arange(x.shape[0]), [["s0"]], [["s0"]], []),
    "arange from": (lambda x: torch.arange(1, x.shape[0] + 1), [["s0"]], [["s0"]], []),
    "zeros": (lambda x: torch.zeros(x.shape[0], 3), [["s0"]], [["s0", "3"]], []),
    "full": (lambda x: torch.full((x.shape[0],), 2.0), [["s0"]], [["s0"]], []),
    "full of a size": (lambda x: torch.full((2,), x.shape[0]), [["s0"]], [["2"]], []),
    "like": (torch.zeros_like, [["s0", "s1"]], [["s0", "s1"]], []),
    "new": (lambda x: x.new_ones(x.shape[1], 1), [["s0", "s1"]], [["s1", "1"]], []),
    "times a size": (lambda x: x * x.shape[0], [["s0", 3]], [["s0", "3"]], []),
    "by a size": (lambda x: x / x.shape[0], [["s0", 3]], [["s0", "3"]], []),
    "plus a float": (lambda x: x + x.shape[0] ** -0.5, [["s0", 3]], [["s0", "3"]], []),
    "size in place": (lambda x: x.mul_(x.shape[0]), [["s0", 3]], [["s0", "3"]], []),
    "causal mask": (
        lambda x: torch.ones(x.shape[1], x.shape[1]).tril().bool()[None, None],
        [["s0", "s1"]], [["1", "1", "s1", "s1"]], [],
    ),
    "meta kernel": (lambda x: torch.roll(x, 1, 0), [["s0", "s1"]], [["s0", "s1"]], []),
    "unfold": (lambda x: x.unfold(1, 3, 1), [["s0", "s1"]], [["s0", "s1 - 2", "3"]], ["s1 >= 3"]),
    "diagonal": (lambda x: x.diagonal(), [["s0", "s0"]], [["s0"]], []),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_and_guards(name):
    program, inputs, expected, guards = PROGRAMS[name]
    world = World()
    results = pytree.tree_leaves(world.run(program, *[world.tensor(sizes) for sizes in inputs]))
    assert [shape(result) for result in results] == expected
    if guards != ["..."]:
        assert world.guards() == guards
    assert all(guard.expr.evaluate(world.env.hints) for guard in world.env.guards)


def test_results_remembered_are_new_tensors():
    world = World()
    x = world.tensor(["s0", "s1"])
    first, second = world.run(torch.sin, x), world.run(torch.sin, x)
    assert first is not second and first.storage_key != second.storage_key
    assert (shape(first), stride(first)) == (shape(second), stride(second))
    view, again = world.run(torch.transpose, x, 0, 1), world.run(torch.transpose, x, 0, 1)
    assert view is not again and view.storage_key == again.storage_key == x.storage_key
    other = world.tensor(["s0", "s1"])
    assert world.run(torch.transpose, other, 0, 1).storage_key == other.storage_key
    parts = world.run(torch.chunk, x, 1)
    assert [part.storage_key for part in parts] == [x.storage_key]
    assert stride(world.run(lambda x: x[:, 1:][1:], x)) == ["s1", "1"]
    assert str(expr_of(world.run(lambda x: x[1:], x).storage_offset())) == "s1"
    assert str(expr_of(world.run(lambda x: x[1:][1:], x).storage_offset())) == "2*s1"


def test_remembered_results_know_their_numbers():
    world = World()
    x = world.tensor(["s0"], torch.int64)
    assert [world.run(torch.add, x, number).dtype for number in (1, 1.0, True)] == [
        torch.int64, torch.float32, torch.int64,
    ]  # fmt: skip
    assert shape(world.run(lambda x: x.repeat(2), x)) == ["2*s0"]
    assert shape(world.run(lambda x: x.repeat(3), x)) == ["3*s0"]


def test_an_equality_learnt_later_is_used():
    world = World()
    x, y = world.tensor(["s0", "s1"]), world.tensor(["s3", "s1"])
    before = world.run(torch.sin, y)
    assert shape(before) == ["s3", "s1"]
    world.run(torch.add, x, y)
    assert shape(world.run(torch.sin, y)) == shape(before) == ["s0", "s1"]
    assert shape(world.run(lambda x, y: torch.cat([x, y]), x, y)) == ["2*s0", "s1"]
    assert world.guards() == ["s0 == s3"]


def test_in_place_and_metadata_changes():
    world = World()
    x = world.tensor(["s0", "s1"])
    assert world.run(lambda x: x.add_(1).mul_(x), x) is x
    world.run(torch.Tensor.t_, x)
    assert shape(x) == ["s1", "s0"] and stride(x) == ["1", "s1"]
    world.run(lambda x: x.unsqueeze_(0), x)
    assert shape(x) == ["1", "s1", "s0"]
    y = world.run(lambda x: x.as_strided((x.shape[1],), (1,)), x)
    assert shape(y) == ["s1"]
    assert world.guards() == []


def test_strides_of_permuted_results():
    world = World()
    x = world.tensor(["s0", "s1", "s2"])
    y = world.run(lambda x: x.permute(2, 0, 1).sin(), x)
    assert stride(y) == ["1", "s1*s2", "s2"]
    assert stride(world.run(lambda y: y.contiguous(), y)) == ["s0*s1", "s1", "1"]
    image = world.run(lambda x: x.contiguous(memory_format=torch.channels_last), world.tensor(["s0", 3, "s1", "s2"]))
    assert stride(image) == ["3*s1*s2", "1", "3*s2", "3"]
    assert stride(world.run(F.relu, image)) == stride(image)
    out = world.run(lambda x, w: F.conv2d(x, w, padding=1), image, world.tensor([8, 3, 3, 3]))
    assert stride(out) == ["8*s1*s2", "1", "8*s2", "8"]
    assert world.guards() == []


def test_errors_are_eagers():
    world = World()
    x, y = world.tensor(["s0", "s1"]), world.tensor(["s2", "s1"])
    for program in (
        lambda: torch.add(x, y),
        lambda: torch.mm(x, y),
        lambda: torch.cat([x, y], 1),
        lambda: x.view(7, -1),
        lambda: x[9],
        lambda: x.expand(9, 9),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            world.run(program)


def test_symbolic_numbers_are_not_fixed():
    world = World()
    x = world.tensor(["s0", 3])
    scale = make_symbolic(world.env, world.env.new_symbol(0.5, "scale", kind="float"))
    for program in (
        lambda: x * scale,
        lambda: x + scale,
        lambda: x / scale,
        lambda: torch.full((2,), scale),
        lambda: x.masked_fill(x > 0, scale),
        lambda: x.clamp(min=scale),
        lambda: torch.where(x > 0, x, scale),
        lambda: x.add(x, alpha=scale),
        lambda: torch.arange(world.sizes[0]) * scale,
        lambda: x.pow(scale),
    ):
        assert world.run(program).dtype is torch.float32
    n = world.sizes[1]
    for program in (lambda: x * n, lambda: x % n, lambda: x > n, lambda: torch.full((2,), n), lambda: x.sum() / n):
        assert isinstance(world.run(program), FakeTensor)
    assert world.run(lambda: torch.full((2,), n)).dtype is torch.int64
    assert world.guards() == []


def test_gradients_leave_no_guards():
    world = World()
    x = world.tensor(["s0", "s1", 32]).requires_grad_()
    weight, norm = world.tensor([32, 32]).requires_grad_(), world.tensor([32]).requires_grad_()

    def program(x, weight, norm):
        h = F.gelu(F.linear(F.layer_norm(x, (32,), norm, norm), weight))
        q = h.view(h.shape[0], -1, 4, 8).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).reshape(h.shape)
        scores = F.dropout(attended + x, 0.1).softmax(-1)
        F.cross_entropy(scores.flatten(0, 1), torch.zeros(x.shape[0] * x.shape[1], dtype=torch.int64)).backward()

    world.run(program, x, weight, norm)
    assert shape(x.grad) == ["s0", "s1", "32"]
    assert shape(weight.grad) == ["32", "32"]
    assert world.guards() == []


def test_torch_keeps_its_own_symbols_out():
    """Symbolic sizes through rules and meta kernels import neither sympy nor torch's compiler."""
    program = """
        import sys
        import torch
        import torch.nn.functional as F
        from firesteel.fake import FakeMode
        from firesteel.fake.tensor import new_fake
        from firesteel.shapes import ShapeEnv
        from firesteel.shapes.symnode import make_symint

        env, mode = ShapeEnv(), FakeMode()
        a, b = (make_symint(env, env.new_symbol(n, "x", lower=2)) for n in (4, 6))
        x = new_fake((a, b, 32), None, torch.float32, torch.device("cpu")).requires_grad_()
        image = new_fake((a, 4, b, b), None, torch.float32, torch.device("cpu"))

        def program():
            y = F.layer_norm(x, (32,)).view(a, b, 4, 8).transpose(1, 2)
            y = F.scaled_dot_product_attention(y, y, y).softmax(-1)
            y.sum().backward()
            torch.roll(x, 1, 0), F.glu(x), torch.cummax(x, 1), F.pixel_shuffle(image, 2), torch.kron(x, x)
            F.interpolate(image, size=(9, b)), torch.renorm(x, 2, 0, 1), torch.cdist(x, x), F.huber_loss(x, x)

        mode.run(program)
        for name in ("sympy", "torch._dynamo", "torch._inductor"):
            assert name not in sys.modules, name
        assert type(sys.modules["torch.fx.experimental.symbolic_shapes"]).__name__ == "_SymbolicShapes"
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
