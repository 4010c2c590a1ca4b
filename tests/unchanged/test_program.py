"""Programs run by `firesteel run`: what they see, how they end, and what is printed."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap

import pytest

from firesteel.cli import BAD_INPUT, main
from firesteel.unchanged import program


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for programs, and everything that running one changes in this process put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["the command's own", *sys.path])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # process groups of other tests put in theirs
    return tmp_path


def write(folder, text, name="program.py"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return name


def test_a_script_sees_what_it_sees_under_python(folder, capsys):
    write(folder, "VALUE = 3", "beside.py")
    script = write(folder, """
        import pickle, sys
        from beside import VALUE

        class Thing:
            pass

        assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals() and __spec__ is None
        assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
        print(VALUE, sys.argv, __file__, sys.path[0])
    """)
    try:
        assert program.run_script(script, ["--epochs", "3"]) == 0
    finally:
        sys.modules.pop("beside", None)
    assert capsys.readouterr().out == f"3 ['program.py', '--epochs', '3'] {folder / 'program.py'} {folder}\n"


def test_a_program_on_standard_input(folder, monkeypatch, capsys):
    text = b"import sys\nprint(sys.argv, __name__, __file__, repr(sys.path[0]), __spec__)\n1 / 0\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["run", "-", "--epochs", "3"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "['-', '--epochs', '3'] __main__ <stdin> '' None\n"
    assert shown.err.splitlines()[1:2] == ['  File "<stdin>", line 3, in <module>'] and "ZeroDivision" in shown.err


def test_packages_run_with_relative_imports(folder, capsys):
    write(folder, "", "some_package/__init__.py")
    write(folder, "VALUE = 4", "some_package/part.py")
    write(folder, "from .part import VALUE; import sys; print(VALUE, __package__, sys.argv[1:])",
          "some_package/__main__.py")
    assert program.run_module("some_package", ["x"]) == 0
    assert capsys.readouterr().out == "4 some_package ['x']\n"
    write(folder, "print('a folder', __name__)", "tool/__main__.py")
    assert program.run_script("tool", []) == 0
    assert capsys.readouterr().out == "a folder __main__\n"


@pytest.mark.parametrize("text, code", [("import sys; sys.exit(7)", 7), ("raise SystemExit('bye')", "bye"),
                                        ("import argparse; argparse.ArgumentParser().parse_args()", 2)])
def test_exits_are_the_programs(folder, text, code):
    with pytest.raises(SystemExit) as caught:
        program.run_script(write(folder, text), ["--unknown"])
    assert caught.value.code == code


def test_errors_show_the_program_alone(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # torch.distributed puts its own there
    assert program.run_script(write(folder, "def f():\n    raise ValueError('mine')\nf()\n"), []) == 1
    shown = capsys.readouterr().err
    assert shown.splitlines()[1].startswith(f'  File "{folder / "program.py"}", line 3') and "firesteel" not in shown
    assert shown.endswith("ValueError: mine\n") and sys.last_value.args == ("mine",)
    assert program.run_script(write(folder, "x = ("), []) == 1
    shown = capsys.readouterr().err
    assert "was never closed" in shown and "Traceback" not in shown
    seen = []
    text = "import sys; sys.excepthook = lambda *given: seen.append(given[0]); 1 / 0"
    (folder / "hook.py").write_text("import builtins; seen = builtins._seen; " + text)
    import builtins

    builtins._seen = seen
    try:
        assert program.run_script("hook.py", []) == 1 and seen == [ZeroDivisionError]
    finally:
        del builtins._seen
    with pytest.raises(KeyboardInterrupt):
        program.run_script(write(folder, "raise KeyboardInterrupt"), [])


@pytest.mark.parametrize("arguments, text", [
    (["run"], "run needs a script"), (["run", "nowhere.py"], "there is no file nowhere.py"),
    (["run", "-m", "no_such_module"], "there is no module 'no_such_module'"),
    (["run", "-m"], "run needs a script"), (["run", "--report", "no/such/folder/x.html", "a.py"], "there is no folder"),
])
def test_bad_input(folder, capsys, monkeypatch, arguments, text):
    monkeypatch.setattr(program, "prepare", lambda **_options: None)
    assert main(arguments) == BAD_INPUT
    shown = capsys.readouterr().err
    assert text in shown and shown.count("\n") == 1


def test_in_a_process(tmp_path):
    """Torch is imported when the program does it, children of multiprocessing are prepared, the report is written."""
    (tmp_path / "worker.py").write_text(textwrap.dedent("""
        def work(x):
            import torch, firesteel
            return torch.compile(lambda x: x + 1)(torch.tensor(x)).item(), firesteel.is_installed()
    """))
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import multiprocessing, os, sys

        assert "torch" not in sys.modules
        import torch
        from worker import work

        if __name__ == "__main__":
            assert torch.compile(lambda x: x * 2, fullgraph=True)(torch.ones(2)).sum() == 4
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(work, (1,)), "torch._dynamo.symbolic_convert" in sys.modules, sys.argv[1:])
            child = os.fork()
            if child:
                os.waitpid(child, 0)  # it comes to the end of the program too, and writes nothing
                assert not os.path.exists("out.json") and not os.path.exists("out.html")
            sys.exit(5)
    """))
    command = [sys.executable, "-m", "firesteel", "run", "--summary", "--report", "out.html", "--json", "out.json",
               "program.py", "--report", "mine"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 5, done.stderr
    assert done.stdout == "(2, True) False ['--report', 'mine']\n"
    assert (tmp_path / "out.html").stat().st_size > 1000 and "graphs" in (tmp_path / "out.json").read_text()
    assert done.stderr.count("1 graph, 0 breaks") == 1, done.stderr
