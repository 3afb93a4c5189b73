"""The trained encoder of docs/audit.md: `python results/audit/trained.py` makes it.

Four epochs on the first 10,000 training images of CIFAR-10, which is looked for where
SMASHBENCH_DATA says. It writes `trained.safetensors` beside this file, and the images and labels
to audit, `x.npy` and `y.npy`, into the current folder.
"""

import os
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy

from smashbench.datasets import DATASETS, Split

WEIGHTS = Path(__file__).with_name("trained.safetensors")
EPOCHS, BATCH, RATE = 4, 128, 4e-3
CUT = 8
"""Layers of the client: two convolutions, and a bottleneck of 16 channels with a sigmoid."""


def network() -> nn.Sequential:
    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride, 1)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    client = [*block(3, 32, 2), *block(32, 64, 2), nn.Conv2d(64, 16, 3, padding=1), nn.Sigmoid()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*client, *block(16, 64, 1), *block(64, 128, 2), *head)


def encoder() -> nn.Sequential:
    return _trained()[:CUT]


def head() -> nn.Sequential:
    return _trained()[CUT:]


def _trained() -> nn.Sequential:
    net = network()
    net.load_state_dict(load_file(WEIGHTS))
    return net


def fit(net: nn.Sequential, rate: float, weights: Path) -> Split:
    """Trains a network and writes its weights; returns the images."""
    split = DATASETS["cifar10"](split="xia2025").load(Path(os.environ["SMASHBENCH_DATA"]))
    x, y = split.train.x[:10_000], split.train.y[:10_000]
    steps = EPOCHS * (len(x) // BATCH)
    optimiser = torch.optim.AdamW(net.parameters(), rate / 2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, steps)
    for _ in range(EPOCHS):
        for index in torch.randperm(len(x)).split(BATCH)[: len(x) // BATCH]:
            mirrored = torch.rand(len(index), 1, 1, 1) < 0.5
            images = torch.where(mirrored, x[index].flip(3), x[index])
            loss = cross_entropy(net(images), y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    save_file(net.state_dict(), weights)
    return split


def main() -> None:
    torch.manual_seed(0)
    split = fit(network(), RATE, WEIGHTS)
    images = (split.aux.x[:2000] * 255).round().to(torch.uint8)  # the first test images
    np.save("x.npy", images.numpy())
    np.save("y.npy", split.aux.y[:2000].numpy())


if __name__ == "__main__":
    main()
