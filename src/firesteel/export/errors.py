"""Errors of exporting and of calling exported programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import FiresteelError, UserFrame

_SETTLE = "A condition on sizes or item() can be settled with torch._check."
BRANCH_HINT = (
    "Use fs.cond(pred, true_fn, false_fn, operands) to keep both branches. With strict=True, which reads the bytecode, "
    f"the option capture_branches does that by itself where the branches have no side effects. {_SETTLE}"
)
LOOP_HINT = "Use fs.while_loop(cond_fn, body_fn, carried_inputs)."
STRICT_BRANCH_HINT = (
    "Use fs.cond(pred, true_fn, false_fn, operands) to keep both branches, or take out of them what stands in the way: "
    f"with capture_branches=True, the default, branches without side effects become a cond. {_SETTLE}"
)


GRADIENTS = "gradients are computed inside of forward, by backward or torch.autograd.grad"
GRADIENTS_HINT = (
    "Programs are recorded before autograd. Compute gradients of program.module() outside, or write them out.")


RUNNING_HINT = (
    "Exported programs run without Python, so this step cannot be left to it. Write it with tensor operations, move it "
    "out of forward, give a custom operator a fake kernel (torch.library.register_fake), or try strict=True, which "
    "follows the Python code instead of running it.")


_EXAMPLES = (
    (r"cannot become a cond", "if_on_a_tensor"),
    (r"a branch depends on the value of a tensor", "cond_on_a_tensor"),
    (r"^cond: result", "cond_on_a_tensor"),
    (r"a loop depends on the value of a tensor", "loop_until"),
    (r"^could not decide .* which depends on data", "condition_on_data_stated"),
    (r"for the next call|exists outside of the program", "buffer_that_counts"),
    (r"marked as disabled|^print\(\)|as an argument of a tensor operation", "functions_inside"),
)
"""Which of `firesteel.export.examples` shows what to write instead, by what the reason says."""
BRANCH_ON_SIZES = "size_in_a_branch_apart"
"""The example for sizes of which not all take the same branch."""


def helpful_example(reason: str) -> str | None:
    """The name of an example that shows what to write instead.

    >>> helpful_example("a loop depends on the value of a tensor")
    'loop_until'
    """
    return next((name for pattern, name in _EXAMPLES if re.search(pattern, reason, re.DOTALL)), None)


class ExportError(FiresteelError):
    """A program cannot be exported: it would need a graph break, or does something that a graph cannot hold.

    >>> import torch, firesteel as fs
    >>> class Prints(torch.nn.Module):
    ...     def forward(self, x):
    ...         print(x.max())
    ...         return x
    >>> try:
    ...     fs.export.export(Prints(), (torch.ones(2),))
    ... except fs.export.ExportError as error:
    ...     print(str(error).splitlines()[0])
    This program cannot be exported as one graph.
    """

    def __init__(self, reason: str, hint: str | None = None, frames: Sequence[UserFrame] = ()) -> None:
        super().__init__(reason, hint, frames)
        name = helpful_example(reason)
        if name is not None:
            self.hint = f"{self.hint or ''}\nAn example: print(fs.export.examples.get({name!r}).source)".lstrip()

    headline = "This program cannot be exported as one graph."
    default_hint = (
        "Exported programs run without Python, so this step cannot be left to it. Write it with tensor operations, "
        "move it out of forward, or try strict=False, which runs the Python code once and keeps what it computes as "
        "constants."
    )


class InputMismatchError(FiresteelError):
    """An exported program is called with inputs that it was not exported for.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> try:
    ...     program.module()(torch.ones(3))
    ... except fs.export.InputMismatchError as error:
    ...     print(str(error).splitlines()[0])
    These inputs are outside of what the program was exported for.
    """

    headline = "These inputs are outside of what the program was exported for."
    default_hint = "Pass inputs that fit, or export again with dynamic_shapes that allow these."


class VerificationError(FiresteelError):
    """An exported program is not well formed, for instance after a pass has changed its graph.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> program.graph_signature.output_specs.clear()
    >>> try:
    ...     program.validate()
    ... except fs.export.VerificationError as error:
    ...     print(str(error).splitlines()[0])
    This exported program is not well formed.
    """

    headline = "This exported program is not well formed."
    default_hint = "Look at the pass that changed the graph last."
