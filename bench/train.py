"""Training a victim."""

from collections import defaultdict
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor
from torch.nn.functional import affine_grid, cross_entropy, grid_sample, pad

from bench.victim import Victim
from datasets import Part, Split


class Training(BaseModel):
    """How victims are trained; the same for every defense.

    The learning rate follows one cycle (Smith and Topin, 2019) or, with ``milestones``, starts at
    ``lr`` and is multiplied by ``decay`` at each of these epochs. ``momentum`` and ``nesterov`` are
    SGD with momentum 0.9. Augmentation is a random flip, a shift by up to ``shift`` pixels into a
    ``border``, and a turn by up to ``rotation`` degrees. The last epoch's weights are
    kept: choosing the epoch with the best validation accuracy would choose the least defended one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    epochs: PositiveInt
    batch_size: Annotated[int, Gt(1)] = 128
    optimiser: Literal["adamw", "momentum", "nesterov"] = "adamw"
    lr: PositiveFloat = 0.01
    weight_decay: NonNegativeFloat = 5e-4
    shift: Annotated[int, Gt(-1)] = 2
    precision: Literal["bf16", "fp32"] = "bf16"
    milestones: tuple[PositiveInt, ...] = ()
    decay: PositiveFloat = 0.2
    border: Literal["reflect", "black"] = "reflect"
    rotation: Annotated[float, Ge(0), Le(180)] = 0.0


def train(victim: Victim, split: Split, training: Training) -> list[dict[str, float]]:
    """Trains in place, on the split's device; returns one row of losses, accuracies and
    diagnostics per epoch.

    Random numbers come from torch's global generator.
    """
    data, defense = split.train, victim.defense
    device = data.x.device
    victim.to(memory_format=torch.channels_last)
    size = min(training.batch_size, len(data.y))
    optimiser = _optimiser(victim, training)
    schedule = _schedule(optimiser, training, len(data.y) // size)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=training.precision == "bf16")
    history = []
    for epoch in range(training.epochs):
        defense.epoch = epoch
        if defense.wants_refresh:
            with torch.no_grad():
                defense.refresh(victim.encode(data.x), data.y)
        victim.train()
        seen: defaultdict[str, list[Tensor]] = defaultdict(list)
        batches = torch.randperm(len(data.y)).to(device).split(size)
        batches = batches[: len(data.y) // size]  # a short batch would upset the statistics
        for batch in batches:
            x, y = augment(data.x[batch], training), data.y[batch]
            with autocast:
                z = victim.encoder(x)
            z = z.float()
            penalty, diagnostics = defense.penalty(z, y)
            with autocast:
                logits = victim.head(defense(z))
            loss = cross_entropy(logits.float(), y)
            optimiser.zero_grad()
            (loss + penalty).backward()
            optimiser.step()
            schedule.step()
            diagnostics |= {"loss": loss.detach(), "penalty": penalty.detach()}
            for name, value in diagnostics.items():
                seen[name].append(value)
        row = {name: float(torch.stack(values).mean()) for name, values in seen.items()}
        history.append(row | watch(victim, split.val, split.classes))
    return history


def augment(x: Tensor, training: Training) -> Tensor:
    """Flips half of the images (N, C, H, W), moves and turns each by its own draw."""
    n = len(x)
    x = torch.where(torch.rand(n, 1, 1, 1, device=x.device) < 0.5, x.flip(3), x)
    if training.shift:
        x = _shifted(x, training)
    if training.rotation:
        x = rotate(x, (2 * torch.rand(n, device=x.device) - 1) * training.rotation)
    return x


def _shifted(x: Tensor, training: Training) -> Tensor:
    n, _, h, w = x.shape
    shift, mode = training.shift, "reflect" if training.border == "reflect" else "constant"
    x = pad(x, [shift] * 4, mode=mode).permute(0, 2, 3, 1)
    top, left = torch.randint(2 * shift + 1, (2, n, 1), device=x.device)
    rows = top + torch.arange(h, device=x.device)
    columns = left + torch.arange(w, device=x.device)
    image = torch.arange(n, device=x.device)[:, None, None]
    return x[image, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)


def rotate(x: Tensor, degrees: Tensor) -> Tensor:
    """Images (N, C, H, W) turned counterclockwise around their centres by ``degrees`` (N,):
    nearest pixels, black beyond the border, like torchvision's ``rotate``."""
    _, _, h, w = x.shape
    cos, sin = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    zero = torch.zeros_like(cos)
    rows = torch.stack([cos, -sin * h / w, zero, sin * w / h, cos, zero], 1)
    grid = affine_grid(rows.view(-1, 2, 3), list(x.shape), align_corners=False)
    return grid_sample(x, grid, mode="nearest", align_corners=False)


def watch(victim: Victim, part: Part, classes: int) -> dict[str, float]:
    """Accuracy of releases of ``part``, and what a surrogate claims to lower: the true variance
    of its features within the classes and, with noise, the capacity that it leaves."""
    z = victim.encode(part.x)
    accuracy = (victim.predict(victim.protect(z)) == part.y).float().mean()
    row = {"val_accuracy": float(accuracy), "class_variance": class_variance(z, part.y, classes)}
    if noise := victim.defense.noise:
        row["capacity_nats"] = capacity(z, part.y, classes, noise)
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


def _schedule(
    optimiser: torch.optim.Optimizer, training: Training, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """The learning rate by step, of ``steps`` in an epoch."""
    if training.milestones:
        at = [steps * epoch for epoch in training.milestones]
        return torch.optim.lr_scheduler.MultiStepLR(optimiser, at, training.decay)
    total = steps * training.epochs
    return torch.optim.lr_scheduler.OneCycleLR(optimiser, training.lr, total_steps=total)


def _optimiser(victim: Victim, training: Training) -> torch.optim.Optimizer:
    shared: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay}
    if training.optimiser == "adamw":
        return torch.optim.AdamW(victim.parameters(), fused=True, **shared)
    nesterov = training.optimiser == "nesterov"
    return torch.optim.SGD(victim.parameters(), momentum=0.9, nesterov=nesterov, **shared)
