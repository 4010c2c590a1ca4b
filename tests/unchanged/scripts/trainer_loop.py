"""A tiny Llama of transformers is fine-tuned in a loop like the Trainer's: collator, accumulation, schedule, evaluation."""

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup


def collate(features):
    longest = max(len(f) for f in features)
    ids = torch.stack([torch.nn.functional.pad(f, (0, longest - len(f)), value=0) for f in features])
    mask = torch.stack([torch.nn.functional.pad(torch.ones_like(f), (0, longest - len(f))) for f in features])
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def unwrap_model(model):
    return model._orig_mod if isinstance(model, torch._dynamo.OptimizedModule) else model


def main():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=64)
    model = LlamaForCausalLM(config)
    dataset = [torch.randint(1, 64, (8 + i % 3,)) for i in range(12)]
    loader = torch.utils.data.DataLoader(dataset, batch_size=3, shuffle=False, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=1, num_training_steps=4)
    wrapped = torch.compile(model, backend="inductor", mode="default")
    wrapped.train()
    history = []
    for step, inputs in enumerate(loader):
        outputs = wrapped(**inputs)
        (outputs.loss / 2).backward()
        history.append(outputs["loss"].item())
        if (step + 1) % 2 == 0:
            torch.nn.utils.clip_grad_norm_(wrapped.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            wrapped.zero_grad()
    wrapped.eval()
    with torch.no_grad():
        history.append(wrapped(**collate(dataset[:3])).loss.item())
    assert unwrap_model(wrapped) is model
    return {"history": history, "keys": len(unwrap_model(wrapped).state_dict())}


if __name__ == "__main__":
    print(json.dumps(main()))
