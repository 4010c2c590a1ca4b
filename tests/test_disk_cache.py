"""The cache on disk: what is kept comes back whole or not at all, and no state of the disk is an error."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from firesteel import config, disk_cache
from firesteel.disk_cache import digest, get, put
from firesteel.logs import set_logs

KEY = digest("key")
not_as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_unusable", set())
    monkeypatch.setattr(disk_cache, "_written", {})
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def entry(key=KEY, kind="test") -> Path:
    return Path(config.cache_dir, kind, key[:2], f"{key}.entry")


def test_what_is_kept_comes_back():
    for data in (b"", b"x", os.urandom(100_000)):
        assert put("test", KEY, data)
        assert get("test", KEY) == data
    assert get("other", KEY) is None
    assert get("test", digest("other key")) is None


def test_permissions(folder):
    before = os.umask(0)
    try:
        put("test", KEY, b"data")
    finally:
        os.umask(before)
    for path in (folder, entry().parent.parent, entry().parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry().stat().st_mode) == 0o600


def test_every_damage_is_seen():
    put("test", KEY, b"some data")
    good = entry().read_bytes()
    for at in range(len(good)):
        entry().write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1:])
        assert get("test", KEY) is None, f"byte {at}"
    for wrong in (b"", good[:-1], good + b"x", good[:20], b"something else altogether, of no format at all" * 10):
        entry().write_bytes(wrong)
        assert get("test", KEY) is None
    entry().write_bytes(good)
    assert get("test", KEY) == b"some data"


def test_an_entry_belongs_to_its_key_and_kind():
    put("test", KEY, b"data")
    for kind, key in (("test", digest("other")), ("kernels", KEY)):
        other = entry(key, kind)
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(entry().read_bytes())
        other.chmod(0o600)
        assert get(kind, key) is None


def test_a_damaged_entry_is_replaced(capsys):
    put("test", KEY, b"data")
    entry().write_bytes(b"damage")
    set_logs("cache")
    assert get("test", KEY) is None
    assert "damaged" in capsys.readouterr().err
    assert put("test", KEY, b"data") and get("test", KEY) == b"data"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_entries_that_others_could_have_written_are_ignored(monkeypatch, capsys):
    put("test", KEY, b"data")
    set_logs("cache")
    entry().chmod(0o622)
    assert get("test", KEY) is None
    assert "others may write" in capsys.readouterr().err
    entry().chmod(0o600)
    assert get("test", KEY) == b"data"
    me = os.geteuid()
    real = os.fstat

    def of_another_user(file):
        found = list(real(file))
        found[stat.ST_UID] = me + 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", of_another_user)
    assert get("test", KEY) is None
    assert "another user" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed here")
def test_links_and_folders_are_not_entries(tmp_path):
    put("test", KEY, b"data")
    entry().rename(tmp_path / "elsewhere")
    entry().symlink_to(tmp_path / "elsewhere")
    assert get("test", KEY) is None
    entry().unlink()
    entry().mkdir()
    assert get("test", KEY) is None
    assert not put("test", KEY, b"data")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_nobody_waits_for_a_pipe_or_a_socket(folder):
    """Who opens a pipe waits for a writer, and no signal would get through; so this runs where it can be ended."""
    put("test", KEY, b"data")
    (folder / "last_sweep").unlink()
    os.mkfifo(folder / "last_sweep")
    os.utime(folder / "last_sweep", (1e9, 1e9))
    entry().unlink()
    os.mkfifo(entry())
    other = entry(digest("other"))
    other.parent.mkdir(exist_ok=True)
    code = textwrap.dedent(f"""
        import os, socket
        from firesteel import config, disk_cache
        from firesteel.logs import set_logs
        config.disk_cache, config.cache_dir = True, {str(folder)!r}
        set_logs("cache")
        os.chdir({str(other.parent)!r})  # names of sockets are short
        socket.socket(socket.AF_UNIX).bind({other.name!r})
        print(disk_cache.get("test", {KEY!r}), disk_cache.get("test", {digest("other")!r}))
        print(disk_cache.info().kinds, disk_cache.put("test", {KEY!r}, b"new"), disk_cache.get("test", {KEY!r}))
    """)
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert made.stdout.splitlines() == ["None None", "{} True b'new'"], made.stderr
    assert "it is not a regular file" in made.stderr
    assert stat.S_ISREG((folder / "last_sweep").stat().st_mode) and stat.S_ISREG(entry().stat().st_mode)


def test_switched_off():
    put("test", KEY, b"data")
    with config.patch(disk_cache=False):
        assert disk_cache.directory() is None
        assert get("test", KEY) is None and not put("test", KEY, b"new") and disk_cache.clear() == 0
    assert get("test", KEY) == b"data"


def test_a_directory_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    set_logs("cache")
    with config.patch(cache_dir=str(tmp_path / "file" / "cache")):
        assert not put("test", KEY, b"data")
        assert not put("test", digest("other"), b"data")
        assert get("test", KEY) is None
    assert len(capsys.readouterr().err.splitlines()) == 1


@not_as_root
def test_a_directory_that_is_read_only(folder):
    put("test", KEY, b"data")
    for path in (folder, entry().parent.parent, entry().parent):
        path.chmod(0o500)
    try:
        assert not put("test", KEY, b"new") and not put("test", digest("other"), b"new")
        assert get("test", KEY) == b"data"
    finally:
        for path in (folder, entry().parent.parent, entry().parent):
            path.chmod(0o700)


def test_a_full_disk_leaves_nothing_behind(monkeypatch):
    put("test", KEY, b"old")
    writes = []

    def write(file, data):
        writes.append(file)
        if len(writes) == 2:
            raise OSError(28, "No space left on device")
        return real(file, data[:3])

    real = os.write
    monkeypatch.setattr(os, "write", write)
    assert not put("test", KEY, b"new data")
    assert len(writes) == 2
    assert os.listdir(entry().parent) == [entry().name]
    assert get("test", KEY) == b"old"


def test_a_short_write_goes_on(monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:7]))
    assert put("test", KEY, b"data" * 100)
    monkeypatch.undo()
    assert get("test", KEY) == b"data" * 100


def test_the_folder_goes_while_in_use():
    put("test", KEY, b"data")
    assert disk_cache.clear() == 1
    assert put("test", KEY, b"data") and get("test", KEY) == b"data"


def test_clearing_leaves_what_is_not_ours(folder):
    put("test", KEY, b"data")
    put("kernels", KEY, b"data")
    (folder / "notes.txt").write_text("mine")
    (folder / "projects" / "ab").mkdir(parents=True)
    (folder / "projects" / "ab" / "thesis.entry").write_text("mine")
    assert disk_cache.clear() == 2
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert left == ["notes.txt", "projects/ab/thesis.entry"]
    assert not (folder / "test").exists()


def test_an_empty_cache_leaves_no_folder(folder):
    put("test", KEY, b"data")
    assert folder.exists()
    disk_cache.clear()
    assert not folder.exists()


def test_info():
    assert str(disk_cache.info()).endswith("empty")
    put("test", KEY, b"data")
    put("test", digest("other"), b"x" * 5000)
    put("kernels", KEY, b"data")
    assert {kind: count for kind, (count, _) in disk_cache.info().kinds.items()} == {"test": 2, "kernels": 1}
    assert "kernels: 1 entry, " in str(disk_cache.info()) and "test: 2 entries, 5.1 KiB" in str(disk_cache.info())


def test_the_oldest_go_first(monkeypatch):
    keys = [digest(number) for number in range(40)]
    for age, key in enumerate(reversed(keys)):
        put("test", key, b"x" * 5000)
        os.utime(entry(key), (1e9 - 100 * age,) * 2)
    monkeypatch.setattr(disk_cache, "SIZE_LIMIT", 200_000)
    assert disk_cache.sweep() == 11
    left = [number for number, key in enumerate(keys) if entry(key).exists()]
    assert left == list(range(min(left), 40))
    assert sum(entry(key).stat().st_size for key in keys if entry(key).exists()) <= 150_000
    assert disk_cache.sweep() == 0


def test_reading_keeps_an_entry_young(monkeypatch):
    for number in range(3):
        put("test", digest(number), b"x" * 5000)
        os.utime(entry(digest(number)), (1e9 + number,) * 2)
    assert get("test", digest(0)) is not None
    monkeypatch.setattr(disk_cache, "SIZE_LIMIT", 15_000)
    disk_cache.sweep()
    assert entry(digest(0)).exists() and not entry(digest(1)).exists()


def test_writing_looks_at_the_size(monkeypatch, folder):
    monkeypatch.setattr(disk_cache, "SIZE_LIMIT", 100_000)
    for number in range(100):
        put("test", digest(number), b"x" * 8000)
        assert sum(path.stat().st_size for path in folder.rglob("*.entry")) < 120_000
    assert get("test", digest(99)) is not None


def test_the_size_is_looked_at_rarely(monkeypatch):
    sweeps = []
    monkeypatch.setattr(disk_cache, "sweep", lambda: sweeps.append(1))
    for number in range(50):
        put("test", digest(number), b"data")
    assert len(sweeps) == 1
    disk_cache._written.clear()  # as a new process on the same day
    put("test", KEY, b"data")
    assert len(sweeps) == 1


def test_files_that_a_dead_process_left_are_swept(folder):
    put("test", KEY, b"data")
    new, old = (entry().with_name(f"{entry().name}.{part}.tmp") for part in ("00000000", "11111111"))
    new.write_bytes(b"being written")
    old.write_bytes(b"left")
    os.utime(old, (1e9, 1e9))
    assert disk_cache.sweep() == 1
    assert new.exists() and not old.exists() and entry().exists()


def test_wrong_names_are_refused():
    for kind, key in (("../up", KEY), ("test", "../../x"), ("test", ""), ("", KEY), ("test", KEY.upper())):
        with pytest.raises(ValueError):
            put(kind, key, b"")


def test_the_directory_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with config.patch(cache_dir=""):
        if sys.platform == "linux":
            assert disk_cache.directory() == str(tmp_path / ".cache" / "firesteel")
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
            assert disk_cache.directory() == str(tmp_path / "xdg" / "firesteel")
            monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/not/allowed")
        assert str(disk_cache.directory()).startswith(str(tmp_path))


def test_threads_and_processes_write_the_same_entry(folder):
    """Readers see one of the values that writers wrote, whole, while several write the same key."""
    program = textwrap.dedent(f"""
        import sys
        from firesteel import config
        from firesteel import disk_cache
        config.disk_cache, config.cache_dir = True, {str(folder)!r}
        for _ in range(300):
            for letter in sys.argv[1]:
                assert disk_cache.put("test", {KEY!r}, letter.encode() * 20_000)
                data = disk_cache.get("test", {KEY!r})
                assert data and len(data) == 20_000 and data == data[:1] * 20_000
    """)
    others = [subprocess.Popen([sys.executable, "-c", program, letters]) for letters in ("ab", "cd")]
    failures: list[bytes | None] = []

    def work(letter: bytes) -> None:
        while any(other.poll() is None for other in others):
            put("test", KEY, letter * 20_000)
            data = get("test", KEY)
            if not data or len(data) != 20_000 or data != data[:1] * 20_000:
                failures.append(data)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"x", b"y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait() for other in others] == [0, 0]
    assert not failures
    assert os.listdir(entry().parent) == [entry().name]
