"""Indexing, views, in-place operations and out= in compiled functions."""


import pytest
import torch
from tests.torch_differential import check

import firesteel as fs


def two():
    return torch.randn(3, 4), torch.randn(3, 4)


def leaf():
    return (torch.randn(3, 4, requires_grad=True),)


# Indexing


INDICES = {
    "int": lambda x, i, m: x[1],
    "negative": lambda x, i, m: x[-1],
    "ints": lambda x, i, m: x[1, 2],
    "slice": lambda x, i, m: x[1:],
    "steps": lambda x, i, m: x[::2, 1::2],
    "empty slice": lambda x, i, m: x[3:1],
    "none": lambda x, i, m: x[None, :, None],
    "ellipsis": lambda x, i, m: x[..., 0],
    "mixed": lambda x, i, m: x[..., None, 1:3],
    "list": lambda x, i, m: x[[0, 2]],
    "nested list": lambda x, i, m: x[[[0, 1], [2, 0]]],
    "two lists": lambda x, i, m: x[[0, 1], [1, 2]],
    "tuple of lists": lambda x, i, m: x[([0, 1], slice(None))],
    "tensor": lambda x, i, m: x[i],
    "tensor column": lambda x, i, m: x[:, i],
    "tensor both": lambda x, i, m: x[i, i],
    "tensor none": lambda x, i, m: x[i, None],
    "separated": lambda x, i, m: x[None, i, :, None][:, :, 0],
    "bool": lambda x, i, m: x[True],
    "zero-dim": lambda x, i, m: x[torch.tensor(1)],
    "range": lambda x, i, m: x[range(2)],
    "where": lambda x, i, m: torch.where(m, x, x * 2),
    "take": lambda x, i, m: (
        x.take(i),
        x.gather(0, i[None, :3]),
        x.index_select(0, i),
        torch.take_along_dim(x, i[:, None], 1),
    ),
    "iterate": lambda x, i, m: [row.sum() for row in x],
    "unpack": lambda x, i, m: (lambda a, b, c: a + b * c)(*x),
    "mask": lambda x, i, m: x[m],
    "mask rows": lambda x, i, m: x[m[:, 0]],
    "mask column": lambda x, i, m: x[:, m[0]],
    "list of bools": lambda x, i, m: x[[True, False, True]],
    "nonzero": lambda x, i, m: torch.nonzero(m),
}
DATA_DEPENDENT = {"mask", "mask rows", "mask column", "list of bools", "nonzero", "zero-dim", "bool"}


def indexed():
    return torch.randn(3, 4, requires_grad=True), torch.tensor([0, 2, 1]), torch.rand(3, 4) > 0.5


@pytest.mark.parametrize("name", INDICES)
def test_index(name):
    check(INDICES[name], indexed, fullgraph=name not in DATA_DEPENDENT, backward=True)


def assign(f):
    def run(x, i, m, v):
        y = x.clone()
        z = f(y, i, m, v)
        return y, z

    return run


def _set(y, key, value):
    y[key] = value
    return y


ASSIGNMENTS = {
    "int": lambda y, i, m, v: _set(y, 1, 5.0),
    "slice": lambda y, i, m, v: _set(y, slice(1, None), v[0]),
    "tuple": lambda y, i, m, v: _set(y, (slice(None), 1), v[:, 0]),
    "none": lambda y, i, m, v: _set(y, (None, 0), 1),
    "ellipsis": lambda y, i, m, v: _set(y, (..., 0), 0),
    "all": lambda y, i, m, v: _set(y, slice(None), v),
    "list": lambda y, i, m, v: _set(y, [0, 2], v[:2]),
    "tensor": lambda y, i, m, v: _set(y, i, v),
    "tensors": lambda y, i, m, v: _set(y, (i, i), v[:, 0]),
    "mask number": lambda y, i, m, v: _set(y, m, 2.0),
    "mask tensor": lambda y, i, m, v: _set(y, m, v[0, 0]),
    "augmented": lambda y, i, m, v: y[0].add_(v[0]),
    "bool": lambda y, i, m, v: _set(y, True, 3.0),
    "index_put": lambda y, i, m, v: y.index_put_((i,), v, accumulate=True),
    "scatter": lambda y, i, m, v: (
        y.scatter_(0, i[None, :3], v[:1, :3]),
        y.index_fill_(0, i, 1.0),
        y.index_add_(0, i, v),
    ),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignment(name):
    check(
        assign(ASSIGNMENTS[name]),
        lambda: (*indexed(), torch.randn(3, 4, requires_grad=True)),
        backward=True,
        fullgraph=name not in {"bool"},
    )


def test_augmented_assignment_statement():
    def f(x, v):
        y = x.clone()
        y[1:] += v[1:]
        y[0, 0] *= 3
        y[..., -1] -= 1
        y -= v
        y **= 2
        return y

    check(f, lambda: (torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)), backward=True)


def test_wrong_index_raises():
    check(lambda x: x[5], lambda: (torch.randn(3),), raises=IndexError, fullgraph=False)
    check(lambda x: x[0, 0], lambda: (torch.randn(3),), raises=IndexError, fullgraph=False)
    check(lambda x: x["a"], lambda: (torch.randn(3),), raises=TypeError, fullgraph=False)
    check(lambda x: x.nothing, lambda: (torch.randn(3),), raises=AttributeError)
    check(lambda x: x.view(7), lambda: (torch.randn(3),), raises=RuntimeError, fullgraph=False)


# Views, in-place operations, out=


VIEWS = {
    "view": lambda x: x.view(4, 3),
    "view dtype": lambda x: x.view(torch.int32),
    "reshape": lambda x: x.reshape(-1),
    "reshape copy": lambda x: x.T.reshape(-1),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "T": lambda x: x.T,
    "narrow": lambda x: x.narrow(0, 1, 2),
    "slice": lambda x: x[1:, ::2],
    "row": lambda x: x[1],
    "whole": lambda x: x[:],
    "split": lambda x: x.split(2, 1),
    "chunk": lambda x: x.chunk(2, 1),
    "unbind": lambda x: x.unbind(),
    "expand": lambda x: x[None].expand(2, 3, 4),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "squeeze": lambda x: (x.unsqueeze(0).squeeze(0), x.squeeze()),
    "flatten": lambda x: x.flatten(),
    "detach": lambda x: x.detach(),
    "alias": lambda x: x.view_as(x),
    "identity": lambda x: x,
    "contiguous": lambda x: (x.contiguous(), x.contiguous() is x),
    "to": lambda x: (x.to(x.dtype), x.to(x.dtype) is x, x.float() is x, x.cpu() is x),
    "chain": lambda x: x.T[1:].unsqueeze(0).view(3, 3)[0],
    "tuple": lambda x: (x, x[0], x[0][1:], [x]),
    "movedim": lambda x: (x.movedim(0, 1), x.swapaxes(0, 1), x.unflatten(1, (2, 2))),
    "real": lambda x: (x.real, x.real is x),
    "clone": lambda x: x.clone(),
    "dropout eval": lambda x: torch.nn.functional.dropout(x, 0.5, False),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("grad", [False, True])
def test_view(name, grad):
    if name == "view dtype" and grad:
        pytest.skip("integers have no gradient")
    check(VIEWS[name], lambda: (torch.randn(3, 4, requires_grad=grad),), backward=grad)


def test_in_place_of_input_through_views():
    def f(x):
        y = x[1]
        y.mul_(2)
        x.add_(1)
        z = x.T
        z[0] = 5
        return y, z, x.add_(1) is x

    check(f, lambda: (torch.randn(3, 4),))


def test_in_place_result_is_the_input():
    check(lambda x: x.add_(1), lambda: (torch.randn(3),))
    check(lambda x: (x.add_(1) is x, x.mul_(2).sub_(1) is x, x), lambda: (torch.randn(3),))

    def operator(x):
        before = x
        x += 1
        x *= 2
        return before is x, x

    check(operator, lambda: (torch.randn(3),))


def test_in_place_on_intermediate_and_leaf():
    check(lambda x: (x * 2).add_(1).relu_(), leaf, backward=True)
    check(lambda x: x.add_(1), leaf, fullgraph=False, raises=RuntimeError)

    def detached(x):
        x.detach().mul_(2)
        return x * 3

    check(detached, leaf, backward=True)

    def no_grad(x):
        with torch.no_grad():
            x.mul_(2)
        return x * 3

    check(no_grad, leaf, backward=True)


def test_in_place_metadata():
    check(lambda x: (x.t_(), x.shape, x.stride()), lambda: (torch.randn(3, 4),))
    check(lambda x: (x.unsqueeze_(0), x.shape), lambda: (torch.randn(3, 4),))
    check(lambda x: (x.squeeze_(), x.shape, x + 1), lambda: (torch.randn(1, 4),))
    check(lambda x: x.clone().transpose_(0, 1) + 1, lambda: (torch.randn(3, 4),))
    check(lambda x: x.resize_(2, 2), lambda: (torch.randn(4, 4),), fullgraph=False)
    check(lambda x, y: x.set_(y), two, fullgraph=False)
    check(lambda x, y: (x.copy_(y), x.swapaxes_(0, 1)), two)


def test_inputs_that_alias():
    def make():
        base = torch.randn(4, 4)
        return base, base[1], base.T

    def f(a, b, c):
        b.add_(1)
        c.mul_(2)
        return a.sum(), b + 1, a

    check(f, make)

    def same():
        x = torch.randn(3)
        return x, x

    check(lambda a, b: (a.add_(1), b, a is b), same)


OUT = {
    "add": lambda x, y: torch.add(x, y, out=x),
    "new": lambda x, y: torch.mul(x, y, out=torch.empty(3, 4)),
    "resized": lambda x, y: torch.sum(x, 0, out=y.new_empty(4)),
    "is": lambda x, y: torch.add(x, 1, out=y) is y,
    "mm": lambda x, y: torch.mm(x, y.T, out=torch.zeros(3, 3)),
    "view": lambda x, y: (torch.sin(x[0], out=y[1]), y),
    "max": lambda x, y: torch.max(x, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.long))),
    "cat": lambda x, y: torch.cat([x, y], out=torch.empty(6, 4)),
}


@pytest.mark.parametrize("name", OUT)
def test_out(name):
    check(OUT[name], two)


def test_out_that_must_grow():
    check(lambda x, y: torch.add(x, y, out=torch.empty(0)), two, fullgraph=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", ["conj", "negated"])
def test_lazy_views_stay_views_beside_their_copies(backend, name):
    def conj(x):
        y = x * 1
        z = y.conj()
        return y, z, z.resolve_conj(), z.is_conj()

    def negated(x):
        y = x * 1
        z = y.conj().imag
        return y, z, torch.resolve_neg(z), z.is_neg()

    function = {"conj": conj, "negated": negated}[name]
    y, view, copy, lazy = fs.compile(function, backend=backend)(torch.tensor([1 + 2j]))
    before = view.clone()
    y.mul_(2)
    assert lazy
    assert (view.is_conj(), view.is_neg()) == (name == "conj", name == "negated")
    assert torch.equal(view, before * 2)
    assert torch.equal(copy, before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_changes_of_data_are_not_counted(backend):
    """`Tensor.data` has a version of its own, in backward passes too."""
    def f(x):
        return x.data, x.data[:1], x * 2

    compiled = fs.compile(f, backend=backend)
    for scale in (None, 1):
        x = torch.ones(2, requires_grad=True)
        w = x if scale is None else x * scale
        y = (w * w).sum()
        data, part, _ = compiled(w)
        data.add_(1)
        part.add_(1)
        y.backward()
        assert w.tolist() == [3, 2]
        assert not data._is_view()
        assert part._is_view()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_detached_results_are_no_views(backend):
    compiled = fs.compile(lambda x: (x.detach(), (x * 2).detach()), backend=backend)
    for detached in compiled(torch.ones(2, requires_grad=True) * 1):
        assert not detached._is_view()
        detached.detach_()
