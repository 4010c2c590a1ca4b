"""Operator samples that torch ships: reductions, norms, scans, indexing, pooling and resampling give eager's results.

Each operator in one dtype; ``check(name, dtype)`` for every name and dtype takes minutes.
"""

import pytest
import torch

from firesteel.kernels.lowering import lower
from kernels.lowering.recording import Mutates, record
from kernels.lowering.test_op_db_pointwise import DTYPES, OPERATORS, check, samples

STRUCTURED = """
all amax amin aminmax any argmax argmin count_nonzero logsumexp max_reduction_with_dim max_reduction_no_dim mean
min_reduction_with_dim min_reduction_no_dim nansum prod std std_mean sum var var_mean linalg.vector_norm
softmax log_softmax native_layer_norm nn.functional.layer_norm nn.functional.group_norm
cumsum cumprod cummax cummin logcumsumexp
gather index_add index_copy index_fill index_reduce_amax index_reduce_mean index_select __getitem__ index_put put
scatter scatter_add scatter_reduce_sum scatter_reduce_mean scatter_reduce_amin take take_along_dim _unsafe_masked_index
nn.functional.embedding nn.functional.nll_loss nn.functional.cross_entropy
nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d
nn_functional_interpolate_nearest nn_functional_interpolate_nearest-exact nn_functional_interpolate_bilinear
nn_functional_interpolate_bicubic nn_functional_interpolate_linear nn.functional.unfold
nn_functional_pad_reflect nn_functional_pad_replicate
""".split()
# Whose samples have some that are left to ATen.
SOME_IN_ATEN = {
    "softmax", "log_softmax", "__getitem__", "index_put", "put", "take", "gather", "nn_functional_interpolate_bicubic",
    "native_layer_norm",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(DTYPES)))
def test_each_operator_in_one_dtype(number):
    names = [name for name in STRUCTURED[number :: len(DTYPES)] if name in OPERATORS]
    compared = [check(name, DTYPES[number], 2) for name in names]
    assert sum(map(bool, compared)) >= len(compared) // 3


@pytest.mark.filterwarnings("ignore")
def test_none_of_them_calls_aten():
    called = {}
    for name in STRUCTURED[::4]:
        for op in OPERATORS.get(name, ()) if name not in SOME_IN_ATEN else ():
            for call, tensors in samples(op, torch.float32, 1) if torch.float32 in op.supported_dtypes("cpu") else ():
                try:
                    module, _ = record(call, *tensors)
                except Mutates:
                    continue
                for fallback in lower(module).fallbacks:
                    called[fallback.operator] = name
    assert not called
