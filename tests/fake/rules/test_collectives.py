"""What results of collectives look like, against a group of one process."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives  # noqa: F401 (so that eager knows all operators)
from tests.fake.tensor_meta import describe
from torch.utils import _pytree as pytree

from fake.rules.rule_checks import RuleRecorder
from firesteel.fake import FakeMode

recorder = RuleRecorder(__file__)
record_rules = recorder.fixture()
plain = torch.ops._c10d_functional


@pytest.fixture(autouse=True)
def group():
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch is built without gloo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def assert_alike(operator, *args):
    """Real and fake results look alike. Of the real ones, those of a wait are the argument itself."""
    real = operator(*args)
    for one in pytree.tree_leaves(real):
        plain.wait_tensor(one)
    for below in (contextlib.nullcontext, torch._C._AutoDispatchBelowAutograd):  # old releases take some apart above it
        mode = FakeMode()
        with below():
            fake = mode.run(operator, pytree.tree_map_only(torch.Tensor, mode.from_real, args), {})
        assert [*map(describe, pytree.tree_leaves(fake))] == [*map(describe, pytree.tree_leaves(real))]


TENSORS = (torch.ones(4), torch.ones(4, 3).bfloat16(), torch.ones(2, 3, 4).long(),
           torch.empty_strided((4, 3), (1, 4)).fill_(1))


@pytest.mark.parametrize("x", TENSORS, ids=lambda x: str(tuple(x.shape)))
def test_one_tensor(x):
    assert_alike(plain.all_reduce.default, x, "sum", "0")
    assert_alike(plain.broadcast.default, x, 0, "0")
    assert_alike(plain.wait_tensor.default, x)
    assert_alike(plain.all_reduce_coalesced.default, [x, x[:2]], "max", "0")
    if x.is_contiguous():
        assert_alike(plain.all_gather_into_tensor_coalesced.default, [x, x[:2]], 1, "0")
        for space in (plain, torch.ops._c10d_functional_autograd):
            assert_alike(space.all_gather_into_tensor.default, x, 1, "0")
            assert_alike(space.reduce_scatter_tensor.default, x, "sum", 1, "0")
            assert_alike(space.all_to_all_single.default, x, [len(x)], [len(x)], "0")
        mode = FakeMode()
        fake = mode.run(plain.reduce_scatter_tensor_coalesced.default, ([mode.from_real(x)], "sum", 2, "0"), {})
        assert [tuple(part.shape) for part in fake] == [(len(x) // 2, *x.shape[1:])]


def test_every_rule_is_used_by_these_tests(request):
    assert not recorder.untested(request, ["collectives"])
