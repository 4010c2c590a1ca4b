"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import types
import zipfile
from pathlib import Path

import pytest
import torch

from firesteel import config, disk_cache
from firesteel.cli import BAD_INPUT, FAILED, OK, main
from firesteel.commands.printing import show_error

PROGRAM = textwrap.dedent("""
    import torch

    SIZE = 3

    def bar(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    def scaled(x, factor=2, *, shift=0.0):
        return x * factor + shift

    def nothing():
        return torch.ones(SIZE) + 1

    def fails(x):
        raise ValueError("the program's own error")

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    number = 3

    class Thing:
        def method(self, x):
            return x + 1

    thing = Thing()
""")


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "program_for_cli.py"
    path.write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    sys.modules.pop("program_for_cli", None)


def test_explain_a_file(program, capsys):
    assert main(["explain", "program_for_cli.py:bar", "--args", "torch.ones(4), torch.ones(4)"]) == OK
    out = capsys.readouterr().out
    assert "2 graphs with 1 graph break and 6 ops" in out
    assert f'File "{program.name}"' in out or str(program) in out
    assert "if b.sum() < 0:" in out


def test_explain_a_module_with_keywords(program, capsys):
    assert main(["explain", "program_for_cli:scaled", "--args", "torch.randn(SIZE), factor=3, shift=1.5"]) == OK
    assert "1 graph with 0 graph breaks and 2 ops" in capsys.readouterr().out


@pytest.mark.parametrize("target, args", [("nothing", ""), ("model", "torch.randn(2, 3)"),
                                          ("thing.method", "torch.ones(2)")])
def test_explain_other_things(program, capsys, target, args):
    assert main(["explain", f"program_for_cli:{target}", "--args", args]) == OK
    assert "1 graph with 0 graph breaks" in capsys.readouterr().out


def test_graphs_and_guards(program, capsys):
    assert main(["explain", "program_for_cli:scaled", "--args", "torch.randn(3)", "--graphs", "--guards"]) == OK
    out = capsys.readouterr().out
    assert "graph 1:" in out and "def forward" in out and "guards:" in out and "factor" in out


@pytest.mark.parametrize("target, args, text", [
    ("program_for_cli", "", "not of the form module:function"),
    (":f", "", "not of the form module:function"),
    ("program_for_cli:", "", "not of the form module:function"),
    ("no_such_module:f", "", "there is no module 'no_such_module'"),
    ("nowhere.py:f", "", "there is no file nowhere.py"),
    ("program_for_cli:missing", "", "has no missing"),
    ("program_for_cli:number", "", "int and cannot be called"),
    ("program_for_cli:scaled", "", "missing a required argument: 'x'"),
    ("program_for_cli:scaled", "1, 2, 3, 4", "too many positional arguments"),
    ("program_for_cli:scaled", "undefined_name", "NameError"),
    ("program_for_cli:scaled", "torch.randn(3", "SyntaxError"),
    ("program_for_cli:Thing", "", "is a class"),
])
def test_bad_input(program, capsys, target, args, text):
    assert main(["explain", target, "--args", args]) == BAD_INPUT
    captured = capsys.readouterr()
    assert text in captured.err and captured.out == "" and "Traceback" not in captured.err


def test_a_module_that_fails_to_import(program, capsys):
    program.with_name("broken_for_cli.py").write_text("import no_such_dependency\n")
    assert main(["explain", "broken_for_cli:f"]) == BAD_INPUT
    assert "importing broken_for_cli failed: No module named 'no_such_dependency'" in capsys.readouterr().err


def test_an_error_of_the_program(program, capsys):
    assert main(["explain", "program_for_cli:fails", "--args", "torch.ones(2)"]) == FAILED
    shown = capsys.readouterr().err
    assert "ValueError: the program's own error" in shown and "firesteel" not in shown.partition("program_for_cli")[0]
    with pytest.raises(ValueError) as caught:
        int("no number")
    show_error(caught.value)
    assert "test_cli.py" in capsys.readouterr().err
    assert main(["bench", "program_for_cli:fails", "--args", "torch.ones(2)", "--only", "eager"]) == FAILED
    assert capsys.readouterr().err.count("  File ") == 1


def test_unknown_command_and_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["explode"])
    assert caught.value.code == BAD_INPUT
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and "firesteel 0." in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["run", "--fast", "train.py"])
    assert caught.value.code == BAD_INPUT
    assert capsys.readouterr().err == "firesteel: unrecognized arguments: --fast; see firesteel run --help\n"


def test_a_report_of_a_program_without_torch(program):
    program.with_name("plain_for_cli.py").write_text("print(1 + 1)\n")
    done = subprocess.run([sys.executable, "-m", "firesteel", "run", "--summary", "--report", "out.html",
                           "plain_for_cli.py"], capture_output=True, text=True, cwd=program.parent)
    assert (done.returncode, done.stdout) == (0, "2\n")
    assert done.stderr == "firesteel: the program did not import torch: nothing is written to out.html\n"
    assert not program.with_name("out.html").exists()


def test_as_a_process(program):
    command = [sys.executable, "-m", "firesteel.cli", "explain", "program_for_cli:bar"]
    command += ["--args", "torch.ones(4), -torch.ones(4)"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent)
    assert done.returncode == 0 and "2 graphs with 1 graph break" in done.stdout, done.stderr


def test_the_cache_is_shown_and_cleared(tmp_path, capsys):
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        disk_cache.put("learned", disk_cache.digest("a"), b"12345")
        disk_cache.put("learned", disk_cache.digest("b"), b"123")
        assert main(["cache", "info"]) == OK
        shown = capsys.readouterr().out
        assert str(tmp_path) in shown and "learned: 2 entries" in shown
        assert main(["cache", "clear"]) == OK
        assert capsys.readouterr().out == f"removed 2 entries from {tmp_path}\n"
        assert main(["cache", "info"]) == OK
        assert "empty" in capsys.readouterr().out


def test_a_cache_that_is_off_is_left_alone(tmp_path, capsys):
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        disk_cache.put("learned", disk_cache.digest("a"), b"12345")
    with config.patch(disk_cache=False, cache_dir=str(tmp_path)):
        assert main(["cache", "clear"]) == OK
    assert "switched off" in capsys.readouterr().out
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        assert disk_cache.get("learned", disk_cache.digest("a")) == b"12345"


def test_the_package_can_be_run() -> None:
    done = subprocess.run([sys.executable, "-m", "firesteel", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "explain" in done.stdout


def test_explain_takes_a_backend_and_dynamic(program, capsys):
    explain = ["explain", "program_for_cli:scaled", "--args", "torch.randn(5)"]
    assert main([*explain, "--backend", "inductor", "--dynamic", "yes", "--graphs"]) == OK
    assert "1 graph with 0 graph breaks" in capsys.readouterr().out
    assert main([*explain, "--backend", "nonsense"]) == BAD_INPUT
    assert "no backend of that name" in capsys.readouterr().err


def test_caches_are_packed_and_unpacked(tmp_path, capsys):
    first, second = disk_cache.digest("a"), disk_cache.digest("b")
    packed = str(tmp_path / "packed.cache")
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "one")):
        disk_cache.put("learned", first, b"12345")
        disk_cache.put("plan", second, b"123")
        assert main(["cache", "pack", packed]) == OK and "packed 2 entries" in capsys.readouterr().out
    with config.patch(disk_cache=True, cache_dir=str(tmp_path / "two")):
        assert main(["cache", "unpack", packed]) == OK
        assert "unpacked 2 entries" in capsys.readouterr().out
        assert disk_cache.get("learned", first) == b"12345" and disk_cache.get("plan", second) == b"123"
        other = tmp_path / "other.zip"
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("../../outside", b"foreign")
        damaged = tmp_path / "damaged.cache"
        damaged.write_bytes(Path(packed).read_bytes()[:-1])
        for wrong in (str(other), __file__, str(tmp_path / "nowhere"), str(damaged), str(tmp_path)):
            assert main(["cache", "unpack", wrong]) == BAD_INPUT
            assert capsys.readouterr().err.count("\n") == 1
    assert main(["cache", "pack"]) == main(["cache", "info", "file"]) == BAD_INPUT


def test_completion_knows_commands_and_options(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == OK
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("explain", "doctor", "graphs", "pack", "auto")), shell
    script = "source /dev/stdin; COMP_WORDS=(firesteel cache pa); COMP_CWORD=2; _firesteel; echo ${COMPREPLY[@]}"
    assert main(["completion", "bash"]) == OK
    done = subprocess.run(["bash", "-c", script], input=capsys.readouterr().out, capture_output=True, text=True)
    assert done.stdout == "pack\n", done.stderr


def test_doctor(capsys, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_CACHE_SECRET", "abracadabra")
    monkeypatch.setenv("FIRESTEEL_REMOTE_CACHE", "redis://:sesame@host")
    assert main(["doctor"]) == OK
    shown = capsys.readouterr().out
    assert "abracadabra" not in shown and "sesame" not in shown and "redis://...@host" in shown
    gpu = "GPU 0" if torch.cuda.is_available() else "GPU"
    assert all(f"{what}:" in shown for what in ("torch", "processor", gpu, "cache", "native guards", "a trial"))
    assert "it agrees with eager" in shown
    monkeypatch.setattr("firesteel.compile", lambda *_given, **_options: lambda x: x.sum())
    assert main(["doctor"]) == FAILED and "failed: AssertionError" in capsys.readouterr().out


def test_bench(program, capsys, monkeypatch):
    bench = ["bench", "program_for_cli:scaled", "--args", "torch.randn(5)", "--seconds", "0.01"]
    for way in ("eager", "firesteel"):
        assert main([*bench, "--only", way, "--json"]) == OK
        figures = json.loads(capsys.readouterr().out)[way]
        assert figures["calls"] >= 5 and figures["first_call"] > 0 and figures["call"] > 0
    ran = []

    def in_process(command, **_options):
        ran.append(command[command.index("--only") + 1])
        return types.SimpleNamespace(returncode=0, stderr="", stdout=json.dumps({ran[-1]: {
            "first_call": 1.5, "call": 0.002 / len(ran), "calls": 5, "memory": 20.0}}))

    monkeypatch.setattr(subprocess, "run", in_process)
    assert main([*bench, "--torch"]) == OK and ran == ["eager", "firesteel", "torch"]
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].split() == ["firesteel", "1.50", "s", "1", "ms", "2.00x", "20", "MiB"]
    assert main([*bench, "--seconds", "0"]) == BAD_INPUT
    assert main(["bench", "program_for_cli:missing", "--only", "eager"]) == BAD_INPUT


def test_report(program, capsys):
    names = {"page": "out.html", "json": "out.json", "trace": "trace.json"}
    assert main(["report", "program_for_cli:bar", "--args", "torch.ones(3), torch.ones(3)", "-o", names["page"],
                 "--json", names["json"], "--trace", names["trace"], "--calls", "1"]) == OK
    shown = capsys.readouterr().out
    assert shown.startswith("2 graphs, ") and "The page is out.html" in shown
    texts = {kind: program.with_name(name).read_text() for kind, name in names.items()}
    assert "if b.sum() &lt; 0:" in texts["page"] or "if b.sum() < 0:" in texts["page"]
    assert len(json.loads(texts["json"])["graphs"]) == 2 and "capture" in texts["trace"]
    assert main(["report", "program_for_cli:fails", "--args", "torch.ones(2)"]) == FAILED
    assert "ValueError: the program's own error" in capsys.readouterr().err
    for wrong in (["-o", "no_such_folder/out.html"], ["--calls", "0"], ["--args", "1, 2, 3"]):
        assert main(["report", "program_for_cli:bar", *wrong]) == BAD_INPUT
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_scripts_with_options_and_exits_of_their_own(program, capsys):
    program.with_name("options_for_cli.py").write_text(textwrap.dedent("""
        import argparse, sys, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, default=3)
        options = parser.parse_args()

        def f(x):
            return x + options.size

        def leaves(x):
            sys.exit(7)
        """))
    program.with_name("exits_for_cli.py").write_text("import sys\nsys.exit(5)\n")
    argv = list(sys.argv)
    assert main(["explain", "options_for_cli.py:f", "--args", "torch.ones(2)"]) == OK and sys.argv == argv
    assert "1 graph with 0 graph breaks" in capsys.readouterr().out
    for command in ("explain", "report"):
        assert main([command, "options_for_cli.py:leaves", "--args", "torch.ones(2)"]) == FAILED
        assert "ended itself: sys.exit(7)" in capsys.readouterr().err
    assert main(["explain", "exits_for_cli.py:f"]) == BAD_INPUT
    assert 'sys.exit(5)); put what does so behind if __name__ == "__main__"' in capsys.readouterr().err
