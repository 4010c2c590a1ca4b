"""Images: diffusion, a U-Net under autocast, style transfer, detection, training that knows of quantisation."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from tests import torchvision_on_cpu
from tests.whole_programs.program import Call, Compile, program
from torch import nn


class Denoiser(nn.Module):
    """Two levels of a U-Net that is told the time."""

    def __init__(self, channels: int = 24) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.first, self.down = nn.Conv2d(1, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, 2, 1)
        self.middle, self.up = nn.Conv2d(channels, channels, 3, padding=1), nn.ConvTranspose2d(channels, channels, 2, 2)
        self.norm, self.last = nn.GroupNorm(4, 2 * channels), nn.Conv2d(2 * channels, 1, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-math.log(10000) * torch.arange(16) / 16)
        angles = t[:, None].float() * frequencies[None]
        told = self.time(torch.cat([angles.sin(), angles.cos()], -1))[:, :, None, None]
        first = F.silu(self.first(x) + told)
        below = F.silu(self.middle(F.silu(self.down(first))))
        return self.last(F.silu(self.norm(torch.cat([first, self.up(below)], 1))))


@program("ddpm_training")
def ddpm_training(compile: Compile) -> Call:
    """A diffusion model learns to tell the noise: a compiled step."""
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)
    images = [torch.rand(8, 1, 16, 16) * 2 - 1 for _ in range(4)]

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        t = torch.randint(0, 100, (x.shape[0],))
        noise = torch.randn_like(x)
        share = kept[t][:, None, None, None]
        loss = F.mse_loss(model(share.sqrt() * x + (1 - share).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: step(images[number % 4])


@program("ddpm_sampling")
def ddpm_sampling(compile: Compile) -> Call:
    """Samples of a diffusion model, 20 steps backwards, without noise in the last."""
    model = Denoiser().eval()
    betas = torch.linspace(1e-4, 0.02, 20)
    alphas = 1 - betas
    kept = torch.cumprod(alphas, 0)
    compiled = compile(model)

    @torch.no_grad()
    def sample(number: int) -> torch.Tensor:
        x = torch.randn(4, 1, 16, 16)
        for i in reversed(range(20)):
            noise = compiled(x, torch.full((4,), i))
            x = (x - betas[i] / (1 - kept[i]).sqrt() * noise) / alphas[i].sqrt()
            if i > 0:
                x = x + betas[i].sqrt() * torch.randn_like(x)
        return x

    return sample


class UNet(nn.Module):
    """A U-Net with batch norms and bilinear upsampling."""

    def __init__(self) -> None:
        super().__init__()

        def pair(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                                 nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())

        self.down1, self.down2, self.bottom = pair(3, 8), pair(8, 16), pair(16, 32)
        self.up2, self.up1, self.head = pair(48, 16), pair(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        c = self.up2(torch.cat([F.interpolate(c, scale_factor=2, mode="bilinear"), b], 1))
        return self.head(self.up1(torch.cat([F.interpolate(c, scale_factor=2, mode="bilinear"), a], 1)))


@program("unet_autocast", tolerance=5e-2)
def unet_autocast(compile: Compile) -> Call:
    """A U-Net learns to segment under bfloat16 autocast, with a Dice loss."""
    model = UNet()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images = [(torch.randn(4, 3, 32, 32), torch.randint(0, 2, (4, 32, 32))) for _ in range(4)]
    compiled = compile(model)

    def call(number: int) -> Any:
        x, y = images[number % 4]
        with torch.autocast("cpu", torch.bfloat16):
            logits = compiled(x)
            chances = logits.float().softmax(1)[:, 1]
            dice = 1 - 2 * (chances * y).sum() / (chances.sum() + y.sum() + 1)
            loss = F.cross_entropy(logits, y) + dice
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return call


@program("style_transfer")
def style_transfer(compile: Compile) -> Call:
    """An image is optimized until its Gram matrices are those of another."""
    network = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                            nn.ReLU()).eval().requires_grad_(False)
    style = torch.rand(1, 3, 32, 32)
    image = torch.rand(1, 3, 32, 32).requires_grad_()
    optimizer = torch.optim.Adam([image], 0.02)

    def gram(x: torch.Tensor) -> list[torch.Tensor]:
        grams = []
        for layer in network:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                flat = x.flatten(2)
                grams.append(flat @ flat.transpose(1, 2) / flat.shape[-1])
        return grams

    wanted = [g.detach() for g in gram(style)]

    @compile
    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.stack([F.mse_loss(a, b) for a, b in zip(gram(image), wanted)]).sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            image.clamp_(0, 1)
        return loss

    return lambda number: step()


@program("faster_rcnn")
def faster_rcnn(compile: Compile) -> Call:
    """Faster R-CNN of torchvision finds boxes, with a small backbone; images differ in size."""
    torchvision_on_cpu.prepare()
    import torchvision
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.rpn import AnchorGenerator

    def without_suppression(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
        """`torchvision.ops.nms` in plain Python: its native library is not there beside a CPU build of torch."""
        order = scores.argsort(descending=True).tolist()
        overlaps = torchvision.ops.box_iou(boxes, boxes).tolist()
        kept: list[int] = []
        for place in order:
            if all(overlaps[place][other] <= threshold for other in kept):
                kept.append(place)
        return torch.tensor(kept, dtype=torch.long)

    torchvision.ops.boxes.nms = without_suppression

    class Pool(torchvision.ops.MultiScaleRoIAlign):
        """Regions by average instead of `roi_align`, for the same reason."""

        def __init__(self) -> None:
            super().__init__(["0"], 4, 2)

        def forward(self, features: dict[str, torch.Tensor], boxes: list[torch.Tensor], sizes: Any) -> torch.Tensor:
            (image,) = features.values()
            parts = []
            for number, rows in enumerate(boxes):
                for x0, y0, x1, y1 in (rows / 8).long().tolist():
                    part = image[number:number + 1, :, y0:max(y1, y0 + 1), x0:max(x1, x0 + 1)]
                    parts.append(F.adaptive_avg_pool2d(part, 4))
            return torch.cat(parts) if parts else image.new_zeros(0, image.shape[1], 4, 4)

    backbone = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
                             nn.Conv2d(32, 32, 3, 2, 1), nn.ReLU())
    backbone.out_channels = 32
    head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU())
    predictor = torchvision.models.detection.faster_rcnn.FastRCNNPredictor(64, 3)
    anchors = AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),))
    model = FasterRCNN(backbone, rpn_anchor_generator=anchors, box_roi_pool=Pool(), box_head=head,
                       box_predictor=predictor, min_size=64, max_size=96,
                       rpn_pre_nms_top_n_test=30, rpn_post_nms_top_n_test=10, box_detections_per_img=5).eval()
    compiled = compile(model)

    @torch.no_grad()
    def detect(number: int) -> Any:
        sizes = [(64, 64 + 8 * (number % 3)), (72, 64)]
        return [sorted(found.items()) for found in compiled([torch.rand(3, *size) for size in sizes])]

    return detect


@program("quantisation_aware")
def quantisation_aware(compile: Compile) -> Call:
    """Training that knows of quantisation: weights and activations are rounded on the way forward only."""

    class Rounded(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, scale)
            return (x / scale).round().clamp(-128, 127) * scale

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            x, scale = ctx.saved_tensors
            return grad * ((x / scale).abs() <= 127), None

    class QuantisedLinear(nn.Linear):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__(inputs, outputs)
            self.register_buffer("largest", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                with torch.no_grad():
                    self.largest.copy_(torch.maximum(self.largest * 0.9, x.abs().max()))
            rounded = Rounded.apply(x, self.largest / 127 + 1e-8)
            return F.linear(rounded, Rounded.apply(self.weight, self.weight.detach().abs().max() / 127), self.bias)

    model = nn.Sequential(QuantisedLinear(64, 128), nn.ReLU(), QuantisedLinear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    batches = [(torch.randn(64, 64), torch.randint(0, 10, (64,))) for _ in range(8)]

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def call(number: int) -> Any:
        model.train()
        loss = step(*batches[number % 8])
        model.eval()
        with torch.no_grad():
            return loss, F.cross_entropy(model(batches[0][0]), batches[0][1])

    return call
