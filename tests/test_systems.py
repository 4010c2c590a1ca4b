"""Systems other than Linux: nothing that only Linux has is imported or called without looking, which is simulated."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

from reading_sources import nodes_of
from test_layering import trees  # noqa: F401 (a fixture)

ROOT = Path(__file__).resolve().parent.parent / "src" / "firesteel"
ONLY_SOME_SYSTEMS = {"fcntl", "grp", "pwd", "resource", "termios"}
"""Modules that Windows does not have: they are imported where their absence is handled."""
GUARDED_NAMES = {"register_at_fork", "fork", "getuid", "geteuid", "uname", "sched_getaffinity", "killpg"}
"""Functions of `os` that Windows does not have."""


def test_modules_of_some_systems_are_imported_where_their_absence_is_handled():
    found = []
    for path in ROOT.rglob("*.py"):
        nodes = nodes_of(path)
        handled = {id(node) for block in nodes if isinstance(block, ast.Try) for node in ast.walk(block)}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in handled:
                names = [item.name for item in node.names] if isinstance(node, ast.Import) else [node.module]
                found += [f"{path.name}:{node.lineno}" for name in names if name in ONLY_SOME_SYSTEMS]
    assert not found


def test_functions_of_some_systems_are_looked_for_before_they_are_called():
    found = []
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os" and \
                    node.attr in GUARDED_NAMES and f'hasattr(os, "{node.attr}")' not in text:
                found.append(f"{path.name}:{node.lineno}: os.{node.attr}")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "CDLL" and \
                    ast.unparse(node).startswith("ctypes.CDLL(None") and \
                    path.name != "systems.py":
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node)}")
    assert not found


def test_programs_run_where_only_some_of_it_exists(tmp_path):
    """torch is loaded first: only firesteel is to find itself on another system."""
    code = f"""
        import ctypes, os, sys, threading
        import numpy, torch

        class Library(ctypes.CDLL):
            def __init__(self, name, *args, **kwargs):
                if name is None or "libm" in str(name):
                    raise TypeError("there is no such library here")
                super().__init__(name, *args, **kwargs)

        ctypes.CDLL = Library
        for name in {sorted(GUARDED_NAMES)!r}:
            delattr(os, name)
        for name in {sorted(ONLY_SOME_SYSTEMS)!r}:
            sys.modules[name] = None
        sys.platform = "win32"
        import warnings
        warnings.simplefilter("ignore")
        import firesteel as fs
        from firesteel import support
        support.facts = lambda: support.Facts((3, 13), "2.15.0", system="win32", machine="AMD64")

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)

            def forward(self, x):
                if x.sum() > 100:
                    return x
                return torch.relu(self.linear(x))

        model, x = Model(), torch.ones(2, 3)
        for backend in None, "native", "eager", "aot_eager":
            compiled = fs.compile(model, backend=backend)
            for _ in range(60):  # native guards would come after some calls
                out = compiled(x)
            torch.testing.assert_close(out, model(x))
        out.sum().backward()
        results = []
        thread = threading.Thread(target=lambda: results.append(fs.compile(lambda x: x + 1)(x)))
        thread.start()
        thread.join()
        assert torch.equal(results[0], x + 1)
        assert fs.explain(model)(x).graph_count == 2
        program = fs.export(torch.nn.Linear(3, 3), (x,))
        fs.export.save(program, sys.argv[1])
        torch.testing.assert_close(fs.export.load(sys.argv[1]).module()(x), program.module()(x))
        loaded = [name for name in sys.modules if name.startswith("llvmlite")]
        print("fine", loaded)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "program.fs")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine []"
