"""`generate` of transformers, compiled from outside or with a compiled model: tiny models with random weights."""

from __future__ import annotations

from typing import Any

import torch
from tests.models import zoo
from tests.whole_programs.program import Call, Compile, program


def gpt2() -> Any:
    """GPT-2 with three layers."""
    zoo.prepare_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_embd=128, n_layer=3, n_head=4, vocab_size=500, n_positions=256,
                                      bos_token_id=0, eos_token_id=None, pad_token_id=0)).eval()


def llama() -> Any:
    """Llama with three layers and shared keys."""
    zoo.prepare_torchvision()
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        hidden_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=256,
        vocab_size=500, max_position_embeddings=256, eos_token_id=None, pad_token_id=0)).eval()


def prompt(number: int, batch: int = 1, length: int = 6) -> torch.Tensor:
    """Another prompt for each round."""
    return (torch.arange(batch * length).view(batch, length) * 7 + 13 * number) % 499 + 1


def generating(model: Any, compile: Compile, **options: Any) -> Call:
    """The usual way: the model's forward is compiled, `generate` is plain."""
    model.forward = compile(model.forward)
    return lambda number: model.generate(prompt(number), max_new_tokens=12, **options)


@program("gpt2_greedy")
def gpt2_greedy(compile: Compile) -> Call:
    """GPT-2, greedy, with a compiled forward and a cache that grows."""
    return generating(gpt2(), compile, do_sample=False)


@program("gpt2_greedy_whole")
def gpt2_greedy_whole(compile: Compile) -> Call:
    """GPT-2, greedy: generate itself is compiled."""
    model = gpt2()
    generate = compile(lambda ids: model.generate(ids, max_new_tokens=12, do_sample=False))
    return lambda number: generate(prompt(number))


@program("gpt2_sampling")
def gpt2_sampling(compile: Compile) -> Call:
    """GPT-2, drawn from the top 50 with a temperature."""
    return generating(gpt2(), compile, do_sample=True, top_k=50, top_p=0.95, temperature=0.7)


@program("gpt2_beams")
def gpt2_beams(compile: Compile) -> Call:
    """GPT-2 with four beams, whose caches are reordered."""
    return generating(gpt2(), compile, do_sample=False, num_beams=4)


@program("llama_static_cache")
def llama_static_cache(compile: Compile) -> Call:
    """Llama, greedy, with a cache of fixed size."""
    return generating(llama(), compile, do_sample=False, cache_implementation="static", disable_compile=True)


@program("llama_left_padding")
def llama_left_padding(compile: Compile) -> Call:
    """Llama, greedy, for a batch of prompts that are padded on the left."""
    model = llama()
    model.forward = compile(model.forward)

    def call(number: int) -> Any:
        ids, mask = prompt(number, 3, 8), torch.ones(3, 8, dtype=torch.long)
        for row, padding in enumerate((0, 2, 5)):
            ids[row, :padding], mask[row, :padding] = 0, 0
        return model.generate(ids, attention_mask=mask, max_new_tokens=10, do_sample=False)

    return call


@program("t5_generate")
def t5_generate(compile: Compile) -> Call:
    """T5 generates greedily: an encoder once, a decoder with two caches."""
    zoo.prepare_torchvision()
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(T5Config(
        vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0,
        eos_token_id=None, pad_token_id=0)).eval()
    model.forward = compile(model.forward)
    return lambda number: model.generate(prompt(number, 2, 10) % 199 + 1, max_new_tokens=10, do_sample=False)


@program("gpt2_assisted")
def gpt2_assisted(compile: Compile) -> Call:
    """GPT-2 with a smaller one that guesses ahead."""
    model = gpt2()
    from transformers import GPT2Config, GPT2LMHeadModel

    helper = GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=1, n_head=2, vocab_size=500, n_positions=256,
                                        bos_token_id=0, eos_token_id=None, pad_token_id=0)).eval()
    model.forward = compile(model.forward)
    return lambda number: model.generate(prompt(number), max_new_tokens=12, do_sample=False, assistant_model=helper)
