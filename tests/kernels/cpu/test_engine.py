"""Compiling kernels: equal ones share code, and code is found again on the disk."""

from __future__ import annotations

import threading

import pytest
import torch

from firesteel import config, disk_cache
from firesteel.kernels import ir
from firesteel.kernels.cpu import engine, object_emitter
from firesteel.kernels.cpu.engine import compile_kernels
from kernels.cpu.running import axis, kernel, launcher

F = torch.float32


def scaled(name: str, factor: float, variable: str = "i") -> tuple[ir.Kernel, torch.Tensor, torch.Tensor]:
    x, out = torch.randn(50), torch.zeros(50)
    i = axis(variable, 50)
    value = ir.op("mul", ir.load(name, i.symbol, F), ir.const(factor, F))
    body = [ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), value)])]
    return kernel(body, {name: x, "out": out}, ["out"]), x, out


def test_equal_kernels_share_code():
    first, second, third = scaled("x", 3.0)[0], scaled("other", 3.0, "k")[0], scaled("x", 4.0)[0]
    compiled = compile_kernels([first, second, third])
    assert compiled[0].address == compiled[1].address != compiled[2].address


def test_code_comes_from_the_disk(tmp_path, monkeypatch):
    made, x, out = scaled("x", 7.25)
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        monkeypatch.setattr(engine, "_compiled", {})
        compile_kernels([made])
        assert disk_cache.info().kinds[engine.KIND][0] == 1
        monkeypatch.setattr(engine, "_compiled", {})

        def refuse(*args):
            raise AssertionError("compiled again")

        monkeypatch.setattr(engine, "_make", refuse)
        [again] = compile_kernels([made])
        launcher(again, [x, out])()
    assert torch.equal(out, x * 7.25)


def test_a_damaged_object_is_compiled_again(tmp_path, monkeypatch):
    made, x, out = scaled("x", 9.5)
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        monkeypatch.setattr(engine, "_compiled", {})
        compile_kernels([made])
        [(_, path, _)] = [entry for entry in disk_cache.files(str(tmp_path)) if entry[0] == engine.KIND]
        with open(path, "r+b") as file:
            file.seek(200)
            file.write(b"\0" * 100)
        monkeypatch.setattr(engine, "_compiled", {})
        [again] = compile_kernels([made])
        launcher(again, [x, out])()
    assert torch.equal(out, x * 9.5)


def test_assembly_and_text_are_readable():
    made = scaled("x", 2.0)[0]
    assert "define void @kernel(ptr %buffers, ptr %sizes, ptr %numbers)" in engine.llvm_text(made)
    assert "kernel:" in engine.assembly(made)


def test_several_threads_make_the_same_code_as_one(monkeypatch):
    texts = [engine.llvm_text(scaled("x", n + 0.5)[0], name=f"kernel_{n}") for n in range(12)]
    target = engine.host()
    one_by_one = [object_emitter.object_code(text, target) for text in texts]
    for threads in (1, 2, 5):
        monkeypatch.setattr(object_emitter, "_processors", lambda count=threads: count)
        assert list(object_emitter.object_codes(iter(texts), len(texts), target)) == one_by_one


def test_errors_leave_no_thread_waiting(monkeypatch):
    monkeypatch.setattr(object_emitter, "_processors", lambda: 3)
    good = engine.llvm_text(scaled("x", 2.0)[0])
    with pytest.raises(RuntimeError):
        list(object_emitter.object_codes([good, "define nonsense", good], 3, engine.host()))

    def failing():
        yield good
        raise KeyError("no text")

    with pytest.raises(KeyError):
        list(object_emitter.object_codes(failing(), 2, engine.host()))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("firesteel_emitter")]
