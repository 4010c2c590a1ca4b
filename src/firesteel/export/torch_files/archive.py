"""The zip archive of torch's files: its parts by name, without the folder that all of them are in."""

from __future__ import annotations

import errno
import io
import os
import struct
import zipfile
from collections.abc import Iterable
from typing import IO

from ..saving.errors import SavedProgramError

FORMAT, ARCHIVE_VERSION = "archive_format", "archive_version"
MODELS, COMPILED, EXTRA = "models/", "data/aotinductor/", "extra/"
WEIGHTS, CONSTANTS, EXAMPLES = "data/weights/", "data/constants/", "data/sample_inputs/"
_ALIGNMENT = 64
_LOCAL_HEADER = 30


def is_torch_file(path: str | IO[bytes]) -> bool:
    """Whether this is an archive of torch's export. An open file is left where it was."""
    if not isinstance(path, str) and not (path.seekable() if hasattr(path, "seekable") else False):
        return False
    begin = 0 if isinstance(path, str) else path.tell()
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.partition("/")[2] == FORMAT for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error):
        return False
    finally:
        if not isinstance(path, str):
            path.seek(begin)


class TorchArchive:
    """An archive that is read. Raises `SavedProgramError` if it is not one that this firesteel reads."""

    def __init__(self, path: str | IO[bytes]) -> None:
        self.name = path if isinstance(path, str) else str(getattr(path, "name", "the file"))
        if isinstance(path, str) and not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._data: str | io.BytesIO = path if isinstance(path, str) else io.BytesIO(path.read())
        try:
            with zipfile.ZipFile(self._data) as archive:
                self.parts = {info.filename.partition("/")[2]: info for info in archive.infolist()}
                if any(info.compress_type != zipfile.ZIP_STORED for info in self.parts.values()):
                    raise ValueError("a part is compressed")
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
            raise self.damaged(str(error)) from error
        version = self.text(ARCHIVE_VERSION).strip() if ARCHIVE_VERSION in self.parts else "0"
        if self.text(FORMAT) != "pt2" or version != "0":
            raise SavedProgramError(f"{self.name} is an archive of torch in version {version[:20]}, which is not known",
                                    "Load it with torch.export.load.")
        if "byteorder" in self.parts and self.text("byteorder") != "little":
            raise SavedProgramError(f"{self.name} was written on a machine with another order of bytes")

    def damaged(self, why: str) -> SavedProgramError:
        """The error for a file that cannot be read."""
        return SavedProgramError(f"{self.name} is damaged: {why}")

    def read(self, name: str) -> bytes:
        """The data of a part, whose checksum is compared."""
        if name not in self.parts:
            raise self.damaged(f"{name[:200]} is missing")
        try:
            with zipfile.ZipFile(self._data) as archive:
                return archive.read(self.parts[name])
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, struct.error) as error:
            raise self.damaged(str(error)) from error

    def text(self, name: str) -> str:
        """The text of a part."""
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{name} is no text") from error

    def model(self) -> str:
        """The name of the one program in the archive."""
        models = sorted(name[len(MODELS):-len(".json")] for name in self.parts
                        if name.startswith(MODELS) and name.endswith(".json"))
        if len(models) == 1:
            return models[0]
        if models:
            raise SavedProgramError(f"{self.name} holds {len(models)} programs: {', '.join(models)[:200]}",
                                    "Save each in a file of its own with torch.export.save.")
        if any(name.startswith(COMPILED) for name in self.parts):
            raise SavedProgramError(f"{self.name} holds machine code of AOTInductor and no program",
                                    "Run it with torch, or save the program itself with torch.export.save.")
        raise SavedProgramError(f"{self.name} holds no program")


def write_archive(file: str | IO[bytes], parts: Iterable[tuple[str, bytes | memoryview]],
                  root: str = "program") -> None:
    """Write an archive that torch reads: parts that are not compressed, their data at multiples of 64."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, data in parts:
            info = zipfile.ZipInfo(f"{root}/{name}", (1980, 1, 1, 0, 0, 0))
            large = len(data) > zipfile.ZIP64_LIMIT
            begin = archive.fp.tell() + _LOCAL_HEADER + len(info.filename.encode())  # type: ignore[union-attr]
            padding = -(begin + 4 + (20 if large else 0)) % _ALIGNMENT
            info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            info.file_size = len(data)
            with archive.open(info, "w", force_zip64=large) as part:
                part.write(data)
