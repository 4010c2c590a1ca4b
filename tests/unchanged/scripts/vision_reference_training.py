"""Image classification as in torchvision's reference script: argparse, mixup-free training, averaged weights, evaluation."""

import argparse
import json
import time

import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(planes), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, num_classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


class ExponentialMovingAverage(torch.optim.swa_utils.AveragedModel):
    def __init__(self, model, decay):
        super().__init__(model, avg_fn=lambda avg, new, _: decay * avg + (1 - decay) * new, use_buffers=True)


def train_one_epoch(model, criterion, optimizer, batches, args, model_ema):
    model.train()
    losses = []
    for image, target in batches:
        start = time.time()
        with torch.autocast("cpu", enabled=args.amp, dtype=torch.bfloat16):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
        optimizer.step()
        model_ema.update_parameters(model)
        losses.append(loss.item())
        assert time.time() >= start
    return losses


def evaluate(model, criterion, batches):
    model.eval()
    correct = total = 0.0
    with torch.inference_mode():
        for image, target in batches:
            output = model(image)
            total += criterion(output, target).item()
            correct += output.argmax(1).eq(target).sum().item()
    return total, correct


def get_args_parser():
    parser = argparse.ArgumentParser(description="PyTorch Classification Training")
    parser.add_argument("--lr", default=0.05, type=float)
    parser.add_argument("--clip-grad-norm", default=1.0, type=float)
    parser.add_argument("--label-smoothing", default=0.1, type=float)
    parser.add_argument("--amp", action="store_true")
    return parser


def main(argv=()):
    args = get_args_parser().parse_args(list(argv))
    torch.manual_seed(0)
    batches = [(torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last), torch.randint(5, (4,)))
               for _ in range(3)]
    model = ResNet().to(memory_format=torch.channels_last)
    criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    model_without_ddp = model
    model_ema = ExponentialMovingAverage(model_without_ddp, decay=0.9)
    model = torch.compile(model)
    losses = []
    for _ in range(2):
        losses += train_one_epoch(model, criterion, optimizer, batches, args, model_ema)
        scheduler.step()
    return {"losses": losses, "eval": evaluate(model, criterion, batches), "ema": evaluate(model_ema, criterion, batches)}


if __name__ == "__main__":
    import sys

    print(json.dumps(main(sys.argv[1:])))
