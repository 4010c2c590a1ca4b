"""What accelerate does around a model: a plugin of torch.compile's arguments, regional compilation, unwrapping, saving."""

import inspect
import json
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class TorchDynamoPlugin:
    backend: str = "inductor"
    mode: str = "default"
    fullgraph: bool = False
    dynamic: bool = None
    options: dict = None
    disable: bool = False
    use_regional_compilation: bool = False

    def to_kwargs(self):
        kwargs = {name: getattr(self, name) for name in ("backend", "mode", "fullgraph", "dynamic", "options", "disable")}
        accepted = inspect.signature(torch.compile).parameters
        return {name: value for name, value in kwargs.items() if name in accepted}


def is_compiled_module(module):
    return hasattr(torch, "_dynamo") and isinstance(module, torch._dynamo.eval_frame.OptimizedModule)


def extract_model_from_parallel(model, keep_torch_compile=False):
    compiled = model if is_compiled_module(model) else None
    if compiled is not None:
        model = compiled._orig_mod
        if keep_torch_compile:
            compiled._orig_mod = model
            return compiled
    return model


@dataclass
class Accelerator:
    plugin: TorchDynamoPlugin = field(default_factory=TorchDynamoPlugin)

    def prepare(self, model, *others):
        if not is_compiled_module(model):
            if self.plugin.use_regional_compilation:
                for block in model.blocks:
                    block.compile(**self.plugin.to_kwargs())
            else:
                model = torch.compile(model, **self.plugin.to_kwargs())
        return (model, *others)

    def backward(self, loss):
        loss.backward()

    def unwrap_model(self, model, keep_torch_compile=False):
        return extract_model_from_parallel(model, keep_torch_compile)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1)) for _ in range(3)])
        self.head = nn.Linear(8, 2)

    def forward(self, x, labels=None):
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def train(plugin):
    torch.manual_seed(3)
    accelerator = Accelerator(plugin)
    net = Model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    model, optimizer = accelerator.prepare(net, optimizer)
    model.train()
    losses = []
    for _ in range(3):
        x, y = torch.randn(6, 8), torch.randint(2, (6,))
        loss = model(x, labels=y)["loss"]
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    assert accelerator.unwrap_model(model) is net
    assert accelerator.unwrap_model(model, keep_torch_compile=True) is model
    weights = accelerator.unwrap_model(model).state_dict()
    return {"losses": losses, "norm": sum(w.norm().item() for w in weights.values()), "keys": sorted(weights)[:2]}


def main():
    return {"whole": train(TorchDynamoPlugin(mode="reduce-overhead", dynamic=False)),
            "regional": train(TorchDynamoPlugin(use_regional_compilation=True))}


if __name__ == "__main__":
    print(json.dumps(main()))
