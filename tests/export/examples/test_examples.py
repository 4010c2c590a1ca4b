"""The examples of what can be exported: some work and equal eager, the others say why not; the page is up to date."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_flatten

import firesteel as fs
from firesteel.export import errors, examples
from firesteel.export.examples.page import page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "export_examples.md"


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "non_strict"])
@pytest.mark.parametrize("name", [found.name for found in examples.every() if found.supported])
def test_supported_ones_equal_eager(name: str, strict: bool) -> None:
    torch.manual_seed(0)
    found = examples.get(name)
    module = found.module()
    eager = copy.deepcopy(module) if name != "operator_of_your_own" else module
    if found.strict_only and not strict:
        with pytest.raises(fs.errors.FiresteelError, match="capture_branches|numpy"):
            fs.export.export(module, found.args(), found.kwargs(), dynamic_shapes=found.dynamic_shapes, strict=False)
        return
    program = fs.export.export(module, found.args(), found.kwargs(), dynamic_shapes=found.dynamic_shapes, strict=strict)
    program.validate()
    exported = program.module()
    for make in (found.args, *found.others):
        args, kwargs = make(), found.kwargs()
        same, again = copy.deepcopy((args, kwargs))
        (got, spec), (want, wanted) = map(tree_flatten, (exported(*args, **kwargs), eager(*same, **again)))
        assert spec == wanted
        for one, other in zip(got, want, strict=True):
            assert one == other if isinstance(one, str) else torch.testing.assert_close(one, other) is None
        torch.testing.assert_close(args, same)


@pytest.mark.parametrize("name", [found.name for found in examples.every() if not found.supported])
def test_unsupported_ones_say_why(name: str) -> None:
    found = examples.get(name)
    with pytest.raises(fs.errors.FiresteelError) as caught:
        fs.export.export(found.module(), found.args(), found.kwargs(), dynamic_shapes=found.dynamic_shapes)
    text = str(caught.value)
    assert found.error in text
    file, first = inspect.getsourcefile(found.module), inspect.getsourcelines(found.module)
    lines = range(first[1], first[1] + len(first[0]))
    named = [int(number) for number in re.findall(rf"{re.escape(Path(str(file)).name)}[:\", line]*(\d+)", text)]
    assert any(number in lines for number in named), text
    if found.rewrite:
        assert examples.get(found.rewrite).supported
        assert f"fs.export.examples.get({found.rewrite!r})" in text


def test_errors_name_examples_that_exist() -> None:
    names = {errors.BRANCH_ON_SIZES, *(name for _, name in errors._EXAMPLES)}
    assert names and all(fs.export.examples.get(name).supported for name in names)
    assert pickle.loads(pickle.dumps(fs.export.ExportError("a loop depends on the value of a tensor"))).hint.count(
        "loop_until") == 1


def test_examples_are_found() -> None:
    assert fs.export.examples is examples
    assert "cond_on_a_tensor" in [found.name for found in examples.search("torch.cond")]
    assert [found.name for found in examples.search("printing")] == ["print_in_forward"]
    assert "torch.map" in examples.tags()
    with pytest.raises(KeyError, match="nothing"):
        examples.get("nothing")


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m firesteel.export.examples > docs/export_examples.md"
