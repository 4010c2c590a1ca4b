"""A device beside the CPU, for machines that have none: with it autograd starts threads as where there are GPUs."""

from __future__ import annotations

import torch


class Guard(torch._C._acc.DeviceGuard):
    """Answers for a device of the kind that is left to others."""

    def type_(self):
        """Its kind."""
        return torch._C._autograd.DeviceType.PrivateUse1


def differentiate() -> None:
    """From here on children that are forked cannot differentiate."""
    torch._C._acc.register_python_privateuseone_device_guard(Guard())
    torch.ones(2, requires_grad=True).sum().backward()
