"""Packed caches: what one machine compiled comes to another whole, and no other file is used in any part."""

from __future__ import annotations

import hashlib
import io
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

import firesteel as fs
from firesteel import cache_entries, config, disk_cache, packed_cache
from firesteel.disk_cache import digest, get, put
from firesteel.errors import FiresteelError
from firesteel.packed_cache import CacheFileError

ENTRIES = {("plan", digest("a")): b"a plan", ("cpu_kernel", digest("b")): bytes(range(256)),
           ("learned", digest("c")): b"{}"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_unusable", set())
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


@pytest.fixture
def packed(tmp_path) -> Path:
    return pack(tmp_path)


def pack(tmp_path: Path) -> Path:
    path = tmp_path / "packed"
    with config.patch(cache_dir=str(tmp_path / "first")):
        for (kind, key), data in ENTRIES.items():
            assert put(kind, key, data)
        assert fs.save_cache(path) == len(ENTRIES)
    return path


def refused(path: Path, folder: Path) -> str:
    """Why a file is refused, of which nothing has been taken."""
    with pytest.raises(CacheFileError) as caught:
        fs.load_cache(path)
    assert not folder.exists() and not any(get(kind, key) for kind, key in ENTRIES)
    assert isinstance(caught.value, (FiresteelError, ValueError)) and "\n" not in caught.value.reason
    return caught.value.reason


def test_what_is_packed_comes_back(packed, folder):
    assert fs.load_cache(packed) == len(ENTRIES)
    assert {name: get(*name) for name in ENTRIES} == ENTRIES
    assert fs.load_cache(str(packed)) == len(ENTRIES)


def test_every_damage_is_seen(packed, folder, tmp_path):
    good = packed.read_bytes()
    head_ends = good.index(b"\n", good.index(b"\n") + 1)
    wrong = tmp_path / "wrong"
    rng = random.Random(0)
    for at in [*range(0, head_ends, 29), *range(head_ends, len(good))]:
        wrong.write_bytes(good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1:])
        refused(wrong, folder)
    for at in sorted({0, 1, 5, 17, 18, 19, head_ends, len(good) - 1, *rng.sample(range(len(good)), 50)}):
        wrong.write_bytes(good[:at])
        refused(wrong, folder)
        wrong.write_bytes(good[:at] + b"x" + good[at:])
        refused(wrong, folder)
    for other in (good + b"x", good + good, good[::-1], b"\0" * 100_000):
        wrong.write_bytes(other)
        refused(wrong, folder)


def test_other_versions_and_machines_are_named(packed, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(packed_cache, "__version__", "9.9")
    assert "packed with firesteel 0.1" in (said := refused(packed, folder)) and said.endswith("and this is 9.9")
    monkeypatch.undo()
    here = cache_entries.machine()
    for other, expected in ((here + ",+amx-of-tomorrow", "differs in +amx-of-tomorrow"),
                            ("arm64 apple-m9 +neon", "packed on arm64 apple-m9, and this is"),
                            ("nonsense", "packed on nonsense")):
        monkeypatch.setattr(cache_entries, "machine", lambda other=other: other)
        path = pack(tmp_path)
        monkeypatch.setattr(cache_entries, "machine", lambda: here)
        assert expected in refused(path, folder)


def written(tmp_path: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    """A file with a checksum that is right, by somebody who knows how."""
    path = tmp_path / "forged"
    with config.patch(cache_dir=str(tmp_path / "empty")):
        fs.save_cache(path)
    content = path.read_bytes()[:-33] + b"".join(lines) + end
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path


def entry(kind: str, key: str, data: bytes = b"data", name: tuple[str, str] | None = None) -> bytes:
    content = cache_entries.sealed(kind, key, data)
    kind, key = name or (kind, key)
    return f"{kind} {key} {len(content)}\n".encode() + content


def test_files_that_somebody_wrote_in_order_to_harm(folder, tmp_path, monkeypatch):
    key = digest("x")
    good = entry("plan", key)
    for lines in ([entry("plan", key, name=("../../outside", key))], [entry("plan", key, name=("plan", "../../x"))],
                  [entry("plan", key, name=("plan", "/etc/passwd"))], [good, good], [good, b"x\n"], [good[:-1]],
                  [good, b"plan %s 99999999999999999999\n" % key.encode()], [good, b"plan %s -1\n" % key.encode()],
                  [good, b"plan " * 100_000], [entry("plan", key, name=("plan", digest("y")))],
                  [good, b"\n", good]):
        refused(written(tmp_path, *lines), folder)
    refused(written(tmp_path, good, end=b""), folder)
    with monkeypatch.context() as other:
        other.setattr(cache_entries, "_machine_in_short", lambda: "another")
        foreign = entry("plan", key)
    assert "was made by" in refused(written(tmp_path, foreign), folder)
    assert fs.load_cache(written(tmp_path, good)) == 1


def test_what_is_no_packed_cache(folder, tmp_path):
    archive = tmp_path / "archive"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../outside", b"x")
    assert "by another version" in refused(archive, folder)
    with tarfile.open(archive, "w") as file:
        link = tarfile.TarInfo("plan")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        file.addfile(link, io.BytesIO())
    assert "is not a packed cache" in refused(archive, folder)
    archive.write_bytes(b"")
    refused(archive, folder)
    refused(tmp_path, folder)
    refused(tmp_path / "nowhere", folder)
    refused(Path("/dev/null"), folder)


def test_files_are_signed_with_a_secret(folder, tmp_path):
    plain = pack(tmp_path).read_bytes()
    with config.patch(cache_secret="ours"):
        path = pack(tmp_path)
        assert fs.load_cache(path) == len(ENTRIES) and get("plan", digest("a")) == b"a plan"
    assert get("plan", digest("a")) is None  # signed
    disk_cache.clear()
    assert "is signed, and config.cache_secret is not set" in refused(path, folder)
    with config.patch(cache_secret="theirs"):
        assert "its signature is wrong" in refused(path, folder)
        path.write_bytes(plain)
        assert "not signed, but" in refused(path, folder)


def test_entries_of_others_are_not_packed(tmp_path, monkeypatch):
    put("plan", digest("mine"), b"mine")
    with monkeypatch.context() as other:
        other.setattr(cache_entries, "_machine_in_short", lambda: "another")
        put("plan", digest("theirs"), b"theirs")
    Path(disk_cache.entry_path(config.cache_dir, "plan", digest("damaged"))).parent.mkdir(exist_ok=True)
    Path(disk_cache.entry_path(config.cache_dir, "plan", digest("damaged"))).write_bytes(b"damaged")
    assert fs.save_cache(tmp_path / "packed") == 1


def test_nothing_is_left_where_a_file_cannot_be_written(packed, tmp_path):
    with pytest.raises(CacheFileError):
        fs.save_cache(tmp_path / "no folder" / "packed")
    with pytest.raises(CacheFileError):
        fs.save_cache(tmp_path)
    with config.patch(disk_cache=False), pytest.raises(CacheFileError, match="switched off"):
        fs.load_cache(packed)
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file" / "cache")), pytest.raises(CacheFileError, match="written to"):
        fs.load_cache(packed)
    assert not [name for name in os.listdir(tmp_path.parent) + os.listdir(tmp_path) if name.endswith(".tmp")]
