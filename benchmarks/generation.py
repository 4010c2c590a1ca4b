"""Greedy generation with a key-value cache that grows by one token in each call: compilations, tokens, time.

    python -m benchmarks.generation                     # GPT-2 and Llama, 200 tokens, both sides
    python -m benchmarks.generation --tokens 20 --side firesteel
    python -m benchmarks.generation --backend native    # machine code, models of the native suite, against eager

The loop is plain Python around the compiled model, each model and side in a fresh process with empty caches. With the
backend "eager" graphs run as captured; with "native" they become machine code and torch.compile uses its own backend.
Seconds include compiling; those behind are of the same loop once more. The bar for "native" is eager's time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from tests.models import zoo

from benchmarks import report
from benchmarks.dynamic_sizes import firesteel_compilations, in_fresh_process

SIDES = ("firesteel", "torch")
BAR = 3
TOKENS = 200
PROMPT = 8
MODELS = ("gpt2", "llama")


@dataclass(frozen=True)
class Outcome:
    """What one side did with one model."""

    model: str
    side: str
    compilations: int
    graphs: int
    seconds: float
    again_seconds: float
    eager_seconds: float
    same_tokens: bool
    first_wrong: int


def build(name: str, layers: int = 4, small: bool = True) -> torch.nn.Module:
    """A causal language model of the given kind with random weights, small or as in the native suite."""
    zoo.prepare_torchvision()
    torch.manual_seed(0)
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_embd=128, n_layer=layers, n_head=4, vocab_size=1000, n_positions=512, bos_token_id=0,
                            eos_token_id=0) if small else GPT2Config(n_layer=layers)
        return GPT2LMHeadModel(config).eval()
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(hidden_size=128, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=256, vocab_size=1000) if small else
        LlamaConfig(vocab_size=32000, hidden_size=512, intermediate_size=1376, num_hidden_layers=layers,
                    num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=512)).eval()


def generate(model: Callable[..., Any], prompt: torch.Tensor, tokens: int) -> torch.Tensor:
    """The most likely continuation of a prompt, token by token."""
    from transformers import DynamicCache

    cache = DynamicCache()
    last, found = prompt, []
    for _ in range(tokens):
        logits = model(input_ids=last, past_key_values=cache, use_cache=True).logits
        last = logits[:, -1:].argmax(-1)
        found.append(last)
    return torch.cat(found, dim=1)


def measure(name: str, side: str, tokens: int, backend: str, threads: int) -> Outcome:
    """Run one model on one side in this process."""
    torch.set_num_threads(threads)
    module = build(name, small=backend == "eager")
    prompt = torch.randint(1, 1000, (1, PROMPT))
    graphs: list[Any] = []

    def as_captured(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    chosen: Any = as_captured if backend == "eager" else "native" if side == "firesteel" else "inductor"
    with torch.no_grad():
        expected, _ = timed(module, prompt, tokens)
        eager_seconds = min(timed(module, prompt, tokens)[1] for _ in range(2))
        if side == "firesteel":
            import firesteel as fs

            fs.config.raise_on_internal_error = True
            fs.config.disk_cache = False
            compiled: Any = fs.compile(module, backend=chosen)
        else:
            compiled = torch.compile(module, backend=chosen)
        found, seconds = timed(compiled, prompt, tokens)
        again_seconds = min(timed(compiled, prompt, tokens)[1] for _ in range(2))
    if side == "firesteel":
        compilations = firesteel_compilations()
    else:
        from torch._dynamo.utils import counters

        compilations = int(counters["frames"]["total"])
    different = (found != expected)[0].nonzero()
    return Outcome(name, side, compilations, len(graphs), seconds, again_seconds, eager_seconds,
                   torch.equal(found, expected), int(different[0]) if len(different) else -1)


def timed(model: Callable[..., Any], prompt: torch.Tensor, tokens: int) -> tuple[torch.Tensor, float]:
    """The tokens, and how long they took."""
    start = time.perf_counter()
    found = generate(model, prompt, tokens)
    return found, time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when firesteel compiles too often, gives other tokens or is too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--backend", choices=("eager", "native"), default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--child", nargs=5, metavar=("MODEL", "SIDE", "TOKENS", "BACKEND", "THREADS"))
    options = parser.parse_args(arguments)
    if options.child:
        name, side, tokens, backend, threads = options.child
        print(json.dumps(asdict(measure(name, side, int(tokens), backend, int(threads)))))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    rows, missed = [], False
    for name in (options.only,) if options.only else MODELS:
        for side in sides:
            child = [name, side, str(options.tokens), options.backend, str(options.threads)]
            # torch.compile takes its caches' folder from the environment; the other side's cache is switched off
            with tempfile.TemporaryDirectory() as caches, environment(TORCHINDUCTOR_CACHE_DIR=caches):
                one = Outcome(**in_fresh_process("benchmarks.generation", child))
            if side == "firesteel":
                missed |= one.compilations > BAR or not one.same_tokens
                missed |= options.backend == "native" and one.seconds > one.eager_seconds
            rows.append([f"{name}, {side}", one.compilations, one.graphs, "yes" if one.same_tokens else
                         f"no, from {one.first_wrong}", one.seconds, one.again_seconds, one.eager_seconds])
    report.print_table(
        f"{options.tokens} tokens with a growing cache, backend {options.backend} (at most {BAR} compilations)",
        ["model, side", "compilations", "graphs", "same tokens", "seconds", "compiled before", "eager"], rows)
    return int(missed)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    sys.exit(main())
