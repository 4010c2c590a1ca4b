"""Scripted functions are followed into what they were made from; traced ones are not."""

from __future__ import annotations

import warnings

import torch

import firesteel as fs

warnings.filterwarnings("ignore", category=DeprecationWarning)


@torch.jit.script
def scaled(x: torch.Tensor, factor: int = 3) -> torch.Tensor:
    if factor > 2:
        return x.sin() * factor
    return x.cos()


def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if bool(x.sum() > 0) else x - 1


def test_scripted_function_is_part_of_the_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return scaled(x) + scaled(x, factor=1)

    x = torch.randn(4)
    torch.testing.assert_close(fs.compile(program, fullgraph=True)(x), program(x))


def test_another_scripted_function_is_noticed() -> None:
    holder = {"f": scaled}

    def program(x: torch.Tensor) -> torch.Tensor:
        return holder["f"](x) * 2

    compiled, x = fs.compile(program, backend="eager"), torch.randn(4)
    torch.testing.assert_close(compiled(x), program(x))
    holder["f"] = torch.jit.script(other)
    torch.testing.assert_close(compiled(x), program(x))


def other(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


def test_traced_function_does_what_it_did() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(plain, (torch.ones(3),), check_trace=False)

    def program(x: torch.Tensor) -> torch.Tensor:
        return traced(x) * 2

    x = -torch.ones(3)
    torch.testing.assert_close(fs.compile(program)(x), program(x))


def test_module_that_assigns_its_layer_to_itself_is_one_graph() -> None:
    class Router(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.layer = self.layer.to(torch.float32)
            return self.layer(x)

    module, x = Router(), torch.randn(2, 3)
    compiled = fs.compile(module, fullgraph=True)
    result = compiled(x)
    result.sum().backward()
    gradient, module.layer.weight.grad = module.layer.weight.grad, None
    module(x).sum().backward()
    torch.testing.assert_close(result, module(x))
    torch.testing.assert_close(gradient, module.layer.weight.grad)
    module.layer = torch.nn.Linear(3, 3)
    torch.testing.assert_close(compiled(x), module(x))
