"""The ``.ll`` files of the package: LLVM takes all of them, and all of them are installed."""

from __future__ import annotations

import glob
import tomllib
from pathlib import Path

import pytest

import firesteel
from firesteel.kernels.cpu import bounds
from firesteel.kernels.cpu.math_functions import integer_power
from firesteel.kernels.cpu.scopes import Emitter
from firesteel.kernels.cpu.target import host, llvm_binding
from firesteel.kernels.gpu import driver
from firesteel.kernels.host import machine
from firesteel.kernels.llvm_writer import Function, Module
from firesteel.kernels.shared_object import helpers, interface, numbers
from firesteel.kernels.shared_object.checked_code import PackageModule
from firesteel.kernels.shared_object.gpu import GpuKernels
from firesteel.native import checker, templates
from firesteel.native.tensors import tensor_layout

PACKAGE = Path(firesteel.__file__).parent
FILES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.ll"))


def shared_object():
    """A model for a GPU without weights, whose program is left out."""
    module = PackageModule()
    numbers.add_helpers(module)
    helpers.add_helpers(module)
    interface.add_interface(module, ["x"], ["y"], [], interface.WeightsFile(b"", 0), host(), "{}", 0, GpuKernels(90))
    module.functions.append("declare i32 @fs.run(ptr, ptr, ptr)")
    return module.text()


def checked_kernel():
    """What kernels call that check their accesses, and those with powers of integers."""
    module = Module("PREFIX.")
    bounds.add_checks(module, {})
    emitter = Emitter(module, Function("void @PREFIX()"), host())
    integer_power(emitter, [emitter.integer(2), emitter.integer(3)])
    emitter.block.terminator = "ret void"
    module.functions.append(emitter.function)
    return module.text("kernel")


TEXTS = {
    "checker": lambda: checker.source(tensor_layout()),
    "checker without tensors": lambda: checker.source(None),
    "host machine": lambda: machine.source(16),
    "launcher": lambda: driver.launcher_text("launch"),
    "shared object": shared_object,
    "checked kernel": checked_kernel,
}


@pytest.mark.parametrize("name", TEXTS)
def test_llvm_takes_them(name):
    llvm = llvm_binding()
    module = llvm.parse_assembly(TEXTS[name](), llvm.create_context())
    module.verify()
    assert any(not function.is_declaration for function in module.functions)


def test_all_of_them_are_tried(monkeypatch):
    read = set()

    def note(path, **options):
        read.add(str(Path(path).relative_to(PACKAGE)))
        return open(path, **options)

    monkeypatch.setattr(templates, "open", note, raising=False)
    for text in TEXTS.values():
        text()
    assert sorted(read) == FILES and len(FILES) > 5


def test_what_nobody_fills_in_is_an_error():
    with pytest.raises(KeyError):
        templates.filled("native/checker.ll", {})


def test_they_are_installed():
    project = PACKAGE.parent.parent / "pyproject.toml"
    if not project.exists():
        pytest.skip("not a checkout")
    patterns = tomllib.loads(project.read_text())["tool"]["setuptools"]["package-data"]["firesteel"]
    found = {path for pattern in patterns for path in glob.glob(pattern, root_dir=PACKAGE, recursive=True)}
    assert found.issuperset(FILES)
