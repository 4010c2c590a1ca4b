"""Tensors without data: what an operator's result would look like, learnt without computing it.

>>> import torch
>>> from firesteel.fake import FakeMode
>>> mode = FakeMode()
>>> x = mode.from_real(torch.ones(2, 3))
>>> mode.run(torch.matmul, (x, x.t()))
FakeTensor((2, 2), torch.float32, device='cpu')
"""

from .mode import FakeMode, unsupported_reason, wants_plain_sizes
from .tensor import DataDependentError, FakeError, FakeTensor, FakeUnsupported
