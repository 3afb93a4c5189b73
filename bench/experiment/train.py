"""Training a victim."""

import time
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from smashbench.attacks.muon import Muon, groups_of, triangle
from smashbench.bench.experiment.augment import augment
from smashbench.bench.experiment.average import Average, recalibrate
from smashbench.bench.experiment.batches import batches_of
from smashbench.bench.experiment.models.base import Prepared
from smashbench.bench.experiment.progress import NOWHERE, Keeper, captured, resumed
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import watch
from smashbench.datasets import Split
from smashbench.defenses.base import Defense, Step


class Trained(NamedTuple):
    """What is known of a training."""

    history: list[dict[str, float]]
    """Losses, accuracies and diagnostics, a row per epoch."""
    seconds: float
    """Those before an interruption included."""


def train(victim: Victim, split: Split, training: Training, keeper: Keeper = NOWHERE) -> Trained:
    """Trains in place, on the split's device.

    Random numbers come from torch's global generator. The state is kept at the end of every
    epoch; a training that finds one goes on from there, to the same weights.
    """
    started = time.perf_counter()
    data, defense = split.train, victim.defense
    device = data.x.device
    victim.to(memory_format=torch.channels_last)
    size = min(training.batch_size, len(data.y))
    optimiser = _optimiser(victim, training)
    schedule = _schedule(optimiser, training, len(data.y) // size)
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=training.precision == "bf16")
    average = Average(victim, training, training.epochs * (len(data.y) // size))
    half = _half(data.y) if training.flip == "alternating" else None
    history: list[dict[str, float]] = []
    if (state := keeper.load()) is not None:
        history, before = resumed(state, victim, optimiser, schedule, average)
        started -= before
    elif not victim.begun:
        for layer in victim.encoder.modules():
            if isinstance(layer, Prepared):
                layer.prepare(data.x)
    for epoch in range(len(history), training.epochs):
        defense.epoch = epoch
        if defense.wants_refresh and (defense.refit == "clean" or epoch == 0):
            with torch.no_grad():
                defense.refresh(victim.encode(data.x), data.y)
        collects = defense.refit == "epoch" and epoch + 1 < training.epochs
        collects = collects and _wants_refresh(defense, epoch + 1)
        features: list[Tensor] = []
        victim.train()
        seen: defaultdict[str, list[Tensor]] = defaultdict(list)
        batches = batches_of(data.y, size, training.balanced)
        for batch in batches:
            flips = half[batch] ^ bool(epoch % 2) if half is not None else None
            x, y = augment(data.x[batch], training, flips), data.y[batch]
            x.requires_grad_(defense.differentiates_images)
            with autocast:
                z = victim.encoder(x)
            step = Step(x, y, z.float(), defense)
            if collects:
                features.append(step.features.detach())
            penalty, diagnostics = defense.penalty(step)
            with autocast:
                logits = victim.head(step.released)
            targets = defense.targets(y)
            smoothing = training.label_smoothing if targets is y else 0.0  # the defense's instead
            loss = cross_entropy(logits.float(), targets, label_smoothing=smoothing)
            optimiser.zero_grad()
            (loss + penalty).backward()
            with autocast:  # the products of Muon
                optimiser.step()
            schedule.step()
            average.follow(schedule.last_epoch)
            diagnostics |= {"loss": loss.detach(), "penalty": penalty.detach()}
            for name, value in diagnostics.items():
                seen[name].append(value)
        if collects:
            defense.epoch = epoch + 1
            defense.refresh(torch.cat(features), data.y[torch.cat(batches)])
        if epoch + 1 == training.epochs:
            average.settle()
            if training.recalibrate:
                recalibrate(victim, data.x, size)
        row = {name: float(torch.stack(values).mean()) for name, values in seen.items()}
        history.append(row | watch(victim, split.val, split.classes))
        seconds = time.perf_counter() - started
        keeper.save(captured(victim, optimiser, schedule, average, history, seconds))
    return Trained(history, time.perf_counter() - started)


def _wants_refresh(defense: Defense, epoch: int) -> bool:
    """Whether the defense will ask for a refit at the start of an epoch to come."""
    now, defense.epoch = defense.epoch, epoch
    wants = defense.wants_refresh
    defense.epoch = now
    return wants


def _schedule(
    optimiser: torch.optim.Optimizer, training: Training, steps: int
) -> torch.optim.lr_scheduler.LRScheduler:
    """The learning rate by step, of ``steps`` in an epoch."""
    if training.milestones:

        def factor(step: int) -> float:
            epoch = step // max(steps, 1)
            idle = epoch < training.idle_epochs
            return 0.0 if idle else training.decay ** sum(at <= epoch for at in training.milestones)

        return torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
    if training.schedule == "linear":
        shape = triangle(steps * training.epochs, training.warmup)
        return torch.optim.lr_scheduler.LambdaLR(optimiser, shape)
    peaks = [group["lr"] for group in optimiser.param_groups]
    total = steps * training.epochs
    return torch.optim.lr_scheduler.OneCycleLR(
        optimiser, peaks, total_steps=total, cycle_momentum=training.optimiser == "adamw"
    )


def _optimiser(victim: Victim, training: Training) -> torch.optim.Optimizer:
    shared: dict[str, Any] = {"lr": training.lr, "weight_decay": training.weight_decay}
    if training.optimiser == "muon":
        groups = groups_of([victim.encoder, victim.head], lr=training.lr, adam_lr=training.adam_lr)
        own = {"params": list(victim.defense.parameters())}
        groups.append(own | {"lr": training.adam_lr * victim.defense.pace})
        return Muon(groups, momentum=training.momentum, steps=3, **shared)
    groups = [
        {"params": [*victim.encoder.parameters(), *victim.head.parameters()]},
        {"params": list(victim.defense.parameters()), "lr": training.lr * victim.defense.pace},
    ]
    if training.optimiser == "adamw":
        return torch.optim.AdamW(groups, fused=True, **shared)
    nesterov = training.optimiser == "nesterov"
    return torch.optim.SGD(groups, momentum=training.momentum, nesterov=nesterov, **shared)


def _half(y: Tensor) -> Tensor:
    """A random half (N,) of the images, the same at every call in a training; flipping it in even
    epochs and the other in odd ones shows every image both ways in two epochs."""
    generator = torch.Generator().manual_seed(torch.initial_seed())
    return (torch.rand(len(y), generator=generator) < 0.5).to(y.device)
