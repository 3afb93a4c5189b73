"""A small encoder and images, for tests of audits."""

import torch
from torch import Tensor, nn

from tests.worlds import images

SOON = 0.001
"""Minutes in which no decoder is trained: closed forms are all there is."""
DEALT = {"test_share": 0.3, "gigabytes": 4.0, "seed": 0, "trust_order": False}
"""Options of ``prepared``: 60 of 200 images are scored."""


def encoder(classes: int = 0) -> nn.Sequential:
    """Two features of every 4x4 pixels, and with ``classes`` logits of them."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 2, 4, 4), nn.Sigmoid()]
    head = [nn.Flatten(), nn.Linear(32, classes)] if classes else []
    return nn.Sequential(*layers, *head)


def pairs() -> tuple[Tensor, Tensor]:
    """200 images of 16x16 pixels and their features."""
    torch.manual_seed(0)
    x = images(200, 16)
    with torch.no_grad():
        return x, encoder()(x)
