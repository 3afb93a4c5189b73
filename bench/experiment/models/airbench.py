"""Networks that reach a high accuracy on CIFAR-10 in minutes, cut at the usual place."""

from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Gt
from torch import Tensor, nn
from torch.nn.functional import gelu, unfold

from smashbench.bench.experiment.models.base import Channels, Model, Normalize, Prepared, SplitModel

PATCHES = 5_000
"""Training images whose patches decide the whitening."""


class Size(NamedTuple):
    """Width of every block; ``R`` is a residual block of the width before, ``64P`` one with 2x2
    max pooling."""

    stride: int
    """Of the whitening: 1 looks at 3x3 pixels around each, 2 at 2x2 pixels that share none."""
    client: tuple[str, ...]
    server: tuple[str, ...]


SIZES = {
    "middle": Size(2, ("32P",), ("64", "R", "128P", "R")),
    "reference": Size(1, ("64P", "64", "128P"), ("128", "256P", "256")),
}


class Airbench(Model):
    """A network of the speed runs on CIFAR-10, with a bottleneck: 8x8x8 features at 32x32.

    After Jordan (2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498). Blocks
    are a 3x3 convolution, max pooling where there is one, batch normalisation and GELU; the scale
    of the normalisation is frozen at 1. Deviations: the bottleneck (normalised, so that the sigmoid
    is first fed numbers of unit spread; its scale is trained) and residual blocks behind it; one
    convolution in a block instead of two; a global maximum instead of one of 3x3; a linear layer as
    PyTorch has it, with a bias and no factor; 1e-5 in batch normalisation instead of 1e-12. Patches
    for the whitening do not overlap and are centred; with ``reference`` they are 3x3, padded and
    without negatives; its bias is trained throughout. They are of the first 5,000 images as they
    are stored, which are of few classes where a large data set is stored by class.

    Args:
        size: ``reference``, or ``middle`` for boards with many rows.
        width: multiplies the channels of all blocks.
        channels: of the bottleneck.
        whitening: the client begins with a frozen layer of the eigenvectors of image patches,
            each over the root of its eigenvalue, as that paper does; without it with a
            convolution that is trained.
        initial: filters before training: ``dirac`` hands the first inputs on unchanged, as that
            paper does; or ``torch``'s own.
    """

    def __init__(
        self,
        *,
        size: Literal["middle", "reference"] = "reference",
        width: Annotated[float, Gt(0)] = 1.0,
        channels: Channels = 8,
        whitening: bool = True,
        initial: Literal["dirac", "torch"] = "dirac",
    ) -> None:
        self.size, self.width, self.channels = size, width, channels
        self.whitening, self.initial = whitening, initial

    def build(self, image_shape: tuple[int, int, int], classes: int) -> SplitModel:
        size = SIZES[self.size]
        stem = Whitening(image_shape[0], size.stride, self.whitening)
        client, inputs = self._blocks(size.client, stem.channels)
        squeeze = nn.Conv2d(inputs, self.channels, 3, padding=1, bias=False)
        bottleneck = [squeeze, nn.BatchNorm2d(self.channels), nn.Sigmoid()]
        server, outputs = self._blocks(size.server, self.channels)
        head = nn.Sequential(
            Normalize(), *server, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(outputs, classes)
        )
        split = SplitModel(nn.Sequential(stem, *client, *bottleneck), head)
        if self.initial == "dirac":
            for part in split:
                part.apply(_dirac)
        return split

    def _blocks(self, entries: tuple[str, ...], inputs: int) -> tuple[list[nn.Module], int]:
        """The layers, and the channels that leave them."""
        layers: list[nn.Module] = []
        for entry in entries:
            if entry == "R":
                layers.append(Residual(inputs))
                continue
            outputs = max(1, round(int(entry.rstrip("P")) * self.width))
            layers += _block(inputs, outputs, pool=entry.endswith("P"))
            inputs = outputs
        return layers, inputs


class Residual(nn.Module):
    """Adds a block of the same width to its input (B, C, H, W)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_block(width, width, pool=False))

    def forward(self, z: Tensor) -> Tensor:
        total: Tensor = z + self.body(z)
        return total


class Whitening(Prepared):
    """Patches of images (B, C, H, W) in [0, 1] along their principal axes, each at unit variance,
    and GELU.

    Stride 1: 3x3 patches, 9C axes. Stride 2: 2x2 patches that do not overlap, 4C axes and their
    negatives. The weights are computed from training images and frozen; biases are trained.

    Args:
        inputs: C.
        stride: 1 or 2.
        frozen: False for an ordinary convolution of the same shape.
    """

    def __init__(self, inputs: int, stride: int, frozen: bool) -> None:
        super().__init__()
        self.stride, self.frozen, self.centre = stride, frozen, Normalize()
        size = 3 if stride == 1 else 2
        self.channels = inputs * size**2 * stride
        self.filters = nn.Conv2d(inputs, self.channels, size, stride, padding=2 - stride)
        self.filters.weight.requires_grad_(not frozen)

    @torch.no_grad()
    def prepare(self, x: Tensor) -> None:
        if not self.frozen:
            return
        size = self.filters.kernel_size[0]
        patches = unfold(self.centre(x[:PATCHES]), size, stride=size).mT.flatten(0, 1).double()
        values, vectors = torch.linalg.eigh(patches.T.cov())
        axes = (vectors / (values + 5e-4).sqrt()).T.flip(0)
        if self.stride == 2:
            axes = torch.cat([axes, -axes])
        self.filters.weight.copy_(axes.view(self.filters.weight.shape))
        nn.init.zeros_(self.filters.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return gelu(self.filters(self.centre(x)))


def _block(inputs: int, outputs: int, *, pool: bool) -> list[nn.Module]:
    normalise = nn.BatchNorm2d(outputs, momentum=0.4)
    normalise.weight.requires_grad_(False)
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [convolution, *([nn.MaxPool2d(2)] if pool else []), normalise, nn.GELU()]


def _dirac(module: nn.Module) -> None:
    """The first C_in outputs of a block's filters hand their inputs on."""
    if isinstance(module, nn.Conv2d) and module.bias is None:
        nn.init.dirac_(module.weight[: module.in_channels])
