"""What a program states of numbers from its data is checked in every call, also where all that follows relies on it."""

import pytest
import torch

import firesteel as fs


def constant(n, y):
    a = n.item()
    torch._check(a == 4)
    return y + 2 if a // 2 >= 5 else y * 5


def size(n, y):
    a = n.item()
    torch._check(a * 2 == y.shape[0])
    return torch.zeros(a * 2) + y


def bounds(n, y):
    a = n.item()
    torch._check(a >= 3)
    torch._check(a != 7)
    return torch.arange(a) * y.sum()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function, good, bad", [
    (constant, [(4, 2)], [(5, 2), (11, 2)]), (size, [(4, 8), (3, 6)], [(4, 7), (4, 9)]), (bounds, [(3, 2), (9, 2)],
                                                                                         [(2, 2), (7, 2)])])
def test_statements_are_checked(function, good, bad, backend, trained):
    compiled = fs.compile(function, fullgraph=True, backend=backend, dynamic=True)
    for n, length in good:
        given = torch.tensor(n), torch.rand(length, requires_grad=trained)
        torch.testing.assert_close(compiled(*given), function(*given))
    for n, length in bad:
        given = torch.tensor(n), torch.rand(length, requires_grad=trained)
        with pytest.raises(RuntimeError):
            function(*given)
        with pytest.raises(RuntimeError):
            compiled(*given)
