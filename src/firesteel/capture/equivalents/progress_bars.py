"""The loop over what a progress bar (`tqdm`) was given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from .torch_functions import BY_NAME


class Progress:
    """Items of an iterable; the bar moves when the next one is asked for, and closes behind the last."""

    def __init__(self, iterable: Iterable[Any], bar: Any) -> None:
        self.items = iter(iterable)
        self.bar = bar
        self.begun = False

    def __iter__(self) -> Progress:
        return self

    def __next__(self) -> Any:
        if self.begun:
            self.bar.update(1)
        self.begun = True
        try:
            return next(self.items)
        except StopIteration:
            self.begun = False
            self.bar.close()
            raise


def _ranges(module: str) -> Callable[..., Any]:
    def trange(*args: Any, **kwargs: Any) -> Any:
        return sys.modules[module].tqdm(range(*args), **kwargs)

    return trange


for _module in ("tqdm.std", "tqdm.auto", "tqdm.asyncio", "tqdm.notebook"):
    BY_NAME[_module, "trange" if _module != "tqdm.asyncio" else "tarange"] = _ranges(_module)
