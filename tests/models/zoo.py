"""The model zoo: small random-weight models that benchmarks and tests run.

Every entry of `MODELS` builds `(module, args, kwargs)`: a module in eval mode and the arguments of one forward call.
Nothing is downloaded: transformers models come from configs, timm and torchvision models are built untrained. Widths
and depths are small, so that one forward takes well under 100 ms on one core; the code that runs is the models' own.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

# Set before transformers is imported: a missing file is an error here, never a download.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

Example = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
Builder = Callable[[], Example]
BuilderT = TypeVar("BuilderT", bound=Builder)

MODELS: dict[str, Builder] = {}
"""Builders by name. The part before the slash is the library: `transformers`, `timm`, `torchvision` or `local`."""

BATCH = 2
SEQUENCE = 16


def build(name: str, *, full_depth: bool = False) -> Example:
    """Build one model with reproducible weights and inputs, from `FULL_DEPTH` if asked to.

    >>> module, args, kwargs = build("local/mlp300")
    >>> len(list(module.parameters()))
    300
    """
    if not name.startswith("local/"):
        prepare_torchvision()  # transformers and timm both import torchvision when it is installed
    torch.manual_seed(0)
    module, args, kwargs = (FULL_DEPTH if full_depth else MODELS)[name]()
    return module.eval(), args, kwargs


def names(library: str | None = None) -> list[str]:
    """The names of all models, or of one library's.

    >>> names("local")
    ['local/lstm', 'local/unet', 'local/mlp300']
    """
    return [name for name in MODELS if library is None or name.startswith(library + "/")]


def model(name: str) -> Callable[[BuilderT], BuilderT]:
    """Register a builder under `name`."""

    def register(builder: BuilderT) -> BuilderT:
        MODELS[name] = builder
        return builder

    return register


@functools.cache
def prepare_torchvision() -> None:
    """Make `import torchvision` (and transformers and timm, which import it) work beside a CPU build of torch."""
    name = "torchvision_on_cpu"
    if name not in sys.modules:
        path = Path(__file__).resolve().parent.parent / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # the declarations it makes live as long as it does
        spec.loader.exec_module(module)
    sys.modules[name].prepare()


def _tokens(vocabulary: int, length: int = SEQUENCE) -> torch.Tensor:
    return torch.randint(3, vocabulary, (BATCH, length))


def _image(size: int, batch: int = BATCH) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


# --------------------------------------------------------------------------------------------------- transformers

_VOCABULARY = 100
_NARROW: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


@model("transformers/bert")
def _bert(layers: int = 2) -> Example:
    from transformers import BertConfig, BertModel

    config = BertConfig(**{**_NARROW, "num_hidden_layers": layers}, max_position_embeddings=64)
    return BertModel(config), (_tokens(_VOCABULARY),), {"attention_mask": torch.ones(BATCH, SEQUENCE, dtype=torch.long)}


@model("transformers/distilbert")
def _distilbert() -> Example:
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(
        vocab_size=_VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64
    )
    return DistilBertModel(config), (_tokens(_VOCABULARY),), {}


@model("transformers/gpt2")
def _gpt2(layers: int = 2) -> Example:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=_VOCABULARY, n_embd=32, n_layer=layers, n_head=4, n_positions=64)
    return GPT2LMHeadModel(config), (_tokens(_VOCABULARY),), {}


@model("transformers/t5")
def _t5() -> Example:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=_VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    return T5ForConditionalGeneration(config), (_tokens(_VOCABULARY),), {"decoder_input_ids": _tokens(_VOCABULARY, 8)}


@model("transformers/llama")
def _llama(layers: int = 2) -> Example:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**{**_NARROW, "num_hidden_layers": layers}, num_key_value_heads=2, max_position_embeddings=64)
    return LlamaForCausalLM(config), (_tokens(_VOCABULARY),), {}


@model("transformers/mistral")
def _mistral() -> Example:
    from transformers import MistralConfig, MistralForCausalLM

    # A window shorter than the sequence, so that the sliding-window mask is really built.
    config = MistralConfig(**_NARROW, num_key_value_heads=2, max_position_embeddings=64, sliding_window=8)
    return MistralForCausalLM(config), (_tokens(_VOCABULARY),), {}


@model("transformers/mixtral")
def _mixtral() -> Example:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        **_NARROW, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=64
    )
    return MixtralForCausalLM(config), (_tokens(_VOCABULARY),), {}


@model("transformers/vit")
def _vit(layers: int = 2) -> Example:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
    )
    return ViTModel(config), (_image(32),), {}


@model("transformers/clip")
def _clip() -> Example:
    from transformers import CLIPConfig, CLIPModel

    shared = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = CLIPConfig(
        text_config={**shared, "vocab_size": _VOCABULARY, "max_position_embeddings": 32},
        vision_config={**shared, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )
    return CLIPModel(config), (), {"input_ids": _tokens(_VOCABULARY), "pixel_values": _image(32)}


@model("transformers/whisper")
def _whisper() -> Example:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=_VOCABULARY,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    features = torch.randn(BATCH, 16, 64)
    return WhisperForConditionalGeneration(config), (features,), {"decoder_input_ids": _tokens(_VOCABULARY, 8)}


@model("transformers/wav2vec2")
def _wav2vec2() -> Example:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        **{**_NARROW, "vocab_size": 32},
        conv_dim=(16, 16, 16),
        conv_kernel=(10, 3, 2),
        conv_stride=(5, 2, 2),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return Wav2Vec2ForCTC(config), (torch.randn(BATCH, 1600),), {}


@model("transformers/mamba")
def _mamba() -> Example:
    from transformers import MambaConfig, MambaForCausalLM

    # The CPU path walks the sequence one step at a time: a short sequence keeps the graph (and capture) small.
    config = MambaConfig(vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, time_step_rank=4)
    return MambaForCausalLM(config), (_tokens(_VOCABULARY, 8),), {}


# ----------------------------------------------------------------------------------------------- timm, torchvision


def _timm(name: str, size: int, **overrides: Any) -> Example:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **overrides), (_image(size),), {}


@model("timm/resnet18")
def _timm_resnet18() -> Example:
    return _timm("resnet18", 64)


@model("timm/vit_tiny")
def _timm_vit_tiny() -> Example:
    return _timm("vit_tiny_patch16_224", 64, img_size=64, depth=4, embed_dim=64, num_heads=4)


@model("timm/efficientnet_b0")
def _timm_efficientnet_b0() -> Example:
    return _timm("efficientnet_b0", 64)


@model("timm/convnext_atto")
def _timm_convnext_atto() -> Example:
    return _timm("convnext_atto", 64, depths=(1, 1, 2, 1))


@model("timm/mobilenetv3_small")
def _timm_mobilenetv3_small() -> Example:
    return _timm("mobilenetv3_small_050", 64)


@model("timm/swin")
def _timm_swin() -> Example:
    # Two stages of two blocks: the second block of each stage shifts its windows.
    return _timm(
        "swin_tiny_patch4_window7_224", 64, img_size=64, window_size=4, embed_dim=32, depths=(2, 2), num_heads=(2, 4)
    )


@model("torchvision/resnet18")
def _torchvision_resnet18() -> Example:
    import torchvision

    return torchvision.models.resnet18(weights=None, num_classes=10), (_image(64),), {}


# ----------------------------------------------------------------------------------------------------------- local


class Tagger(nn.Module):
    """An embedding, a two-layer bidirectional LSTM and a classifier per token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_VOCABULARY, 16)
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(64, 5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, (hidden, _) = self.lstm(self.embedding(tokens))
        return self.classifier(states), hidden[-1]


class UNet(nn.Module):
    """Two levels down, two up, with the skip connections kept in a list."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        self.up = nn.ModuleDict()
        channels = 3
        for width in widths:
            self.down.append(self._block(channels, width))
            channels = width
        for level in range(len(widths) - 2, -1, -1):
            self.up[f"upsample{level}"] = nn.ConvTranspose2d(channels, widths[level], 2, stride=2)
            self.up[f"block{level}"] = self._block(2 * widths[level], widths[level])
            channels = widths[level]
        self.head = nn.Conv2d(channels, 1, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for level, block in enumerate(self.down):
            if level:
                x = nn.functional.max_pool2d(x, 2)
            x = block(x)
            skips.append(x)
        skips.pop()
        for level in reversed(range(len(skips))):
            x = self.up[f"upsample{level}"](x)
            x = self.up[f"block{level}"](torch.cat([x, skips[level]], dim=1))
        return self.head(x)


class ResidualMLP(nn.Module):
    """`layers` residual linear layers: two parameters each, so 150 layers hold 300 parameters."""

    def __init__(self, layers: int = 150, width: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


@model("local/lstm")
def _lstm() -> Example:
    return Tagger(), (_tokens(_VOCABULARY),), {}


@model("local/unet")
def _unet() -> Example:
    return UNet(), (_image(32),), {}


@model("local/mlp300")
def _mlp300() -> Example:
    return ResidualMLP(), (torch.randn(BATCH, 4),), {}


FULL_DEPTH: dict[str, Builder] = {
    "transformers/bert": functools.partial(_bert, 12),
    "transformers/gpt2": functools.partial(_gpt2, 12),
    "transformers/vit": functools.partial(_vit, 12),
    "transformers/llama": functools.partial(_llama, 16),
    "torchvision/resnet18": _torchvision_resnet18,
}
"""Models as deep as the published ones, still narrow: what capture costs depends on the depth and not on the width."""
