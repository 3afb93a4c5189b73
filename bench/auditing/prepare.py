"""From what a user has to a world that attacks can be run on."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from smashbench.bench.auditing.budget import room
from smashbench.bench.auditing.checks import check_features, check_order, duplicates
from smashbench.bench.auditing.given import Called, Dumped, Given, called
from smashbench.bench.auditing.pairs import Pairs
from smashbench.bench.auditing.world import LEAST, World, dealt
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.run.perform import accelerator
from smashbench.datasets import Part, Split
from smashbench.defenses import Defense

FEW_GROUPS = 10
"""Scored groups below which an interval is hardly one."""


class Prepared(NamedTuple):
    """A world, and what is to be known of it.

    Args:
        world: to run attacks on.
        accuracy: of the head; None where there is no head, or no labels.
        notes: what is odd about images and features, or is done differently, in sentences.
    """

    world: World
    accuracy: Estimate | None
    notes: list[str]


def prepared(
    pairs: Pairs,
    model: Any,
    head: Any,
    *,
    test_share: float,
    gigabytes: float,
    seed: int,
    trust_order: bool,
) -> Prepared:
    """Checks what was given, deals it to the attacker and the test, and takes as much as fits in
    memory.

    Raises:
        BenchError: something about it is wrong.
    """
    device = accelerator()
    encoder = None if model is None else called(model, "encoder").to(device)
    groups, notes = _groups(pairs)
    if pairs.features is not None:
        notes += check_features(pairs.features)
    everyone = torch.arange(len(pairs.images)) if groups is None else groups
    aux, test = dealt(everyone, test_share, seed)
    if encoder is None and not trust_order:
        check_order(pairs, aux)
    shape = tuple(_features(pairs, encoder, aux[:2]).shape[1:])
    fits = room(pairs.images.shape, shape, gigabytes)
    if min(fits) < LEAST:
        raise BenchError(
            f"--memory {gigabytes:g}: {LEAST} images {pairs.images.shape} with features {shape} on "
            f"each side need more than {gigabytes:g} GiB; give more"
        )
    for who, index, most in (("attacker's", aux, fits.aux), ("scored", test, fits.test)):
        if len(index) > most:
            notes.append(f"Of the {who} {len(index):,} images {most:,} are used (--memory).")
    # the attacker's are in random order already; those that are scored are spread over all
    spread = torch.linspace(0, len(test) - 1, min(len(test), fits.test)).round().long()
    aux, test = aux[: fits.aux], test[spread]
    z_aux, z_test = (_features(pairs, encoder, index) for index in (aux, test))
    if encoder:
        notes += check_features(torch.cat([z_aux, z_test]))
    split = _split(pairs, groups, aux, test)
    world = World(
        split=split.to(device),
        z_aux=z_aux.to(device),
        z_test=z_test.to(device),
        repeated=pairs.repeated,
        encoder=encoder or Dumped(),
        head=None if head is None else called(head, "head").to(device),
        floors=floors_of(split),
        seed=seed,
    )
    if groups is not None and (number := len(groups[test].unique())) < FEW_GROUPS:
        notes.append(f"The scored images are of {number} groups: intervals are rough.")
    accuracy, doubts = _accuracy(world, known=pairs.labels is not None)
    return Prepared(world, accuracy, notes + doubts)


def _groups(pairs: Pairs) -> tuple[Tensor | None, list[str]]:
    """Which images belong together (N,): those of a group, and equal ones; None where all are
    independent."""
    found = duplicates(pairs.images)
    if not found.copies:
        return pairs.groups, []
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(pairs.images)
    members = np.arange(n) if pairs.groups is None else pairs.groups.numpy()
    edges = (np.ones(n), (members, members[found.first.numpy()]))
    together = connected_components(coo_array(edges, shape=(n, n)), directed=False)[1]
    note = (
        f"{found.copies:,} of {n:,} images equal an earlier one; equal ones are dealt to one side."
    )
    return torch.from_numpy(together[members].astype(np.int64)), [note]


def _features(pairs: Pairs, encoder: Called | None, index: Tensor) -> Tensor:
    """Features (n, ...) of images at ``index``, on the CPU."""
    if encoder is None:
        return pairs.take_features(index)
    victim, device = Given(encoder, Defense((1,), 1), None, (1,)), accelerator()
    parts = [victim.encode(pairs.images.take(part).to(device)).cpu() for part in index.split(64)]
    return torch.cat(parts)


def _split(pairs: Pairs, groups: Tensor | None, aux: Tensor, test: Tensor) -> Split:
    labels = torch.zeros(len(pairs.images)).long() if pairs.labels is None else pairs.labels

    def part(index: Tensor) -> Part:
        of = None if groups is None else groups[index]
        return Part(pairs.images.take(index), labels[index], of)

    mine, scored = part(aux), part(test)
    nobody = Part(scored.x[:0], scored.y[:0])
    content = f"{aux.tolist()} {test.tolist()}".encode() + b"".join(_samples(scored.x))
    return Split(
        train=mine,
        val=nobody,
        aux=mine,
        test=scored,
        classes=int(labels.max()) + 1,
        hash=hashlib.sha256(content).hexdigest()[:16],
    )


def _samples(x: Tensor) -> list[bytes]:
    """Of the content of images, for the seed of the noise in releases."""
    return [image.numpy().tobytes() for image in x[:8]]


def _accuracy(world: World, *, known: bool) -> tuple[Estimate | None, list[str]]:
    """Of the head, and what is odd about it.

    Raises:
        BenchError: it does not go with features or labels.
    """
    if world.head is None:
        return None, []
    classes = world.split.classes
    logits = world.head(world.victim().protect(world.z_test[:2]))
    if logits.ndim != 2 or logits.shape[1] < max(classes, 2):
        raise BenchError(
            f"the head returns {tuple(logits.shape)} for two releases: should be (2, classes), and "
            f"labels go up to {classes - 1}"
        )
    if not known:
        return None, ["Without --labels nothing says what a defense would cost."]
    accuracy = world.accuracy()
    chance = float(world.split.test.y.bincount().max() / len(world.split.test.y))
    if accuracy.low < chance:
        return accuracy, [
            f"The head is right for {accuracy.mean:.1%} of the images, the most frequent class "
            f"alone for {chance:.1%}: do head, features and labels belong together?"
        ]
    return accuracy, []
