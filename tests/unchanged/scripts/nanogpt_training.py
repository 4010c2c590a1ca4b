"""A small GPT is trained as in nanoGPT: compiled, evaluated, saved without the wrapper's prefix, and resumed."""

import io
import json
import math
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.nn import functional as F

block_size, vocab_size, n_layer, n_head, n_embd = 16, 32, 2, 2, 32
batch_size, gradient_accumulation_steps, max_iters, learning_rate, grad_clip = 4, 2, 4, 1e-2, 1.0


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(n_embd), CausalSelfAttention(), nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocab_size, n_embd), wpe=nn.Embedding(block_size, n_embd),
            h=nn.ModuleList([Block() for _ in range(n_layer)]), ln_f=nn.LayerNorm(n_embd)))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        device = idx.device
        b, t = idx.size()
        assert t <= block_size, f"Cannot forward sequence of length {t}"
        x = self.transformer.wte(idx) + self.transformer.wpe(torch.arange(0, t, dtype=torch.long, device=device))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits, loss = self.lm_head(x[:, [-1], :]), None
        return logits, loss

    def configure_optimizers(self, weight_decay, lr):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        decay = [p for p in params.values() if p.dim() >= 2]
        nodecay = [p for p in params.values() if p.dim() < 2]
        return torch.optim.AdamW([{"params": decay, "weight_decay": weight_decay},
                                  {"params": nodecay, "weight_decay": 0.0}], lr=lr)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -block_size:])
            idx = torch.cat((idx, logits[:, -1, :].argmax(-1, keepdim=True)), dim=1)
        return idx


def main():
    torch.manual_seed(1337)
    data = torch.randint(vocab_size, (500,))

    def get_batch():
        ix = torch.randint(len(data) - block_size, (batch_size,))
        x = torch.stack([data[i:i + block_size] for i in ix])
        return x, torch.stack([data[i + 1:i + 1 + block_size] for i in ix])

    model = GPT()
    optimizer = model.configure_optimizers(1e-1, learning_rate)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    ctx = nullcontext()
    unoptimized_model = model
    model = torch.compile(model)

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        losses = torch.tensor([model(*get_batch())[1].item() for _ in range(2)])
        model.train()
        return losses.mean().item()

    history = []
    for iter_num in range(max_iters):
        lr = learning_rate * 0.5 * (1.0 + math.cos(math.pi * iter_num / max_iters))
        for param_group in optimizer.param_groups:
            param_group["lr"] = lr
        for _ in range(gradient_accumulation_steps):
            with ctx:
                logits, loss = model(*get_batch())
                loss = loss / gradient_accumulation_steps
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        history.append(loss.item())
    history.append(estimate_loss())

    raw_model = model._orig_mod if hasattr(model, "_orig_mod") else model
    assert raw_model is unoptimized_model
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "iter_num": max_iters}, file)
    file.seek(0)
    state_dict = torch.load(file)["model"]
    unwanted_prefix = "_orig_mod."
    for k in list(state_dict):
        if k.startswith(unwanted_prefix):
            state_dict[k[len(unwanted_prefix):]] = state_dict.pop(k)
    resumed = GPT()
    resumed.load_state_dict(state_dict)
    return {"history": history, "text": resumed.eval().generate(data[None, :4], 8)[0].tolist()}


if __name__ == "__main__":
    print(json.dumps(main()))
