"""What was learned: by content of the code, merged, never repeated on disk, and never an error."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

from firesteel import config, disk_cache
from firesteel.capture import learned
from firesteel.capture.learned import NOTHING, Learned, code_key, recall, remember
from firesteel.logs import set_logs

pytestmark = pytest.mark.usefixtures("quick_collections")

SOURCE = """
def f(x, mode="fast"):
    if mode in {"fast", "slow", "other", "words"}:
        return [y * 2.0 for y in x]
    return lambda z: (z, x, 1, ("nested", frozenset({"a", "b"})))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def code_of(source: str = SOURCE, filename: str = "/home/me/project/model.py", name: str = "f") -> types.CodeType:
    """The code as another process, or another import, would have it: equal and not the same object."""
    space: dict[str, types.FunctionType] = {}
    exec(compile(textwrap.dedent(source), filename, "exec", dont_inherit=True), space)
    return space[name].__code__


def dims(*pairs: tuple[str, int]) -> Learned:
    return Learned(dims=frozenset(pairs))


ALL = Learned(frozenset({("x", 0), ("self.cache.key[0]", 2)}), frozenset({("x", 1)}), frozenset({"step", "ｓ'\\\n"}))


def test_nothing_is_known_at_first(folder):
    assert recall(code_of(), 0) is NOTHING
    assert not folder.exists()


def test_what_one_import_learned_the_next_one_knows():
    remember(code_of(), 0, ALL)
    assert recall(code_of(), 0) == ALL
    assert recall(code_of(), 12) is NOTHING


def test_continuations_share_the_entry(folder):
    code = code_of()
    remember(code, 0, dims(("x", 0)))
    remember(code, 12, dims(("y", 1)))
    assert recall(code_of(), 0) == dims(("x", 0)) and recall(code_of(), 12) == dims(("y", 1))
    assert len(list(folder.rglob("*.entry"))) == 1


def test_knowledge_of_several_processes_is_merged():
    first, second = code_of(), code_of()
    assert recall(first, 0) is NOTHING and recall(second, 0) is NOTHING
    remember(first, 0, dims(("x", 0)))
    remember(second, 0, Learned(numbers=frozenset({"n"})))  # has read the entry before the first one wrote it
    remember(first, 7, dims(("z", 3)))
    fresh = code_of()
    assert recall(fresh, 0) == dims(("x", 0)) | Learned(numbers=frozenset({"n"}))
    assert recall(fresh, 7) == dims(("z", 3))


def test_nothing_new_is_not_written(monkeypatch):
    puts = []
    real = disk_cache.put
    monkeypatch.setattr(disk_cache, "put", lambda *args: puts.append(args) or real(*args))
    code = code_of()
    for _ in range(3):
        remember(code, 0, ALL)
        remember(code, 0, dims(("x", 0)))
        remember(code, 0, NOTHING)
    remember(code_of(), 0, ALL)
    assert len(puts) == 1


def test_the_disk_is_read_once(monkeypatch):
    remember(code_of(), 0, ALL)
    reads = []
    real = disk_cache.get
    monkeypatch.setattr(disk_cache, "get", lambda *args: reads.append(args) or real(*args))
    code = code_of()
    for index in range(5):
        recall(code, index)
    assert len(reads) == 1


def test_switched_off(folder):
    with config.patch(disk_cache=False):
        remember(code_of(), 0, ALL)
        assert recall(code_of(), 0) is NOTHING
    code = code_of()
    remember(code, 0, ALL)
    with config.patch(disk_cache=False):
        assert recall(code, 0) is NOTHING
    with config.patch(cache_dir=str(folder / "other")):
        assert recall(code, 0) is NOTHING


def test_a_disk_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with config.patch(cache_dir=str(tmp_path / "file" / "cache")):
        code = code_of()
        remember(code, 0, ALL)
        assert recall(code, 0) == ALL  # this process still knows
        assert recall(code_of(), 0) is NOTHING


@pytest.mark.parametrize("payload", [
    b"", b"not json", b"[]", b"{}", b'{"units": []}', b'{"units": {"a": {}}}', b'{"units": {"0": {"dims": []}}}',
    b'{"units": {"0": {"dims": [["x"]], "strides": [], "numbers": []}}}',
    b'{"units": {"0": {"dims": [[0, "x"]], "strides": [], "numbers": []}}}',
    b'{"units": {"0": {"dims": [["x", true]], "strides": [], "numbers": []}}}',
    b'{"units": {"0": {"dims": [["x", 0.5]], "strides": [], "numbers": []}}}',
    b'{"units": {"0": {"dims": [], "strides": [], "numbers": [[]]}}}',
    b'{"units": {"0": {"dims": 1, "strides": [], "numbers": []}}}', b"[" * 100_000, b"\xff\xfe",
])
def test_an_entry_of_another_form_is_ignored(payload, capsys):
    code = code_of()
    disk_cache.put(learned.KIND, code_key(code), payload)
    set_logs("cache")
    assert recall(code, 0) is NOTHING
    assert "ignored" in capsys.readouterr().err
    set_logs()
    remember(code, 0, ALL)
    assert recall(code_of(), 0) == ALL


def test_the_entry_is_readable_text(folder):
    remember(code_of(), 0, dims(("x", 0)))
    data = disk_cache.get(learned.KIND, code_key(code_of()))
    assert data is not None
    assert json.loads(data) == {"function": "f", "units": {"0": {"dims": [["x", 0]], "strides": [], "numbers": []}}}


def test_names_that_mean_nothing_to_others_are_not_kept():
    passing = "table[<object object at 0x7f12>]"
    remember(code_of(), 0, Learned(frozenset({("x", 0), (passing, 0)}), frozenset({(passing, 1), ("y", 1)}),
                                   frozenset({passing, "n", "k" * 1000})))
    assert recall(code_of(), 0) == Learned(frozenset({("x", 0)}), frozenset({("y", 1)}), frozenset({"n"}))
    remember(code_of(), 5, Learned(numbers=frozenset({passing})))
    assert recall(code_of(), 5) is NOTHING


def test_an_entry_does_not_grow_for_ever():
    for run in range(40):
        remember(code_of(), 0, Learned(numbers=frozenset(f"n{run}_{number}" for number in range(100))))
    assert 1000 < len(recall(code_of(), 0)) <= learned._MOST_NAMES


def test_the_log_says_what_was_recalled(capsys):
    remember(code_of(), 0, Learned(frozenset({("x", 0)}), frozenset({("x", 1)}), frozenset({"n"})))
    set_logs("cache")
    recall(code_of(), 0)
    assert "f starts with what earlier runs learned: x.size(0), x.stride(1), n vary" in capsys.readouterr().err


def test_records_go_with_their_code():
    code = code_of()
    recall(code, 0)
    identity = id(code)
    assert identity in learned._records
    del code
    gc.collect()
    assert identity not in learned._records


# The key


def test_a_moved_project_keeps_what_it_learned():
    assert code_key(code_of()) == code_key(code_of(filename="/somewhere/else/model.py"))
    assert code_key(code_of()) == code_key(code_of(filename="C:\\projects\\model.py"))
    assert code_key(code_of()) == code_key(code_of("\n\n# a comment\n" + SOURCE))
    assert code_key(code_of()) != code_key(code_of(filename="/home/me/project/other.py"))


@pytest.mark.parametrize("before, after", [
    ("2.0", "2"), ("2.0", "3.0"), ("y * 2.0", "y + 2.0"), ("y * 2.0", "y.mul(2.0)"), ("x, mode", "x, kind=0, mode"),
    ('"other"', '"another"'), ('("nested"', '("knotted"'), ('{"a", "b"}', '{"a", "c"}'), ("(z, x, 1,", "(z, x, True,"),
    ("(z, x, 1,", "(z, x, -1,"), ("lambda z: (z", "lambda z, w=1: (z"), ("for y in x", "for y in mode"),
])
def test_an_edited_function_starts_anew(before, after):
    assert before in SOURCE
    assert code_key(code_of()) != code_key(code_of(SOURCE.replace(before, after)))


def test_methods_of_the_same_name_differ():
    source = "class {0}:\n    def g(self, x): return x\nf = {0}.g"
    assert code_key(code_of(source.format("A"))) != code_key(code_of(source.format("B")))


def test_running_a_function_does_not_change_its_key():
    """The interpreter rewrites instructions in place as it learns the types that they see."""
    space: dict = {}
    exec(compile("def f(a, b):\n    for i in range(100):\n        a = a + b.real\n    return a", "m.py", "exec"), space)
    before = code_key(space["f"].__code__)
    for _ in range(50):
        space["f"](1, 2)
    assert code_key(space["f"].__code__) == before


def test_code_that_holds_any_object():
    class Unprintable:
        __hash__ = None  # type: ignore[assignment]

        def __repr__(self):
            raise RuntimeError("no")

    code = code_of("def f(): return 'a constant'")
    strange = [code.replace(co_consts=(*code.co_consts, constant)) for constant in (Unprintable(), [1], object())]
    assert len({code_key(one) for one in [code, *strange]}) == 4
    remember(strange[0], 0, ALL)
    assert recall(strange[0], 0) == ALL


def test_another_process_has_the_same_key(tmp_path):
    """Hashes of strings, and with them the order of sets, differ between the processes."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(f"""
        from firesteel.capture.learned import code_key
        space = {{}}
        exec(compile({SOURCE!r}, "model.py", "exec"), space)
        print(code_key(space["f"].__code__))
    """))
    keys = {subprocess.run([sys.executable, str(program)], env={**os.environ, "PYTHONHASHSEED": seed}, check=True,
                           capture_output=True, text=True).stdout.strip() for seed in ("1", "2", "3")}
    assert keys == {code_key(code_of())}


def test_another_process_recalls(folder, tmp_path):
    module = tmp_path / "moved" / "model.py"
    module.parent.mkdir()
    module.write_text(SOURCE)
    remember(code_of(), 3, ALL)
    program = "from firesteel.capture.learned import recall; import model; print(recall(model.f.__code__, 3))"
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=module.parent,
                         env={**os.environ, "FIRESTEEL_CACHE_DIR": str(folder), "FIRESTEEL_DISK_CACHE": "1",
                              "PYTHONIOENCODING": "utf-8"}, encoding="utf-8").stdout
    assert out == f"{ALL}\n"
    assert Path(folder).exists()


# With the compiler


PROGRAM = """
import sys
import torch
import firesteel as fs

graphs = []

def counting(gm, example_inputs):
    graphs.append(gm)
    return gm.forward

def f(x, n):
    return (x * n).sum(1) + x.shape[0]

compiled = fs.compile(f, backend=counting)
for size, n in ((4, 2), (7, 3), (9, 5)):
    x = torch.randn(size, 3)
    torch.testing.assert_close(compiled(x, n), f(x, n))
print(len(graphs))
"""


def test_the_next_process_starts_dynamic(tmp_path, folder):
    def run(place: str) -> str:
        program = tmp_path / place / "program.py"
        program.parent.mkdir()
        program.write_text(PROGRAM)
        done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True,
                              env={**os.environ, "FIRESTEEL_CACHE_DIR": str(folder), "FIRESTEEL_DISK_CACHE": "1"})
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run("here") == "2"
    assert run("moved") == "1"
