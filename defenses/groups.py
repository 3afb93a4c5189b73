"""Class-wise sums over a batch, all classes at once, and class-wise access between epochs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """A batch of B samples grouped by label into G groups; groups may be empty.

    G is min(classes, B), known without looking at the labels, so nothing waits for the device
    and the cost of a step does not grow with the number of classes.
    """

    index: Tensor
    """(B,) the group of every sample."""
    member: Tensor
    """(G, B) 1 where a sample belongs to a group, else 0; floating point."""
    count: Tensor
    """(G,) samples per group; floating point."""

    @classmethod
    def of(cls, y: Tensor, classes: int, dtype: torch.dtype) -> "Groups":
        """Groups labels ``y`` (B,) in 0..classes-1.

        With more classes than samples, a group's number is the place of its first member among
        the sorted labels.
        """
        index = y if classes <= len(y) else torch.searchsorted(y.sort().values, y)
        groups = torch.arange(min(classes, len(y)), device=y.device)
        member = (groups[:, None] == index).to(dtype)
        return cls(index, member, member.sum(1))

    def mean(self, values: Tensor) -> Tensor:
        """Group means (G, D) of ``values`` (B, D); zero for an empty group."""
        return (self.member @ values) / self.count.clamp_min(1)[:, None]

    def sum(self, values: Tensor) -> Tensor:
        """Group sums (G, D) of ``values`` (B, D)."""
        return self.member @ values

    def products(self, values: Tensor, vectors: Tensor) -> Tensor:
        """Inner products (B, K) of ``values`` (B, D) with the vectors of their own group, of
        (G, K, D). One product with those of all groups is cheaper than a copy for every sample."""
        every = (values @ vectors.flatten(0, 1).T).view(len(values), *vectors.shape[:2])
        return every[torch.arange(len(values), device=values.device), self.index]

    def labels(self, y: Tensor) -> Tensor:
        """The label (G,) of every group, given those of the samples (B,); 0 for an empty group."""
        return torch.zeros_like(self.count, dtype=y.dtype).scatter(0, self.index, y)

    def softmax(self, logits: Tensor) -> Tensor:
        """Softmax (B,) of ``logits`` (B,) over the members of each group."""
        logits = logits - logits.new_full((len(self.member),), -torch.inf).scatter_reduce(
            0, self.index, logits.detach(), "amax"
        ).gather(0, self.index)
        weights = logits.exp()
        return weights / (self.member @ weights)[self.index]


def by_class(features: Tensor, labels: Tensor) -> Iterator[tuple[int, np.ndarray]]:
    """The labels that occur and the flattened features (M, D) of each, for refits by
    scikit-learn."""
    flat = features.flatten(1).cpu().numpy()
    members = labels.cpu().numpy()
    for label in np.unique(members):
        yield int(label), flat[members == label]
