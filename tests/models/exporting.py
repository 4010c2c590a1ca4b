"""Models exported with a dynamic batch (and sequence), held against eager on other sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.export
from tests.models import zoo
from tests.models.equality import assert_same

SIZES = ((3, 20), (5, 11), (4, 31))
FIXED_SEQUENCE = {"transformers/mamba", "transformers/wav2vec2"}
"""Models that walk along the sequence in Python, or whose input is sound."""


def _text(kind: str, **options: Any) -> Callable[[], zoo.Example]:
    def builder() -> zoo.Example:
        import transformers

        config = getattr(transformers, f"{kind}Config")(**{
            "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 64, "max_position_embeddings": 64, **options})
        model = getattr(transformers, f"{kind}Model")(config)
        return model, (torch.randint(3, 100, (zoo.BATCH, zoo.SEQUENCE)),), {}

    return builder


def _torchvision(name: str, size: int = 64, **options: Any) -> Callable[[], zoo.Example]:
    def builder() -> zoo.Example:
        import torchvision

        return (getattr(torchvision.models, name)(weights=None, num_classes=10, **options),
                (torch.randn(zoo.BATCH, 3, size, size),), {})

    return builder


def _timm(name: str, size: int = 64, **options: Any) -> Callable[[], zoo.Example]:
    def builder() -> zoo.Example:
        import timm

        return (timm.create_model(name, pretrained=False, num_classes=10, **options),
                (torch.randn(zoo.BATCH, 3, size, size),), {})

    return builder


MORE: dict[str, Callable[[], zoo.Example]] = {
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
}
"""Models beside those of the zoo."""


def all_names() -> list[str]:
    """The models, those of the zoo first."""
    return [*(name for name in zoo.names() if not name.startswith("local/")), *MORE]


def build(name: str) -> zoo.Example:
    """A module and its example inputs, with reproducible weights."""
    if name in MORE:
        zoo.prepare_torchvision()
        torch.manual_seed(0)
        module, args, kwargs = MORE[name]()
        module = module.eval()
    else:
        module, args, kwargs = zoo.build(name)
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
        shape[1] = sequence if tensor.shape[1] == zoo.SEQUENCE else sequence // 2 + 2
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
