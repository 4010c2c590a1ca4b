"""Random functions draw the same numbers, in the same order, as without compiling."""

import pytest
import torch
import torch.nn.functional as F
from tests.torch_differential import check

DRAWS = {
    "randn": lambda x: torch.randn(3, 4),
    "rand": lambda x: torch.rand(2, dtype=torch.float64),
    "randint": lambda x: (torch.randint(10, (3,)), torch.randint(2, 5, (2, 2))),
    "randperm": lambda x: torch.randperm(6),
    "likes": lambda x: (torch.randn_like(x), torch.rand_like(x), torch.randint_like(x, 5)),
    "normal": lambda x: (torch.normal(0.0, 1.0, (3,)), torch.normal(x, 1.0), torch.normal(x, x.abs())),
    "bernoulli": lambda x: (torch.bernoulli(x.sigmoid()), x.sigmoid().bernoulli(), torch.bernoulli(x, 0.5)),
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), 2),
    "poisson": lambda x: torch.poisson(x.abs()),
    "in place": lambda x: (
        x.clone().normal_(),
        x.clone().uniform_(0, 2),
        x.clone().random_(5),
        x.clone().exponential_(),
        x.clone().bernoulli_(0.3),
        x.clone().cauchy_(),
        x.clone().geometric_(0.5),
        x.clone().log_normal_(),
    ),
    "dropout": lambda x: (F.dropout(x), F.dropout(x, 0.1), torch.dropout(x, 0.3, True), F.alpha_dropout(x, 0.5, True)),
    "dropout channels": lambda x: (
        F.dropout1d(x[None]),
        F.dropout2d(x[None, None]),
        F.feature_alpha_dropout(x[None], 0.5, True),
    ),
    "rrelu": lambda x: (F.rrelu(x, training=True), F.gumbel_softmax(x, hard=True)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.2),
    "mixed order": lambda x: (torch.rand(1), F.dropout(x), torch.randperm(3), x * torch.randn(4), torch.rand(1)),
    "init": lambda x: (
        torch.nn.init.kaiming_uniform_(torch.empty(3, 3)),
        torch.nn.init.xavier_normal_(torch.empty(3, 3)),
        torch.nn.init.orthogonal_(torch.empty(3, 3)),
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    check(DRAWS[name], lambda: (torch.randn(3, 4),), fullgraph=name not in {"init"})


def test_draws_around_a_break():
    def f(x):
        a = torch.rand(2)
        print(end="")
        b = torch.randn(x.sum().int().item() * 0 + 2)
        return a, b, F.dropout(x)

    check(f, lambda: (torch.randn(3, 4),), fullgraph=False)


def test_draws_in_unused_results_happen():
    def f(x):
        torch.rand(3)
        y = torch.randn(3)
        return x + torch.rand(4)

    check(f, lambda: (torch.randn(3, 4),))


def test_seeding_inside():
    def f(x):
        torch.manual_seed(5)
        return x + torch.rand(4)

    check(f, lambda: (torch.randn(3, 4),), fullgraph=False)

    def fork(x):
        state = torch.get_rng_state()
        a = torch.rand(4)
        torch.set_rng_state(state)
        return a, torch.rand(4), x + 1

    check(fork, lambda: (torch.randn(3, 4),), fullgraph=False)

    def forked(x):
        with torch.random.fork_rng():
            a = torch.rand(4)
        return a, torch.rand(4), x + 1

    check(forked, lambda: (torch.randn(3, 4),), fullgraph=False)


def test_generator_argument():
    def f(x, g):
        return x + torch.rand(4, generator=g), torch.randperm(4, generator=g)

    check(f, lambda: (torch.randn(3, 4), torch.Generator().manual_seed(3)), fullgraph=False)

    def made(x):
        g = torch.Generator()
        g.manual_seed(4)
        return x + torch.rand(4, generator=g)

    check(made, lambda: (torch.randn(3, 4),), fullgraph=False)


def test_dropout_module():
    model = torch.nn.Sequential(torch.nn.Dropout(0.3), torch.nn.Linear(4, 4), torch.nn.Dropout(0.2))
    check(model, lambda: (torch.randn(3, 4),))
    model.eval()
    check(model, lambda: (torch.randn(3, 4),))
