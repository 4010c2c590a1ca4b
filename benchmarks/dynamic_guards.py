"""What checking the guards of GPT-2 costs when batch and sequence may vary, against fixed sizes; backend "eager".

    python -m benchmarks.dynamic_guards
    python -m benchmarks.dynamic_guards --side firesteel

The model has 12 layers and is narrow, because guards do not depend on the width. Its static version is compiled for one
size, its dynamic one on the second size that it is called with. Only the guards are timed: for firesteel the entry's
own text up to its graph call, with the guards as Python and as native code; for torch.compile its guard manager's check
of the frame's locals. All variants run in one process, in alternating rounds; the bar is decided on the best round.
"""

from __future__ import annotations

import argparse
import ast
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.models import zoo

from benchmarks import report
from benchmarks.call_overhead import SIDES, Call, compiler, strict, time_alternating

MODEL = "transformers/gpt2"
SIZES = ((2, 16), (3, 20), (5, 9))
LIMIT = 1.5
FORMS = ("native", "python")


def run(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """The compiled function: one forward pass."""
    logits: torch.Tensor = model(tokens).logits
    return logits


def inputs() -> list[torch.Tensor]:
    """Tokens of every size."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(0, 60, size, generator=generator) for size in SIZES]


def guards_alone(text: str, statements: int, namespace: dict[str, Any]) -> Callable[..., Any]:
    """A function that runs the first statements of an entry's text: its guards."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = "guards"
    function.body = [*function.body[:statements], *ast.parse("return True").body]  # in a function's place
    scope = namespace.copy()
    exec(compile(ast.fix_missing_locations(tree), "<guards>", "exec"), scope)
    made: Callable[..., Any] = scope["guards"]
    return made


def entry_guards(entry: Any, native: bool) -> Callable[..., Any]:
    """The guards of one of firesteel's entries, in one of their two forms."""
    if not native:
        return guards_alone(entry.text, 1, entry.function.__globals__)
    header = entry.text.partition("\n")[0]
    text = "\n".join([header, *("    " + line for line in entry.upgrade.text.splitlines())])
    return guards_alone(text, 2, entry.function.__globals__)


def firesteel_variants(variants: dict[str, Call], details: dict[str, Any]) -> None:
    """Add the guards of the static and the dynamic entry."""
    import firesteel as fs

    for form in FORMS:
        for dynamic in (False, True):
            model, _, _ = zoo.build(MODEL, full_depth=True)
            with fs.config.patch(native_guards="always" if form == "native" else "never"):
                compiled = fs.compile(run, backend="eager", dynamic=None if dynamic else False)
                tokens = inputs()
                for example in tokens if dynamic else tokens[1:2]:
                    torch.testing.assert_close(compiled(model, example), run(model, example))
            name = f"firesteel {form} {'dynamic' if dynamic else 'static'}"
            # the second, or the only one where firesteel remembers from an earlier run which sizes vary
            entry = compiled._firesteel_unit.entries[-1]
            if form == "native" and (entry.upgrade is None or entry.upgrade.native is None):
                raise RuntimeError(f"{name}: the guards stayed Python")
            check = entry_guards(entry, form == "native")
            accepted = [check(model, example) is True for example in tokens]
            if accepted != [dynamic, True, dynamic]:
                raise RuntimeError(f"{name}: sizes accepted are {accepted}")
            details[name] = {
                "guards": len(entry.guards), "shape guards": [str(guard.expr) for guard in entry.shape_guards],
                "kept in Python": entry.upgrade.kept_in_python if form == "native" else None,
            }
            variants[name] = lambda f=check, m=model, t=tokens[1]: f(m, t)  # type: ignore[misc]


def torch_variants(variants: dict[str, Call]) -> None:
    """Add torch.compile's checks of the same two versions."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    for dynamic in (False, True):
        # entries belong to code objects, and a reset would make those of the other version useless
        function = types.FunctionType(run.__code__.replace(co_name=f"run_{dynamic}"), globals())
        model, _, _ = zoo.build(MODEL, full_depth=True)
        compiled = compiler("torch")(function, backend="eager", dynamic=None if dynamic else False)
        tokens = inputs()
        for example in tokens if dynamic else tokens[1:2]:
            torch.testing.assert_close(compiled(model, example), run(model, example))
        checks = [entry.guard_manager.check for entry in _debug_get_cache_entry_list(function.__code__)]
        local = [{"model": model, "tokens": example} for example in tokens]
        wanted = [dynamic, True, dynamic]
        (check,) = [check for check in checks if [check(scope) for scope in local] == wanted]
        variants[f"torch {'dynamic' if dynamic else 'static'}"] = lambda f=check, s=local[1]: f(s)  # type: ignore[misc]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    sides = SIDES if options.side == "both" else (options.side,)
    torch.set_num_threads(1)
    variants: dict[str, Call] = {}
    details: dict[str, Any] = {}
    with torch.no_grad(), strict(sides):
        if "torch" in sides:
            torch_variants(variants)  # first, because it adds to nn.Module, which firesteel's guards notice
        if "firesteel" in sides:
            firesteel_variants(variants, details)
        timings = time_alternating(variants)
        refusing = [name for name, check in variants.items() if check() is not True]
        if refusing:
            raise RuntimeError(f"guards that no longer hold were timed: {', '.join(refusing)}")

    groups = [group for group in (*(f"firesteel {form}" for form in FORMS), "torch") if group.split()[0] in sides]
    ratios = {group: timings[f"{group} dynamic"].best_us / timings[f"{group} static"].best_us for group in groups}
    medians = {group: timings[f"{group} dynamic"].median_us / timings[f"{group} static"].median_us for group in groups}
    report.print_table(
        "guards of GPT-2, 12 layers, µs per check",
        ["guards", "static", "dynamic", "ratio (best)", "ratio (median)"],
        [[group, timings[f"{group} static"].best_us, timings[f"{group} dynamic"].best_us, ratios[group], medians[group]]
         for group in groups],
    )
    for name, facts in details.items():
        kept = facts["kept in Python"]
        print(f"{name}: {facts['guards']} guards, on sizes: {', '.join(facts['shape guards']) or 'none'}"
              + (f"; {len(kept)} lines kept in Python" if kept is not None else ""))
    met = all(ratios[f"firesteel {form}"] <= LIMIT for form in FORMS) if "firesteel" in sides else True
    if "firesteel" in sides:
        print(f"bar {LIMIT}: {'met' if met else 'MISSED'}")
    if options.json:
        report.write_json(options.json, {
            "versions": report.versions("transformers"), "details": details, "ratios": ratios,
            "best_us": {name: timing.best_us for name, timing in timings.items()},
            "median_us": {name: timing.median_us for name, timing in timings.items()},
        })
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
