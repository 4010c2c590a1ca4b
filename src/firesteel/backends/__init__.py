"""Backends: what turns a captured graph into something that runs."""

# Importing a built-in backend's module registers it.
from firesteel.backends import aot_eager as _aot_eager  # noqa: F401
from firesteel.backends import eager as _eager  # noqa: F401
from firesteel.backends import native as _native  # noqa: F401
from firesteel.backends.registry import Backend, list_backends, lookup_backend, register_backend
