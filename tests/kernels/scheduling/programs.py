"""Programs through capture, tracing, lowering and scheduling, run by the interpreter of plans."""

import importlib
from unittest import mock

import torch

import firesteel as fs
from firesteel.functional import trace
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Launch
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.scheduling.machines import CPU, GPU
from firesteel.repair.plan_run import run

lowering = importlib.import_module("firesteel.kernels.lowering.lower")


class Planned:
    """A backend that interprets kernel plans, or with ``runs=False`` only makes them; it keeps them."""

    def __init__(self, runs=True, machine=CPU, device=None):
        self.plans = []
        self.runs = runs
        self.machine = machine
        self.device = device or torch.device("cpu")

    def __call__(self, module, example_inputs):
        functional = trace(module, example_inputs).module
        plan = schedule(_lowered_for(self.device, functional), self.machine)
        self.plans.append(plan)
        return (lambda *args: run(plan, args)) if self.runs else module


def _lowered_for(device, functional):
    """A graph lowered as if its tensors, which are on the CPU, were on ``device``."""
    on_device = lowering._exotic
    with mock.patch.object(lowering, "_exotic", lambda value, device: on_device(value, torch.device("cpu"))):
        return lower(functional, device=device)


def planned_for_gpu(program, *args, dynamic=None, device=None):
    """The plan of a program for a GPU, and what it is called with. With ``device``, operators are lowered as there;
    else as on the CPU, with checks of indices and with numbers that come as tensors."""
    fs.reset()
    backend, given = Planned(runs=False, machine=GPU, device=device), []

    def keep(module, example_inputs):
        backend(module, example_inputs)
        return lambda *args: given.extend(args) or module(*args)

    with torch.no_grad():
        fs.compile(program, backend=keep, fullgraph=True, dynamic=dynamic)(*args)
    [plan] = backend.plans
    return plan, given


def planned(program, *args, dynamic=False):
    """The plan of a program, whose results are those of eager."""
    fs.reset()
    backend = Planned()
    compiled = fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    with torch.no_grad(), fs.config.patch(raise_on_internal_error=True):
        expected, actual = program(*args), compiled(*args)
    expected, actual = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (expected, actual))
    for want, got in zip(expected, actual, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True)
        assert [s for n, s in zip(got.shape, got.stride()) if n != 1] == [
            s for n, s in zip(want.shape, want.stride()) if n != 1
        ]
    assert len(backend.plans) == 1
    return backend.plans[0]


def kernels(plan):
    """The kernels in the order of their launches."""
    return [step.kernel for step in plan.steps if isinstance(step, Launch)]
