"""The file of a package: a zip archive whose parts are not compressed, with a manifest that describes them.

    manifest.json                what the models are, versioned; the size and SHA-256 of every other part
    models/<name>/model.so       machine code
    weights.safetensors          the weights of all models, at the start of a page, to be mapped into memory
    firesteel_model.h            the C and C++ interface
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from .errors import PackageError

FORMAT = "firesteel package"
VERSION = 1
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
HEADER = "firesteel_model.h"
PAGE = 4096
_ALIGNMENT_FIELD = 0xD935
_LOCAL_HEADER = 30


class ArchiveWriter:
    """Writes a package, part by part; the manifest comes last. An open file gets all of it at the end."""

    def __init__(self, path: str | IO[bytes]) -> None:
        self.path = path
        self.temporary: str | io.BytesIO = f"{path}.{os.getpid()}.tmp" if isinstance(path, str) else io.BytesIO()
        self.archive = zipfile.ZipFile(self.temporary, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, parts: Iterable[bytes | memoryview], size: int, align: int = 1) -> None:
        """Add a part of ``size`` bytes whose data starts at a multiple of ``align``."""
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = 0o644 << 16
        large = size > zipfile.ZIP64_LIMIT
        if align > 1:
            position = self.archive.fp.tell()  # type: ignore[union-attr]
            begin = position + _LOCAL_HEADER + len(name.encode()) + 4 + (20 if large else 0)
            info.extra = struct.pack("<HH", _ALIGNMENT_FIELD, -begin % align) + b"\0" * (-begin % align)
        digest, written = hashlib.sha256(), 0
        info.file_size = size
        with self.archive.open(info, "w", force_zip64=large) as file:
            for part in parts:
                file.write(part)
                digest.update(part)
                written += len(part)
        assert written == size
        self.files[name] = {"bytes": size, "sha256": digest.hexdigest()}

    def finish(self, manifest: dict[str, Any]) -> None:
        """Write the manifest and put the file where it belongs."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **manifest, "files": self.files}, indent=1).encode()
        self.archive.writestr(zipfile.ZipInfo(MANIFEST, (1980, 1, 1, 0, 0, 0)), text)
        self.archive.close()
        if isinstance(self.temporary, io.BytesIO):
            self.path.write(self.temporary.getbuffer())  # type: ignore[union-attr]
        else:
            os.replace(self.temporary, self.path)  # type: ignore[arg-type]

    def abandon(self) -> None:
        """Remove what was written."""
        self.archive.close()
        if isinstance(self.temporary, str) and os.path.exists(self.temporary):
            os.remove(self.temporary)


@dataclass(frozen=True)
class Part:
    """Where the data of a part is in the file."""

    offset: int
    size: int


def _foreign(path: str, what: str, names: Sequence[str]) -> PackageError:
    """The error for a zip archive that firesteel has not written; torch writes several kinds of them."""
    parts = {name.partition("/")[2] for name in names}
    for part, writer, reader in (("archive_format", "torch.export.save", "torch.export.load or fs.export.load"),
                                 ("constants.pkl", "torch.jit.save", "torch.jit.load"),
                                 ("data.pkl", "torch.save", "torch.load")):
        if part in parts:
            return PackageError(f"{path} is not a {what}: it was written by {writer}, whose format is another one",
                                f"read it with {reader}")
    return PackageError(f"{path} is not a {what}: it has no {MANIFEST}")


def _maker(what: str) -> str:
    """The function that writes files of a kind."""
    return "fs.export.package" if what == FORMAT else "fs.export.save"


class ArchiveReader:
    """Reads a package. Anything that is not one is a `PackageError`. An open file is read to its end at once."""

    def __init__(self, path: str | IO[bytes], verify: bool = True, kind: tuple[str, int] = (FORMAT, VERSION)) -> None:
        self.path = path if isinstance(path, str) else str(getattr(path, "name", "the file"))
        self._data = None if isinstance(path, str) else path.read()
        self.verify = verify
        path, (what, version) = self.path, kind
        if self._data is None and not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        try:
            with self._open() as file, zipfile.ZipFile(file) as archive:
                if MANIFEST not in archive.namelist():
                    raise _foreign(path, what, archive.namelist())
                self.parts = {info.filename: self._part(archive, info) for info in archive.infolist()}
                self.manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        except (zipfile.BadZipFile, OSError, ValueError, KeyError, EOFError, NotImplementedError, struct.error,
                RecursionError) as error:
            raise PackageError(f"{path} is damaged or not a {what}: {error}",
                               f"make it again with {_maker(what)}") from error
        if not isinstance(self.manifest, dict) or self.manifest.get("format") != what:
            raise PackageError(f"{path} is not a {what}", "fs.export.load reads what fs.export.save wrote, "
                               "fs.export.load_package what fs.export.package wrote")
        if self.manifest.get("version") != version:
            raise PackageError(f"{path} is of version {self.manifest.get('version')}, this firesteel reads {version}",
                               f"make it again with {_maker(what)}")

    def _open(self) -> IO[bytes]:
        return open(self.path, "rb") if self._data is None else io.BytesIO(self._data)

    def _part(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Part:
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{info.filename} is compressed")
        file = archive.fp
        assert file is not None
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER)
        if len(head) < _LOCAL_HEADER or head[:4] != b"PK\3\4":
            raise ValueError(f"{info.filename} has no header")
        name, extra = struct.unpack("<HH", head[26:30])
        return Part(info.header_offset + _LOCAL_HEADER + name + extra, info.file_size)

    def check(self, name: str) -> Part:
        """Where a part is, once it is known to be what was written."""
        entry = self.manifest.get("files", {}).get(name)
        part = self.parts.get(name)
        if part is None or not isinstance(entry, dict) or entry.get("bytes") != part.size:
            raise PackageError(f"{self.path} is damaged: {name} is missing or of another size")
        if self.verify:
            digest = hashlib.sha256()
            with self._open() as file:
                file.seek(part.offset)
                left = part.size
                while left:
                    data = file.read(min(left, 1 << 22))
                    if not data:
                        break
                    digest.update(data)
                    left -= len(data)
            if digest.hexdigest() != entry.get("sha256"):
                raise PackageError(f"{self.path} is damaged: {name} is not what was written",
                                   "make it again with fs.export.package, or copy it again")
        return part

    def read(self, name: str) -> bytes:
        """The data of a part."""
        part = self.check(name)
        with self._open() as file:
            file.seek(part.offset)
            return file.read(part.size)
