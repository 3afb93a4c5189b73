"""Several defenses, one after another."""

from collections.abc import Mapping
from math import hypot
from typing import Any, cast

from torch import Tensor, nn

from smashbench.defenses.base import Defense, Diagnostics, Step


class Chain(Defense):
    """Features pass every part in turn. Penalties add, and every part sees the clean features; each
    refits its statistics on them. Diagnostics carry the label of their part.

    Args:
        parts: label to defense, in the order in which features pass them.
    """

    def __init__(self, parts: Mapping[str, Defense]) -> None:
        first = next(iter(parts.values()))
        super().__init__(first.shape, first.classes)
        self.labels, self.parts = list(parts), nn.ModuleList(parts.values())
        self.noise = hypot(*(part.noise for part in parts.values()))
        self.diagnostics = {
            f"{label}_{name}": each
            for label, part in parts.items()
            for name, each in part.diagnostics.items()
        }

    @property
    def named_parts(self) -> dict[str, Defense]:
        """The parts by their labels."""
        parts = (cast("Defense", part) for part in self.parts)
        return dict(zip(self.labels, parts, strict=True))

    def forward(self, z: Tensor) -> Tensor:
        for part in self.parts:
            z = part(z)
        return z

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        total, watched = super().penalty(step)
        for label, part in self.named_parts.items():
            value, found = part.penalty(step)
            total = total + value
            watched |= {f"{label}_{name}": each for name, each in found.items()}
        return total, watched

    def targets(self, labels: Tensor) -> Tensor:
        """Those of the only part that changes them.

        Raises:
            ValueError: several parts change them.
        """
        changed = [t for p in self.named_parts.values() if (t := p.targets(labels)) is not labels]
        if len(changed) > 1:
            raise ValueError("several parts of a chain change the targets: keep one of them")
        return changed[0] if changed else labels

    def payload(self, released: Tensor) -> int:
        return min(part.payload(released) for part in self.named_parts.values())

    def progress(self) -> dict[str, Any]:
        return {label: part.progress() for label, part in self.named_parts.items()}

    def resume(self, progress: dict[str, Any]) -> None:
        for label, part in self.named_parts.items():
            part.resume(progress[label])

    @property
    def randomized(self) -> bool:
        return any(part.randomized for part in self.named_parts.values())

    @property
    def wants_refresh(self) -> bool:
        for part in self.named_parts.values():
            part.epoch = self.epoch
        return any(part.wants_refresh for part in self.named_parts.values())

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        for part in self.named_parts.values():
            if part.wants_refresh:
                part.refresh(features, labels)
