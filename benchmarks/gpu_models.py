"""The models of `benchmarks.gpu`: inference and training steps on an NVIDIA GPU, with random weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16
Made = tuple[nn.Module, tuple[Any, ...], bool]
"""A module that returns one tensor, its arguments, and whether it is trained: the tensor is a loss then."""


class Logits(nn.Module):
    """A model of transformers whose first result is what counts."""

    def __init__(self, model: nn.Module, loss: bool = False) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = self.model(tokens, use_cache=False, return_dict=False)[0]
        if not self.loss:
            return found
        return F.cross_entropy(found[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Classified(nn.Module):
    """A classifier with its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(images), labels)


def tokens(batch: int, length: int, words: int = 50257) -> torch.Tensor:
    return torch.randint(0, words, (batch, length), device="cuda")


def gpt2(batch: int, length: int, train: bool) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config).to("cuda", BF16)
    return Logits(model, train), (tokens(batch, length),), train


def bert() -> Made:
    from transformers import BertConfig, BertModel

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(BertConfig())

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return self.model(given, return_dict=False)[0]

    return Hidden().to("cuda", BF16), (tokens(8, 512, 30000),), False


def llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=8, num_attention_heads=32,
                         num_key_value_heads=8, vocab_size=32000)
    return Logits(LlamaForCausalLM(config).to("cuda", BF16)), (tokens(4, 512, 32000),), False


def torchvision_model(name: str, batch: int, train: bool, dtype: torch.dtype = torch.float32) -> Made:
    import torchvision

    model = getattr(torchvision.models, name)(weights=None).to("cuda", dtype)
    images = torch.randn(batch, 3, 224, 224, device="cuda", dtype=dtype)
    if not train:
        return model, (images,), False
    return Classified(model), (images, torch.randint(0, 1000, (batch,), device="cuda")), True


def unet() -> Made:
    from tests.models.zoo import UNet

    return UNet((32, 64, 128)).to("cuda"), (torch.randn(4, 3, 96, 96, device="cuda"),), False


MODELS: dict[str, Callable[[], Made]] = {
    "gpt2 1×64 bf16": lambda: gpt2(1, 64, False),
    "gpt2 8×1024 bf16": lambda: gpt2(8, 1024, False),
    "gpt2 8×1024 bf16 training": lambda: gpt2(8, 1024, True),
    "resnet50 batch 1": lambda: torchvision_model("resnet50", 1, False),
    "resnet18 batch 16 training": lambda: torchvision_model("resnet18", 16, True),
    "bert 8×512 bf16": bert,
    "vit_b_16 batch 32 bf16": lambda: torchvision_model("vit_b_16", 32, False, BF16),
    "llama 8 layers 4×512 bf16": llama,
    "unet": unet,
    "efficientnet_b0 batch 32 fp16": lambda: torchvision_model("efficientnet_b0", 32, False, torch.float16),
    "convnext_tiny batch 32 bf16": lambda: torchvision_model("convnext_tiny", 32, False, BF16),
    "mobilenet_v3_large batch 32 fp16": lambda: torchvision_model("mobilenet_v3_large", 32, False, torch.float16),
    "efficientnet_b0 batch 32 training": lambda: torchvision_model("efficientnet_b0", 32, True),
    "densenet121 batch 16 training": lambda: torchvision_model("densenet121", 16, True),
}


def step(run: Any, args: tuple[Any, ...], parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a call, or of a training step: the loss and all gradients."""
    result = run(*args)
    if not parameters:
        return [result]
    result.backward()
    return [result.detach(), *(p.grad for p in parameters)]


def relative(value: torch.Tensor, reference: torch.Tensor) -> float:
    return ((value.double() - reference.double()).norm() / (reference.double().norm() + 1e-30)).item()


def check(module: nn.Module, run: Any, args: tuple[Any, ...], parameters: list[torch.Tensor]) -> str:
    """Compare the error against a wider dtype with eager's; "" if it is at most twice that."""
    import copy

    def results(function: Any) -> list[torch.Tensor]:
        for p in parameters:
            p.grad = None
        return [value.detach().clone() for value in step(function, args, parameters)]

    ours, eager = results(run), results(module)
    wide = torch.float32 if any(p.dtype in (BF16, torch.float16) for p in module.parameters()) else torch.float64
    exact_module = copy.deepcopy(module).to(wide)
    widened = tuple([arg.to(wide) if arg.is_floating_point() else arg for arg in args])
    exact = [value.detach() for value in
             step(exact_module, widened, list(exact_module.parameters()) if parameters else [])]
    errors = [sum(relative(value, reference) for value, reference in zip(side, exact, strict=True)) / len(exact)
              for side in (ours, eager)]
    if not errors[0] <= 2 * errors[1] + 1e-5:
        return f"error {errors[0]:.3g}, eager's {errors[1]:.3g}"
    return ""


def import_libraries(names: list[str]) -> None:
    """Import what building these models needs, before anything is timed."""
    if any(name.startswith(("gpt2", "bert", "llama")) for name in names):
        from transformers import BertModel, GPT2LMHeadModel, LlamaForCausalLM

        del BertModel, GPT2LMHeadModel, LlamaForCausalLM
    if any(name.startswith(("resnet", "vit", "efficientnet", "convnext", "mobilenet", "densenet")) for name in names):
        import torchvision

        del torchvision


def run_model(name: str, side: str, compiled: Callable[[str, Any], Any], first_done: Callable[[], None] = lambda: None,
              only_first: bool = False) -> dict[str, Any]:
    """Times of one model. ``first_done`` is called when the first call has been timed."""
    from benchmarks.gpu import device_ms

    module, args, train = MODELS[name]()
    module.train(train)
    parameters = list(module.parameters()) if train else []
    torch.cuda.synchronize()
    with torch.set_grad_enabled(train):
        started = time.perf_counter()
        run = compiled(side, module)

        def call(_: int = 0) -> None:
            for p in parameters:
                p.grad = None
            step(run, args, parameters)

        call()
        torch.cuda.synchronize()
        first = time.perf_counter() - started
        if only_first:
            return {"first": first}
        first_done()
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        ms = device_ms(call, 1, 0.7)
        peak = torch.cuda.max_memory_allocated()
        if side.endswith("graphs"):
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            peak = torch.cuda.memory_reserved()
        wrong = check(module, run, args, parameters) if side.startswith("fs") else ""
    return {"ms": ms, "first": first, "wrong": wrong, "peak": peak}
