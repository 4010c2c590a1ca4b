"""Private names of torch: all that the sources use are listed, with the releases that have them, and may be missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from firesteel.torch_compat import c_interface, private_names
from firesteel.torch_compat.private_names import ALL, CONVENTIONS, PRIVATE_NAMES, Need, is_there
from reading_sources import nodes_of
from test_layering import torch_names, trees  # noqa: F401 (a fixture)

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
COMPAT = ROOT / "src" / "firesteel" / "torch_compat"
PYTHONS = frozenset("""
    _active _at_fork_reinit _exit _count_elements _current_frames _fields _getframe _getframemodulename _heapify_max
    _heappop_max _heapreplace_max _inline_cache_entries _asdict _nb_ops _reduce_ex _run_module_as_main
    _varname_from_oparg _cfn""".split())
"""Private names of Python's own library and of llvmlite."""
TORCHS = frozenset({"_version", "_base", "_schema", "_codegen", "_parameters", "_buffers", "_backward_hooks", "_cdata"})
"""Names of torch's that objects of ours may have as well, as attributes of their own."""


ATTRIBUTE = re.compile(r"(?<![\w.])(?!self\.|cls\.|super\(\)\.)[\w.()\[\]]*[\w)\]]\.(_[a-z]\w*)")
DEFINITION = re.compile(r"(?:def |class |self\.|cls\.|for |, |^ *|slots__ = \(.*[\"'])(_[a-z]\w*)", re.M)
TEXT = re.compile(r"\"\"\".*?\"\"\"|#[^\n]*|\"[^\"\n]*\"|'[^'\n]*'", re.S)
"""Docstrings, comments and strings. Reading half a million words with `ast` takes ten times as long."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def listed(name: str) -> bool:
    return any(known == name or known.startswith(name + ".") for known in PRIVATE_NAMES)


def test_dotted_names_are_listed():
    used = {name for path in SOURCES if path.is_relative_to(COMPAT) for _, name in torch_names(nodes_of(path))
            if name.startswith("torch.") and any(map(is_private, name.split(".")))}
    assert len(used) > 100
    # An operator, or a method of what is listed, is as good as what is listed.
    missing = {name for name in used
               if not any(map(listed, (name, name.rpartition(".")[0]))) and not name.endswith((".__file__", "._op_dk"))}
    assert not missing


def test_attributes_are_listed():
    texts = {path: path.read_text() for path in SOURCES}
    own = {name for text in texts.values() for name in DEFINITION.findall(text)}
    known = {part for name in PRIVATE_NAMES for part in name.split(".")} | CONVENTIONS | PYTHONS | own
    operators = {name.split(".")[3] for name in PRIVATE_NAMES if name.startswith("torch.ops.aten.")}
    examples = ROOT / "src" / "firesteel" / "export" / "examples"  # as users write them, with torch._check
    for path, text in texts.items():
        used = {name for name in ATTRIBUTE.findall(TEXT.sub(" ", text)) if not name.startswith("_firesteel_")}
        allowed = known if path.is_relative_to(COMPAT) else own - TORCHS | PYTHONS | operators
        assert path.is_relative_to(examples) or used <= allowed, f"{path}: list {used - allowed} in private_names.py"


def test_functions_of_torchs_libraries_are_listed():
    for name in (*c_interface.FUNCTIONS, *c_interface.CUDA_FUNCTIONS, *c_interface.STABLE_FUNCTIONS):
        assert c_interface.symbol(name) in PRIVATE_NAMES
    mentioned = {path: re.findall(r"aoti_torch_\w+|\b_ZNK?\d\w{9,}", path.read_text()) for path in SOURCES}
    assert not {path for path, names in mentioned.items() if names and not path.is_relative_to(COMPAT)}


def test_this_torch_has_what_is_listed_for_it():
    version = private_names._version(torch.__version__)
    if not private_names._version(ALL[0]) <= version <= private_names._version(ALL[1]):
        pytest.skip("nobody has looked at this torch")
    for name, (need, (first, last)) in PRIVATE_NAMES.items():
        expected = private_names._version(first) <= version <= private_names._version(last)
        if need is not Need.GPU or torch.version.cuda is not None:
            assert is_there(name) is expected, name


def test_names_that_are_gone_are_said():
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.missing_names", "--quick", "--names", "torch._C._dispatch_keys",
         "torch.Tensor._version", "torch.fx.Graph()._insert"],
        cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0 and "message 3" in out.stdout, out.stdout + out.stderr


def test_the_error_names_what_is_missing(monkeypatch):
    monkeypatch.setattr(private_names, "is_there", lambda name: name != "torch._C._dispatch_keys")
    with pytest.raises(ImportError, match=r"has no torch\._C\._dispatch_keys, .* install torch 2\.11") as raised:
        private_names.check()
    assert raised.value.names == ("torch._C._dispatch_keys",)
