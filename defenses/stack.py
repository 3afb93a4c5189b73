"""Several defenses at once."""

from collections.abc import Mapping
from math import hypot
from typing import Any, cast

from torch import Tensor, nn

from smashbench.defenses.base import Defense, Diagnostics, Step


class Stack(Defense):
    """Features pass every part in turn. Penalties add, and every part sees the clean features; each
    refits its statistics on them. A penalty that is relative to the noise counts what ``noise``
    says of all parts, variances added; not what a transform draws, as ``vib`` does. Diagnostics
    carry the label of their part.

    A release is a transform and then noise, as of every defense, unless a part transforms what
    another has added noise to: then all of it is one random transform.

    Args:
        parts: label to defense, in the order in which features pass them.
    """

    group = "stacks"

    def __init__(self, parts: Mapping[str, Defense]) -> None:
        first = next(iter(parts.values()))
        super().__init__(first.shape, first.classes)
        self.labels, self.parts = list(parts), nn.ModuleList(parts.values())
        self.diagnostics = {
            f"{label}_{name}": each._replace(label=f"{label}: {each.label}")
            for label, part in parts.items()
            for name, each in part.diagnostics.items()
        }
        self.total_noise = hypot(*(part.noise for part in parts.values()))
        noisy = [part.noise > 0 for part in parts.values()]
        moving = [type(part).transform is not Defense.transform for part in parts.values()]
        self.mixed = any(any(noisy[:i]) for i, moves in enumerate(moving) if moves)
        kinds = {part.transform_is for part in parts.values()}
        if self.mixed or "random" in kinds:
            self.transform_is = "random"
        elif "rough" in kinds:
            self.transform_is = "rough"
        self.noise = 0.0 if self.mixed else self.total_noise
        self.gaussian = all(part.gaussian for part in parts.values() if part.noise)
        self.differentiates_images = any(p.differentiates_images for p in parts.values())
        refits = {part.refit for part in parts.values() if _refits(part)}
        if len(refits) > 1:
            raise ValueError("parts of a stack refit on the same features: give all one `refit`")
        self.refit = refits.pop() if refits else "clean"
        paces = {part.pace for part in parts.values() if any(True for _ in part.parameters())}
        if len(paces) > 1:
            raise ValueError("parts of a stack have one learning rate: give all one `pace`")
        self.pace = paces.pop() if paces else 1.0

    @property
    def named_parts(self) -> dict[str, Defense]:
        """The parts by their labels."""
        parts = (cast("Defense", part) for part in self.parts)
        return dict(zip(self.labels, parts, strict=True))

    def transform(self, z: Tensor) -> Tensor:
        for part in self.named_parts.values():
            z = part(z) if self.mixed else part.transform(z)
        return z

    def perturb(self, z: Tensor) -> Tensor:
        for part in () if self.mixed else self.named_parts.values():
            z = part.perturb(z)
        return z

    def stand_on(self, noise: float) -> None:
        for part in self.named_parts.values():
            part.stand_on(self.total_noise)

    def penalty(self, step: Step) -> tuple[Tensor, Diagnostics]:
        total, watched = super().penalty(step)
        for label, part in self.named_parts.items():
            part.epoch = self.epoch
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
            raise ValueError("several parts of a stack change the targets: keep one of them")
        return changed[0] if changed else labels

    def payload(self, released: Tensor) -> int:
        """What the least of the parts sends that nothing fills afterwards: noise, say, is in every
        feature, and is not rounded."""
        parts = list(self.named_parts.values())
        last = max((i for i, part in enumerate(parts) if part.noise or part.fills), default=-1)
        at_the_end = not self.mixed and any(part.noise for part in parts)
        left = [] if at_the_end else parts[last + 1 :]
        return min((part.payload(released) for part in left), default=super().payload(released))

    def deployed(self) -> Defense:
        parts = {label: part.deployed() for label, part in self.named_parts.items()}
        return Stack(parts).train(self.training)

    def progress(self) -> dict[str, Any]:
        return {label: part.progress() for label, part in self.named_parts.items()}

    def resume(self, progress: dict[str, Any]) -> None:
        for label, part in self.named_parts.items():
            part.resume(progress[label])

    @property
    def wants_refresh(self) -> bool:
        for part in self.named_parts.values():
            part.epoch = self.epoch
        return any(part.wants_refresh for part in self.named_parts.values())

    def refresh(self, features: Tensor, labels: Tensor) -> None:
        for part in self.named_parts.values():
            part.epoch = self.epoch
            if part.wants_refresh:
                part.refresh(features, labels)


def _refits(part: Defense) -> bool:
    return type(part).refresh is not Defense.refresh
