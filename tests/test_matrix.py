"""scripts/matrix: cells, steps, results that are kept, and the table."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from fuzz.parts import parts

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def matrix():
    spec = importlib.util.spec_from_file_location("firesteel_matrix", ROOT / "scripts" / "matrix.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_cells(matrix):
    from firesteel import support

    cells = [matrix.Cell.of(text) for text in matrix.CELLS]
    pythons = {tuple(map(int, cell.python.split("."))) for cell in cells}
    assert {min(pythons), max(pythons)} == set(support.PYTHONS)
    assert max(tuple(map(int, cell.torch.split("."))) for cell in cells) == support.TORCHES[1]
    assert f"torch=={matrix.PINNED}." in (ROOT / "constraints.txt").read_text()
    with pytest.raises(SystemExit, match="3.13"):
        matrix.Cell.of("3.13")


def test_interpreters_are_found(matrix, monkeypatch):
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setenv(f"PYTHON{version.replace('.', '_')}", sys.executable)
    assert matrix.find_python(version) == sys.executable
    monkeypatch.setenv("PYTHON3_99", sys.executable)  # not of that version
    assert matrix.find_python("3.99") is None


def test_another_torch_is_not_pinned(matrix):
    text = "torch==2.13.0\ntorchvision==0.29.2\ntriton==3.6.0\n"
    assert matrix.constraints("2.13", text, triton_of_torch=False) == text
    assert matrix.constraints("2.13", text, triton_of_torch=True) == "torch==2.13.0\ntorchvision==0.29.2\n"
    assert matrix.constraints("2.15", text, triton_of_torch=False) == "torchvision==0.29.2\n"


def test_every_test_and_every_part_is_in_a_step(matrix):
    steps = matrix.steps([], 2000, 2)
    named = {argument for step in steps for argument in step.command}
    for path in (ROOT / "tests").rglob("test_*.py"):
        folders = path.relative_to(ROOT).parts
        assert "/".join(folders[:2]) in named, path
    assert sum(step.programs for step in steps) >= 2000
    assert {step.name.partition("/")[2] for step in steps if step.programs} == set(parts())
    selected = matrix.steps(["tests/test_cli.py", "-k", "help"], 0, 1)
    assert [step.name for step in selected] == ["selected tests"]
    assert selected[0].command[-3:] == ("tests/test_cli.py", "-k", "help")


def test_outcomes_are_read(matrix, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\ndef test_good(): pass\n\n\ndef test_bad(): assert False\n\n\n"
        "@pytest.mark.skip(reason='no GPU')\ndef test_skipped(): pass\n")
    step = matrix.Step("mine", ("-m", "pytest", "-q", "-c", "/dev/null", str(tmp_path)))
    result = matrix.run_step(step, sys.executable, tmp_path, tmp_path / "log.txt")
    assert result.passed == 1 and result.skipped == {"no GPU": 1}
    assert [name.rpartition("::")[2] for name in result.failed] == ["test_bad"]
    broken = matrix.run_step(matrix.Step("mine", ("-c", "raise SystemExit(3)")), sys.executable, tmp_path,
                             tmp_path / "log.txt")
    assert broken.failed == ["mine ended with status 3"]


def test_findings_are_read(matrix):
    step = matrix.Step("programs/numbers", (), 10)
    text = "mismatch numbers_17_native-dynamic: 2 differences\n    call 1: ...\nhang numbers_8_native: 1 differences\n"
    assert matrix.read_programs(step, text, 1).failed == ["mismatch numbers_17_native-dynamic", "hang numbers_8_native"]
    assert matrix.read_programs(step, "", 0).failed == []
    assert matrix.read_programs(step, "Traceback", 2).failed == ["programs/numbers ended with status 2"]


def test_results_are_kept_until_sources_change(matrix, tmp_path):
    path, step = tmp_path / "results.json", matrix.Step("mine", ("-m", "pytest"))
    matrix.Kept(path, "before").put(step, matrix.Result(passed=3, skipped={"no GPU": 1}))
    result = matrix.Result(passed=3, skipped={"no GPU": 1}, sources="before")
    assert matrix.Kept(path, "before").get(step) == result
    assert matrix.Kept(path, "before").get(matrix.Step("mine", ("-m", "pytest", "tests"))) is None
    assert matrix.Kept(path, "after").get(step) is None
    assert matrix.Kept(path, "after").get(step, earlier=True) == result
    matrix.Kept(path, "before").put(step, matrix.Result(passed=3, failed=["a::b"]))
    assert matrix.Kept(path, "after").get(step, earlier=True) is None
    path.write_text("damaged")
    assert matrix.Kept(path, "before").get(step) is None


def test_table(matrix):
    text = matrix.table({
        matrix.Cell("3.13", "2.15"): [
            matrix.Result(passed=5, skipped={"no GPU": 2}, failed=["a::b"], seconds=90, sources="before"),
            matrix.Result(programs=100, failed=["crash numbers_1_native"], seconds=30, sources="now")],
        matrix.Cell("3.14", "2.15"): "there is no Python 3.14",
    }, "now", 3)
    assert "| 3.13 | 2.15 | 5 | 1 | 2 | 100 | 1 | 2 |" in text
    assert "| 3.14 | 2.15 | not run: there is no Python 3.14 |" in text
    assert "3.13/2.15: 1 of 3 steps were not run\n3.13/2.15: 1 of 3 steps ran with earlier sources" in text
    assert "3.13/2.15: failed: a::b" in text and "3.13/2.15: skipped 2: no GPU" in text


def test_environments_are_outside_of_the_checkout(matrix, capsys):
    with pytest.raises(SystemExit):
        matrix.main(["--folder", str(ROOT / "matrix"), "--table"])
    assert "inside of the checkout" in capsys.readouterr().err
