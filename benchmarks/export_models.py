"""Export of 30 models with a dynamic batch (and sequence): equal to eager on other sizes, and how long it takes.

    python -m benchmarks.export_models                     # all models, firesteel
    python -m benchmarks.export_models --torch             # torch.export beside it
    python -m benchmarks.export_models --only gpt2 --strict 0
    python -m benchmarks.export_models --saved             # save all programs, load and run them in a fresh process

Each model is exported with example inputs of one size, and the program is run on three other sizes of batch and, where
the inputs are tokens, sequence. Times are CPU seconds of this thread for the call of export alone, after a warm-up with
a small model; both sides get the same declaration.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.export

from benchmarks import models
from benchmarks.model_breaks import assert_same

SIZES = ((3, 20), (5, 11), (4, 31))
FIXED_SEQUENCE = {"transformers/mamba", "transformers/wav2vec2"}
"""Models that walk along the sequence in Python, or whose input is sound."""

MORE: dict[str, Callable[[], models.Example]] = {}


def _more(name: str) -> Callable[[Callable[[], models.Example]], Callable[[], models.Example]]:
    def register(builder: Callable[[], models.Example]) -> Callable[[], models.Example]:
        MORE[name] = builder
        return builder

    return register


def _text(kind: str, **options: Any) -> Callable[[], models.Example]:
    def builder() -> models.Example:
        import transformers

        config = getattr(transformers, f"{kind}Config")(**{
            "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 64, "max_position_embeddings": 64, **options})
        model = getattr(transformers, f"{kind}Model")(config)
        return model, (torch.randint(3, 100, (models.BATCH, models.SEQUENCE)),), {}

    return builder


def _torchvision(name: str, size: int = 64, **options: Any) -> Callable[[], models.Example]:
    def builder() -> models.Example:
        import torchvision

        return (getattr(torchvision.models, name)(weights=None, num_classes=10, **options),
                (torch.randn(models.BATCH, 3, size, size),), {})

    return builder


def _timm(name: str, size: int = 64, **options: Any) -> Callable[[], models.Example]:
    def builder() -> models.Example:
        import timm

        return (timm.create_model(name, pretrained=False, num_classes=10, **options),
                (torch.randn(models.BATCH, 3, size, size),), {})

    return builder


MORE.update({
    "transformers/roberta": _text("Roberta", pad_token_id=1),
    "transformers/electra": _text("Electra", embedding_size=32),
    "transformers/albert": _text("Albert", embedding_size=16),
    "transformers/qwen2": _text("Qwen2", num_key_value_heads=2),
    "transformers/gpt_neox": _text("GPTNeoX"),
    "transformers/opt": _text("OPT", ffn_dim=64, word_embed_proj_dim=32),
    "torchvision/mobilenet_v2": _torchvision("mobilenet_v2"),
    "torchvision/squeezenet1_1": _torchvision("squeezenet1_1"),
    "torchvision/shufflenet": _torchvision("shufflenet_v2_x0_5"),
    "torchvision/vgg11": _torchvision("vgg11", 32),
    "torchvision/regnet": _torchvision("regnet_y_400mf"),
    "timm/mixer": _timm("mixer_s32_224", 64, img_size=64),
})


def all_names() -> list[str]:
    """The models, those of the zoo first."""
    return [*(name for name in models.names() if not name.startswith("local/")), *MORE]


def build(name: str) -> models.Example:
    """A module and its example inputs, with reproducible weights."""
    if name in MORE:
        models.prepare_torchvision()
        torch.manual_seed(0)
        module, args, kwargs = MORE[name]()
        module = module.eval()
    else:
        module, args, kwargs = models.build(name)
    for part in module.modules():
        if getattr(getattr(part, "config", None), "use_cache", False):
            part.config.use_cache = False  # a cache is an object of its own class among the results
    return module, args, kwargs


def varies(name: str, tensor: torch.Tensor, dim: int) -> bool:
    """Whether a dimension of an input is dynamic: the batch, and the sequence of tokens."""
    return dim == 0 or (dim == 1 and tensor.dtype is torch.long and name not in FIXED_SEQUENCE)


def declaration(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], dim: Any) -> Any:
    """dynamic_shapes for a model's inputs: the batch must be dynamic, the sequence as far as the model allows."""
    def of(tensor: torch.Tensor) -> dict[int, Any]:
        return {at: dim.DYNAMIC if at == 0 else dim.AUTO for at in range(tensor.dim()) if varies(name, tensor, at)}

    return (tuple(of(value) for value in args), {key: of(value) for key, value in kwargs.items()})


def resized(name: str, tensor: torch.Tensor, batch: int, sequence: int, first: bool) -> torch.Tensor:
    """An input like another one, of other sizes."""
    shape = list(tensor.shape)
    shape[0] = batch
    if tensor.dim() > 1 and varies(name, tensor, 1):
        shape[1] = sequence if tensor.shape[1] == models.SEQUENCE else sequence // 2 + 2
    if tensor.dtype is torch.long:
        return torch.ones(shape, dtype=torch.long) if not first and bool((tensor == 1).all()) else \
            torch.randint(3, 100, shape)
    return torch.randn(shape)


def export_with(side: str, name: str, strict: bool) -> tuple[float, Any]:
    """CPU seconds of an export, and the program."""
    module, args, kwargs = build(name)
    if side == "firesteel":
        import firesteel as fs

        dim, export = fs.export.Dim, fs.export.export
    else:

        dim, export = torch.export.Dim, torch.export.export
    shapes = declaration(name, args, kwargs, dim)
    names = _by_name(module, args, shapes)
    started = time.thread_time()
    with torch.no_grad():
        program = export(module, args, kwargs, dynamic_shapes=names, strict=strict)
    return time.thread_time() - started, program


def _by_name(module: torch.nn.Module, args: tuple[Any, ...], shapes: Any) -> dict[str, Any]:
    import inspect

    positional = list(inspect.signature(module.forward).parameters)
    return {**dict(zip(positional, shapes[0], strict=False)), **shapes[1]}


def check(name: str, program: Any) -> None:
    """Hold a program against eager on other sizes."""
    module, args, kwargs = build(name)
    called = program.module()
    for batch, sequence in SIZES:
        torch.manual_seed(batch)
        other = tuple(resized(name, value, batch, sequence, at == 0) for at, value in enumerate(args))
        named = {key: resized(name, value, batch, sequence, not args and at == 0)
                 for at, (key, value) in enumerate(kwargs.items())}
        with torch.no_grad():
            assert_same(called(*other, **named), module(*other, **named))


def measure(name: str, side: str, strict: bool, repeat: int) -> dict[str, Any]:
    """Export, check, time."""
    try:
        seconds, program = export_with(side, name, strict)
        for _ in range(repeat - 1):
            seconds = min(seconds, export_with(side, name, strict)[0])
    except Exception as error:
        return {"error": f"export: {type(error).__name__}: {error}"}
    try:
        check(name, program)
    except Exception as error:
        return {"seconds": seconds, "error": f"run: {type(error).__name__}: {error}"}
    return {"seconds": seconds, "error": None}


# ---------------------------------------------------------------------------------------------------------------------
# saved programs


def save_all(folder: Path, names: Sequence[str], strict: bool) -> None:
    """Export models and save the programs."""
    import firesteel as fs

    for name in names:
        fs.export.save(export_with("firesteel", name, strict)[1], folder / name.replace("/", "."))


def load_all(folder: Path, names: Sequence[str]) -> int:
    """Load programs that another process saved and hold them against eager; how many do not equal it."""
    import firesteel as fs

    wrong = 0
    for name in names:
        path = folder / name.replace("/", ".")
        build(name)  # imports the library, which registers its operators and the classes of its results
        started = time.thread_time()
        try:
            program = fs.export.load(path)
            seconds = time.thread_time() - started
            check(name, program)
            print(f"{name:<28} {path.stat().st_size / 1e6:6.1f} MB loaded in {seconds:6.3f} s  ok", flush=True)
        except Exception as error:
            wrong += 1
            print(f"{name:<28} {type(error).__name__}: {error}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} saved programs equal eager in another process")
    return wrong


def saved_in_fresh_process(names: Sequence[str], options: argparse.Namespace) -> int:
    """Save here, load there."""
    with tempfile.TemporaryDirectory() as folder:
        save_all(Path(folder), names, bool(options.strict))
        command = [sys.executable, "-m", "benchmarks.export_models", "--only", options.only, "--load", folder]
        return subprocess.run(command, cwd=Path(__file__).resolve().parent.parent, check=False).returncode


def warm_up(side: str, strict: bool) -> None:
    """What only the first export of a process pays."""
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    if side == "firesteel":
        import firesteel as fs

        fs.export.export(layer, (torch.ones(2, 4),), strict=strict)
    else:

        torch.export.export(layer, (torch.ones(2, 4),), strict=strict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--torch", action="store_true", help="torch.export as well")
    parser.add_argument("--strict", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--saved", action="store_true", help="save, load and run in a fresh process")
    parser.add_argument("--load", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ.setdefault("FIRESTEEL_DISK_CACHE", "0")
    warnings.simplefilter("ignore")
    names = [name for name in all_names() if options.only in name]
    if options.load:
        return min(load_all(Path(options.load), names), 1)
    if options.saved:
        return saved_in_fresh_process(names, options)
    sides = ["firesteel", "torch"] if options.torch else ["firesteel"]
    for side in sides:
        warm_up(side, bool(options.strict))
    results: dict[str, Any] = {}
    ratios: list[float] = []
    for name in names:
        row = results[name] = {side: measure(name, side, bool(options.strict), options.repeat) for side in sides}
        texts = []
        for side in sides:
            seconds = row[side].get("seconds")
            texts.append(f"{side} {'-' if seconds is None else f'{seconds:7.3f} s'} "
                         f"{(row[side]['error'] or 'ok').splitlines()[0][:90]}")
        if all(row[side].get("seconds") for side in sides) and len(sides) == 2 and row["firesteel"]["error"] is None:
            ratios.append(row["torch"]["seconds"] / row["firesteel"]["seconds"])
            texts.append(f"{ratios[-1]:5.1f}x")
        print(f"{name:<28} " + "  ".join(texts), flush=True)
    good = sum(row["firesteel"]["error"] is None for row in results.values())
    print(f"{good} of {len(results)} models export and equal eager on {len(SIZES)} other sizes")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"torch.export takes {mean:.1f} times as long (geometric mean of {len(ratios)})")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return 0 if good == len(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
