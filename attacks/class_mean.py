"""The floor that uses the prediction: the mean image of a class."""

from typing import Self

import torch
from torch import Tensor

from smashbench.attacks.base import Attack, Knowledge, releases


class ClassMean(Attack):
    """Floor: the mean of the attacker's images that the head puts in the same class.

    Whatever hides the input while it keeps the label must leave this much. A class that the head
    predicts for none of the attacker's images gets the mean of all.
    """

    kind = "floor"
    noise_aware = False
    needs = frozenset({"pairs", "logits"})
    images_: Tensor

    def fit(self, knowledge: Knowledge) -> Self:
        x = knowledge.images
        self.predict_ = knowledge.predict
        label = self.predict_(releases(knowledge, torch.arange(len(x), device=x.device), 1)[0])
        member = (torch.arange(knowledge.classes, device=x.device)[:, None] == label).float()
        count = member.sum(1, keepdim=True)
        means = (member @ x.flatten(1)) / count.clamp_min(1)
        means = means.where(count > 0, x.flatten(1).mean(0))
        self.images_ = means.view(-1, *x.shape[1:])
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return self.images_[self.predict_(z)]
