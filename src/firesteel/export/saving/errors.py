"""Errors of saving programs and of reading saved ones."""

from __future__ import annotations

from ...errors import FiresteelError


class SavedProgramError(FiresteelError):
    """A program cannot be saved, or a file is not a program that this version can read.

    >>> import io, firesteel as fs
    >>> try:
    ...     fs.export.load(io.BytesIO(b"something else"))
    ... except fs.export.SavedProgramError as error:
    ...     print(str(error).splitlines()[0])
    There is a problem with a saved program.
    """

    headline = "There is a problem with a saved program."
    default_hint = "Save the program again with fs.export.save, or copy the file again."
