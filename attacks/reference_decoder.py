"""The decoder of the reference protocol, as it was published."""

from typing import Annotated, Self

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from smashbench.attacks.base import Attack, AttackError, Knowledge, finite, releases
from smashbench.attacks.decoder import predict


class ReferenceDecoder(Attack):
    """The decoder attack of Xia et al. (CVPR 2025), as published, to compare with.

    Residual blocks with batch normalisation, one transposed convolution per doubling, sigmoid:
    711k parameters for 8x8x8 features of 32x32 images. Adam with weight decay and a cosine schedule
    over a fixed number of epochs, in float32, fresh releases at every step, and no validation part:
    ``history_`` is the training loss, and as nothing tells whether the fit has converged, it counts
    as not converged.

    Args:
        width, blocks: size of the trunk.
        epochs, batch_size, lr: Adam's schedule.
        min_lr: where its learning rate ends.
        weight_decay: added to the gradient, as in Adam and not as in AdamW.
    """

    kind = "trained"
    converged_ = False

    def __init__(
        self,
        *,
        width: Annotated[int, Ge(8)] = 64,
        blocks: Annotated[int, Ge(1)] = 8,
        epochs: Annotated[int, Ge(1)] = 50,
        batch_size: Annotated[int, Ge(2)] = 256,
        lr: Annotated[float, Gt(0)] = 1e-3,
        min_lr: Annotated[float, Ge(0)] = 1e-5,
        weight_decay: Annotated[float, Ge(0)] = 1e-4,
    ) -> None:
        self.width, self.blocks = width, blocks
        self.epochs, self.batch_size, self.lr = epochs, batch_size, lr
        self.min_lr, self.weight_decay = min_lr, weight_decay

    def fit(self, knowledge: Knowledge) -> Self:
        x, everyone = knowledge.images, torch.arange(len(knowledge.images))
        if len(x) < 2:
            raise AttackError(f"reference_decoder: {len(x)} aux image is too few: give two or more")
        z = releases(knowledge, everyone[:2].to(x.device), 1)[0]
        if z.ndim != 4:
            shape = tuple(z.shape[1:])
            raise AttackError(
                f"reference_decoder: features {shape} are no map (C, H, W): `decoder`"
            )
        self.net_ = reference_network(z.shape[1:], x.shape[1:], self.width, self.blocks)
        self.net_.to(x.device).to(memory_format=torch.channels_last)
        parameters = self.net_.parameters()
        optimiser = torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs, self.min_lr)
        history = []
        for _ in range(self.epochs):
            losses, peaks = [], []
            for batch in everyone[torch.randperm(len(x))].to(x.device).split(self.batch_size):
                if len(batch) < 2:  # batch normalisation needs two
                    continue
                z = knowledge.draw(batch).contiguous(memory_format=torch.channels_last)
                loss = mse_loss(self.net_(z), x[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses.append(loss.detach())
                peaks.append(z.abs().amax())
            finite(torch.stack(peaks))  # once, so that no step waits for the device
            schedule.step()
            history.append(torch.stack(losses).mean())
        self.net_.eval()
        self.history_ = torch.stack(history).tolist()
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return predict([self.net_], z)


def reference_network(
    features: torch.Size, image: torch.Size, width: int, blocks: int
) -> nn.Sequential:
    """Features (B, C', H', W') to images (B, C, H, W).

    Args:
        features: (C', H', W').
        image: (C, H, W), H and W the same power of two times H' and W'.
        width: channels of the trunk.
        blocks: residual blocks of the trunk.

    Raises:
        AttackError: they are not.
    """
    doublings = max(image[1] // features[1], 1).bit_length() - 1
    if [size << doublings for size in features[1:]] != list(image[1:]):
        raise AttackError(
            f"reference_decoder: images of {tuple(image[1:])} pixels are no power of two times "
            f"features of {tuple(features[1:])}"
        )
    layers: list[nn.Module] = [_Block(features[0], width), nn.ReLU()]
    for _ in range(blocks):
        layers += [_Block(width, width), nn.ReLU()]
    for _ in range(doublings):
        layers.append(nn.ConvTranspose2d(width, width, 3, stride=2, padding=1, output_padding=1))
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(doublings, 2):  # the authors keep two layers here whatever the resolution
        layers += [_Block(width, width), nn.ReLU()]
    return nn.Sequential(*layers, _Block(width, image[0]), nn.Sigmoid())


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.body(x) + self.shortcut(x)
        return total
