"""Faces of people whom the victim knows, and of others whom it should not tell apart."""

from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge

from smashbench.datasets.base import DatasetError, Part
from smashbench.datasets.facescrub import FaceScrub
from smashbench.datasets.image_folder import per_class
from smashbench.datasets.split import stratified
from smashbench.datasets.stored import Arrays

SHARES = {"train": 0.4, "val": 0.1, "aux": 0.3, "test": 0.2}
"""Of the images of people whom the victim knows."""
OTHERS = {"aux": 0.5, "test": 0.5}


class Faces(FaceScrub):
    """Faces, a folder per person: the victim tells most people apart, and its releases show others,
    too, of whom they should not say who they are.

    Of the others half of the images are the attacker's, who knows who is on them, and half are
    attacked; they have no class, so that utility is scored on the people whom the victim knows.
    Who an image of the others shows is its attribute: that it is inferred is re-identification.
    Images of one person are a group. Of the AT&T (ORL) faces, 40 people with 10 images each, the
    victim knows 30.

    Args:
        folder: where, below the data folder, or an absolute path.
        size: pixels of a side.
        others: people whom the victim does not know, drawn with ``seed``.
        per_class: use the first so many images of every person; 0 for all.
        seed: seed of the draw and of the stratified split.
    """

    name = "faces"

    def __init__(
        self,
        *,
        folder: str = "orl_faces",
        others: Annotated[int, Ge(2)] = 10,
        **options: Any,
    ) -> None:
        super().__init__(folder=folder, **options)
        self.others = others

    def deal(self, arrays: Arrays) -> tuple[dict[str, Part], int]:
        x, person = arrays["x"], arrays["y"]
        people = int(person.max()) + 1
        if people < self.others + 2:
            raise DatasetError(
                f"{self.name}: there are {people} people and others = {self.others}: give "
                "fewer, so that the victim has two or more to tell apart"
            )
        kept = per_class(self.name, person, self.per_class)
        x, person = x[kept], person[kept]
        order = torch.from_numpy(np.random.default_rng(self.seed).permutation(people))
        place = torch.empty_like(order)
        place[order] = torch.arange(people)
        place, known = place[person], people - self.others
        label = place.where(place < known, -1)
        who = (place - known).where(place >= known, -1)
        if int(person.bincount().min()) < 2 * len(SHARES):
            raise DatasetError(f"{self.name}: a person of fewer than {2 * len(SHARES)} images")
        parts = {}
        dealt: dict[str, list[torch.Tensor]] = {name: [] for name in SHARES}
        for chosen, shares in ((label >= 0, SHARES), (label < 0, OTHERS)):
            index = chosen.nonzero()[:, 0]
            for name, members in stratified(place[index], shares, seed=self.seed).items():
                dealt[name].append(index[members])
        for name, found in dealt.items():
            index = torch.cat(found)
            parts[name] = Part(x[index], label[index], place[index], attributes=who[index][:, None])
        return parts, known
