"""A module with its training step, and a trainer that takes compiled and plain modules, as in Lightning."""

import json

import torch
from torch import nn


class LightningModule(nn.Module):
    def __init__(self):
        super().__init__()
        self._compiler_ctx = None
        self.logged = {}

    def log(self, name, value):
        self.logged.setdefault(name, []).append(float(value))


def from_compiled(model):
    """Lightning takes the module out of the wrapper and compiles its methods in the same way."""
    if not isinstance(model, torch._dynamo.OptimizedModule):
        raise ValueError(f"Not an OptimizedModule: {type(model)}")
    original = model._orig_mod
    original._compiler_ctx = {"original_forward": original.forward, "original_training_step": original.training_step}
    original.forward = model.dynamo_ctx(original.forward)
    original.training_step = model.dynamo_ctx(original.training_step)
    return original


def to_uncompiled(model):
    model.forward = model._compiler_ctx["original_forward"]
    model.training_step = model._compiler_ctx["original_training_step"]
    model._compiler_ctx = None
    return model


class AutoEncoder(LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 2))
        self.decoder = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 12))

    def forward(self, x):
        return self.encoder(x)

    def training_step(self, batch, batch_idx):
        z = self.encoder(batch)
        loss = nn.functional.mse_loss(self.decoder(z), batch)
        self.log("train_loss", loss.detach())
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2)}


class Trainer:
    def fit(self, model, batches):
        if isinstance(model, torch._dynamo.OptimizedModule):
            model = from_compiled(model)
        configured = model.configure_optimizers()
        optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]
        model.train()
        for index, batch in enumerate(batches):
            def closure():
                optimizer.zero_grad()
                loss = model.training_step(batch, index)
                loss.backward()
                return loss

            optimizer.step(closure)
            scheduler.step()
        return model


def main():
    torch.manual_seed(0)
    batches = [torch.randn(5, 12) for _ in range(4)]
    fitted = Trainer().fit(torch.compile(AutoEncoder()), batches)
    latent = fitted(batches[0]).detach()
    plain = to_uncompiled(fitted)
    torch.testing.assert_close(plain(batches[0]), latent)
    return {"loss": fitted.logged["train_loss"], "latent": latent[0].tolist()}


if __name__ == "__main__":
    print(json.dumps(main()))
