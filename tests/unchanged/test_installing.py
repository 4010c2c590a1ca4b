"""`install`, `uninstall`, and what torch's names are in between. Whether torch's compiler stays unloaded is asked of a
process of its own, in `test_scripts`: here another test may have loaded it."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
from torch import compile as held_before
from torch import nn

import firesteel as fs
from firesteel.errors import BackendError, FiresteelWarning, UserCodeError
from firesteel.torch_compat import patches
from firesteel.unchanged import compiling
from firesteel.unchanged.optimized_module import OptimizedModule


@pytest.fixture
def installed():
    with fs.installed():
        yield
    assert not fs.is_installed()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x, *, scale=1.0):
        self.calls += 1
        return torch.relu(self.linear(x)) * scale

    def other(self):
        return self.linear.weight.sum()


def is_ours(function):
    return hasattr(function, "_firesteel_compiled")


def test_installing_and_uninstalling_change_names_and_put_them_back():
    def compilers_modules():
        return {name: sys.modules[name] for name in sys.modules if name.startswith(("torch._dynamo", "torch._ind"))}

    before, keywords, modules = torch.compile.__code__, torch.compile.__kwdefaults__, compilers_modules()
    fs.uninstall()  # nothing to undo
    fs.install()
    fs.install()
    assert fs.is_installed() and is_ours(torch.compile(lambda x: x))
    assert is_ours(held_before(lambda x: x)) and torch.compile is held_before
    with fs.installed():
        pass
    assert fs.is_installed(), "the block was inside of what was installed already"
    fs.uninstall()
    fs.uninstall()
    assert not fs.is_installed() and torch.compile.__code__ is before and torch.compile.__kwdefaults__ is keywords
    assert compilers_modules() == modules
    fs.install()
    fs.restore_torch()
    assert not fs.is_installed() and "torch.compile" not in patches.applied()


def test_whoever_replaced_torch_compile_is_left_alone_at_the_end(monkeypatch):
    def mine(model=None, **_options):
        return model

    monkeypatch.setattr(torch, "compile", mine)
    with fs.installed():
        assert is_ours(torch.compile(lambda x: x))
    assert torch.compile is mine
    with fs.installed():
        torch.compile = mine
    assert torch.compile is mine


def test_arguments_of_torch_compile(installed):
    x = torch.ones(3)
    for given in ({}, {"fullgraph": True}, {"dynamic": True}, {"dynamic": False}, {"backend": "inductor"},
                  {"backend": "eager"}, {"backend": "aot_eager"}, {"mode": "reduce-overhead"}, {"mode": "max-autotune"},
                  {"options": {"max_autotune": False}}, {"disable": True}, {"backend": lambda gm, inputs: gm.forward}):
        assert torch.compile(lambda x: x * 2 + 1, **given)(x).tolist() == [3, 3, 3], given
        assert torch.compile(**given)(lambda x: x * 2 + 1)(x).tolist() == [3, 3, 3], given
    with pytest.raises(RuntimeError, match="mode= and options="):
        torch.compile(lambda x: x, mode="default", options={})
    with pytest.raises(TypeError):
        torch.compile(lambda x: x, nonsense=1)
    with pytest.raises(BackendError, match="means nothing here"):
        torch.compile(lambda x: x, backend="onnxrt")
    with pytest.raises(BackendError, match="The backends are"):
        torch.compile(lambda x: x, backend="inductr")(x)
    with pytest.raises(UserCodeError, match="got None"):
        torch.compile()(None)


def test_options_of_inductor_are_translated_or_named_once(installed):
    compiling._ignored.clear()
    with pytest.warns(FiresteelWarning, match="shape_padding") as caught:
        for _ in range(2):
            made = torch.compile(nn.Linear(2, 2), options={"shape_padding": True, "triton.cudagraphs": True})
    assert len(caught) == 1 and made._firesteel_how["options"] == {"cuda_graphs": True}


def test_compiled_modules_are_wrapped_as_torch_wraps_them(installed):
    net = Net()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    x = torch.randn(4, 3)
    assert isinstance(compiled, torch._dynamo.OptimizedModule) and compiled._orig_mod is net
    assert list(compiled.state_dict()) == ["_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    torch.testing.assert_close(compiled(x, scale=2.0), net(x, scale=2.0))
    assert net.calls == 2 and compiled.calls == 2
    compiled.eval()
    assert not net.training and not compiled.training and "OptimizedModule" in repr(compiled)
    compiled.extra, compiled.other_net = 3, nn.Linear(1, 1)
    assert net.extra == 3 and "other_net" in dict(net.named_children()) and compiled.other() is not None
    del compiled.extra
    assert not hasattr(net, "extra") and not hasattr(compiled, "extra")
    seen = []
    with compiled.register_forward_hook(lambda *given: seen.append(len(given))):
        compiled(x)
    assert seen == [3] and compiled and "linear" in dir(compiled)
    again = torch.compile(compiled)
    assert again._orig_mod is net
    for copied in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert isinstance(copied, OptimizedModule) and copied._orig_mod is not net
        torch.testing.assert_close(copied(x), net(x))
    compiled.load_state_dict({name: torch.zeros_like(value) for name, value in compiled.state_dict().items()})
    assert net(x).abs().sum() == 0 and len(torch.compile(nn.Sequential(nn.ReLU(), nn.ReLU()))) == 2


def test_modules_compile_themselves_and_are_called_by_compiled_functions(installed):
    net = Net()
    x = torch.randn(4, 3)
    expected = net(x)
    net.compile(backend="eager")
    torch.testing.assert_close(net(x), expected)
    inner = torch.compile(Net())
    step = torch.compile(lambda x: inner(x) + 1, backend="eager")
    torch.testing.assert_close(step(x), inner._orig_mod(x) + 1)


def test_functions_of_the_compiler(installed):
    with torch.compiler.set_stance("force_eager"):
        assert torch.compile(lambda x: torch.compiler.is_compiling(), backend="eager")(1) is False
    assert torch.compile(lambda x: x + 1 if torch.compiler.is_compiling() else x, backend="eager")(torch.ones(1)) == 2
    assert "inductor" in torch.compiler.list_backends() and "eager" not in torch.compiler.list_backends()
    torch.compiler.cudagraph_mark_step_begin()

    @torch.compiler.disable
    def plain():
        return torch.compiler.is_compiling()

    assert torch.compile(lambda x: (x + 1, plain()), backend="eager")(torch.ones(1))[1] is False
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert torch._dynamo.explain(lambda x: torch.sub(x + 1, 1))(torch.ones(2)).graph_break_count == 1
    finally:
        torch._dynamo.allow_in_graph(torch.sub)
    assert torch._dynamo.explain(lambda x: torch.sub(x + 1, 1), torch.ones(2)).graph_break_count == 0
    torch.compiler.reset()


def test_inductor_is_a_name_of_the_native_backend_everywhere():
    x = torch.ones(3)
    assert fs.compile(lambda x: x + 1, backend="inductor")(x).tolist() == [2, 2, 2]
    assert fs.compile(lambda x: x + 1, backend="inductor", mode="max-autotune")(x).tolist() == [2, 2, 2]
    assert fs.explain(lambda x: x + 1, backend="inductor")(x).graph_count == 1
    with fs.set_stance("default", force_backend="inductor"):
        assert fs.compile(lambda x: x - 1, backend="eager")(x).tolist() == [0, 0, 0]


def test_more_than_is_answered_loads_the_real_compiler_and_stays_answered():
    """In a process of its own: settings stay, before and after, and torch's own compiler works when we are gone."""
    code = """
        import sys
        import torch
        import firesteel as fs

        fs.install()
        import torch._dynamo as first
        torch._dynamo.config.recompile_limit = 3
        settings = torch._dynamo.config
        assert "torch._dynamo.symbolic_convert" not in sys.modules
        from torch._dynamo.testing import CompileCounter
        assert "torch._dynamo.symbolic_convert" in sys.modules and torch._dynamo.config is settings
        assert torch._dynamo.config.recompile_limit == 3 and first.graph_break is torch._dynamo.graph_break
        counter = CompileCounter()
        f = torch.compile(lambda x: x + 1, backend=counter)
        assert f(torch.ones(2)).sum() == 4 and counter.frame_count == 1 and hasattr(f, "_firesteel_compiled")
        assert isinstance(torch.compile(torch.nn.ReLU()), torch._dynamo.OptimizedModule)
        fs.uninstall()
        f = torch.compile(lambda x: x + 1, backend="eager")
        assert f(torch.ones(2)).sum() == 4 and not hasattr(f, "_firesteel_compiled")
        fs.install()
        assert hasattr(torch.compile(lambda x: x), "_firesteel_compiled")
        torch._dynamo.reset()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_class_that_is_decorated_stays_that_class():
    with fs.installed():
        @torch.compile(fullgraph=True)
        class Scaled(torch.nn.Module):
            def __init__(self, size):
                super().__init__()
                self.linear = torch.nn.Linear(size, size)

            def forward(self, x, scale=1.0):
                return self.linear(x) * scale + torch.compiler.is_compiling()

        @torch.compile(fullgraph=True)
        class Adds:
            def __call__(self, x):
                return x + torch.compiler.is_compiling()

        @torch.compile
        class Plain:
            pass

    for size in (2, 3):
        module, x = Scaled(size), torch.randn(4, size)
        result = module(x, scale=2.0)
        torch.testing.assert_close(result, module.linear(x) * 2 + 1)
        result.sum().backward()
        assert type(module) is Scaled and module.linear.weight.grad is not None
    assert Adds()(torch.zeros(2)).tolist() == [1, 1] and type(Plain()) is Plain


def test_programs_that_torch_export_gave_are_saved_and_loaded(tmp_path):
    module, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    file = io.BytesIO()
    with fs.installed(export=True):
        program = torch.export.export(module, (x,))
        torch.export.save(program, str(tmp_path / "program.pt2"))
        torch.export.save(program, file, extra_files={"note": "text"})
        loaded = torch.export.load(tmp_path / "program.pt2")
        assert type(loaded) is type(program) is fs.export.ExportedProgram
        assert torch.equal(loaded.module()(x), module(x))
        file.seek(0)
        extra = {"note": ""}
        assert torch.equal(torch.export.load(file, extra_files=extra).module()(x), module(x))
        assert extra == {"note": "text"}
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(x), module(x))  # torch's own


def test_a_group_of_processes_does_not_load_torchs_compiler():
    text = textwrap.dedent("""
        import sys, torch, torch.distributed as dist, firesteel as fs
        fs.install()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert torch.compile(lambda x: x * 2, fullgraph=True)(torch.ones(2)).tolist() == [2, 2]
        dist.destroy_process_group()
        print("torch._dynamo.symbolic_convert" in sys.modules)
    """)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
