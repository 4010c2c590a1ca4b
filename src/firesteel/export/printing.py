"""Exported programs as text: the graph with types and the user's source lines, the signature, the ranges."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .program import ExportedProgram


# newer versions of torch write the class around the type of a subclass of Tensor
_CLASS = re.compile(r'"FakeTensor\(([^"]*)\)"')


def print_program(program: ExportedProgram) -> str:
    """What ``print(program)`` shows."""
    code = program.graph_module.print_readable(print_output=False, colored=False)
    code = _CLASS.sub(r'"\1"', code).replace("firesteel_control_flow_operators_", "firesteel.control_flow.")
    ranges = ", ".join(f"{expr}: {bounds!r}" for expr, bounds in program.range_constraints.items())
    return (f"ExportedProgram:\n{textwrap.indent(code, '    ')}\n"
            f"Graph signature: {program.graph_signature}\n"
            f"Range constraints: {{{ranges}}}\n")
