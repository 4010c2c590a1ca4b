"""Errors of packing and of loading and running packages."""

from __future__ import annotations

from ...errors import FiresteelError


class PackageError(FiresteelError):
    """A package cannot be made, read or run.

    >>> import firesteel as fs
    >>> try:
    ...     fs.export.load_package("nowhere.fsp")
    ... except (fs.export.PackageError, FileNotFoundError) as error:
    ...     print("nowhere.fsp" in str(error))
    True
    """

    headline = "There is a problem with a package of compiled models."
