"""From captured graphs to functional ATen graphs: mutation and aliasing made explicit, compositions taken apart.

>>> import torch
>>> import firesteel.pipeline  # tells tracing what kernels can do
>>> from firesteel.functional import trace
>>> print(trace(torch.fx.symbolic_trace(lambda x: x.relu_() * x), [torch.ones(2)]))
input x: f32[2]
relu: f32[2] = aten.relu.default(x)
mul: f32[2] = aten.mul.Tensor(relu, relu)
x becomes relu
return mul

What training needs besides is in `autodiff`.
"""

from .graph import (
    Constant,
    FreshTensor,
    FunctionalGraph,
    InputAlias,
    Number,
    SameAs,
    SpentResults,
    Unsupported,
    is_refusal,
)
from .running import run
from .tracing import trace
