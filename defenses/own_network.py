"""A network of the defender's own, trained inside the training of the victim."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Build = Callable[[], nn.Module]


class OwnNetwork:
    """A small network that a defense trains beside its victim: an adversary that rebuilds images,
    say, whose error becomes a penalty.

    It is no ``nn.Module``: its parameters are neither in the victim's optimiser nor among its
    weights (a checkpoint of an unfinished training has them), and no attack reaches them: copies,
    like the one that a white-box attack is given, begin anew. It has a random stream of its own, so
    that the victim draws the same numbers with it and without. ``train_step`` takes one step of
    Adam; to use the network in a penalty, call it after that step: gradients reach what it is given
    and leave none in it.

    Args:
        build: makes the network, in the stream of its own.
        lr: of Adam.
        seed: of the stream.
    """

    def __init__(self, build: Build, *, lr: float = 1e-3, seed: int = 0) -> None:
        self._build, self._lr = build, lr
        self._stream = torch.Generator().manual_seed(seed).get_state()
        self._network: nn.Module | None = None
        self._kept: dict[str, Any] | None = None
        """What it is to go on from, once its device is known."""

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: vars(self)[name] for name in ("_build", "_lr", "_stream")}
        return kept | {"_network": None, "_kept": None}

    def train_step(self, z: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """One step that lowers ``loss`` of the network's output for releases ``z`` (B, ...), whose
        own graph is cut. Returns the loss before the step, detached."""
        with self._own_stream(z.device), torch.enable_grad():
            network = self._made(z.device).train().requires_grad_(True)
            value = loss(network(z.detach()))
            self._optimiser.zero_grad()
            value.backward()
            self._optimiser.step()
        return value.detach()

    def __call__(self, z: Tensor) -> Tensor:
        """The network's output for ``z`` (B, ...), differentiable in ``z`` alone."""
        with self._own_stream(z.device):
            output: Tensor = self._made(z.device).requires_grad_(False)(z)
        return output

    def progress(self) -> dict[str, Any]:
        """Its state, for ``Defense.progress``."""
        if self._kept is not None:
            return self._kept
        if self._network is None:
            return {"stream": self._stream}
        return {
            "stream": self._stream,
            "network": self._network.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def resume(self, progress: dict[str, Any]) -> None:
        """Goes on from what ``progress`` gave, on the device of the next release."""
        self._stream = progress["stream"].cpu()
        self._network, self._kept = None, progress if "network" in progress else None

    def _made(self, device: torch.device) -> nn.Module:
        if self._network is None:
            self._network = self._build().to(device)
            self._optimiser = torch.optim.Adam(self._network.parameters(), self._lr)
            if self._kept is not None:
                self._network.load_state_dict(self._kept["network"])
                self._optimiser.load_state_dict(self._kept["optimiser"])
                torch.set_rng_state(self._stream)  # building drew from it
                self._kept = None
        return self._network

    @contextmanager
    def _own_stream(self, device: torch.device) -> Iterator[None]:
        """Random numbers come from the stream of its own, and the others' is left as it was."""
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.set_rng_state(self._stream)
            yield
            self._stream = torch.get_rng_state()
