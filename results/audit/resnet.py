"""A torchvision network with trained weights, cut at three depths, for docs/audit.md:
`python results/audit/resnet.py` makes it.

A ResNet-18, trained as the network of `trained.py`, on CIFAR-10 where SMASHBENCH_DATA says. It
writes `resnet.safetensors` beside this file; the images and labels are those of `trained.py`.
"""

from pathlib import Path

import torch
import torchvision
from safetensors.torch import load_file
from torch import Tensor, nn
from trained import fit

WEIGHTS = Path(__file__).with_name("resnet.safetensors")
RATE = 2e-3


class Prepared(nn.Module):
    """Images come in [0, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.new_tensor([0.485, 0.456, 0.406]), x.new_tensor([0.229, 0.224, 0.225])
        return (x - mean[:, None, None]) / std[:, None, None]


def network() -> nn.Sequential:
    """In stages, so that it can be cut between them."""
    *stages, linear = torchvision.models.resnet18(num_classes=10).children()
    return nn.Sequential(Prepared(), *stages, nn.Flatten(), linear)


def _trained() -> nn.Sequential:
    net = network()
    net.load_state_dict(load_file(WEIGHTS))
    return net.eval()


def early() -> nn.Sequential:
    return _trained()[:5]  # before the first block


def middle() -> nn.Sequential:
    return _trained()[:7]  # after the second of four


def late() -> nn.Sequential:
    return _trained()[:9]  # before the pooling


def early_head() -> nn.Sequential:
    return _trained()[5:]


def middle_head() -> nn.Sequential:
    return _trained()[7:]


def late_head() -> nn.Sequential:
    return _trained()[9:]


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(network(), RATE, WEIGHTS)
