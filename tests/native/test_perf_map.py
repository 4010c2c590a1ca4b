"""Names of machine code for perf."""

from __future__ import annotations

import os

import torch

import firesteel as fs
from firesteel.native import perf_map

HERE = "test_perf_map.py"


def test_kernels_are_named_once_and_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(perf_map, "FOLDER", str(tmp_path))
    monkeypatch.setattr(perf_map, "_written", set())
    path = tmp_path / f"perf-{os.getpid()}.map"

    def f(x):
        return torch.softmax(x.sin() * 2.5, -1)

    line = f.__code__.co_firstlineno + 1
    fs.compile(f, backend="native")(torch.ones(3, 7))
    assert not path.exists()
    with fs.config.patch(perf_map=True):
        for _ in range(2):
            fs.reset()
            fs.compile(f, backend="native")(torch.ones(3, 7))
    lines = [text.split(" ", 2) for text in path.read_text().splitlines()]
    assert {name for _, _, name in lines} == {f"firesteel: kernel sin, mul, _softmax ({HERE}:{line})"}
    assert len({address for address, _, _ in lines}) == len(lines)
    mapped = [(int(text.split("-")[0], 16), int(text.split("-")[1].split()[0], 16), text)
              for text in open("/proc/self/maps") if "x" in text.split()[1]]
    for address, size, _ in lines:
        start, end = int(address, 16), int(address, 16) + int(size, 16)
        assert any(low <= start and end <= high for low, high, _ in mapped)


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch):
    monkeypatch.setattr(perf_map, "FOLDER", "/no/such/folder")
    with fs.config.patch(perf_map=True):
        perf_map.note([(1 << 20, 16)], "kernel")
