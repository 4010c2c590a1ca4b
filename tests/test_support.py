"""The gate: what is said and done on each Python, torch and platform, simulated through its facts."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
import warnings
from pathlib import Path

import pytest
import torch

import firesteel as fs
from firesteel import support
from firesteel.errors import FiresteelWarning, UnsupportedError
from firesteel.support import Facts, judge

ROOT = Path(__file__).resolve().parent.parent
X = torch.arange(4.0)


class Add(torch.nn.Module):
    def forward(self, x):
        return x + 1


@pytest.fixture
def pretend(monkeypatch):
    """Let the process have other facts; nothing was said yet."""
    monkeypatch.setattr(support, "_said", set())

    def change(python=(3, 11), torch="2.13.0", **others):
        for name in support.STAND_INS:  # what was imported before hides the gate, which stands before the imports
            monkeypatch.delitem(vars(fs), name, raising=False)
        for name in ("facts", "visible_facts"):
            monkeypatch.setattr(support, name, lambda: Facts(python, torch, **others))

    return change


def said(action):
    """What `action` returns and the sentences that it warned with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, [str(one.message) for one in caught if issubclass(one.category, FiresteelWarning)]


@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13)])
@pytest.mark.parametrize("version", ["2.11.0", "2.12.1+cpu", "2.13.0", "2.14.0a0+gitabc", "2.15.0+cu132"])
def test_supported(python, version):
    assert judge(Facts(python, version)) == support.Verdict()


def test_this_process_is_supported():
    assert support.verdict() == support.Verdict()
    assert support.facts().torch == torch.__version__ and support.facts().python == sys.version_info[:2]


REFUSED = {
    "Python 3.10": Facts((3, 10), "2.13.0"),
    "Python 3.15": Facts((3, 15), "2.15.0"),
    "Python 3.13t": Facts((3, 13), "2.15.0", free_threaded=True),
    "Python 3.14 is experimental": Facts((3, 14), "2.15.0"),
    "torch 2.10.2": Facts((3, 12), "2.10.2"),
    "torch 1.13.1": Facts((3, 12), "1.13.1"),
    "pypy": Facts((3, 11), "2.13.0", implementation="pypy"),
}


@pytest.mark.parametrize("named", REFUSED)
def test_refused(named):
    verdict = judge(REFUSED[named])
    assert not verdict.compiles and not verdict.machine_code
    assert named in verdict.sentence and "run uncompiled" in verdict.sentence
    assert "CPython 3.11 to 3.13 with torch 2.11 to 2.15" in verdict.sentence
    assert "\n" not in verdict.sentence


@pytest.mark.parametrize("system, machine, named", [
    ("darwin", "arm64", "macOS on arm64"), ("win32", "AMD64", "Windows on AMD64"), ("linux", "ppc64le", "Linux on ppc"),
    ("linux", "aarch64", "Linux on aarch64 is experimental"),
])
def test_platforms_without_machine_code(system, machine, named):
    verdict = judge(Facts((3, 13), "2.15.0", system=system, machine=machine))
    assert verdict.compiles and not verdict.machine_code
    assert named in verdict.sentence and "operator by operator" in verdict.sentence


@pytest.mark.parametrize("version", ["2.16.0", "2.16.0.dev20261101", "3.0", "mine"])
def test_an_untested_newer_torch_goes_on(version):
    verdict = judge(Facts((3, 13), version))
    assert verdict.compiles and verdict.machine_code and f"not been tested with torch {version}" in verdict.sentence


@pytest.mark.parametrize("facts", REFUSED.values(), ids=list(REFUSED))
def test_refused_functions_run_uncompiled_and_it_is_said_once(pretend, facts):
    pretend(**vars(facts))

    def f(x):
        return x + 1

    compiled, sentences = said(lambda: fs.compile(f, fullgraph=True))
    assert compiled is f and sentences == [judge(facts).sentence]
    assert said(lambda: fs.compile(mode="max-autotune")(f)) == (f, [])
    model = Add()
    assert said(lambda: fs.compile(model)) == (model, [])


@pytest.mark.parametrize("use", [
    lambda: fs.export.export(Add(), (X,)), lambda: fs.export.load("nothing"), lambda: fs.explain(Add())(X),
    lambda: fs.capture_graph(Add())(X), lambda: fs.CompileProfiler(),
])
def test_what_has_no_uncompiled_form_raises(pretend, use):
    pretend(python=(3, 15))
    with pytest.raises(UnsupportedError, match="firesteel does not work on Python 3.15"):
        use()


def test_markers_of_programs_do_nothing_where_nothing_is_compiled(pretend):
    pretend(torch="2.4.0")

    @fs.disable
    def f(x):
        fs.graph_break()
        fs.mark_dynamic(x, 0)
        return x + 1 if not fs.is_compiling() else None

    @fs.disable(recursive=False)
    def g(x):
        return x

    assert f(X).tolist() == [1, 2, 3, 4] and g(X) is X
    assert fs.allow_in_graph(f) is f and fs.run(f) is f and fs.reset() is None


def test_export_itself_asks_the_gate(pretend):
    from firesteel.export import export

    pretend(torch="2.4.0")
    with pytest.raises(UnsupportedError, match="torch 2.4.0"):
        export(Add(), (X,))


def test_the_setting_raises(pretend):
    pretend(python=(3, 15))
    with fs.config.patch(on_unsupported="raise"), pytest.raises(UnsupportedError, match="Python 3.15"):
        fs.compile(Add())
    pretend(system="darwin", machine="arm64")
    with fs.config.patch(on_unsupported="raise"):
        with pytest.raises(UnsupportedError, match="macOS"):
            fs.compile(Add())
        assert fs.compile(Add(), backend="eager")(X).tolist() == [1, 2, 3, 4]


def test_the_setting_tries(pretend):
    pretend(python=(3, 14))
    with fs.config.patch(on_unsupported="try"):
        compiled, sentences = said(lambda: fs.compile(Add()))
        assert compiled._firesteel_original is not None and "but firesteel goes on" in sentences[0]
    pretend(machine="aarch64")
    with fs.config.patch(on_unsupported="try"):
        compiled, sentences = said(lambda: fs.compile(lambda x: x + 1))
        assert compiled._firesteel_unit.compiler.backend_name == "native" and "Linux on aarch64" in sentences[0]
    pretend(python=(3, 14), free_threaded=True)
    with fs.config.patch(on_unsupported="try"):
        model = Add()
        assert said(lambda: fs.compile(model))[0] is model


def test_without_machine_code_the_eager_backend_runs_graphs(pretend):
    pretend(system="darwin", machine="arm64")
    compiled, sentences = said(lambda: fs.compile(lambda x: x + 1))
    assert compiled._firesteel_unit.compiler.backend_name == "eager" and len(sentences) == 1
    assert said(lambda: compiled(X).tolist()) == ([1, 2, 3, 4], [])
    assert said(lambda: fs.compile(Add(), backend="eager")(X).tolist()) == ([1, 2, 3, 4], [])
    program = fs.export.export(Add(), (X,))
    with pytest.raises(UnsupportedError, match="no machine code for macOS"):
        fs.export.package(program, "never.fs")


def test_without_machine_code_the_native_backend_itself_runs_graphs(pretend):
    from firesteel.backends.native import native, torch_backend

    pretend(system="win32", machine="AMD64")
    graph = torch.fx.symbolic_trace(Add())
    (result,), _ = said(lambda: [native(graph, [X])(X)])
    assert result.tolist() == [1, 2, 3, 4]
    run, sentences = said(lambda: torch_backend(graph, [X]))
    assert run(X).tolist() == [1, 2, 3, 4] and "Windows" in sentences[0]


def test_packages_are_for_one_kind_of_machine(pretend, monkeypatch):
    from firesteel.export.packages import packing

    pretend(machine="aarch64")
    monkeypatch.setattr(packing, "host_architecture", lambda: "aarch64")
    with fs.config.patch(on_unsupported="try"):
        program = said(lambda: fs.export.export(Add(), (X,)))[0]
        with pytest.raises(UnsupportedError, match="this machine is aarch64"):
            fs.export.package(program, "never.fs")


def test_an_untested_torch_is_said_once(pretend):
    pretend(torch="2.16.0")
    compiled, sentences = said(lambda: fs.compile(lambda x: x + 1, backend="eager"))
    assert len(sentences) == 1 and "torch 2.16.0" in sentences[0]
    assert said(lambda: compiled(X).tolist()) == ([1, 2, 3, 4], [])
    assert said(lambda: fs.export.export(Add(), (X,)))[1] == []
    with fs.config.patch(on_unsupported="raise"):  # it is not unsupported
        fs.compile(lambda x: x)


@pytest.mark.parametrize("torch_version", ["2.10.0", "2.16.0"])
def test_it_is_said_where_the_program_compiles(pretend, torch_version):
    pretend(torch=torch_version)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fs.compile(lambda x: x)
    assert [warning.filename for warning in caught] == [__file__]


def test_nothing_of_the_compiler_is_imported_where_it_is_refused():
    """The modules of the compiler may not be importable there."""
    code = """
        import sys
        import firesteel as fs
        from firesteel import support
        support.facts = support.visible_facts = lambda: support.Facts((3, 15), "2.15.0")
        assert fs.compile(len) is len
        try:
            fs.export(len, ())
        except fs.errors.UnsupportedError as error:
            print(error)
        print([name for name in sys.modules if name.startswith(("firesteel.capture", "firesteel.runtime"))])
        """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "does not work on Python 3.15" in done.stdout and done.stdout.endswith("\n[]\n")


def test_metadata_says_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest, newest = (".".join(map(str, version)) for version in support.PYTHONS)
    assert project["requires-python"] == f">={oldest}"
    named = [match[1] for line in project["classifiers"] if (match := re.fullmatch(r".*Python :: (3\.\d+)", line))]
    assert named[0] == oldest and named[-1] == newest
    assert f"torch>={'.'.join(map(str, support.TORCHES[0]))}" in project["dependencies"]
    assert {"gpu", "dev", "docs"} <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("page", ["README.md", "docs/support.md"])
def test_the_tables_say_the_same(page):
    rows = dict(re.findall(r"^\| (Python|torch) \| ([^|]+) \|", (ROOT / page).read_text(), re.MULTILINE))
    oldest, newest = support.PYTHONS
    pythons = [f"3.{minor}" for minor in range(oldest[1], newest[1] + 1)]
    assert rows["Python"] == "CPython " + ", ".join(pythons)
    assert rows["torch"] == " to ".join(".".join(map(str, version)) for version in support.TORCHES)
