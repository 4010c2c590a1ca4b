"""Results of one graph that get functions of their own: those that have nothing to do with each other in backward.

    def f(x, y):                                    parts: a with x, b with y
        a = x.sin()
        b = y * y.detach()
        return a, b

In eager each of them has a history of its own. ``a.backward()`` looks at nothing that belongs to ``b``, so the memory
that ``b`` needs may have been changed or freed, and stays for ``b.backward()``. One function that made them both would
be walked through as a whole, with all that lies before it.

Results that share inputs are taken apart as well where one of them has to do with an input that has a history and
another has not: that history must not be walked through for the other. What both need is computed twice then.
"""

from __future__ import annotations

from dataclasses import replace

from ..functional.graph import Constant, FreshTensor, Output
from ..records import dataclass
from .joint_graph import JointGraph, tangent_bits
from .partition import Partition, part_again


@dataclass(frozen=True)
class Part:
    """Some differentiable results, by number, and the inputs that their gradients flow to."""

    results: tuple[int, ...]
    inputs: tuple[int, ...]
    parted: Partition
    """Its backward is the one of these results, or one of more; `Partition.kept_at` says what it takes."""


def parts_of(parted: Partition, with_history: set[int]) -> list[Part]:
    """The parts that a graph falls into; none where it is of one piece. ``with_history``: inputs that are no leaves."""
    joint = parted.joint
    if sum(item.tangent is not None for item in joint.differentiable) < 2:
        return []
    behind = tangents_behind(joint)
    if any(isinstance(output, FreshTensor) and not numbers
           for output, numbers in zip(joint.gradients, behind, strict=True)):
        return []  # gradients that are constant, such as those of floor: not known to which result they belong
    pieces: list[set[int]] = []
    for numbers in behind:
        if numbers:
            joined = [piece for piece in pieces if piece & numbers]
            pieces = [piece for piece in pieces if not piece & numbers]
            pieces.append(numbers.union(*joined))
    taken_apart = [smaller for piece in pieces for smaller in _by_histories(piece, behind, with_history)]
    if len(taken_apart) < 2:
        return []
    parts = []
    pieces.sort(key=min)
    taken_apart.sort(key=min)
    # A result that no gradient flows back from requires grad all the same.
    taken_apart[0] |= set(range(len(joint.differentiable))).difference(*pieces)
    for piece in taken_apart:
        part = part_again(_with_tangents(joint, piece, behind), parted) if len(taken_apart) == len(pieces) else parted
        if part is None:
            return []
        inputs = tuple([at for at, numbers in enumerate(behind) if numbers & piece])
        parts.append(Part(tuple(sorted(piece)), inputs, part))
    return parts


def _by_histories(piece: set[int], behind: list[set[int]], with_history: set[int]) -> list[set[int]]:
    """Some results, taken apart such that those of one set have to do with the same inputs that have a history."""
    groups: dict[tuple[int, ...], set[int]] = {}
    for number in sorted(piece):
        reached = tuple([at for at, numbers in enumerate(behind) if number in numbers and at in with_history])
        groups.setdefault(reached, set()).add(number)
    return list(groups.values())


def _with_tangents(joint: JointGraph, piece: set[int], behind: list[set[int]]) -> JointGraph:
    """The joint graph where gradients come for some results only."""
    differentiable = [item if number in piece else replace(item, tangent=None)
                      for number, item in enumerate(joint.differentiable)]
    gradients: list[Output] = [output if numbers and numbers <= piece else Constant(None)
                               for output, numbers in zip(joint.gradients, behind, strict=True)]
    return replace(joint, differentiable=differentiable, gradients=gradients)


def tangents_behind(joint: JointGraph) -> list[set[int]]:
    """For the gradient of each input the differentiable results, by number, whose tangents it is computed from."""
    bits = tangent_bits(joint)
    return [{number for number in range(len(joint.differentiable)) if bits[output.node] >> number & 1}
            if isinstance(output, FreshTensor) else set() for output in joint.gradients]
