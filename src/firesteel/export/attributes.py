"""Buffers that forward replaces by assigning to them: noticed, put back, and made mutations of the program."""

from __future__ import annotations

from typing import Any

import torch


class AttributeWatch:
    """While it is entered, assignments to buffers of a module are noticed; afterwards all are as they were."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.assigned: list[tuple[str, Any]] = []
        self._before: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def __enter__(self) -> AttributeWatch:
        tables = [(prefix, vars(part)["_buffers"]) for prefix, part in self.module.named_modules()]
        self._before = [(prefix, table, dict(table)) for prefix, table in tables]
        return self

    def __exit__(self, *exc: object) -> None:
        for prefix, table, before in self._before:
            for name, value in list(table.items()):
                if name in before and value is not before[name]:
                    self.assigned.append((f"{prefix}.{name}" if prefix else name, value))
            table.clear()
            table.update(before)
