"""Errors of packing and of loading and running packages."""

from __future__ import annotations

from ...errors import FiresteelError


class PackageError(FiresteelError):
    """A package cannot be made, read or run."""

    headline = "There is a problem with a package of compiled models."
