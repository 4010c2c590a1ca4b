"""``firesteel explain module:function --args "torch.randn(3), 2"``: what was captured, where it broke, and why."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import firesteel
from firesteel.errors import BackendError, UserCodeError

from . import FAILED, OK, InputError
from .printing import show, show_error
from .targets import add_target, load_target

if TYPE_CHECKING:
    from . import Commands

DYNAMIC = {"auto": None, "yes": True, "no": False}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain", help="run a function once and say what was captured, where it broke, and why",
        description="Run a function once under the compiler and say what was captured, where it broke, and why.",
        epilog="""example: firesteel explain models.py:forward --args "torch.randn(3), 2" """)
    add_target(parser)
    parser.add_argument("--graphs", action="store_true", help="print each captured graph as code")
    parser.add_argument("--guards", action="store_true", help="print what the captured code relies on")
    parser.add_argument("--backend", default="eager",
                        help='what graphs are run by: "eager" (the default), "native", or another name')
    parser.add_argument("--dynamic", choices=("auto", "yes", "no"), default="auto",
                        help="sizes are symbols: those that change (auto), all (yes), none (no)")
    parser.set_defaults(command=explain)


def explain(arguments: argparse.Namespace) -> int:
    """Run the command."""
    target = load_target(arguments)
    try:
        explained = firesteel.explain(target.function, backend=arguments.backend, dynamic=DYNAMIC[arguments.dynamic])
        explanation = explained(*target.args, **target.kwargs)
    except (BackendError, UserCodeError) as error:
        raise InputError(str(error)) from None
    except Exception as error:
        show_error(error)
        return FAILED
    show(explanation)
    if arguments.graphs:
        for number, graph in enumerate(explanation.graphs, 1):
            print(f"\ngraph {number}:{graph.code}", end="")
    if arguments.guards:
        print("\nguards:")
        for guard in explanation.guards:
            print(f"  {guard}")
    return OK
