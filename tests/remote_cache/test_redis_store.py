"""Redis as a remote cache, with a real server on this machine, and with some that only look like one."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from firesteel import config, disk_cache, remote_cache
from firesteel.disk_cache import digest, get, put
from firesteel.remote_cache.redis_store import RedisError, RedisStore

NEEDS_REDIS = "needs redis-server, of the Debian package of that name"


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def redis(tmp_path_factory) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip(NEEDS_REDIS)
    port = free_port()
    server = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                               "--requirepass", "word", "--databases", "4", "--dir",
                               str(tmp_path_factory.mktemp("redis"))], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline and server.poll() is None
                time.sleep(0.02)
        yield f"redis://:word@127.0.0.1:{port}/2"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def machines(tmp_path, monkeypatch) -> Callable[[str], object]:
    """What makes a cache directory that is another machine's."""
    monkeypatch.setattr(disk_cache, "_unusable", set())
    monkeypatch.setattr(remote_cache, "_remotes", {})
    return lambda name: config.patch(disk_cache=True, cache_dir=str(tmp_path / name))


def test_bytes_come_back(redis):
    store = RedisStore(redis + "?prefix=team&ttl=100", 5.0)
    for data in (b"", b"x\r\n$3\r\n", bytes(range(256)) * 10_000):
        store.put("plan/key", data)
        assert store.get("plan/key") == data
    assert store.get("plan/other") is None
    assert 90 < int(store._ask(b"TTL", b"team:plan/key") or 0) <= 100
    assert RedisStore(redis, 5.0).get("plan/key") is None  # another prefix


def test_connections_are_made_again(redis):
    store = RedisStore(redis, 5.0)
    store.put("a", b"1")
    assert store.connection is not None
    store.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(OSError):
        store.get("a")
    assert store.get("a") == b"1"


def test_answers_that_are_errors(redis):
    for wrong in (redis.replace("word", "guess"), redis.replace(":word@", ""), redis.replace("/2", "/99")):
        with pytest.raises(RedisError):
            RedisStore(wrong, 5.0).get("a")
    store = RedisStore(redis, 5.0, longest=10)
    store.put("long", b"x" * 11)
    with pytest.raises(RedisError, match="too large"):
        store.get("long")
    store._ask(b"LPUSH", b"firesteel:list", b"x")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        store.get("list")


def test_what_one_machine_makes_another_takes(redis, machines):
    keys = [digest("redis", number) for number in range(50)]
    with config.patch(remote_cache=redis, remote_cache_timeout=5.0):
        with machines("one"):
            for key in keys:
                put("plan", key, key.encode() * 100)
            assert remote_cache.flush(20)
        with machines("two"):
            disk_cache.fetch("plan", keys)
            assert [get("plan", key) for key in keys] == [key.encode() * 100 for key in keys]


def test_with_a_secret_others_are_refused(redis, machines):
    unsigned, theirs, ours = digest("unsigned"), digest("theirs"), digest("ours")
    with config.patch(remote_cache=redis, remote_cache_timeout=5.0), machines("one"):
        for key, secret in ((unsigned, ""), (theirs, "theirs"), (ours, "ours")):
            with config.patch(cache_secret=secret):
                put("plan", key, b"data")
        assert remote_cache.flush(20)
    with config.patch(remote_cache=redis, remote_cache_timeout=5.0, cache_secret="ours"), machines("two"):
        disk_cache.fetch("plan", [unsigned, theirs, ours])
        assert [get("plan", key) for key in (unsigned, theirs, ours)] == [None, None, b"data"]


class Server:
    """Takes connections and does something else than Redis with them."""

    def __init__(self, behave: Callable[[socket.socket], object]) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.connections: list[socket.socket] = []
        self.behave = behave
        self.threads = [threading.Thread(target=self.run, daemon=True)]
        self.threads[0].start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.listening.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.threads.append(threading.Thread(target=self.serve, args=(connection,), daemon=True))
            self.threads[-1].start()

    def serve(self, connection: socket.socket) -> None:
        try:
            self.behave(connection)
        except OSError:
            pass

    def close(self) -> None:
        for each in (self.listening, *self.connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # those who wait in it go on
            each.close()
        for thread in self.threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self.threads)


def says(text: bytes, at_once: bool = True) -> Callable[[socket.socket], None]:
    def behave(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            for piece in [text] if at_once else [text[at:at + 1] for at in range(len(text))]:
                connection.sendall(piece)
                time.sleep(0 if at_once else 0.1)
    return behave


BEHAVIOURS: dict[str, Callable[[socket.socket], object]] = {
    "closes": lambda connection: connection.close(),
    "says nothing": lambda connection: connection.recv(1 << 16),
    "drips": says(b"$1000\r\n" + b"x" * 1000, at_once=False),
    "speaks of something else": says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "has no end of a line": says(b"$" + b"1" * (1 << 18)),
    "promises too much": says(b"$99999999999\r\n"),
    "answers with a list": says(b"*1\r\n$1\r\nx\r\n"),
    "answers with a number": says(b":7\r\n"),
    "lies": says(b"$4\r\ncode\r\n"),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_store_that_is_none_costs_a_bounded_time(machines, behaviour):
    server = Server(BEHAVIOURS[behaviour])
    keys = [digest(number) for number in range(30)]
    try:
        with config.patch(remote_cache=server.url, remote_cache_timeout=0.2), machines("one"):
            began = time.monotonic()
            for key in keys:
                put("plan", key, b"data")
                disk_cache.fetch("cpu_kernel", [key])
                assert get("cpu_kernel", key) is None
            disk_cache.fetch("tuning", keys)
            assert time.monotonic() - began < 5.0
            began = time.monotonic()
            remote_cache.flush()
            assert time.monotonic() - began < 2.0
            remote = remote_cache._remotes[server.url]
            assert remote.is_paused() and [get("plan", key) for key in keys] == [b"data"] * 30
    finally:
        server.close()


def test_a_server_that_is_not_there(machines, capsys):
    with config.patch(remote_cache=f"redis://127.0.0.1:{free_port()}"), machines("one"):
        put("plan", digest("a"), b"data")
        disk_cache.fetch("plan", [digest("b")])
        assert get("plan", digest("a")) == b"data" and get("plan", digest("b")) is None


@pytest.mark.parametrize("url", ["redis://host:port", "redis://host/database", "redis://host/0?tll=3",
                                 "redis://host/0?ttl=long", "redis://host?x", "redis://[host"])
def test_wrong_urls_are_one_warning(machines, url):
    with config.patch(remote_cache=url), machines("one"), pytest.warns(UserWarning, match="cannot be used") as warned:
        for number in range(5):
            disk_cache.fetch("plan", [digest(number), digest(number, "too")])
    assert len(warned) == 1
