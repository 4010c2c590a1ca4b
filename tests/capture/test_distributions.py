"""`torch.distributions` inside of one graph."""

from __future__ import annotations

import pytest
import torch
from torch import distributions as D

import firesteel as fs


def _probs(x):
    return D.Bernoulli(probs=x.sigmoid()).logits, D.Bernoulli(logits=x).probs


def _classes(x):
    return isinstance(D.Bernoulli.probs, D.utils.lazy_property), isinstance(D.Categorical.logits, property), x + 1


PROGRAMS = {
    "categorical": lambda x: (c := D.Categorical(logits=x)).log_prob(c.sample()) + c.entropy(),
    "bernoulli": lambda x: D.Bernoulli(logits=x).log_prob((x > 0).float()),
    "parameters": _probs,
    "class": _classes,
    "binomial": lambda x: D.Binomial(10, logits=x).log_prob(torch.ones_like(x)),
    "kl": lambda x: D.kl_divergence(D.Independent(D.Normal(x, x.exp()), 1), D.Independent(D.Normal(x * 0, x.exp()), 1)),
    "kl of normals": lambda x: D.kl_divergence(
        D.LowRankMultivariateNormal(x, x[..., None].exp(), x.exp()), D.MultivariateNormal(x[:1], torch.eye(3))),
    "relaxed": lambda x: D.RelaxedBernoulli(torch.tensor(0.5), logits=x).rsample(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph_with_the_numbers_of_eager(name):
    function = PROGRAMS[name]
    compiled = fs.compile(function, fullgraph=True)
    for number in range(2):
        x = torch.linspace(-1, 1, 6).reshape(2, 3) + number
        torch.manual_seed(number)
        expected = function(x)
        torch.manual_seed(number)
        torch.testing.assert_close(compiled(x), expected)


def test_a_lazy_property_of_the_program_is_kept():
    class Own(D.Normal):
        arg_constraints = {**D.Normal.arg_constraints, "precision": D.constraints.positive}

        @D.utils.lazy_property
        def precision(self):
            return self.scale ** -2

    def function(x):
        distribution = Own(x, x.exp())
        return distribution.precision, distribution.log_prob(x), "precision" in vars(distribution)

    x = torch.linspace(-1, 1, 4)
    torch.testing.assert_close(fs.compile(function)(x), function(x))


def test_sizes_that_do_not_broadcast_raise_as_torch_does():
    def function(x, one, other):
        try:
            return x + 1, torch._C._infer_size(one, other)
        except RuntimeError as error:
            return x, str(error)

    compiled = fs.compile(function, backend="eager", fullgraph=True)
    for one, other in (([2, 1], [3]), ([], [4]), ([1, 0], [1]), ([2, 3], [4]), ([2], [3, 3, 4]), ([0], [1]),
                       ([0], [2])):
        sizes = torch.Size(one), torch.Size(other)
        assert compiled(torch.ones(1), *sizes)[1] == function(torch.ones(1), *sizes)[1]
