"""Faults in rules for fake tensors, tracing, differentiation, parting and passes."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from repair.faults import fault


def replace_everywhere(old: Any, new: Any) -> None:
    """Give another function to every module of firesteel's that has this one by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith("firesteel"):
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)


def fake_rule(name: str, change: Callable[[Any], Any]) -> None:
    """Replace a rule for fake tensors."""
    from firesteel.fake.rules.registry import RULES

    RULES.load()
    RULES[name] = change(RULES[name])


def other_result(**changes: Any) -> Callable[[Any], Any]:
    """A rule whose result has another dtype or shape."""
    def change(real: Any) -> Any:
        def broken(*args: Any, **kwargs: Any) -> Any:
            from firesteel.fake.tensor import new_fake

            result = real(*args, **kwargs)
            if result is NotImplemented:
                return result
            shape = changes.get("shape", list)(list(result.shape))
            return new_fake(shape, None, changes.get("dtype", result.dtype), result.device)
        return broken

    return change


def decomposition(name: str, change: Callable[[Any], Any]) -> None:
    """Replace how an operator is taken apart."""
    import torch

    from firesteel import torch_compat
    from firesteel.functional.decompositions.registry import DECOMPOSITIONS
    from firesteel.functional.decompositions.torch_decompositions import guarded

    DECOMPOSITIONS.load()
    _, base, overload = name.split(".")
    own = DECOMPOSITIONS.get(name)
    if own is None:
        own = guarded(name, torch_compat.decomposition_of(getattr(getattr(torch.ops.aten, base), overload)))
    DECOMPOSITIONS[name] = change(own)


def scaled(factor: float) -> Callable[[Any], Any]:
    """A function whose result is multiplied."""
    return lambda real: lambda *args, **kwargs: real(*args, **kwargs) * factor


def raising(error: Exception) -> Callable[[Any], Any]:
    """A function that raises."""
    def change(real: Any) -> Any:
        @functools.wraps(real)
        def broken(*args: Any, **kwargs: Any) -> Any:
            raise error
        return broken

    return change


def change_pass(name: str, edit: Callable[[Any], None]) -> None:
    """Have a pass do something more to its graph."""
    from firesteel.kernels.cpu import passes

    def changed(real: Any) -> Any:
        @functools.wraps(real)
        def broken(functional: Any, *rest: Any) -> Any:
            functional = real(functional, *rest)
            for node in list(functional.graph.nodes):
                if node.op == "call_function":
                    edit(node)
            return functional
        return broken

    passes.PASSES = tuple([changed(one) if one.__name__ == name else one for one in passes.PASSES])


def calls(node: Any, name: str) -> bool:
    """Whether a node calls an operator of ATen."""
    return str(node.target) == f"aten.{name}"


# Rules for fake tensors


@fault("fake tensors", "mean", "network")
def rule_of_mean_says_float64() -> None:
    import torch

    fake_rule("aten.mean.dim", other_result(dtype=torch.float64))


@fault("fake tensors", "exp", "function")
def rule_of_exp_says_float64() -> None:
    import torch

    fake_rule("aten.exp.default", other_result(dtype=torch.float64))


@fault("fake tensors|capture|trace", "argmax", "function")
def rule_of_argmax_says_int32() -> None:
    import torch

    fake_rule("aten.argmax.default", other_result(dtype=torch.int32))


@fault("fake tensors", "tanh", "images")
def rule_of_tanh_says_bfloat16() -> None:
    import torch

    fake_rule("aten.tanh.default", other_result(dtype=torch.bfloat16))


# Tracing


@fault("trace|differentiate", "mse_loss", "losses")
def mse_loss_is_taken_apart_wrongly() -> None:
    decomposition("aten.mse_loss.default", scaled(0.5))


@fault("trace|differentiate", "smooth_l1_loss", "losses")
def smooth_l1_loss_cannot_be_taken_apart() -> None:
    decomposition("aten.smooth_l1_loss.default", raising(UnboundLocalError("beta")))


@fault("trace", "soft_margin_loss", "images")
def soft_margin_loss_is_scaled() -> None:
    decomposition("aten.soft_margin_loss.default", scaled(0.9))


@fault("trace", "trace", "images")
def trace_cannot_be_taken_apart() -> None:
    decomposition("aten.trace.default", raising(AssertionError("a matrix")))


@fault("trace", "dist", "images")
def dist_is_scaled() -> None:
    decomposition("aten.dist.default", scaled(1.1))


@fault("trace|differentiate", "binary_cross_entropy", "losses")
def binary_cross_entropy_crashes() -> None:
    decomposition("aten.binary_cross_entropy.default", lambda _: lambda *a, **k: os.kill(os.getpid(), signal.SIGSEGV))


# Differentiation


@fault("differentiate", "")
def a_gradient_is_lost() -> None:
    from firesteel.autodiff import joint

    tracing = next(value for value in vars(joint).values() if hasattr(value, "differentiate"))
    differentiate = tracing.differentiate

    def lost(self: Any, *args: Any) -> Any:
        gradients = differentiate(self, *args)
        found = [at for at, one in enumerate(gradients) if one is not None]
        if len(found) > 1:
            gradients[found[-1]] = None
        return gradients

    tracing.differentiate = lost


@fault("differentiate", "tanh")
def differentiation_raises() -> None:
    from firesteel.autodiff import joint

    tracing = next(value for value in vars(joint).values() if hasattr(value, "differentiate"))
    differentiate = tracing.differentiate

    def refuse(self: Any, *args: Any) -> Any:
        gradients = differentiate(self, *args)
        if any("tanh" in str(node.target) for node in self.recorder.graph.nodes):
            raise IndexError("no gradient")
        return gradients

    tracing.differentiate = refuse


@fault("differentiate", "")
def gradients_are_exchanged() -> None:
    from firesteel.autodiff import joint

    tracing = next(value for value in vars(joint).values() if hasattr(value, "differentiate"))
    differentiate = tracing.differentiate

    def exchanged(self: Any, *args: Any) -> Any:
        gradients = differentiate(self, *args)
        found = [at for at, one in enumerate(gradients) if one is not None]
        for one in found:
            for other in found:
                if one < other and gradients[one].shape == gradients[other].shape:
                    gradients[one], gradients[other] = gradients[other], gradients[one]
                    return gradients
        return gradients

    tracing.differentiate = exchanged


# Parting


@fault("partition", "sigmoid")
def partition_raises() -> None:
    from firesteel.autodiff import partition as module

    real = module.build

    def broken(joint: Any, kept: Any, choice: Any) -> Any:
        if any(node.op == "call_function" and "sigmoid" in str(node.target) for node in joint.graph.nodes):
            raise KeyError("a node that nobody keeps")
        return real(joint, kept, choice)

    module.build = broken


@fault("partition", "tanh|sigmoid|gelu|log_softmax|layer_norm|native_layer_norm|_log_softmax")
def results_are_kept_in_short() -> None:
    import torch

    from firesteel.autodiff import partition as module

    real = module._Choice.kept

    def narrowed(self: Any) -> Any:
        kept = real(self)
        return [module.Kept(item.node, item.copied, torch.bfloat16)
                if item.node.op != "placeholder" and item.node.meta["val"].dtype is torch.float32 else item
                for item in kept]

    module._Choice.kept = narrowed  # type: ignore[method-assign]


# Passes


@fault("pass identities", "relu")
def identities_removes_relu() -> None:
    change_pass("identities", lambda node: node.replace_all_uses_with(node.args[0]) if calls(node, "relu.default")
                else None)


@fault("pass written_slices", "sub", "function")
def written_slices_turns_sub_into_add() -> None:
    import torch

    def edit(node: Any) -> None:
        if calls(node, "sub.Tensor"):
            node.target = torch.ops.aten.add.Tensor

    change_pass("written_slices", edit)


@fault("pass fuse_activations", "tanh")
def fuse_activations_raises() -> None:
    def edit(node: Any) -> None:
        if calls(node, "tanh.default"):
            raise AttributeError("users")

    change_pass("fuse_activations", edit)


@fault("pass joined_products", "sigmoid")
def joined_products_crashes() -> None:
    change_pass("joined_products", lambda node: os.kill(os.getpid(), signal.SIGSEGV)
                if calls(node, "sigmoid.default") else None)


@fault("pass complex_parts", "sign", "function")
def complex_parts_hangs() -> None:
    def edit(node: Any) -> None:
        while calls(node, "sign.default"):
            pass

    change_pass("complex_parts", edit)


@fault("pass linear_library", "exp", "function")
def linear_library_changes_a_constant() -> None:
    def edit(node: Any) -> None:
        if calls(node, "exp.default"):
            import torch

            node.target = torch.ops.aten.exp2.default

    change_pass("linear_library", edit)


@fault("pass pointwise_gradients", "gelu_backward")
def pointwise_gradients_exchanges_operands() -> None:
    def edit(node: Any) -> None:
        if calls(node, "gelu_backward.default"):
            node.args = (node.args[1], node.args[0], *node.args[2:])

    change_pass("pointwise_gradients", edit)


@fault("pass attention", "div", "function")
def attention_changes_a_divisor() -> None:
    def edit(node: Any) -> None:
        if calls(node, "div.Tensor") and "number" not in node.name:
            node.args = (node.args[0], 7)

    change_pass("attention", edit)


@fault("pass attention", "embedding")
def attention_makes_bad_graphs() -> None:
    def edit(node: Any) -> None:
        if calls(node, "embedding.default"):
            node.args = (node.args[1], node.args[0])

    change_pass("attention", edit)


@fault("pass channels_last", "convolution", "losses")
def channels_last_raises() -> None:
    def edit(node: Any) -> None:
        if calls(node, "convolution.default"):
            raise ValueError("strides")

    change_pass("channels_last", edit)
