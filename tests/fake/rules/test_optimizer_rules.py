"""Rules of operators that update lists of parameters, against eager."""

import pytest
import torch
from tests.fake.rules.rule_checks import RuleRecorder, assert_same

recorder = RuleRecorder(__file__)
record_rules = recorder.fixture()


def tensors(dtype=torch.float32):
    return [torch.ones(2, 3, dtype=dtype), torch.ones(4, dtype=dtype)]


def adam(step, lr):
    lists = [tensors() for _ in range(5)]
    steps = [torch.ones(()), torch.ones(())]
    settings = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": True, "maximize": False}
    assert_same(lambda *args: step(*args, lr=lr(), **settings), *lists, steps)


@pytest.mark.parametrize("lr", [lambda: 0.1, lambda: torch.tensor(0.1)], ids=["number", "tensor"])
def test_fused_steps(lr):
    adam(torch._fused_adam_, lr)
    adam(torch._fused_adamw_, lr)
    settings = {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.0, "nesterov": True, "maximize": False,
                "is_first_step": False}
    assert_same(lambda *args: torch._fused_sgd_(*args, lr=lr(), **settings), tensors(), tensors(), tensors())
    settings = {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}
    steps = [torch.ones(()), torch.ones(())]
    assert_same(lambda *args: torch._fused_adagrad_(*args, lr=lr(), **settings), tensors(), tensors(), tensors(), steps)


@pytest.mark.parametrize("function", [torch._foreach_addcdiv_, torch._foreach_addcmul_])
def test_products_with_a_factor_each(function):
    for factors in (torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(3), torch.ones(1, 2)):
        assert_same(lambda *args: function(*args), tensors(), tensors(), tensors(), factors)


def test_every_rule_is_used_by_these_tests(request):
    assert recorder.untested(request, ["optimizers"]) == set()
