"""The ExportDB examples in the torch wheel: programs of one feature each, supported by exporters or not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._export.db.case import SupportLevel
from torch._export.db.examples import all_examples
from torch.utils import _pytree as pytree

import firesteel as fs
from firesteel.errors import FiresteelError
from firesteel.export.recognised import recognising_control_flow

CASES = all_examples()
TORCH_DIM = torch.export.Dim


def own_dims(spec):
    """A specification in torch's dims, in ours."""
    def convert(dim):
        if not isinstance(dim, TORCH_DIM):
            return dim
        return fs.export.Dim(dim.__name__, min=dim.min or None, max=None if dim.max > 2**40 else dim.max)

    return pytree.tree_map(convert, spec, is_leaf=lambda leaf: isinstance(leaf, TORCH_DIM))


def assert_equal(actual, expected):
    got, got_spec = pytree.tree_flatten(actual)
    wanted, wanted_spec = pytree.tree_flatten(expected)
    assert got_spec == wanted_spec
    for one, other in zip(got, wanted, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, check_stride=True)
        else:
            assert type(one) is type(other) and one == other


def export(case, strict):
    args, kwargs = copy.deepcopy((case.example_args, case.example_kwargs))
    return fs.export.export(copy.deepcopy(case.model), args, kwargs, dynamic_shapes=own_dims(case.dynamic_shapes),
                            strict=strict)


# torch 2.11 lists torch.sym_min as something that it cannot export.
SUPPORTED_HERE = {"unsupported_operator"}


def examples(wanted):
    return [name for name, case in CASES.items()
            if (case.support_level is SupportLevel.SUPPORTED or name in SUPPORTED_HERE) is wanted]


@pytest.mark.filterwarnings("ignore::firesteel.errors.FiresteelWarning")
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
@pytest.mark.parametrize("name", examples(True))
def test_supported(name, strict):
    case = CASES[name]
    module = export(case, strict).module()
    calls = [(case.example_args, case.example_kwargs)]
    if case.extra_args:
        calls.append((case.extra_args, {}))
    for args, kwargs in calls:
        ours, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        with recognising_control_flow():  # torch's own would compile their functions in this process
            wanted = copy.deepcopy(case.model)(*theirs[0], **theirs[1])
        assert_equal(module(*ours[0], **ours[1]), wanted)
        assert_equal([leaf for leaf in pytree.tree_leaves(ours) if isinstance(leaf, torch.Tensor)],
                     [leaf for leaf in pytree.tree_leaves(theirs) if isinstance(leaf, torch.Tensor)])


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])
@pytest.mark.parametrize("name", examples(False))
def test_unsupported(name, strict):
    with pytest.raises(FiresteelError) as caught:
        export(CASES[name], strict)
    assert f"{name}.py:" in str(caught.value) or f'{name}.py", line' in str(caught.value)


def test_all_cases_are_there():
    assert len(CASES) >= 36
