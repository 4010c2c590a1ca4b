"""Random programs of views, computations and writes, with gradients: compiled training does what eager does."""

from __future__ import annotations

import random

import pytest
import torch
import torch.fx

from autodiff.training_programs import World, assert_equal
from firesteel.autodiff.joint import trace_training
from firesteel.functional import FunctionalGraph, Unsupported, run
from firesteel.pipeline.training import TrainingUnit
from functional.test_random_programs import apply, random_program


def program_of(steps, results):
    def program(*inputs):
        pool = list(inputs)
        for step in steps:
            apply(pool, step)
        return tuple(pool[i] for i in results)

    return program


def compiled(program, examples):
    """The training unit of a program, or what eager does where there is none."""
    graph = torch.fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(examples))]
    graph.output(graph.call_function(program, tuple(places)))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    traced = trace_training(module, examples)
    if isinstance(traced, FunctionalGraph):
        return lambda *args: run(traced, args)
    return TrainingUnit(module, examples, traced, compile_half)


def compile_half(half, name, takes_list):
    return (lambda args: run(half, args)) if takes_list else (lambda *args: run(half, args))


def outcome(run):
    try:
        return run()
    except RuntimeError as error:
        return str(error)[:40]


@pytest.mark.parametrize("block", range(4))
def test_random_programs(block):
    tried = 0
    for seed in range(36 * block, 36 * block + 36):
        steps, results, inputs = random_program(seed)
        program = program_of(steps, results)
        rng = random.Random(seed)
        kinds = [rng.choice(("leaf", "inner", "inner", "plain")) for _ in inputs]

        def make(inputs=inputs, kinds=kinds):
            leaves = [_copy(t).requires_grad_(kind != "plain") for t, kind in zip(inputs, kinds, strict=True)]
            args = [_copy(t) if kind == "inner" else t for t, kind in zip(leaves, kinds, strict=True)]
            return {0: leaves, 1: args}

        expected = outcome(lambda: World(make, program, 0))
        if isinstance(expected, str):
            continue
        try:
            unit = compiled(program, make()[1])
        except Unsupported:
            continue
        actual = World(make, unit, 0)
        assert_equal(expected, actual)
        which = [0] if rng.random() < 0.3 else None
        left, right = outcome(lambda: expected.backward(which, False)), outcome(lambda: actual.backward(which, False))
        if isinstance(left, str):
            continue
        assert right is None, (seed, right)
        for a, b in zip(expected.leaves, actual.leaves, strict=True):
            assert (a.grad is None) == (b.grad is None), seed
            if a.grad is not None:
                torch.testing.assert_close(b.grad, a.grad, equal_nan=True)
                assert a.grad.stride() == b.grad.stride(), seed
        tried += 1
    assert tried > 8


def _copy(t):
    return torch.empty_strided(t.shape, t.stride()).copy_(t)
