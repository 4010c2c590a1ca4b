"""Models of transformers and timm drawn at random, made small enough to run in a moment, with arguments that fit.

A model of transformers is built from its own default configuration, in which everything that decides on its size is
replaced by something small (`shrink`). What its forward takes is read from the signature. Models that eager itself
cannot run that way are passed over (`TransformersModel.build` raises `NotBuilt`): they say nothing about a compiler.
"""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass
from typing import Any

import torch
from tests.models import zoo

Example = zoo.Example


class NotBuilt(Exception):
    """Eager itself does not run this model with a small configuration and simple arguments."""


# What decides on a size in configurations, and what it becomes.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "encoder_hidden_size", "emb_dim",
                     "width", "decoder_hidden_size", "hidden_dim", "projection_dim", "embedding_size", "model_dim",
                     "num_features", "cross_attention_hidden_size", "text_hidden_size", "vision_hidden_size",
                     "encoder_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
                     "depth", "num_encoder_layers", "num_decoder_layers", "num_encoder_blocks",
                     "decoder_num_hidden_layers", "encoder_num_hidden_layers", "num_blocks", "num_hidden_groups"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "attention_heads", "decoder_attention_heads", "encoder_num_attention_heads",
                     "decoder_num_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner",
                     "mlp_dim", "decoder_intermediate_size", "encoder_intermediate_size", "moe_intermediate_size",
                     "dim_feedforward", "shared_expert_intermediate_size", "feed_forward_proj_dim",
                     "ffn_hidden_size"), 64),
    **dict.fromkeys(("vocab_size", "n_tokens", "src_vocab_size", "tgt_vocab_size"), 100),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_source_positions",
                     "max_target_positions", "max_sequence_length", "seq_length"), 64),
    **dict.fromkeys(("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), 2),
    "head_dim": 8, "d_kv": 8, "d_head": 8, "attention_head_size": 8, "image_size": 32, "patch_size": 8,
    "num_mel_bins": 16, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 16,
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "qk_head_dim": 16,
    "rotary_dim": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "sliding_window": 8,
    "n_shared_experts": 1, "state_size": 8, "time_step_rank": 4, "mamba_d_state": 8, "mamba_n_heads": 4,
    "mamba_d_head": 16, "mamba_expand": 2, "conv_kernel": 4, "type_vocab_size": 2, "num_codebooks": 2,
}
_PER_LAYER = ("layer_types", "mlp_layer_types", "layers_block_type", "block_types", "attention_types",
              "attention_layers", "no_rope_layers", "sliding_window_pattern_layers")


def shrink(config: Any, depth: int = 0) -> Any:
    """A configuration with small sizes, sub-configurations included."""
    if depth > 4:
        return config
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value, depth + 1)
        elif name in _SMALL and isinstance(value, int) and not isinstance(value, bool):
            setattr(config, name, _SMALL[name])
        elif name in _PER_LAYER and isinstance(value, (list, tuple)) and len(value) > 2:
            setattr(config, name, [*value[:1], *[kind for kind in value if kind != value[0]][:1], value[1]][:2])
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if getattr(config, name, None) is not None and "vocab_size" in vars(config):
            setattr(config, name, _SMALL[name])
    return config


# Tensors for the arguments that models of transformers have, by name; the first that a model lacks none of is taken.
def _arguments(config: Any) -> dict[str, torch.Tensor]:
    def size(name: str, default: int) -> int:
        for holder in (config, getattr(config, "vision_config", None), getattr(config, "audio_config", None)):
            value = getattr(holder, name, None)
            if isinstance(value, (list, tuple)) and value:
                value = value[0]
            if isinstance(value, int):
                return value
        return default

    image = size("image_size", 64)
    tokens = torch.randint(3, 90, (zoo.BATCH, zoo.SEQUENCE))
    return {
        "input_ids": tokens,
        "decoder_input_ids": tokens[:, :8].clone(),
        "pixel_values": torch.randn(zoo.BATCH, size("num_channels", 3), image, image),
        "input_features": torch.randn(zoo.BATCH, size("num_mel_bins", 16), 128),
        "input_values": torch.randn(zoo.BATCH, 3200),
        "bbox": torch.randint(0, 50, (zoo.BATCH, zoo.SEQUENCE, 1)).expand(-1, -1, 4).contiguous(),
        "attention_mask": torch.ones(zoo.BATCH, zoo.SEQUENCE, dtype=torch.long),
    }


_MAIN = ("input_ids", "pixel_values", "input_features", "input_values")
_CHOICES = (
    ("input_ids", "attention_mask"), ("input_ids", "attention_mask", "decoder_input_ids"), ("input_ids",),
    ("input_ids", "attention_mask", "bbox"), ("input_ids", "pixel_values"), ("pixel_values",),
    ("input_ids", "attention_mask", "pixel_values"), ("input_values",), ("input_features",),
    ("input_values", "decoder_input_ids"), ("input_features", "decoder_input_ids"),
    ("input_ids", "bbox", "pixel_values"), ("pixel_values", "decoder_input_ids"),
)


@dataclass(frozen=True)
class TransformersModel:
    """One model class of transformers, with its default configuration made small."""

    kind: str
    """The type in its configuration, such as `gpt2`."""
    head: str
    """Which of its classes: `base`, `causal` or `seq2seq`."""

    @property
    def name(self) -> str:
        return f"transformers/{self.kind}:{self.head}"

    def build(self) -> Example:
        """The model in eval mode and arguments that eager runs with."""
        zoo.prepare_torchvision()
        from transformers import AutoConfig

        torch.manual_seed(0)
        try:
            config = shrink(AutoConfig.for_model(self.kind))
            model = _mapping(self.head)[type(config)]
            model = (model[0] if isinstance(model, tuple) else model)(config).eval()
        except Exception as error:
            raise NotBuilt(f"{type(error).__name__}: {error}") from error
        if sum(parameter.numel() for parameter in model.parameters()) > 30_000_000:
            raise NotBuilt("large although its configuration was made small")
        accepted = inspect.signature(model.forward).parameters
        given = _arguments(config)
        error_seen = "no arguments fit"
        for names in _CHOICES:
            if not set(names) <= set(accepted):
                continue
            kwargs = {name: given[name] for name in names}
            try:
                with torch.no_grad():
                    model(**kwargs)
            except Exception as error:
                error_seen = f"{type(error).__name__}: {error}"
                continue
            return model, (), kwargs
        raise NotBuilt(error_seen)


@dataclass(frozen=True)
class TimmModel:
    """One architecture of timm, untrained."""

    kind: str

    @property
    def name(self) -> str:
        return f"timm/{self.kind}"

    def build(self) -> Example:
        """The model in eval mode and a batch of images that eager runs with."""
        zoo.prepare_torchvision()
        import timm

        torch.manual_seed(0)
        try:
            model = timm.create_model(self.kind, pretrained=False, num_classes=10).eval()
            if sum(parameter.numel() for parameter in model.parameters()) > 30_000_000:
                raise NotBuilt("large")
            size = model.default_cfg["input_size"]
            image = torch.randn(1, *size) if model.default_cfg.get("fixed_input_size") else \
                torch.randn(1, size[0], min(size[1], 128), min(size[2], 128))
            with torch.no_grad():
                model(image)
        except NotBuilt:
            raise
        except Exception as error:
            raise NotBuilt(f"{type(error).__name__}: {error}") from error
        return model, (image,), {}


def _mapping(head: str) -> Any:
    from transformers.models.auto import modeling_auto

    return getattr(modeling_auto, {"base": "MODEL_MAPPING", "causal": "MODEL_FOR_CAUSAL_LM_MAPPING",
                                   "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"}[head])


def draw_transformers(seed: int) -> list[TransformersModel]:
    """All models of transformers that have a configuration by name, in a random order."""
    zoo.prepare_torchvision()
    from transformers.models.auto import modeling_auto

    names = {"base": modeling_auto.MODEL_MAPPING_NAMES, "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
             "seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
    models = [TransformersModel(kind, head) for head, kinds in names.items() for kind in sorted(kinds)]
    random.Random(seed).shuffle(models)
    return models


def draw_timm(seed: int) -> list[TimmModel]:
    """All architectures of timm in a random order, one of each family first."""
    zoo.prepare_torchvision()
    import timm

    kinds = sorted(timm.list_models())
    random.Random(seed).shuffle(kinds)
    return [TimmModel(kind) for kind in kinds]
