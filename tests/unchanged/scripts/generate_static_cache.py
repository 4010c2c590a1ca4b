"""Text is generated with a static cache, for which transformers itself calls torch.compile, and with a compiled forward."""

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=None,
                         pad_token_id=0)
    model = LlamaForCausalLM(config).eval()
    prompt = torch.randint(2, 64, (2, 5))
    mask = torch.ones_like(prompt)
    plain = model.generate(prompt, attention_mask=mask, max_new_tokens=6, do_sample=False)
    static = model.generate(prompt, attention_mask=mask, max_new_tokens=6, do_sample=False,
                            cache_implementation="static")
    model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    compiled = model.generate(prompt, attention_mask=mask, max_new_tokens=6, do_sample=False,
                              cache_implementation="static")
    return {"plain": plain.tolist(), "static": static.tolist(), "compiled": compiled.tolist()}


if __name__ == "__main__":
    print(json.dumps(main()))
