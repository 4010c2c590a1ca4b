"""How torch's generator on the CPU makes numbers of other distributions out of uniform ones.

Releases may differ, so the generator of this one is asked for a few numbers before the first graph relies on it.
"""

from __future__ import annotations

import functools

import torch

from .dispatch import without_modes


@functools.cache
def exponential_is_logarithm() -> bool:
    """Whether an exponential number is ``-log1p(-u) / lambda`` of a uniform double u, and samples are made of them."""
    with without_modes(), torch.no_grad():
        generator = torch.Generator()

        def uniform(count: int) -> torch.Tensor:
            return torch.empty(count, dtype=torch.float64).uniform_(generator=generator.manual_seed(5))

        drawn = torch.empty(100).exponential_(2.0, generator=generator.manual_seed(5))
        if not torch.equal(drawn, (-0.5 * torch.log1p(-uniform(100))).float()):
            return False
        weights = torch.linspace(1, 2, 400).reshape(4, 100)
        samples = torch.multinomial(weights, 1, generator=generator.manual_seed(5))
        state = generator.get_state()
        numbers = (-torch.log1p(-uniform(400))).float().reshape(4, 100)
        return torch.equal(samples, (weights / numbers).argmax(-1, keepdim=True)) \
            and torch.equal(state, generator.get_state())
