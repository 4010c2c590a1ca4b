"""Files that earlier versions saved load for ever: ``data/version<N>.pt2`` was written when format N was new."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import firesteel as fs

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("rows", [2, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_version_1(rows: int, sign: int) -> None:
    extra = {"made_with": b""}
    program = fs.export.load(DATA / "version1.pt2", extra_files=extra)
    assert extra["made_with"].startswith(b"firesteel")
    module = program.module()
    weight, bias = torch.arange(6.0).view(2, 3) / 4, torch.arange(2.0) / 4 - 1
    x = sign * torch.rand(rows, 3)
    for call in (1, 2):
        got = module(x)
        y = x.sin() if sign > 0 else x.cos()
        torch.testing.assert_close(got["y"], torch.nn.functional.linear(y, weight, bias) * 2)
        torch.testing.assert_close(got["pair"], (x[:2], torch.full((2 * rows + 1,), 1.5), torch.tensor(call)))
    assert "model.py:13 in forward, code: self.count.add_(1)" in str(program)
    with pytest.raises(fs.export.InputMismatchError, match="rows must be <= 9, but is 10"):
        module(torch.rand(10, 3))
    assert str(program.run_decompositions({}).graph_signature.buffers_to_mutate) == "{'add': 'count'}"
