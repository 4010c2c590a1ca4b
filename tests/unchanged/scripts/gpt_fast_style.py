"""Decoding as in gpt-fast: settings of the inductor, compiled prefill and single tokens, a compiled optimizer step."""

import json

import torch
import torch._dynamo.config
import torch._inductor.config
from torch import nn

torch._inductor.config.coordinate_descent_tuning = True
torch._inductor.config.triton.unique_kernel_names = True
torch._inductor.config.fx_graph_cache = True
torch._dynamo.config.automatic_dynamic_shapes = True


class Transformer(nn.Module):
    def __init__(self, vocab=40, dim=16, length=24):
        super().__init__()
        self.embed, self.qkv, self.out = nn.Embedding(vocab, dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, vocab)
        self.register_buffer("k_cache", torch.zeros(1, 1, length, dim))
        self.register_buffer("v_cache", torch.zeros(1, 1, length, dim))
        self.register_buffer("causal_mask", torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def forward(self, idx, input_pos):
        q, k, v = self.qkv(self.embed(idx)).unsqueeze(1).chunk(3, dim=-1)
        self.k_cache[:, :, input_pos] = k
        self.v_cache[:, :, input_pos] = v
        mask = self.causal_mask[None, None, input_pos]
        y = nn.functional.scaled_dot_product_attention(q, self.k_cache, self.v_cache, attn_mask=mask)
        return self.out(y.squeeze(1))


def decode_one_token(model, x, input_pos):
    logits = model(x, input_pos)
    return logits[:, -1].argmax(-1, keepdim=True)


def prefill(model, x, input_pos):
    return model(x, input_pos)[:, -1].argmax(-1, keepdim=True)


def main():
    torch.manual_seed(0)
    decode = torch.compile(decode_one_token, mode="reduce-overhead", fullgraph=True)
    fill = torch.compile(prefill, fullgraph=True, dynamic=True)
    texts = []
    with torch.no_grad():
        model = Transformer().eval()
        for prompt_length in (4, 6):
            prompt = torch.randint(40, (1, prompt_length))
            token = fill(model, prompt, torch.arange(prompt_length))
            tokens = [token.item()]
            for position in range(prompt_length, prompt_length + 5):
                torch.compiler.cudagraph_mark_step_begin()
                token = decode(model, token.clone(), torch.tensor([position]))
                tokens.append(token.item())
            texts.append(tokens)
    weight = nn.Parameter(torch.ones(4, 4))
    optimizer = torch.optim.AdamW([weight], lr=0.1, foreach=True)
    step = torch.compile(optimizer.step, fullgraph=False)
    for _ in range(3):
        weight.square().sum().backward()
        step()
        optimizer.zero_grad()
    return {"texts": texts, "weight": weight[0].tolist()}


if __name__ == "__main__":
    print(json.dumps(main()))
