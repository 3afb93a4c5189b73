"""The trained victim: what the client runs, what the server runs, and what leaves the client."""

from collections.abc import Callable
from functools import partial

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from smashbench.bench.experiment.models import Model, SplitModel
from smashbench.defenses import Defense


class Victim(nn.Module):
    """Encoder, defense and head.

    Args:
        model: the network.
        defense: makes the defense for features of a shape and a number of classes.
        image_shape: (C, H, W) of an image.
        classes: number of classes.
    """

    def __init__(
        self,
        model: Model,
        defense: Callable[[tuple[int, ...], int], Defense],
        image_shape: tuple[int, int, int],
        classes: int,
    ) -> None:
        super().__init__()
        self._build = partial(model.build, image_shape, classes)
        split = self._build()
        self.encoder, self.head = split
        self.feature_shape = split.feature_shape(image_shape)
        self.defense = defense(self.feature_shape, classes)
        self.defense.stand_on(self.defense.noise)
        self.begun = False
        """Whether its weights are those of another training."""

    def encode(self, x: Tensor) -> Tensor:
        """Clean features (N, C', H', W') of images (N, C, H, W) in evaluation mode."""
        self.eval()
        with torch.no_grad():
            parts = (part.contiguous(memory_format=torch.channels_last) for part in x.split(128))
            return torch.cat([self.encoder(part) for part in parts])

    def release(self, x: Tensor) -> Tensor:
        """What leaves the client for images ``x``: defense(encoder(x)), in evaluation mode."""
        return self.protect(self.encode(x))

    def protect(self, z: Tensor) -> Tensor:
        """The rest of ``release`` for clean features ``z``: one encoder pass serves many draws."""
        self.eval()
        with torch.no_grad():
            released: Tensor = self.defense(z)
        return released

    def transform(self, z: Tensor) -> Tensor:
        """What noise is added to, of clean features ``z``."""
        self.eval()
        with torch.no_grad():
            return self.defense.transform(z)

    def predict(self, z: Tensor) -> Tensor:
        """The head's class (N,) for releases ``z``."""
        self.eval()
        with torch.no_grad():
            return torch.cat([self.head(part) for part in z.split(500)]).argmax(1)

    def untrained(self) -> nn.Module:
        """An encoder like that of this victim, of which it has nothing: it is built anew, and its
        layers draw their weights anew, in case the model builds trained ones."""
        encoder = self._build().encoder.requires_grad_(True)
        for module in encoder.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
        return encoder.to(next(self.head.parameters()).device)

    @property
    def split(self) -> SplitModel:
        """Encoder and head."""
        return SplitModel(self.encoder, self.head)

    def weights(self) -> bytes:
        """All parameters and buffers as safetensors."""
        return save({name: t.cpu().contiguous() for name, t in self.state_dict().items()})

    def begin(self, weights: bytes) -> None:
        """Takes encoder and head from an undefended victim's ``weights``."""
        state = load(weights)
        for name, part in (("encoder", self.encoder), ("head", self.head)):
            part.load_state_dict(
                {n.removeprefix(f"{name}."): t for n, t in state.items() if n.startswith(name)}
            )
        self.begun = True

    def restore(self, weights: bytes) -> None:
        """Loads what ``weights`` returned."""
        self.load_state_dict(load(weights))
