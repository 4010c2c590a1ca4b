"""Activations behind convolutions and linear layers are computed inside of the library call, where that is allowed.

    conv: f32[8, 16, 56, 56] = aten.convolution.default(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    add: f32[8, 16, 56, 56] = aten.add.Tensor(conv, y)
    relu: f32[8, 16, 56, 56] = aten.relu.default(add)

becomes

    conv = mkldnn._convolution_pointwise.binary(
        x, y, w, b, [1, 1], [1, 1], [1, 1], 1, "add", None, "relu", [], None)

That saves reading and writing the result once more. It needs relaxed libraries, because the relu, hardtanh and
hardsigmoid of the library give 0 for NaN, which eager hands on. Frozen weights of convolutions with channels last are
packed into the library's own layout.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from ..torch_compat import library_operators
from .rewriting import ATEN, Rewriter, is_call, is_dense_bias, same_layout
from .settings import STRICT, Settings

Activation = tuple[str, list[Any], str | None]
NONE: Activation = ("none", [], "")
_NAMES: dict[Any, str] = {
    ATEN.relu.default: "relu", ATEN.sigmoid.default: "sigmoid", ATEN.tanh.default: "tanh", ATEN.silu.default: "swish",
    ATEN.hardswish.default: "hardswish", ATEN.hardsigmoid.default: "hardsigmoid",
}  # fmt: skip
_VIEWS = (ATEN.view.default, ATEN._unsafe_view.default)


def fuse_activations(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Move activations, and the addition of a residual before them, into convolutions and linear layers."""
    rewriter = Rewriter(functional)
    if settings.relaxed and library_operators.onednn_enabled():
        for node in list(functional.graph.nodes):
            if is_call(node, ATEN.convolution.default, library_operators.onednn_convolution()):
                _convolution(rewriter, node, settings)
            elif is_call(node, library_operators.onednn_linear()):
                _linear(rewriter, node)
    return rewriter.finish()


def _activation(node: torch.fx.Node) -> Activation | None:
    """How the library names an activation."""
    if node.op != "call_function":
        return None
    name = _NAMES.get(node.target)
    if name is not None:
        return name, [], ""
    if is_call(node, ATEN.gelu.default):
        return "gelu", [], str(node.kwargs.get("approximate", "none"))
    if is_call(node, ATEN.leaky_relu.default):
        return "leaky_relu", [node.args[1] if len(node.args) > 1 else 0.01], ""
    if is_call(node, ATEN.hardtanh.default) and len(node.args) == 3:
        return "hardtanh", list(node.args[1:]), ""
    return None


def _only_user(node: torch.fx.Node) -> torch.fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _convolution(rewriter: Rewriter, node: torch.fx.Node, settings: Settings) -> None:
    args: Any = node.args
    if node.meta["val"].dtype is not torch.float32 or node.meta["val"].ndim != 4:
        return
    if is_call(node, ATEN.convolution.default):
        x, weight, bias, stride, padding, dilation, transposed, _, groups = args
        if transposed or not is_dense_bias(bias):
            return
    else:
        x, weight, bias, padding, stride, dilation, groups, *_ = args
    where = (padding, stride, dilation, groups)
    user = _only_user(node)
    other, last = None, node
    if is_call(user, ATEN.add.Tensor) and not user.kwargs:  # type: ignore[union-attr]
        assert user is not None
        other = next((arg for arg in user.args if arg is not node), None)
        if isinstance(other, torch.fx.Node) and same_layout(other.meta["val"], node.meta["val"]) \
                and same_layout(user.meta["val"], node.meta["val"]):
            last, user = user, _only_user(user)
        else:
            other = None
    activation = None if user is None else _activation(user)
    if activation is not None and user is not None and same_layout(user.meta["val"], node.meta["val"]):
        last = user
    else:
        activation = None
    packed = _is_packed(x, weight, settings)
    if last is node and not packed:
        return
    with rewriter.before(last):
        if packed:
            size = list(x.meta["val"].shape)
            weight = rewriter.call(library_operators.pack_convolution_weight(), weight, *where, size,
                                   val=weight.meta["val"])
        if other is None:
            fused = rewriter.call(library_operators.onednn_convolution(), x, weight, bias, *where,
                                  *(activation or NONE), val=last.meta["val"])
        else:
            name, numbers, algorithm = activation or (None, [], None)
            fused = rewriter.call(library_operators.onednn_convolution_add(), x, other, weight, bias, *where, "add",
                                  None, name, numbers, algorithm or None, val=last.meta["val"])
    rewriter.replace(last, fused)


def _is_packed(x: torch.fx.Node, weight: torch.fx.Node, settings: Settings) -> bool:
    """Whether a weight can be packed once: it is frozen, perhaps with something folded into it."""
    source: Any = weight
    while is_call(source, ATEN.clone.default, ATEN.mul.Tensor):
        source = source.args[0]
    sizes = x.meta["val"].shape
    return source in settings.frozen and library_operators.pack_convolution_weight() is not None and \
        all(isinstance(size, int) for size in sizes) and \
        x.meta["val"].is_contiguous(memory_format=torch.channels_last) and x.meta["val"].dtype is torch.float32


def _linear(rewriter: Rewriter, node: torch.fx.Node) -> None:
    if node.meta["val"].dtype is not torch.float32 or node.args[3] != "none":
        return
    views: list[torch.fx.Node] = []
    user = _only_user(node)
    while user is not None and is_call(user, *_VIEWS):
        views.append(user)
        user = _only_user(user)
    activation = None if user is None else _activation(user)
    if user is None or activation is None:
        return
    with rewriter.before(node):
        fused = rewriter.call(node.target, *node.args[:3], *activation, val=node.meta["val"])
    rewriter.replace(node, fused)
    rewriter.replace(user, views[-1] if views else fused)
