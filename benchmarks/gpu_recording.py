"""Programs that can be recorded in parts only, and text generation with caches, beside torch.compile on a GPU:

    python -m benchmarks.gpu_recording --only llama --sides eager,torch,firesteel --modes default,reduce-overhead

Milliseconds a call, back to back, in one process; the results of the first calls are compared with those of the same
model in single precision: the error may be twice eager's. With ``--json`` the figures go to a file.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import firesteel as fs

PROMPT, LONGEST = 64, 1024
Step = Callable[[], torch.Tensor]


class Program:
    """A model, and how it is called: ``steps(call, model)`` gives a function that makes the next call."""

    def __init__(self, model: torch.nn.Module, steps: Callable[[Callable[..., Any], torch.nn.Module], Step]) -> None:
        self.model, self.steps = model, steps


def llama(layers: int = 16, on_cpu: bool = False, batch: int = 1, dtype: torch.dtype = torch.bfloat16) -> Program:
    """One token after the other with a static cache, whose lengths are counted on the GPU or the CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

    config = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers, num_attention_heads=32,
                         num_key_value_heads=8, vocab_size=32000, max_position_embeddings=2 * LONGEST)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(dtype).eval()
    prompt = torch.randint(0, 32000, (batch, PROMPT), device="cuda")
    tokens = [torch.randint(0, 32000, (batch, 1), device="cuda") for _ in range(8)]

    def steps(call: Callable[..., Any], plain: torch.nn.Module) -> Step:
        cache = StaticCache(config=config, max_cache_len=LONGEST)
        plain(prompt, past_key_values=cache, use_cache=True, return_dict=False)
        if on_cpu:
            for layer in cache.layers:
                layer.cumulative_length = layer.cumulative_length.cpu()
        calls = 0

        def step() -> torch.Tensor:
            nonlocal calls
            calls += 1
            if calls % 512 == 0:
                for layer in cache.layers:
                    layer.cumulative_length.fill_(PROMPT)
            found = call(tokens[calls % len(tokens)], past_key_values=cache, use_cache=True, return_dict=False)[0]
            assert isinstance(found, torch.Tensor)
            return found

        return step

    return Program(model, steps)


def whisper() -> Program:
    """Encoder and decoder over 30 s of sound and 64 tokens, in half precision."""
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
                           decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
    with torch.device("cuda"):
        model = WhisperModel(config).half().eval()
    sound, tokens = torch.randn(1, 80, 3000, device="cuda"), torch.randint(0, 50000, (1, 64), device="cuda")

    def steps(call: Callable[..., Any], plain: torch.nn.Module) -> Step:
        given = sound.to(next(plain.parameters()).dtype)

        def step() -> torch.Tensor:
            found = call(input_features=given, decoder_input_ids=tokens, use_cache=False, return_dict=False)[0]
            assert isinstance(found, torch.Tensor)
            return found

        return step

    return Program(model, steps)


class Parted(torch.nn.Module):
    """Blocks with something in the middle that cannot be recorded: the places of the largest elements."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.first = torch.nn.Sequential(*[self.block() for _ in range(layers)])
        self.second = torch.nn.Sequential(*[self.block() for _ in range(layers)])

    @staticmethod
    def block() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512))

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        y = self.first(x * scale)
        largest = y.float().abs().sum(1)
        chosen = torch.unique(torch.topk(largest, 8)[1]).sum()  # how many there are is known on the GPU alone
        return self.second(y) * torch.where(chosen >= 0, 1.0, 0.0)


def parted() -> Program:
    with torch.device("cuda"):
        model = Parted(12).to(torch.bfloat16).eval()
    x, scale = torch.randn(64, 512, device="cuda"), torch.tensor(0.5)

    def steps(call: Callable[..., Any], plain: torch.nn.Module) -> Step:
        given = x.to(next(plain.parameters()).dtype)
        return lambda: call(given, scale)

    return Program(model, steps)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "llama 16 layers, 1 token": llama,
    "llama 16 layers, 1 token, counters on the CPU": lambda: llama(on_cpu=True),
    "llama 16 layers, 8 sequences": lambda: llama(batch=8),
    "whisper small fp16": whisper,
    "unique in the middle": parted,
}


def compiled(side: str, mode: str, model: torch.nn.Module) -> Callable[..., Any]:
    """A model as one of the sides has it."""
    if side == "eager":
        return model
    chosen = None if mode == "default" else mode
    if side == "torch":
        torch._dynamo.reset()
        return torch.compile(model, mode=chosen)  # type: ignore[no-any-return]
    fs.reset()
    return fs.compile(model, mode=chosen)


def first_results(step: Step, count: int = 6) -> list[torch.Tensor]:
    return [step().detach().float().clone() for _ in range(count)]


def error(values: Sequence[torch.Tensor], wide: Sequence[torch.Tensor]) -> float:
    return max(((a - b).norm() / (b.norm() + 1e-30)).item() for a, b in zip(values, wide, strict=True))


def per_call(step: Step, calls: int, rounds: int = 5) -> float:
    """Milliseconds a call, back to back: the median of several rounds."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(calls):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - started) / calls * 1000)
    return statistics.median(times)


def print_kernels(step: Step) -> None:
    """The kernels of a call, those first that take longest."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    events = sorted(profiler.key_averages(), key=lambda event: -event.self_device_time_total)
    for event in events[:14]:
        print(f"    {event.self_device_time_total:9.1f} us {event.count:5d}  {event.key[:100]}")


def measure(name: str, sides: Sequence[str], modes: Sequence[str], calls: int, profile: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    program = PROGRAMS[name]()
    wide_model = copy.deepcopy(program.model).float()
    wide = first_results(program.steps(wide_model, wide_model))
    del wide_model
    eager = error(first_results(program.steps(program.model, program.model)), wide)
    row: dict[str, Any] = {"eager error": eager}
    for mode in modes:
        for side in sides:
            if side == "eager" and mode != modes[0]:
                continue
            started = time.perf_counter()
            step = program.steps(compiled(side, mode, program.model), program.model)
            apart = error(first_results(step), wide)
            first = time.perf_counter() - started
            label = side if side == "eager" else f"{side} {mode}"
            for _ in range(20):
                step()
            row[label] = per_call(step, calls)
            if profile and side == "firesteel":
                print_kernels(step)
            row[f"{label} error"] = apart
            verdict = "" if apart <= 2 * eager + 1e-5 else "  WRONG"
            print(f"{name}: {label}: {row[label]:.3f} ms, first calls {first:.1f} s, error {apart:.2e} "
                  f"(eager {eager:.2e}){verdict}", flush=True)
    return row


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains one of these, with | between them")
    parser.add_argument("--sides", default="eager,torch,firesteel")
    parser.add_argument("--modes", default="default,reduce-overhead")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--profile", action="store_true", help="print which kernels take how long")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    fs.config.compile_after = 0.0
    rows = {}
    with torch.no_grad():
        for name in PROGRAMS:
            if any(part in name for part in options.only.split("|")):
                rows[name] = measure(name, options.sides.split(","), options.modes.split(","),
                                     options.calls, options.profile)
                torch.cuda.empty_cache()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(value > 2 * row["eager error"] + 1e-5 for row in rows.values()
                    for label, value in row.items() if label.endswith("error")) else 0


if __name__ == "__main__":
    sys.exit(main())
