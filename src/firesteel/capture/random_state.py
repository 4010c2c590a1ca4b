"""The state of torch's random number generators, so that a graph that raised can be run again in plain Python."""

from __future__ import annotations

import torch

RandomState = tuple[torch.Tensor, torch.Tensor | None]


def random_state() -> RandomState:
    """The state of the CPU's generator and, once CUDA is in use, of the current device's."""
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None


def restore_random_state(state: RandomState) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])
