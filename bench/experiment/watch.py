"""What is watched in every training, beside what its defense says: what a surrogate claims."""

import torch
from torch import Tensor

from smashbench.bench.experiment.victim import Victim
from smashbench.datasets import Part
from smashbench.defenses.base import Diagnostic

WATCHED = {
    "val_accuracy": Diagnostic("validation accuracy"),
    "class_variance": Diagnostic("true within-class variance", logarithmic=True, column=True),
    "class_radius": Diagnostic("within-class radius R_c^2", logarithmic=True, column=True),
    "capacity_nats": Diagnostic("capacity bound, nats per image", logarithmic=True, column=True),
}


def watch(victim: Victim, part: Part, classes: int) -> dict[str, float]:
    """Accuracy of releases of ``part``, and what a surrogate claims to lower: the true variance
    of its features within the classes, the within-class mean-square radius R_c^2 (its sum over
    the dimensions, arXiv:2506.15412) and, with Gaussian noise, the capacity that it leaves."""
    z, defense = victim.encode(part.x), victim.defense
    accuracy = (victim.predict(victim.protect(z)) == part.y).float().mean()
    variance = class_variance(z, part.y, classes)
    row = {
        "val_accuracy": float(accuracy),
        "class_variance": variance,
        "class_radius": variance * z[0].numel(),
    }
    if defense.noise and defense.gaussian:  # of any transform: it comes before the noise
        row["capacity_nats"] = capacity(victim.transform(z), part.y, classes, defense.noise)
    return row


def class_variance(z: Tensor, y: Tensor, classes: int) -> float:
    """Variance of features z (N, ...) around the mean of their class, mean over dimensions."""
    variances, share = _class_variances(z, y, classes)
    return float((share[:, None] * variances).sum(0).mean())


def capacity(z: Tensor, y: Tensor, classes: int, noise: float) -> float:
    """Upper bound on I(x; z~ | y) in nats per image: sum_c p_c 1/2 sum_d log(1 + v_cd / s^2),
    Gaussian noise of standard deviation s."""
    variances, share = _class_variances(z, y, classes)
    return float((share[:, None] * (variances / noise**2).log1p()).sum() / 2)


def _class_variances(z: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Variance (classes, D) of every dimension within every class, and the classes' shares."""
    flat = z.flatten(1)
    member = (torch.arange(classes, device=y.device)[:, None] == y).to(flat.dtype)
    count = member.sum(1, keepdim=True)
    means = (member @ flat) / count.clamp_min(1)
    variances = (member @ (flat - means[y]).square()) / count.clamp_min(1)
    return variances, count.squeeze(1) / len(y)
