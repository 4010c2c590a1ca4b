"""torch's own state, storages, distributions, kernels, functions of users put into graphs."""

import torch
import torch.distributions as D
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from .registry import leaf, rand, thing


class Config:
    def __init__(self, scale):
        self.scale = scale


def scaled(x, config):
    return x * config.scale


def with_a_dict(x, config):
    return x * config["scale"]


class Point:
    def __init__(self, a, b):
        self.a, self.b = a, b


torch.utils._pytree.register_pytree_node(Point, lambda p: ([p.a, p.b], None), lambda v, _: Point(*v),
                                         serialized_type_name="benchmarks.named_things.Point")


def of_a_point(p):
    return p.a * p.b


def a_point(x):
    return Point(x + 1, x * 2)


def with_a_module(x, m):
    return m(x)


@thing()
def x_data_is_replaced(x):
    x.data = x * 2
    return x + 1


@thing(leaf)
def data_of_a_leaf(x):
    x.data.mul_(2)
    return x.detach() + 1


@thing()
def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return y, x + 1


@thing()
def default_device(x):
    torch.set_default_device("cpu")
    y = torch.ones(2)
    torch.set_default_device(None)
    return y


@thing()
def grad_enabled(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x.sin()
    torch.set_grad_enabled(before)
    return y, torch.is_grad_enabled()


@thing()
def seeds(x):
    torch.manual_seed(3)
    return torch.rand(2) + x[0, 0]


@thing()
def generators(x):
    g = torch.Generator().manual_seed(3)
    return torch.rand(2, generator=g)


@thing(lambda: (rand(), torch.Generator().manual_seed(3)))
def generators_from_outside(x, g):
    return torch.rand(2, generator=g) + torch.randn(2, generator=g)


@thing()
def random_state(x):
    state = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(state)
    return a, torch.rand(2)


@thing()
def forked_random_state(x):
    with torch.random.fork_rng():
        a = torch.rand(2)
    return a, torch.rand(2)


@thing()
def matmul_precision(x):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    y = x @ x.T
    torch.set_float32_matmul_precision(before)
    return y


@thing()
def deterministic(x):
    torch.use_deterministic_algorithms(True)
    y = x.sin()
    torch.use_deterministic_algorithms(False)
    return y


@thing()
def threads_and_devices(x):
    return torch.get_num_threads() > 0, torch.cuda.is_available(), torch.cuda.device_count(), x + 1, \
        torch.backends.cudnn.enabled, torch.get_default_device()


@thing()
def autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.T


@thing()
def autocast_by_decorator(x):
    return torch.autocast("cpu", torch.bfloat16)(lambda v: v @ v.T)(x)


@thing()
def storages(x):
    y = x + 1
    return y.untyped_storage().nbytes(), y.storage_offset(), y.storage().size(), y


@thing()
def addresses(x):
    return x.data_ptr() == x.view(-1).data_ptr(), (x + 1).data_ptr() == x.data_ptr()


@thing()
def attention_kernel(x):
    q = x.view(1, 1, 4, 6)
    with sdpa_kernel(SDPBackend.MATH):
        return nn.functional.scaled_dot_product_attention(q, q, q)


@thing()
def attention_kernels(x):
    q = x.view(1, 1, 4, 6)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        return nn.functional.scaled_dot_product_attention(q, q, q)


@thing(lambda: (rand(), Config(2.0)), again=lambda: (rand(), Config(3.0)), around=True)
def allow_in_graph_with_an_object(compiler, x, config):
    inside = compiler.allow_in_graph(scaled)
    return compiler(lambda v, c: inside(v, c) + 1)(x, config)


@thing(lambda: (rand(), {"scale": 2.0}), around=True)
def allow_in_graph_with_a_dict(compiler, x, config):
    inside = compiler.allow_in_graph(with_a_dict)
    return compiler(lambda v, c: inside(v, c) + 1)(x, config)


@thing(around=True)
def allow_in_graph_with_an_object_made_inside(compiler, x):
    inside = compiler.allow_in_graph(scaled)
    return compiler(lambda v: inside(v, Config(2.0)) + 1)(x)


@thing(lambda: (rand(), Config(2.0)), again=lambda: (rand(), Config(3.0)), around=True)
def nonstrict_trace_with_an_object(compiler, x, config):
    inside = compiler.nonstrict_trace(scaled)
    return compiler(lambda v, c: inside(v, c) + 1)(x, config)


@thing(lambda: (Point(rand(), rand(seed=1)),), around=True)
def nonstrict_trace_with_a_pytree(compiler, p):
    inside = compiler.nonstrict_trace(of_a_point)
    return compiler(lambda q: inside(q) + 1)(p)


@thing(around=True)
def nonstrict_trace_that_returns_a_pytree(compiler, x):
    inside = compiler.nonstrict_trace(a_point)
    return compiler(lambda v: inside(v).b + 1)(x)


@thing(around=True)
def nonstrict_trace_of_one_made_inside(compiler, x):
    inside = compiler.nonstrict_trace(of_a_point)
    return compiler(lambda v: inside(Point(v, v + 1)) + 1)(x)


@thing(lambda: (rand(), nn.Linear(6, 6)), around=True)
def nonstrict_trace_with_a_module(compiler, x, m):
    inside = compiler.nonstrict_trace(with_a_module)
    return compiler(lambda v: inside(v, m) + 1)(x)


@thing(around=True)
def nonstrict_trace_over_globals(compiler, x):
    inside = compiler.nonstrict_trace(lambda v: v * GLOBAL)
    return compiler(lambda v: inside(v) + 1)(x)


GLOBAL = rand(seed=5)


def _distribution(name, make):
    def sampled(x):
        d = make(x)
        return d.sample() if not d.has_rsample else d.rsample()

    def log_prob(x):
        d = make(x)
        return d.log_prob(d.sample())

    def entropy(x):
        return make(x).entropy()

    def divergence(x):
        return D.kl_divergence(make(x), make(x * 0.5))

    for function in (sampled, log_prob, *([] if name in _NO_ENTROPY else [entropy]),
                     *([] if name in _NO_DIVERGENCE else [divergence])):
        function.__name__ = f"{name}_{function.__name__}"
        function.__module__ = __name__
        thing()(function)


_NO_ENTROPY = ("Binomial", "Poisson", "NegativeBinomial", "RelaxedBernoulli", "RelaxedOneHotCategorical", "Multinomial",
               "VonMises", "FisherSnedecor", "Wishart", "LKJCholesky", "MixtureSameFamily", "TransformedDistribution",
               "Kumaraswamy", "LogisticNormal")
_NO_DIVERGENCE = (*_NO_ENTROPY, "StudentT", "Weibull", "InverseGamma")
_P = {
    "Bernoulli": lambda x: D.Bernoulli(logits=x), "Beta": lambda x: D.Beta(x.exp(), x.exp() + 1),
    "Binomial": lambda x: D.Binomial(5, logits=x), "Categorical": lambda x: D.Categorical(logits=x),
    "Cauchy": lambda x: D.Cauchy(x, x.exp()), "Chi2": lambda x: D.Chi2(x.exp() + 1),
    "ContinuousBernoulli": lambda x: D.ContinuousBernoulli(logits=x),
    "Dirichlet": lambda x: D.Dirichlet(x.exp() + 0.5), "Exponential": lambda x: D.Exponential(x.exp()),
    "FisherSnedecor": lambda x: D.FisherSnedecor(x.exp() + 1, x.exp() + 3),
    "Gamma": lambda x: D.Gamma(x.exp() + 1, x.exp()), "Geometric": lambda x: D.Geometric(logits=x),
    "Gumbel": lambda x: D.Gumbel(x, x.exp()), "HalfCauchy": lambda x: D.HalfCauchy(x.exp()),
    "HalfNormal": lambda x: D.HalfNormal(x.exp()), "Independent": lambda x: D.Independent(D.Normal(x, x.exp()), 1),
    "InverseGamma": lambda x: D.InverseGamma(x.exp() + 1, x.exp()),
    "Kumaraswamy": lambda x: D.Kumaraswamy(x.exp() + 0.5, x.exp() + 0.5), "Laplace": lambda x: D.Laplace(x, x.exp()),
    "LogNormal": lambda x: D.LogNormal(x, x.exp()), "LogisticNormal": lambda x: D.LogisticNormal(x, x.exp()),
    "LowRankMultivariateNormal": lambda x: D.LowRankMultivariateNormal(x, x[..., None], x.exp()),
    "MixtureSameFamily": lambda x: D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, x.exp())),
    "Multinomial": lambda x: D.Multinomial(5, logits=x),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, torch.eye(6) * 2),
    "NegativeBinomial": lambda x: D.NegativeBinomial(5, logits=x), "Normal": lambda x: D.Normal(x, x.exp()),
    "OneHotCategorical": lambda x: D.OneHotCategorical(logits=x), "Pareto": lambda x: D.Pareto(x.exp(), x.exp() + 1),
    "Poisson": lambda x: D.Poisson(x.exp()), "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(torch.tensor(0.5), logits=x),
    "RelaxedOneHotCategorical": lambda x: D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=x),
    "StudentT": lambda x: D.StudentT(x.exp() + 3, x, x.exp()),
    "TransformedDistribution": lambda x: D.TransformedDistribution(D.Normal(x, 1.0), [D.SigmoidTransform()]),
    "Uniform": lambda x: D.Uniform(x, x + 1 + x.exp()), "VonMises": lambda x: D.VonMises(x, x.exp()),
    "Weibull": lambda x: D.Weibull(x.exp() + 1, x.exp() + 1),
    "Wishart": lambda x: D.Wishart(torch.tensor([7.0]), torch.eye(6) + x[0, 0].abs()),
    "LKJCholesky": lambda x: D.LKJCholesky(3, x[0, 0].exp()),
}
for _name, _make in _P.items():
    _distribution(_name, _make)
