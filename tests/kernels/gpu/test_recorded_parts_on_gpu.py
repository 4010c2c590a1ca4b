"""Functions of which parts are recorded as CUDA graphs, against eager, where there is a GPU."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.pipeline import recording, trials
from firesteel.pipeline.parted_graph import PartedGraph
from kernels.gpu.on_gpu import needs_gpu, rand, strict

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


class Net(torch.nn.Module):
    """Layers with something in the middle."""

    def __init__(self, middle, dropout=0.0):
        super().__init__()
        self.first = torch.nn.ModuleList([torch.nn.Linear(128, 128) for _ in range(4)])
        self.second = torch.nn.ModuleList([torch.nn.Linear(128, 128) for _ in range(4)])
        self.middle, self.dropout = middle, dropout

    def forward(self, x, *others):
        for layer in self.first:
            x = F.dropout(F.gelu(layer(x)), self.dropout, True)
        x = x + self.middle(x, *others)
        for layer in self.second:
            x = F.dropout(F.gelu(layer(x)), self.dropout, True)
        return x


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Recordings stay, whatever is faster, after the first calls were measured."""
    monkeypatch.setattr(trials.Trial, "is_slower", lambda trial: False)


def parted():
    """The recordings that there are, by what they consist of: True for a graph, False for what runs by itself."""
    gc.collect()
    return [[step[0] is not None for step in one.graph.steps]
            for one in {id(one): one for one in recording._memory.values()}.values()
            if isinstance(one.graph, PartedGraph)]


def agree(net, make, calls=12, seed=None):
    compiled = fs.compile(net, backend="native", mode="reduce-overhead")
    held = []
    for number in range(calls):
        given = make()
        copies = [value.clone() for value in given]
        if seed is not None:
            torch.manual_seed(seed + number)
        want = net(*copies)
        if seed is not None:
            torch.manual_seed(seed + number)
        got = compiled(*given)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(given, copies)
        if number % 4 == 3:
            held.append((got, want))
        del got
    for got, want in held:
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    return compiled


@torch.no_grad()
def test_an_operator_that_waits():
    def middle(x):
        return torch.unique(torch.topk(x.abs().sum(1), 3)[1]).sum() * 1e-3

    compiled = agree(Net(middle).cuda(), lambda: [rand(32, 128)])
    assert compiled and all(kinds.count(True) == 2 for kinds in parted()) and parted()


@torch.no_grad()
def test_sizes_that_data_decide_on():
    def middle(x):
        return x[x[:, 0] > 0].tanh().sum(0)

    agree(Net(middle).cuda(), lambda: [rand(32, 128)])


@torch.no_grad()
def test_random_numbers_on_both_sides():
    def middle(x):
        return torch.nonzero(x[:, 0] > 0).sum() * 1e-3

    agree(Net(middle, dropout=0.4).cuda(), lambda: [rand(32, 128)], seed=7)


@torch.no_grad()
def test_counters_on_the_cpu():
    def middle(x, length, scale):
        length.add_(1)
        return (torch.arange(128, device="cuda") < length) * scale

    length = torch.tensor(5)
    compiled = agree(Net(middle).cuda(), lambda: [rand(32, 128), length.add_(1).clone(), torch.randn(())])
    assert compiled and all(kinds.count(True) == 1 for kinds in parted()) and parted()


@torch.no_grad()
def test_an_operator_that_refuses():
    @torch.library.custom_op("firesteel_tests::largest", mutates_args=())
    def largest(x: torch.Tensor) -> torch.Tensor:
        return x * float(x.abs().max().item())

    @largest.register_fake
    def _(x):
        return torch.empty_like(x)

    agree(Net(lambda x: largest(x) * 1e-2).cuda(), lambda: [rand(32, 128)])


@torch.no_grad()
def test_what_raises_in_the_middle_raises_and_the_next_call_is_right():
    def middle(x):
        return torch.linalg.cholesky(torch.diag(x[0]))[:32] * 1e-3

    net = Net(middle).cuda()
    net.first[-1].bias.fill_(1.0)
    compiled = fs.compile(net, backend="native", mode="reduce-overhead")
    for number in range(10):
        x = rand(32, 128) * (1 if number % 3 else 1e-2)
        try:
            want = net(x)
        except torch.linalg.LinAlgError:
            with pytest.raises(torch.linalg.LinAlgError):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), want, rtol=1e-3, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("on_cpu", [False, True])
def test_text_with_a_static_cache(on_cpu):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    model = transformers.LlamaForCausalLM(config).cuda().eval()
    compiled = fs.compile(model, backend="native", mode="reduce-overhead")
    tokens = torch.randint(2, 64, (2, 9), device="cuda")
    steps = []
    for run in (model, compiled):
        cache = transformers.StaticCache(config=config, max_cache_len=128)
        model(tokens[:, :4], past_key_values=cache)
        for layer in cache.layers if on_cpu else ():
            layer.cumulative_length = layer.cumulative_length.cpu()
        steps.append([run(tokens[:, at: at + 1], past_key_values=cache).logits.clone() for at in range(4, 9)]
                     + [layer.keys.clone() for layer in cache.layers]
                     + [layer.cumulative_length.cpu() for layer in cache.layers])
    torch.testing.assert_close(steps[1], steps[0], rtol=1e-3, atol=1e-4)
    assert recording._memory


@torch.no_grad()
def test_generate_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    model = transformers.LlamaForCausalLM(config).cuda().eval()
    prompt = torch.randint(2, 64, (2, 5), device="cuda")
    mask = torch.ones_like(prompt)
    given = {"attention_mask": mask, "max_new_tokens": 12, "do_sample": False}
    want = model.generate(prompt, **given)
    model.forward = fs.compile(model.forward, mode="reduce-overhead")
    for more in ({"cache_implementation": "static", "disable_compile": True}, {}):
        assert torch.equal(model.generate(prompt, **given, **more), want)
