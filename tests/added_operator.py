"""A program with the operator that CONTRIBUTING.md adds: run with a firesteel that has been told about it."""

from __future__ import annotations

from unittest import mock

import torch

import firesteel as fs
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.plan import Launch
from kernels.gpu.stand_in_triton import run
from kernels.scheduling.programs import Planned, planned_for_gpu


def cube_root(x):
    return (x.double().abs() ** (1 / 3)).copysign(x.double()).to(x.dtype)


# As torch defines its own operators: a kernel for each, and the formula of the gradient. There are no fake kernels.
library = torch.library.Library("example", "DEF")
library.define("cbrt(Tensor x) -> Tensor")
library.define("cbrt_backward(Tensor grad, Tensor result) -> Tensor")
library.impl("cbrt", cube_root, "CPU")
library.impl("cbrt_backward", lambda grad, result: grad / (3 * result * result), "CPU")
torch.library.register_autograd(
    "example::cbrt", lambda ctx, grad: torch.ops.example.cbrt_backward(grad, ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))


def program(x):
    return torch.ops.example.cbrt(x * 2) + 1


def backward(grad, x):
    return torch.ops.example.cbrt_backward(grad, torch.ops.example.cbrt(x))


def check_on_cpu(dtype):
    x = torch.randn(37, 5).to(dtype)
    results = []
    for function in (program, fs.compile(program, backend="native", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        result = function(leaf)
        result.sum().backward()
        results.append((result.detach(), leaf.grad))
    torch.testing.assert_close(results[1], results[0])


def check_kernels(program, *args):
    """One kernel does all of it, on a CPU and on a GPU."""
    fs.reset()
    planned = Planned(runs=False)
    with torch.no_grad():
        fs.compile(program, backend=planned, fullgraph=True)(*args)
    plan, given = planned_for_gpu(program, *args)
    for steps in (planned.plans[0].steps, plan.steps):
        assert sum(isinstance(step, Launch) for step in steps) == 1
        assert not any(isinstance(step, ExternCall) for step in steps)
    [launch] = [step for step in plan.steps if isinstance(step, Launch)]
    kernel = print_triton(launch.kernel)
    assert "libdevice.cbrt" in kernel.source
    memory = {part.name: arg for part, arg in zip(plan.inputs, given)}
    made = memory[plan.outputs[0].buffer] = torch.empty_like(args[0])
    with mock.patch.object(torch, "cbrt", cube_root, create=True):  # what stands in for CUDA's library asks torch
        run(kernel, [memory[name] for name in launch.buffers])
    torch.testing.assert_close(made, program(*args))


if __name__ == "__main__":
    with fs.config.patch(raise_on_internal_error=True):
        check_on_cpu(torch.float32)
        check_on_cpu(torch.bfloat16)
        check_kernels(program, torch.randn(40))
        check_kernels(backward, torch.randn(40), torch.randn(40))
    print("added")
