"""What users say to torch's own compiler and mean for compiled code in general: its stance and its settings.

Nothing is imported for that. Where torch's compiler is not loaded, nobody has said anything to it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from . import patches
from .stand_ins import loaded_module

STANCE = "torch.compiler.set_stance"
"""What is changed here, as `patches.applied` and the docs name it."""
Listener = Callable[[str, Any], None]
_listener: Listener | None = None
_original: Callable[..., Any] | None = None


def follow_stance(listener: Listener) -> None:
    """Call ``listener(stance, backend)`` now and whenever ``torch.compiler.set_stance`` takes effect.

    The body of ``torch.compiler.set_stance`` is replaced, for users may hold the function itself: it does what it did
    and then makes sure that changes of the stance are seen here.
    """
    global _listener, _original
    _listener = listener
    function = getattr(sys.modules.get("torch.compiler"), "set_stance", None)
    if _original is None and isinstance(function, types.FunctionType) and not function.__code__.co_freevars:
        _original = types.FunctionType(function.__code__, function.__globals__, function.__name__,
                                       function.__defaults__, function.__closure__)
        _original.__kwdefaults__ = function.__kwdefaults__
        function.__code__ = _template.__code__
        function.__defaults__, function.__kwdefaults__ = None, None
        patches.register(STANCE, stop_following_stance)
    _watch()


def _template(*args: Any, **kwargs: Any) -> Any:
    # This code runs with the globals of torch.compiler, hence the import.
    from firesteel.torch_compat.compiler_settings import set_torch_stance

    return set_torch_stance(*args, **kwargs)


def set_torch_stance(*args: Any, **kwargs: Any) -> Any:
    """``torch.compiler.set_stance`` as it was, seen by the listener."""
    assert _original is not None
    stance = _original(*args, **kwargs)
    _watch()
    return stance


def _watch() -> None:
    """Listen to changes if torch's compiler is loaded, and tell the stance as it is."""
    decorators = loaded_module("torch._dynamo.decorators")
    frames = loaded_module("torch._dynamo.eval_frame")
    change = getattr(decorators, "_set_stance", None)
    if change is None or not hasattr(frames, "_stance"):
        return
    if not hasattr(change, "_firesteel_original"):

        def changed(stance: Any) -> Any:
            before = change(stance)
            _tell(stance)
            return before

        vars(changed).update(vars(change), _firesteel_original=change)
        decorators._set_stance = changed  # type: ignore[union-attr]
    _tell(frames._stance)  # type: ignore[union-attr]


def _tell(stance: Any) -> None:
    if _listener is not None:
        _listener(getattr(stance, "stance", "default"), getattr(stance, "backend", None))


def stop_following_stance() -> None:
    """Undo `follow_stance`."""
    global _listener, _original
    function = getattr(sys.modules.get("torch.compiler"), "set_stance", None)
    if _original is not None and function is not None:
        function.__code__, function.__defaults__ = _original.__code__, _original.__defaults__  # type: ignore[attr-defined]
        function.__kwdefaults__ = _original.__kwdefaults__  # type: ignore[attr-defined]
    decorators = loaded_module("torch._dynamo.decorators")
    change = getattr(decorators, "_set_stance", None)
    if hasattr(change, "_firesteel_original"):
        decorators._set_stance = change._firesteel_original  # type: ignore[union-attr]
    _listener = _original = None


def compiler_setting(name: str) -> Any:
    """A setting of ``torch.compiler.config`` that somebody changed, by assignment or in the environment; None if not.

    Most settings of that module stand for one of the same name in ``torch._dynamo.config``, which is loaded when such a
    setting is used.
    """
    for module in ("torch._dynamo.config", "torch.compiler.config"):
        settings = sys.modules.get(module)
        try:
            if settings is not None and name in settings._config and settings._config[name].alias is None:
                return None if settings._is_default(name) else getattr(settings, name)
        except AttributeError:  # settings of another torch release, kept in another way
            return None
    return None
