"""Which way of computing a matrix product is fastest on a GPU, measured together with what is computed from it.

The product and the operators behind it that would become part of its kernel are compiled as a program of their own,
once with the library's product and once for each of several sizes of tiles of ours, and run on made-up tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ...passes.rewriting import Rewriter
from ...torch_compat import OpOverload

if TYPE_CHECKING:
    from ...functional.graph import FunctionalGraph
    from ..gpu.tiles import Tiles
    from ..tuning import Tuner

LIBRARY = "library"
MOST_BYTES = 1 << 33
"""Products that need more memory than this are not measured."""


def fastest(node: torch.fx.Node, parts: Sequence[torch.fx.Node | None], tuner: Tuner) -> Tiles | str | None:
    """The tiles that measure fastest, `LIBRARY` if that does; None where it cannot be measured."""
    from ..gpu.tiles import candidates

    chain = followed(node)
    inputs = list(dict.fromkeys(source for one in chain for source in one.all_input_nodes if source not in chain))
    values: list[Any] = [source.meta.get("val") for source in inputs]
    if not all(isinstance(value, torch.Tensor) and _is_static(value) for value in values):
        return None
    if sum(_extent(value) * value.dtype.itemsize for value in values) > MOST_BYTES:
        return None
    left, right = parts[:2]
    assert left is not None and right is not None
    rows, depth = left.meta["val"].shape[-2:]
    tiles = {str(one): one for one in candidates(rows, right.meta["val"].shape[-1], depth)}
    ways: dict[str, Tiles | None] = {LIBRARY: None, **tiles}
    prepared = {name: _prepared(chain, inputs, one, tuner) for name, one in ways.items()}
    about = "; ".join([f"{one.target}({', '.join(map(_described, one.args))}) {one.kwargs}" for one in chain])
    chosen = tuner.choose(f"{node.name}: {about}", f"product {about}", prepared)
    return tiles.get(chosen, LIBRARY)


def followed(node: torch.fx.Node) -> list[torch.fx.Node]:
    """A node, and one behind the other the operators that compute from it alone, point by point."""
    from ..lowering.policy import VIEWS

    chain, last = [node], 0
    while len(chain[-1].users) == 1:
        [user] = chain[-1].users
        pointwise = isinstance(user.target, OpOverload) and torch.Tag.pointwise in user.target.tags
        if not pointwise and str(user.target) not in VIEWS:
            break
        chain.append(user)
        if pointwise:
            last = len(chain) - 1
    return chain[: last + 1]


def _is_static(value: torch.Tensor) -> bool:
    return all(isinstance(number, int) for number in (*value.shape, *value.stride()))


def _extent(value: torch.Tensor) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))


def _described(argument: Any) -> str:
    if isinstance(argument, torch.fx.Node):
        value = argument.meta["val"]
        return f"{value.dtype} {tuple(value.shape)} {tuple(value.stride())}"
    return repr(argument)


def _made_up(value: torch.Tensor) -> torch.Tensor:
    """A tensor like the one that a fake tensor stands for."""
    whole = torch.empty(max(_extent(value), 0), dtype=value.dtype, device=value.device)
    whole = whole.normal_(0, 1 / math.sqrt(max(value.shape[-1] if value.ndim else 1, 1))) \
        if value.dtype.is_floating_point else whole.zero_()
    return whole.as_strided(value.shape, value.stride())


def _prepared(chain: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node],
              tiles: Tiles | None, tuner: Tuner) -> Callable[[], Callable[[], object]]:
    def prepare() -> Callable[[], object]:
        assert tuner.compile is not None
        given = [_made_up(source.meta["val"]) for source in inputs]
        run = tuner.compile(_program(chain, inputs, given, tiles))
        return lambda: run(*given)

    return prepare


def _program(chain: Sequence[torch.fx.Node], inputs: Sequence[torch.fx.Node], given: Sequence[torch.Tensor],
             tiles: Tiles | None) -> FunctionalGraph:
    """The graph of a product and what follows it, with the product computed in one way."""
    from ...functional import trace
    from .tile_products import in_tiles, product_parts

    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for number, source in enumerate(inputs):
        copies[source] = graph.placeholder(f"x{number}")
    for one in chain:
        copies[one] = graph.node_copy(one, lambda source: copies[source])
    graph.output((copies[chain[-1]],))
    with torch.no_grad():
        functional = trace(torch.fx.GraphModule(torch.nn.Module(), graph), given)
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        parts = product_parts(node)
        if parts is None:
            continue
        if tiles is None:
            node.meta[LIBRARY] = True
        else:
            in_tiles(rewriter, node, parts, tiles)
    return rewriter.finish()
