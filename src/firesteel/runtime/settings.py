"""Settings as compiled code sees them: ours, and those of ``torch.compiler.config`` that mean the same.

One of ours that was changed goes before torch's. Nothing here is on the path of a call.
"""

from __future__ import annotations

from typing import Any

from .. import config, torch_compat


def setting(name: str) -> Any:
    """A setting that has the same name and meaning in both."""
    if config.is_default(name):
        given = torch_compat.compiler_setting(name)
        if given is not None:
            return given
    return getattr(config, name)


def raises_at_limit() -> bool:
    """Whether a function that was compiled as often as allowed raises instead of running uncompiled."""
    return bool(torch_compat.compiler_setting("fail_on_recompile_limit_hit"))


def dynamic_by_default() -> bool | None:
    """What ``dynamic=None`` stands for: None lets sizes that change become symbols."""
    if config.is_default("dynamic_shapes"):
        if torch_compat.compiler_setting("assume_static_by_default") is False:
            return True
        if torch_compat.compiler_setting("automatic_dynamic_shapes") is False:
            return False
    return None
