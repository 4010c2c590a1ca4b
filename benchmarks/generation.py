"""Greedy generation with a key-value cache that grows by one token in each call: compilations, tokens, time.

    python -m benchmarks.generation                     # GPT-2 and Llama, 200 tokens, both sides
    python -m benchmarks.generation --tokens 20 --side firesteel

The loop is plain Python around the compiled model, backend "eager", each model and side in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks import models, report
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
    eager_seconds: float
    same_tokens: bool
    first_wrong: int


def build(name: str, layers: int = 4) -> torch.nn.Module:
    """A causal language model of the given kind with random weights."""
    models.prepare_torchvision()
    torch.manual_seed(0)
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(GPT2Config(n_embd=128, n_layer=layers, n_head=4, vocab_size=1000, n_positions=512,
                                          bos_token_id=0, eos_token_id=0)).eval()
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(hidden_size=128, num_hidden_layers=layers, num_attention_heads=4,
                                        num_key_value_heads=2, intermediate_size=256, vocab_size=1000)).eval()


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


def measure(name: str, side: str, tokens: int) -> Outcome:
    """Run one model on one side in this process."""
    torch.set_num_threads(1)
    module = build(name)
    prompt = torch.randint(1, 1000, (1, PROMPT))
    graphs: list[Any] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    with torch.no_grad():
        expected = generate(module, prompt, tokens)
        start = time.perf_counter()
        generate(module, prompt, tokens)
        eager_seconds = time.perf_counter() - start
        if side == "firesteel":
            import firesteel as fs

            fs.config.raise_on_internal_error = True
            fs.config.disk_cache = False
            compiled: Any = fs.compile(module, backend=backend)
        else:
            compiled = torch.compile(module, backend=backend)
        start = time.perf_counter()
        found = generate(compiled, prompt, tokens)
        seconds = time.perf_counter() - start
    if side == "firesteel":
        compilations = firesteel_compilations()
    else:
        from torch._dynamo.utils import counters

        compilations = int(counters["frames"]["total"])
    different = (found != expected)[0].nonzero()
    return Outcome(name, side, compilations, len(graphs), seconds, eager_seconds, torch.equal(found, expected),
                   int(different[0]) if len(different) else -1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line. The exit status is 1 when firesteel compiles too often or gives other tokens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--side", choices=[*SIDES, "both"], default="both")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "SIDE", "TOKENS"))
    options = parser.parse_args(arguments)
    if options.child:
        name, side, tokens = options.child
        print(json.dumps(asdict(measure(name, side, int(tokens)))))
        return 0
    sides = SIDES if options.side == "both" else (options.side,)
    rows, missed = [], False
    for name in MODELS:
        for side in sides:
            one = Outcome(**in_fresh_process("benchmarks.generation", [name, side, str(options.tokens)]))
            missed |= side == "firesteel" and (one.compilations > BAR or not one.same_tokens)
            rows.append([f"{name}, {side}", one.compilations, one.graphs, "yes" if one.same_tokens else
                         f"no, from {one.first_wrong}", one.seconds, one.eager_seconds])
    report.print_table(f"{options.tokens} tokens with a growing cache (at most {BAR} compilations)",
                       ["model, side", "compilations", "graphs", "same tokens", "seconds", "eager seconds"], rows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
