"""From what a user has to a world that attacks can be run on."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smashbench.bench.auditing.budget import room
from smashbench.bench.auditing.checks import check_features, check_order, first_equal
from smashbench.bench.auditing.evaluated import IMAGES, check_evaluated
from smashbench.bench.auditing.given import Called, Dumped, Given, called
from smashbench.bench.auditing.pairs import Pairs
from smashbench.bench.auditing.world import FEW_GROUPS, LEAST, World, count_of, dealt
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.measure import floors_of
from smashbench.bench.experiment.results import Floors
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.run.perform import accelerator
from smashbench.datasets import Part, Split
from smashbench.defenses import Defense


def prepared(
    pairs: Pairs,
    model: Any,
    head: Any,
    *,
    test_share: float,
    gigabytes: float,
    seed: int,
    trust_order: bool,
) -> tuple[World, Estimate | None, list[str]]:
    """Checks what was given, deals it to the attacker and the test, and takes as much as fits in
    memory.

    Returns:
        The world to run attacks on; the accuracy of the head, None where there is no head, or no
        labels; and what is odd about images and features, or is done differently, in sentences.

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
    if encoder and trust_order:
        raise BenchError("--trust-order is of --features: leave it out with a model")
    if encoder:
        notes += check_evaluated(encoder, pairs.images.take(aux[:IMAGES]).to(device))
    shape = tuple(_features(pairs, encoder, aux[:2]).shape[1:])
    most_aux, most_test = room(pairs.images.shape, shape, gigabytes)
    if min(most_aux, most_test) < LEAST:
        raise BenchError(
            f"--memory {gigabytes:g}: {LEAST} images {pairs.images.shape} with features {shape} on "
            f"each side need more than {gigabytes:g} GiB; give more"
        )
    if encoder is None and not trust_order:
        check_order(pairs, aux, gigabytes / 2)
    for who, index, most in (("attacker's", aux, most_aux), ("scored", test, most_test)):
        if len(index) > most:
            notes.append(f"Of the {who} {len(index):,} images {most:,} are used (--memory).")
    # the attacker's are in random order already; those that are scored are spread over all
    spread = torch.linspace(0, len(test) - 1, min(len(test), most_test)).round().long()
    aux, test = aux[:most_aux], test[spread]
    if groups is not None and len(groups[test].unique()) < 2:
        raise BenchError(
            f"--memory {gigabytes:g}: the {len(test)} images that fit to be scored are of one "
            "group, so that no interval can be given; give more"
        )
    z_aux, z_test = (_features(pairs, encoder, index) for index in (aux, test))
    if encoder:
        notes += check_features(torch.cat([z_aux, z_test]), torch.cat([aux, test]))
    split = _split(pairs, groups, aux, test)
    floors = _floors(split, test)
    classifier = None if head is None else called(head, "head").to(device)
    world = World(
        split=split.to(device),
        z_aux=z_aux.to(device),
        z_test=z_test.to(device),
        repeated=pairs.repeated,
        encoder=encoder or Dumped(),
        head=classifier,
        floors=floors,
        seed=seed,
    )
    if groups is not None and (count := count_of(groups[test].numpy())) < FEW_GROUPS:
        number = len(groups[test].unique())
        notes.append(
            f"The scored images are of {number} groups, which say as much as {count:.1f} of one "
            "size: intervals are rough."
        )
    if classifier:
        world, accuracy, more = _classified(world, classifier, known=pairs.labels is not None)
        return world, accuracy, notes + more
    if pairs.labels is not None:
        notes.append("Labels say what a defense would cost with --head alone; there is none.")
    return world, None, notes


def _groups(pairs: Pairs) -> tuple[Tensor | None, list[str]]:
    """Which images belong together (N,): those of a group, and equal ones; None where all are
    independent."""
    n = len(pairs.images)
    first = first_equal(pairs.images)
    copies = int((first < torch.arange(n)).sum())
    if not copies:
        return pairs.groups, []
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    members = np.arange(n) if pairs.groups is None else pairs.groups.numpy()
    edges = (np.ones(n), (members, members[first.numpy()]))
    together = connected_components(coo_array(edges, shape=(n, n)), directed=False)[1]
    note = f"{copies:,} of {n:,} images equal an earlier one; equal ones are dealt to one side."
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
    # with the content of some images: the noise in releases is seeded by it
    some = b"".join(image.numpy().tobytes() for image in scored.x[:8])
    content = f"{aux.tolist()} {test.tolist()}".encode() + some
    return Split(
        train=mine,
        val=nobody,
        aux=mine,
        test=scored,
        classes=int(labels.max()) + 1,
        hash=hashlib.sha256(content).hexdigest()[:16],
    )


def _floors(split: Split, numbers: Tensor) -> Floors:
    """What needs no attack, on scored images of these numbers (n,). Classes that no image is of,
    of which there may be any number, take no memory.

    Raises:
        BenchError: a metric has no value for some of them.
    """
    kinds, kind = torch.cat([split.train.y, split.test.y]).unique(return_inverse=True)
    train, test = kind.split([len(split.train.y), len(split.test.y)])
    of_kinds = replace(
        split,
        train=split.train._replace(y=train),
        test=split.test._replace(y=test),
        classes=len(kinds),
    )
    try:
        return floors_of(of_kinds)
    except ValueError as error:
        pixels = split.test.x.flatten(1)
        flat = numbers[pixels.amax(1) - pixels.amin(1) <= FLAT]
        which = f": {len(flat)} are of one colour, image {flat[0]} the first" * bool(len(flat))
        raise BenchError(
            f"the images cannot be scored ({error}){which}; leave out images that show nothing"
        ) from None


FLAT = 2.5 / 255
"""Between the pixels of an image of one colour, at most."""


def _classified(
    world: World, head: Called, *, known: bool
) -> tuple[World, Estimate | None, list[str]]:
    """The world with all classes that a head tells apart, its accuracy, and what is odd about it.

    Raises:
        BenchError: it does not go with features or labels.
    """
    classes = world.split.classes
    z = world.victim().protect(world.z_test)
    logits = head(z[:2])
    if logits.ndim != 2 or logits.shape[1] < max(classes, 2):
        raise BenchError(
            f"the head returns {tuple(logits.shape)} for two releases: should be (2, classes), and "
            f"labels go up to {classes - 1}"
        )
    notes = check_evaluated(head, z)
    world = replace(world, split=replace(world.split, classes=logits.shape[1]))
    if nan := sum(int(head(part).isnan().any(1).sum()) for part in z.split(64)):
        raise BenchError(
            f"the head returns NaN for {nan} of {len(z)} images: should be a number for "
            "each class; mend the head, or leave such images out"
        )
    if not known:
        return world, None, [*notes, "Without --labels nothing says what a defense would cost."]
    accuracy = world.accuracy()
    chance = float(world.split.test.y.bincount().max() / len(world.split.test.y))
    if accuracy.low < chance:
        notes.append(
            f"The head is right for {accuracy.mean:.1%} of the images, the most frequent class "
            f"alone for {chance:.1%}: do head, features and labels belong together?"
        )
    return world, accuracy, notes
