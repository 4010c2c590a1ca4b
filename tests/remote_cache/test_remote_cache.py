"""The remote cache: what is missing here is looked for there, in bounded time, and never believed unseen."""

from __future__ import annotations

import os
import random
import threading
import time

import pytest

from firesteel import cache_entries, config, disk_cache, remote_cache
from firesteel.disk_cache import digest, get, put

KEY = digest("key")


class Dictionary(dict):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.wait = 0.0
        self.error: Exception | None = None

    def get(self, key):  # type: ignore[override]
        self.asked.append(key)
        time.sleep(self.wait)
        if self.error is not None:
            raise self.error
        return super().get(key)

    def put(self, key, data):
        time.sleep(self.wait)
        if self.error is not None:
            raise self.error
        self[key] = data


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_unusable", set())
    monkeypatch.setattr(remote_cache, "_remotes", {})
    monkeypatch.setattr(remote_cache, "_OPENERS", {})
    dictionary = Dictionary()
    remote_cache.register_store("dictionary", lambda url: dictionary)
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "one"), remote_cache="dictionary://",
                      remote_cache_timeout=5.0):
        yield dictionary


def elsewhere(tmp_path):
    return config.patch(cache_dir=str(tmp_path / "two"))


def want(made: list[str], keys=(KEY,)) -> None:
    def make(wanted):
        for key in wanted:
            made.append(key)
            put("test", key, b"data " + key.encode())

    disk_cache.made_once("test", list(keys), lambda key: get("test", key) is not None, make)


def test_another_machine_takes_what_one_has_made(store, tmp_path):
    made: list[str] = []
    keys = [digest(number) for number in range(20)]
    want(made, keys)
    assert remote_cache.flush(10) and len(made) == len(store) == 20
    with elsewhere(tmp_path):
        want(made, keys)
        assert len(made) == 20 and get("test", keys[3]) == b"data " + keys[3].encode()
        store.asked.clear()
        want(made, keys)
        assert not store.asked  # they are here now


def test_single_entries_come_from_there_too(store, tmp_path):
    calls: list[int] = []

    def make() -> bytes:
        calls.append(1)
        return b"code"

    assert disk_cache.get_or_make("test", KEY, make) == b"code" and remote_cache.flush(10)
    with elsewhere(tmp_path):
        assert disk_cache.get_or_make("test", KEY, make) == b"code"
        with disk_cache.making("test", KEY, lambda: get("test", KEY) is not None):
            pass
    assert calls == [1]


def test_one_of_many_on_a_machine_asks(store):
    put("test", KEY, b"data")
    assert remote_cache.flush(10)
    disk_cache.clear()
    store.wait = 0.1
    threads = [threading.Thread(target=want, args=([],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert store.asked == [f"test/{KEY}"]


def test_nothing_else_than_what_was_made_is_taken(store, tmp_path):
    """Flips, cuts, entries under other names, of other machines, versions and formats."""
    keys = [digest(number) for number in range(150)]
    rng = random.Random(0)
    for key in keys:
        put("test", key, os.urandom(200))
    assert remote_cache.flush(10)
    names = list(store)
    for name in names:
        good = store[name]
        at = rng.randrange(len(good))
        kind, _, key = name.partition("/")
        foreign = cache_entries.sealed(kind, key, b"data").replace(b"firesteel 0", b"firesteel 9")
        store[name] = rng.choice([good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1:], good[:at],
                                  good + b"x", b"", store[names[0] if name != names[0] else names[1]], foreign,
                                  os.urandom(300)])
    with elsewhere(tmp_path):
        for key in keys:
            remote_cache._remotes.clear()  # otherwise the third lie is the last
            disk_cache.fetch("test", [key])
            assert get("test", key) is None
        assert disk_cache.info().kinds == {}
        store.asked.clear()
        disk_cache.fetch("test", keys[:3])
        disk_cache.fetch("test", keys)
        assert len(store.asked) == 3


def test_entries_of_another_cpu_are_refused(store, tmp_path, monkeypatch):
    with monkeypatch.context() as other:
        other.setattr(cache_entries, "_machine_in_short", lambda: "x86_64 other 0123")
        put("cpu_kernel", KEY, b"code")
        put("learned", KEY, b"advice")
    assert remote_cache.flush(10)
    with elsewhere(tmp_path):
        disk_cache.fetch("cpu_kernel", [KEY])
        disk_cache.fetch("learned", [KEY])
        assert get("cpu_kernel", KEY) is None and get("learned", KEY) == b"advice"


def test_a_slow_store_is_left_alone(store):
    store.wait = 0.04
    with config.patch(remote_cache_timeout=0.1):
        began = time.monotonic()
        for number in range(100):
            disk_cache.fetch("test", [digest(number)])
        assert len(store.asked) == remote_cache.STRIKES and time.monotonic() - began < 2


def test_a_store_is_asked_again_later(store, monkeypatch):
    monkeypatch.setattr(remote_cache, "FIRST_PAUSE", 0.1)
    put("test", KEY, b"data")
    assert remote_cache.flush(10)
    disk_cache.clear()
    store.error = OSError("the network is down")
    disk_cache.fetch("test", [KEY])
    disk_cache.fetch("test", [KEY])
    assert len(store.asked) == 1
    store.error = None
    time.sleep(0.15)
    disk_cache.fetch("test", [KEY])
    assert get("test", KEY) == b"data"


def test_what_waits_for_being_sent_is_bounded(store, monkeypatch):
    monkeypatch.setattr(remote_cache, "QUEUED_ENTRIES", 10)
    store.wait = 0.2
    began = time.monotonic()
    for number in range(50):
        put("test", digest(number), b"data")
    assert time.monotonic() - began < 2
    store.wait = 0.0
    assert remote_cache.flush(10) and 10 <= len(store) <= 12
    with config.patch(remote_cache_timeout=0.05):
        store.wait = 1.0
        put("test", KEY, b"data")
        began = time.monotonic()
        assert not remote_cache.flush()
        assert time.monotonic() - began < 0.5


def test_the_thread_that_sends_ends_and_begins_again(store, monkeypatch):
    monkeypatch.setattr(remote_cache, "IDLE", 0.02)
    for number in range(3):
        put("plan", digest(number), b"data")
        assert remote_cache.flush(5.0) and len(store) == number + 1
        (remote,) = remote_cache._remotes.values()
        deadline = time.monotonic() + 10
        while remote.writer is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_only_what_is_of_use_elsewhere_is_sent(store):
    put("test", KEY, b"data", shared=False)
    put("test", digest("large"), b"x" * (remote_cache.LONGEST_ENTRY + 1))
    assert remote_cache.flush(10) and not store


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_forked_children_have_connections_of_their_own(store):
    put("test", KEY, b"data")
    assert remote_cache.flush(10)
    child = os.fork()
    if child == 0:
        put("test", digest("child"), b"data")
        os._exit(0 if remote_cache.flush(10) and f"test/{digest('child')}" in store else 1)
    assert os.waitpid(child, 0)[1] == 0
    put("test", digest("parent"), b"data")
    assert remote_cache.flush(10) and f"test/{digest('parent')}" in store


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_paths_of_fsspec(store, tmp_path, scheme):
    pytest.importorskip("fsspec")
    folder = tmp_path / "bucket" / "team"
    with config.patch(remote_cache=f"{scheme}://{folder}"):
        made: list[str] = []
        keys = [digest(scheme, number) for number in range(12)]
        want(made, keys)
        assert remote_cache.flush(10)
        with elsewhere(tmp_path):
            want(made, keys)
        assert made == keys
        if scheme == "file":
            assert not list(folder.rglob("*.tmp")) and len(list(folder.rglob("*"))) == 13
            for path in folder.rglob("*"):
                if path.is_file():
                    path.write_bytes(b"damaged")
            with config.patch(cache_dir=str(tmp_path / "three")):
                want(made, keys)
            assert made == keys * 2


def test_paths_that_cannot_be_opened_are_one_warning(store):
    pytest.importorskip("fsspec")
    for url in ("nonsense://x", "/a/folder"):
        with config.patch(remote_cache=url), pytest.warns(UserWarning, match="cannot be used") as warned:
            for number in range(3):
                disk_cache.fetch("test", [digest(number), digest(number, "too")])
        assert len(warned) == 1
