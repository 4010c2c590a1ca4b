"""Claims: of all processes that want an entry one makes it, and nobody waits for a dead one, or for ever."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from firesteel import cache_claims, config, disk_cache
from firesteel.cache_claims import Claim, Turn
from firesteel.disk_cache import digest, get, made_once, put
from firesteel.logs import set_logs

KEY = digest("key")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "_unusable", set())
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def claim_path(key=KEY) -> Path:
    return Path(disk_cache.entry_path(config.cache_dir, "test", key).removesuffix("entry") + "claim")


def claim(key=KEY) -> Claim:
    return disk_cache._claim(config.cache_dir, "test", key, lambda: get("test", key) is not None)


def want(made: list[str], seconds: float = 0.0, keep: bool = True, key: str = KEY) -> bytes | None:
    """What a process does that needs an entry."""
    def make(keys):
        for one in keys:
            made.append(one)
            time.sleep(seconds)
            if keep:
                put("test", one, one.encode())

    made_once("test", [key], lambda one: get("test", one) is not None, make)
    return get("test", key)


def together(count: int, work) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


def test_one_makes_it_and_the_others_take_it(folder):
    made: list[str] = []
    results: list[bytes | None] = []
    together(5, lambda: results.append(want(made, 0.1)))
    assert made == [KEY] and results == [KEY.encode()] * 5
    assert [path.suffix for path in folder.rglob("*.*") if path.is_file() and path.parent.name == KEY[:2]] == [".entry"]


PROCESS = textwrap.dedent("""
    import json, os, random, sys, time
    from firesteel import config, disk_cache
    config.disk_cache, config.cache_dir = True, sys.argv[1]
    keys = json.loads(sys.argv[2])
    random.Random(int(sys.argv[3])).shuffle(keys)
    made = []

    def make(wanted):
        for key in wanted:
            made.append(key)
            time.sleep(0.002)
            disk_cache.put("test", key, key.encode())

    print("ready", flush=True)
    sys.stdin.readline()
    for at in range(0, len(keys), 3):
        disk_cache.made_once("test", keys[at:at + 3], lambda key: disk_cache.get("test", key) == key.encode(), make)
    print(json.dumps(made))
""")


def test_processes_make_each_entry_once(folder):
    keys = [digest(number) for number in range(60)]
    processes = [subprocess.Popen([sys.executable, "-c", PROCESS, str(folder), json.dumps(keys), str(number)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for number in range(4)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    made = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(key for each in made for key in each) == sorted(keys)
    assert sum(bool(each) for each in made) > 1  # they did work together
    assert not list(folder.rglob("*.claim*"))


def test_the_claim_of_a_dead_process_is_taken_over_at_once_by_one(folder, capsys):
    holder = subprocess.run([sys.executable, "-c", textwrap.dedent(f"""
        import os, signal
        from firesteel import config, disk_cache
        config.disk_cache, config.cache_dir = True, {str(folder)!r}
        def make(keys):
            os.kill(os.getpid(), signal.SIGKILL)
        disk_cache.made_once("test", [{KEY!r}], lambda key: False, make)
    """)])
    assert holder.returncode == -signal.SIGKILL and claim_path().exists()
    set_logs("cache")
    made: list[str] = []
    began = time.monotonic()
    together(4, lambda: want(made, 0.3))
    assert made == [KEY] and time.monotonic() - began < 5 < cache_claims.EXPIRY
    assert "has expired" in capsys.readouterr().err
    assert not list(folder.rglob("*.claim*"))


def elsewhere(key=KEY, **said) -> None:
    """A claim of a process on another machine."""
    claim_path(key).parent.mkdir(parents=True, exist_ok=True)
    holder = {"line": "1" * 16, "nonce": "2" * 16, "place": "another machine", "pid": 1, "started": "1", **said}
    claim_path(key).write_text(json.dumps(holder))


def test_a_claim_that_nobody_touches_expires(monkeypatch):
    monkeypatch.setattr(cache_claims, "EXPIRY", 0.3)
    elsewhere()
    os.utime(claim_path(), (2e9, 2e9))  # clocks of machines differ
    made: list[str] = []
    began = time.monotonic()
    together(4, lambda: want(made, 0.2))
    assert made == [KEY] and time.monotonic() - began >= 0.3


def test_a_claim_that_is_touched_is_waited_for(monkeypatch):
    monkeypatch.setattr(cache_claims, "EXPIRY", 0.5)
    monkeypatch.setattr(cache_claims, "BEAT", 0.05)
    monkeypatch.setattr(cache_claims, "_place", lambda: "")  # as if all were on machines of their own
    made: list[str] = []
    together(2, lambda: want(made, 1.2))
    assert made == [KEY]
    deadline = time.monotonic() + 5
    while any(thread.name == "firesteel claims" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.name == "firesteel claims" for thread in threading.enumerate())


def test_what_cannot_be_kept_is_made_by_all_beside_each_other():
    made: list[str] = []
    began = time.monotonic()
    together(6, lambda: want(made, 0.3, keep=False))
    assert len(made) == 6
    assert time.monotonic() - began < 6 * 0.3


def test_waiting_ends(monkeypatch):
    elsewhere()
    made: list[str] = []
    with config.patch(cache_wait=0.2):
        began = time.monotonic()
        assert want(made) == KEY.encode()
        assert 0.2 <= time.monotonic() - began < 5 and made == [KEY]


def test_nobody_waits_with_the_setting_at_zero(folder):
    elsewhere()
    made: list[str] = []
    with config.patch(cache_wait=0.0):
        want(made)
        want(made, key=digest("other"))
    assert made == [KEY, digest("other")] and not claim_path(digest("other")).exists()


def test_an_entry_that_comes_while_somebody_waits_is_taken(folder):
    elsewhere()
    made: list[str] = []
    results: list[bytes | None] = []
    waiting = threading.Thread(target=lambda: results.append(want(made)))
    waiting.start()
    time.sleep(0.05)
    put("test", KEY, b"from there")
    waiting.join(10)
    assert results == [b"from there"] and not made


def test_a_maker_that_fails_lets_the_next_one_try():
    def fail(keys):
        raise KeyError(keys[0])

    with pytest.raises(KeyError):
        made_once("test", [KEY], lambda key: False, fail)
    assert not claim_path().exists()
    made: list[str] = []
    assert want(made) == KEY.encode()


@pytest.mark.parametrize("wrong", ["", "x", "[]", '{"line": 3}', "\0" * 5000, "[" * 100_000,
                                   json.dumps({"line": "a", "nonce": "../../x", "place": "", "pid": -1, "started": ""}),
                                   json.dumps({"line": "a", "nonce": "a" * 16, "place": "", "pid": 2**70,
                                               "started": ""})], ids=range(8))
def test_claims_that_say_nothing_expire_as_well(monkeypatch, folder, wrong):
    monkeypatch.setattr(cache_claims, "EXPIRY", 0.1)
    elsewhere()
    claim_path().write_text(wrong)
    made: list[str] = []
    together(3, lambda: want(made, 0.05))
    assert made == [KEY] and not list(folder.parent.rglob("*.claim*"))


def test_what_is_no_file_in_the_place_of_a_claim(monkeypatch, tmp_path):
    monkeypatch.setattr(cache_claims, "EXPIRY", 0.1)
    claim_path().parent.mkdir(parents=True)
    claim_path().mkdir()
    made: list[str] = []
    assert want(made) == KEY.encode()
    other, third = digest("other"), digest("third")
    for key in (other, third):
        claim_path(key).parent.mkdir(exist_ok=True)
    (tmp_path / "mine").write_text("mine")
    claim_path(other).symlink_to(tmp_path / "mine")
    assert want(made, key=other) == other.encode()
    assert (tmp_path / "mine").read_text() == "mine"
    if hasattr(os, "mkfifo"):
        os.mkfifo(claim_path(third))
        assert want(made, key=third) == third.encode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_leaves_the_claims_of_its_parent_alone():
    mine = claim()
    assert mine.turn() is Turn.MAKE
    child = os.fork()
    if child == 0:
        mine.release()
        os._exit(0 if claim().turn() is Turn.WAIT else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert claim_path().exists()
    mine.release()
    assert not claim_path().exists()


def test_who_lost_a_claim_does_not_release_that_of_another(monkeypatch):
    monkeypatch.setattr(cache_claims, "EXPIRY", 0.0)
    monkeypatch.setattr(cache_claims, "_place", lambda: "")
    stopped, other = claim(), claim()
    assert stopped.turn() is Turn.MAKE
    while (turn := other.turn()) is Turn.WAIT:
        time.sleep(0.01)
    assert turn is Turn.MAKE
    stopped.release()
    assert claim_path().exists()
    other.release()
    assert not claim_path().exists()


def test_a_directory_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    made: list[str] = []
    with config.patch(cache_dir=str(tmp_path / "file" / "cache")):
        assert want(made) is None
    assert made == [KEY]


def test_claims_left_behind_are_swept_and_not_counted(folder):
    put("test", KEY, b"data")
    elsewhere(digest("old"))
    os.utime(claim_path(digest("old")), (1e9, 1e9))
    elsewhere(digest("new"))
    assert disk_cache.info().kinds["test"][0] == 1
    assert disk_cache.sweep() == 1
    assert claim_path(digest("new")).exists() and not claim_path(digest("old")).exists()
    assert disk_cache.clear() == 1 and not list(folder.rglob("*.*"))
