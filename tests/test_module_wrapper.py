"""Compiled modules: they are the module, compiled, in every respect that a program can see."""

from __future__ import annotations

import abc
import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel.errors import BackendError
from seeds.recording import Recorder


class Block(nn.Module):
    """A module with a bit of everything."""

    kind = "block"

    def __init__(self, size=4):
        super().__init__()
        self.lin = nn.Linear(size, size)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("steps", torch.zeros(()))
        self.scale = 2.0

    def forward(self, x, shift=0.0, *, negate=False):
        """Doc of forward."""
        x = self.drop(self.lin(x)) * self.scale + shift
        return -x if negate else x

    def project(self, x):
        return self.lin(x) + 1


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.steps += 1
        self.calls += 1
        return x + self.steps


def make():
    recorder = Recorder()
    module = Block().eval()
    return module, fs.compile(module, backend=recorder), recorder


X = torch.arange(8.0).reshape(2, 4)


def test_call_and_keywords():
    module, compiled, recorder = make()
    assert torch.equal(compiled(X), module(X))
    assert torch.equal(compiled(X, 1.0), module(X, 1.0))
    assert torch.equal(compiled(X, shift=3.0, negate=True), module(X, shift=3.0, negate=True))
    assert torch.equal(compiled(x=X), module(x=X))
    assert recorder.graphs
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        compiled(X, wrong=1)
    with pytest.raises(TypeError, match="missing"):
        compiled()


def test_names_and_classes():
    module, compiled, _ = make()
    assert isinstance(compiled, Block) and isinstance(compiled, nn.Module)
    assert type(compiled).__name__ == "Block" and type(compiled).__qualname__ == "Block"
    assert type(compiled).__module__ == Block.__module__ and compiled.__doc__ == Block.__doc__
    assert repr(compiled) == repr(module) and compiled.kind == "block"
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)
    assert compiled.forward.__doc__ == "Doc of forward."


def test_original_stays_eager():
    module, compiled, recorder = make()
    module(X)
    assert recorder.graphs == [] and type(module) is Block
    compiled(X)
    assert len(recorder.graphs) == 1


def test_attributes_are_shared():
    module, compiled, _ = make()
    assert torch.equal(compiled(X), module(X))
    compiled.scale = 5.0
    assert module.scale == 5.0 and torch.equal(compiled(X), module(X))
    module.scale = 7.0
    assert compiled.scale == 7.0 and torch.equal(compiled(X), module(X))
    compiled.extra = "note"
    assert module.extra == "note"
    del compiled.extra
    assert not hasattr(module, "extra")
    compiled.lin = nn.Linear(4, 4)
    assert module.lin is compiled.lin and torch.equal(compiled(X), module(X))
    del module.drop
    assert not hasattr(compiled, "drop")
    with pytest.raises(AttributeError, match="'Block' object has no attribute 'nothing'"):
        compiled.nothing  # noqa: B018


def test_state_dict():
    module, compiled, _ = make()
    assert list(compiled.state_dict()) == ["steps", "lin.weight", "lin.bias"]
    assert [name for name, _ in compiled.named_parameters()] == ["lin.weight", "lin.bias"]
    other = Block().eval()
    compiled(X)
    assert compiled.load_state_dict(other.state_dict()).missing_keys == []
    assert torch.equal(compiled(X), other(X)) and torch.equal(module(X), other(X))
    stream = io.BytesIO()
    torch.save(compiled.state_dict(), stream)
    stream.seek(0)
    Block().load_state_dict(torch.load(stream))


def test_train_and_eval():
    module, compiled, recorder = make()
    compiled(X)
    assert compiled.train() is compiled and module.training and module.drop.training
    torch.manual_seed(1)
    out = compiled(X)
    torch.manual_seed(1)
    assert torch.equal(out, module(X))
    assert len(recorder.graphs) == 2
    assert compiled.eval() is compiled and not module.drop.training
    compiled(X)
    assert len(recorder.graphs) == 2


def test_gradients_and_optimizers():
    module, compiled, _ = make()
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
    before = module.lin.weight.clone()
    compiled(X).sum().backward()
    assert module.lin.weight.grad is not None
    optimizer.step()
    assert not torch.equal(before, module.lin.weight)
    compiled.zero_grad()
    assert module.lin.weight.grad is None
    assert torch.equal(compiled(X), module(X))


def test_to_and_apply():
    module, compiled, _ = make()
    compiled(X)
    assert compiled.to(torch.float64) is compiled and module.lin.weight.dtype is torch.float64
    assert compiled(X.double()).dtype is torch.float64
    seen = []
    assert compiled.apply(lambda m: seen.append(type(m).__name__)) is compiled
    assert seen == ["Linear", "Dropout", "Block"]
    assert [name for name, _ in compiled.named_modules()] == ["", "lin", "drop"]
    assert compiled.requires_grad_(False) is compiled and not module.lin.weight.requires_grad


def test_hooks():
    module, compiled, _ = make()
    expected = module(X)
    assert torch.equal(compiled(X), expected)
    seen = []
    handle = compiled.register_forward_hook(lambda m, args, out: (seen.append(type(m).__name__), out + 1)[1])
    assert torch.equal(compiled(X), expected + 1) and seen == ["Block"]
    handle.remove()
    assert torch.equal(compiled(X), expected) and len(seen) == 1
    handle = module.lin.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    assert torch.equal(compiled(X), module(X))
    handle.remove()
    assert torch.equal(compiled(X), expected)


def test_buffers_and_attributes_change_once_per_call():
    module = Counting()
    compiled = fs.compile(module)
    for step in range(1, 4):
        assert torch.equal(compiled(X), X + step)
    assert module.steps == 3 and module.calls == 3


def test_pickle():
    _, compiled, _ = make()
    compiled = fs.compile(compiled._firesteel_original, backend="eager", fullgraph=True)
    out = compiled(X)
    loaded = pickle.loads(pickle.dumps(compiled))
    assert isinstance(loaded, Block) and type(loaded) is not Block
    assert loaded.lin.weight is not compiled.lin.weight and torch.equal(loaded(X), out)
    stream = io.BytesIO()
    torch.save(compiled, stream)
    stream.seek(0)
    assert torch.equal(torch.load(stream, weights_only=False)(X), out)


def test_copies():
    module, compiled, recorder = make()
    deep = copy.deepcopy(compiled)
    assert type(deep) is not Block and torch.equal(deep(X), compiled(X))
    assert len(recorder.graphs) == 2
    with torch.no_grad():
        deep.lin.weight.zero_()
    assert torch.equal(compiled(X), module(X)) and not torch.equal(deep(X), compiled(X))
    shallow = copy.copy(compiled)
    shallow.scale = 100.0
    assert module.scale == 2.0 and shallow.lin is module.lin
    holder = {"a": compiled, "b": [compiled]}
    copied = copy.deepcopy(holder)
    assert copied["a"] is copied["b"][0] and copied["a"] is not compiled


def test_inside_of_a_bigger_module():
    class Outer(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return self.block(x).relu()

    inner_recorder, outer_recorder = Recorder(), Recorder()
    block = Block().eval()
    plain = Outer(block)(X)
    outer = Outer(fs.compile(block, backend=inner_recorder)).eval()
    assert list(outer.state_dict()) == ["block.steps", "block.lin.weight", "block.lin.bias"]
    assert torch.equal(outer(X), plain) and len(inner_recorder.graphs) == 1
    compiled = fs.compile(outer, backend=outer_recorder, fullgraph=True)
    assert torch.equal(compiled(X), plain)
    assert (len(inner_recorder.graphs), len(outer_recorder.graphs)) == (1, 1)
    sequence = nn.Sequential(fs.compile(block, backend=inner_recorder), nn.ReLU())
    assert torch.equal(sequence(X), plain)
    assert torch.equal(fs.compile(sequence, fullgraph=True)(X), plain)


def test_as_an_argument():
    _, compiled, _ = make()
    recorder = Recorder()
    f = fs.compile(lambda m, x: m(x) + m.scale, backend=recorder, fullgraph=True)
    assert torch.equal(f(compiled, X), compiled(X) + 2.0) and len(recorder.graphs) == 1


def test_compiled_again():
    module, compiled, recorder = make()
    other = Recorder()
    again = fs.compile(compiled, backend=other)
    assert torch.equal(again(X), module(X))
    assert (len(recorder.graphs), len(other.graphs)) == (0, 1)
    assert type(again).__mro__[1] is Block


def test_forward_and_other_methods():
    module, compiled, recorder = make()
    assert torch.equal(compiled.forward(X), module(X)) and len(recorder.graphs) == 1
    assert torch.equal(compiled.project(X), module.project(X))  # not compiled: only calls of the module are
    assert len(recorder.graphs) == 1
    other = Recorder()
    assert torch.equal(fs.compile(module.forward, backend=other)(X, shift=1.0), module(X, 1.0))
    assert len(other.graphs) == 1
    assert torch.equal(fs.compile(module.project, backend=other)(X), module.project(X)) and len(other.graphs) == 2


def test_forward_assigned_to_the_instance():
    module = Block().eval()
    module.forward = lambda x: x + 41
    compiled = fs.compile(module)
    assert torch.equal(compiled(X), X + 41)


def test_call_overridden():
    class Wrapped(Block):
        def __call__(self, x):
            return super().__call__(x) + 1

    module = Wrapped().eval()
    recorder = Recorder()
    compiled = fs.compile(module, backend=recorder)
    assert torch.equal(compiled(X), module(X)) and recorder.graphs


@pytest.mark.parametrize("module", [nn.Identity(), nn.ReLU(), nn.Flatten(), nn.Sequential()])
def test_modules_without_parameters(module):
    assert torch.equal(fs.compile(module)(X), module(X))


def test_metaclasses_and_init_subclass():
    class Base(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x): ...

    class Derived(Base):
        made = []

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.made.append(cls)

        def forward(self, x):
            return x * 2

    assert torch.equal(fs.compile(Derived())(X), X * 2)


def test_graph_module():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    assert torch.equal(fs.compile(traced)(X), traced(X))


def test_weight_sharing_with_the_original_survives_replacement():
    module, compiled, _ = make()
    compiled(X)
    module.lin.weight = nn.Parameter(torch.zeros(4, 4))
    assert torch.equal(compiled(X), module(X))


def test_force_eager_and_disable():
    module, compiled, recorder = make()
    with fs.set_stance("force_eager"):
        assert torch.equal(compiled(X), module(X)) and torch.equal(compiled.forward(X), module(X))
    assert recorder.graphs == []
    assert fs.compile(module, disable=True) is module


def test_unknown_backend_name_on_loading():
    with pytest.raises(BackendError):
        fs.compile(Block(), backend="nowhere")
