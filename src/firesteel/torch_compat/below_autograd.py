"""Running programs below autograd, where operators that are compositions of others arrive in one piece."""

from __future__ import annotations

import torch

#: Context manager: operators called inside skip autograd, so that ``linear`` reaches dispatch modes as ``linear``.
below_autograd = torch._C._AutoDispatchBelowAutograd

#: Sets grad mode; as an operation of a graph it is what ``with torch.no_grad()`` does at its ends.
set_grad_mode = torch._C._set_grad_enabled
