"""Any path of fsspec as a store of cache entries: a folder, a bucket, the memory of a process."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

LONGEST = 64 << 20


class FsspecStore:
    """Entries as files under the folder that a URL names, such as ``s3://bucket/folder`` or ``file:///mnt/cache``."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError("paths other than redis:// are opened by fsspec, which is not installed") from None
        if "://" not in url and "::" not in url:
            raise ValueError("it is no URL: file:///a/folder is a folder")
        self.files: Any
        self.files, self.folder = url_to_fs(url)
        self.folder = self.folder.rstrip("/")
        self.folders: set[str] = set()

    def _path(self, key: str) -> str:
        return f"{self.folder}/{key}"

    def get(self, key: str) -> bytes | None:
        """The bytes of that name."""
        try:
            data = self.files.cat_file(self._path(key), end=LONGEST + 1)
        except FileNotFoundError:
            return None
        return bytes(data)

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes. Who reads at the same time gets either none of them or all, also in a folder."""
        path = self._path(key)
        folder = path.rpartition("/")[0]
        if folder not in self.folders:
            self.files.makedirs(folder, exist_ok=True)
            self.folders.add(folder)
        if "file" not in (self.files.protocol if isinstance(self.files.protocol, tuple) else (self.files.protocol,)):
            self.files.pipe_file(path, data)
            return
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"
        try:
            self.files.pipe_file(temporary, data)
            self.files.mv(temporary, path)
        except BaseException:
            with suppress(Exception):
                self.files.rm_file(temporary)
            raise
