"""Object code in memory: references inside, to the outside, to constants and to variables."""

from __future__ import annotations

import ctypes
import math
import platform

import llvmlite.binding as llvm
import pytest

from firesteel.native.loader import LoadError, load_code, load_object

SOURCE = """
@table = private unnamed_addr constant [4 x double] [double 1.0, double 2.0, double 4.0, double 8.0]
@counter = global i64 40
declare double @cos(double)
declare i64 @strlen(ptr)
@text = private unnamed_addr constant [6 x i8] c"steel\\00"

define double @pick(i64 %i) {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %at
  %result = call double @inner(double %value)
  ret double %result
}
define internal double @inner(double %x) noinline {
  %y = call double @cos(double %x)
  ret double %y
}
define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define i64 @length() {
  %n = call i64 @strlen(ptr @text)
  ret i64 %n
}
define ptr @function() {
  ret ptr @cos
}
"""


def emit(text):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.verify()
    return target.emit_object(module)


def call(loaded, name, result, *arguments):
    kinds = [ctypes.c_int64] * len(arguments)
    return ctypes.CFUNCTYPE(result, *kinds)(loaded.address(name))(*arguments)


@pytest.fixture(params=["own loader", "LLVM"])
def loader(request, monkeypatch):
    """Our own loader knows x86-64; on other machines LLVM's is used, which can be tried on this one."""
    if request.param == "LLVM":
        monkeypatch.setattr(platform, "machine", lambda: "another")


def test_references(loader):
    loaded = load_code(emit(SOURCE), llvm)
    assert [call(loaded, "pick", ctypes.c_double, i) for i in range(4)] == [math.cos(2.0**i) for i in range(4)]
    assert [call(loaded, "count", ctypes.c_int64) for _ in range(3)] == [41, 42, 43]
    assert call(loaded, "length", ctypes.c_int64) == 5
    cos = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(call(loaded, "function", ctypes.c_void_p))
    assert cos(0.5) == math.cos(0.5)
    assert loaded.address("not there") == 0


def test_objects_are_independent(loader):
    data = emit(SOURCE)
    first, second = load_code(data, llvm), load_code(data, llvm)
    call(first, "count", ctypes.c_int64)
    assert call(second, "count", ctypes.c_int64) == 41


def test_unknown_names_and_damaged_objects_are_refused():
    with pytest.raises(LoadError, match="(cos|strlen) is not in this process"):
        load_object(emit(SOURCE), lambda name: None)
    with pytest.raises(LoadError, match="ELF"):
        load_object(b"something else" * 10, lambda name: None)
