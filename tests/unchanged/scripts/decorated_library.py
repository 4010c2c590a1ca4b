"""A library that decorates its functions when it is imported, with every argument that torch.compile has."""

import functools
import json

import torch
from torch import compile

compile_static = functools.partial(torch.compile, dynamic=False)


@torch.compile(fullgraph=True, mode="max-autotune-no-cudagraphs", dynamic=True)
def rotary(x, theta):
    half = x.shape[-1] // 2
    rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * theta.cos() + rotated * theta.sin()


@compile
def rms_norm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


@torch.compile(backend="inductor", options={"epilogue_fusion": True, "max_autotune": False})
def swiglu(x, w1, w2, w3):
    return (torch.nn.functional.silu(x @ w1) * (x @ w2)) @ w3


@compile_static(disable=False)
def sinkhorn(scores, iterations=3):
    weights = scores.exp()
    for _ in range(iterations):
        weights = weights / weights.sum(0, keepdim=True)
        weights = weights / weights.sum(1, keepdim=True)
    return weights


@torch.compiler.disable(recursive=False)
def on_the_host(x):
    return float(x.abs().max())


class Kernel:
    @staticmethod
    @torch.compile(dynamic=None)
    def scaled(x, *, by):
        return x * by

    @torch.compile(mode="reduce-overhead")
    def method(self, x):
        return rms_norm(x, torch.ones(x.shape[-1])) + on_the_host(x)


def main():
    torch.manual_seed(0)
    results = {}
    for length in (3, 4, 7):
        results[f"rotary {length}"] = rotary(torch.randn(length, 8), torch.randn(length, 8)).sum().item()
    x = torch.randn(4, 8, requires_grad=True)
    loss = rms_norm(x, torch.full((8,), 2.0)).sin().sum()
    loss.backward()
    results["norm"] = [loss.item(), x.grad.norm().item()]
    results["swiglu"] = swiglu(x.detach(), torch.randn(8, 16), torch.randn(8, 16), torch.randn(16, 8)).norm().item()
    results["sinkhorn"] = sinkhorn(torch.randn(4, 4)).sum(0).tolist()
    results["scaled"] = [Kernel.scaled(torch.ones(2), by=by).sum().item() for by in (1, 2, 3)]
    results["method"] = Kernel().method(x.detach()).sum().item()
    results["names"] = [rotary.__name__, rms_norm.__defaults__, Kernel.method.__qualname__]
    return results


if __name__ == "__main__":
    print(json.dumps(main()))
