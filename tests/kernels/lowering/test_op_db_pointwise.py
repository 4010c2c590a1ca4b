"""Operator samples that torch ships: lowered pointwise operators and views give eager's values, dtypes and strides.

Each operator in one dtype; ``check(name, dtype)`` for every name and dtype takes minutes.
"""

import pytest
import torch
from tests.conformance.torch_samples import load_op_db

from firesteel.kernels.lowering import lower
from firesteel.kernels.verify import verify_lowered
from firesteel.repair.lowered_run import run
from kernels.lowering.recording import Mutates, record

# Operators of op_db whose samples need no call of ATen in the given dtypes.
POINTWISE = """
abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min copysign cos cosh deg2rad digamma div_no_rounding_mode eq
erf erfc erfinv exp exp2 expm1 fill float_power floor fmax fmin fmod frac ge gt heaviside hypot isclose isfinite isinf
isnan isneginf isposinf ldexp le lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not
logical_or logical_xor logit lt masked_fill maximum minimum mul nan_to_num ne neg pow rad2deg reciprocal remainder round
rsqrt rsub
sgn sigmoid sign signbit sin sinc sinh special_entr special_xlog1py sqrt square sub tan tanh tril triu true_divide trunc
where xlogy nn.functional.celu nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.hardshrink
nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.leaky_relu
nn.functional.logsigmoid nn.functional.mish nn.functional.prelu nn.functional.relu nn.functional.relu6
nn.functional.selu nn.functional.silu nn.functional.softplus nn.functional.softshrink nn.functional.softsign
nn.functional.tanhshrink nn.functional.threshold
""".split()
OTHERS = """
T arange as_strided block_diag broadcast_to cat chunk clone constant_pad_nd contiguous diag_embed diagonal
diagonal_copy diagonal_scatter diff dsplit dstack expand expand_as eye flatten flip fliplr flipud full full_like hsplit
hstack kron linspace movedim new_full new_ones new_zeros ones ones_like permute ravel repeat reshape resolve_conj
roll rot90 select select_scatter slice slice_scatter split split_with_sizes squeeze stack t tile transpose
unbind unflatten unfold unsqueeze view view_as vsplit vstack zeros zeros_like nn.functional.pad
nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.channel_shuffle linalg.cross
""".split()
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)

OPERATORS = {}
for _op in load_op_db():
    OPERATORS.setdefault(_op.name, []).append(_op)
    OPERATORS.setdefault(_op.formatted_name, []).append(_op)


def samples(op, dtype, limit):
    for _, sample in zip(range(limit), op.sample_inputs("cpu", dtype)):
        flat, tree = torch.utils._pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [k for k, part in enumerate(flat) if isinstance(part, torch.Tensor)]

        def call(*tensors, flat=flat, tree=tree, places=places):
            parts = list(flat)
            for place, tensor in zip(places, tensors):
                parts[place] = tensor
            args, kwargs = torch.utils._pytree.tree_unflatten(parts, tree)
            return op.op(*args, **kwargs)

        yield call, [flat[k] for k in places]


def check(name, dtype, limit=8):
    """Compare the samples of an operator; the number of those that were compared."""
    compared = 0
    for op in OPERATORS[name]:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for call, tensors in samples(op, dtype, limit):
            try:
                module, expected = record(call, *tensors)
            except Mutates:
                continue
            graph = lower(module)
            verify_lowered(graph)
            for result, want in zip(run(graph, tensors), expected, strict=True):
                torch.testing.assert_close(result, want, equal_nan=True)
                assert want.numel() == 0 or result.stride() == want.stride(), name
            compared += 1
    return compared


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_each_operator_in_one_dtype(number):
    compared = [check(name, DTYPES[number], 2) for name in (POINTWISE + OTHERS)[number :: len(DTYPES)]]
    assert sum(map(bool, compared)) >= len(compared) // 3


@pytest.mark.filterwarnings("ignore")
def test_none_of_them_calls_aten():
    called = {}
    for name in (POINTWISE + OTHERS)[::5]:
        for op in OPERATORS[name]:
            for call, tensors in samples(op, torch.float32, 2) if torch.float32 in op.supported_dtypes("cpu") else ():
                try:
                    module, _ = record(call, *tensors)
                except Mutates:
                    continue
                for fallback in lower(module).fallbacks:
                    called[fallback.operator] = name
    assert not called
