"""The world of an audit: images dealt to the attacker and to the test, and an encoder to attack."""

from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from smashbench.attacks import Attack
from smashbench.attacks.base import AttackError, held_groups
from smashbench.bench.auditing.given import Given, OneOf
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.attack_victim import Target, attack_victim, taken
from smashbench.bench.experiment.measure import correct_share
from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.experiment.results import AttackResults, Floors, Values
from smashbench.bench.experiment.scoring import Scores
from smashbench.bench.experiment.wall import CrashedError, LostError
from smashbench.bench.report.images import by_group
from smashbench.bench.report.statistics import Estimate, means
from smashbench.datasets import Split
from smashbench.defenses import Defense
from smashbench.defenses.stack import Stack

UNSCORED = "what it rebuilds cannot be scored"
BROKE_OFF = "it broke off"
"""How the reason begins why an attack is left out that may have leaked much."""
FEW_GROUPS = 10
"""Scored groups of one size below which an interval is hardly one."""


class LeftOutError(Exception):
    """An attack could not be run; the message says why."""


class AuditedAttack(NamedTuple):
    """An attack that was run.

    Args:
        name: of the attack.
        pairs: the attacker's.
        results: as of the attacks of a suite.
        estimates: of every metric, with intervals over the test images or their groups.
        scores: of every test image.
        reconstructions: of all of them (N, C, H, W), uint8.
        seconds: that it took.
    """

    name: str
    pairs: int
    results: AttackResults
    estimates: dict[str, Estimate]
    scores: Scores
    reconstructions: np.ndarray
    seconds: float


@dataclass(frozen=True)
class World:
    """Everything that attacks are run on.

    Args:
        split: ``aux`` is the attacker's, ``test`` is scored; ``train``, of which the mean image is
            the floor, is ``aux``, and ``val`` is empty.
        z_aux, z_test: their clean features (N, ...), or (N, R, ...) where ``repeated``.
        repeated: whether there are R releases of each image.
        encoder: what made them.
        head: what classifies them, if there is one.
        floors: mean metrics of what needs no attack.
        seed: of everything random.
    """

    split: Split
    z_aux: Tensor
    z_test: Tensor
    repeated: bool
    encoder: nn.Module
    head: nn.Module | None
    floors: Floors
    seed: int

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Of one release."""
        return tuple(self.z_aux.shape[2 if self.repeated else 1 :])

    @property
    def floor(self) -> Values:
        """Mean metrics of the mean image."""
        return self.floors["mean_image"]

    @property
    def groups(self) -> np.ndarray | None:
        """Of the test images."""
        found = self.split.test.groups
        return None if found is None else found.cpu().numpy()

    def victim(self, defense: Defense | None = None) -> Given:
        """The encoder behind a defense at inference; ``defense`` is made for one release."""
        plain = defense or Defense(self.feature_shape, self.split.classes)
        if self.repeated:
            one_of = OneOf(self.feature_shape, self.split.classes)
            plain = Stack({"one_of": one_of, "defense": plain})
        return Given(self.encoder, plain, self.head, self.feature_shape)

    def attack(self, name: str, attack: Attack, defense: Defense | None = None) -> AuditedAttack:
        """Runs an attack as a suite does: behind the wall, scored by the same metrics.

        Raises:
            LeftOutError: it could not be run.
        """
        if self.repeated and attack.releases > 1:
            return self._averaged(name, attack)
        target = Target(self.victim(defense), self.z_aux, self.z_test)
        try:
            done = attack_victim(target, attack, name, self.split, self.floor, [self.seed])
        except AttackError as error:
            raise LeftOutError(str(error)) from None
        except LostError as error:
            raise LeftOutError(f"{BROKE_OFF}: {error}") from None
        except ValueError as error:  # its reconstructions are not finite, or a metric is not
            raise LeftOutError(f"{UNSCORED}: {error}") from None
        except CrashedError as error:
            raise LeftOutError(f"{BROKE_OFF}: {str(error).splitlines()[-1]}") from None
        return AuditedAttack(
            name=name,
            pairs=len(self.z_aux),
            results=done.results,
            estimates=estimates(done.scores, self.floor, self.groups),
            scores=done.scores,
            reconstructions=done.reconstructions.numpy(),
            seconds=done.fit_seconds + done.reconstruct_seconds,
        )

    def _averaged(self, name: str, attack: Attack) -> AuditedAttack:
        """Runs an attack on the average of all releases that there are of an image: of as many that
        were drawn from them one by one, some would come twice and others not at all."""
        z_aux, z_test = self.z_aux.mean(1), self.z_test.mean(1)
        averages = replace(self, z_aux=z_aux, z_test=z_test, repeated=False)
        several, attack = attack.releases, copy(attack)
        attack.releases = 1
        done = averages.attack(name, attack)
        threat = done.results.threat_model.model_copy(update={"releases_per_image": several})
        return done._replace(results=done.results.model_copy(update={"threat_model": threat}))

    def accuracy(self, defense: Defense | None = None) -> Estimate:
        """Of the head on releases of the test images.

        Raises:
            BenchError: what the head returns are no logits of the classes.
        """
        correct = correct_share(self.victim(defense), self.z_test, self.split.test.y, self.seed)
        table = by_group(correct.double().cpu().numpy()[None, None, None], self.groups)
        return means(table, [ACCURACY.bounds])[0]

    def with_pairs(self, index: Tensor) -> "World":
        """The same with fewer of the attacker's pairs: those at ``index``."""
        aux = taken(self.split.aux, index)
        split = replace(self.split, aux=aux)
        return replace(self, split=split, z_aux=self.z_aux[index.to(self.z_aux.device)])


def estimates(scores: Scores, floor: Values, groups: np.ndarray | None) -> dict[str, Estimate]:
    """Means with 95 % intervals over images, or over their groups, of every metric that was
    scored."""
    known = {name: metric for name, metric in METRICS.items() if metric.judge in scores}
    tables = [metric.values(scores, floor) for metric in known.values()]
    table = by_group(np.stack(tables)[:, None, None].astype(np.float64), groups)
    found = means(table, [metric.bounds for metric in known.values()])
    return dict(zip(known, found, strict=True))


def count_of(groups: np.ndarray) -> float:
    """How many groups of one size say as much as groups of different sizes (Kish, 1965).

    Args:
        groups: (images,) ids.

    >>> count_of(np.array([1, 1, 2, 2])), count_of(np.array([1, 1, 1, 2]))
    (2.0, 1.6)
    """
    sizes = np.unique(groups, return_counts=True)[1]
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def dealt(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices for the attacker, in random order, and for the test, sorted: a ``share`` of the
    images, or more where groups are large, since no group is in both.

    Raises:
        BenchError: too few groups for both.
    """
    generator = torch.Generator().manual_seed(seed)
    _, group, sizes = groups.unique(return_inverse=True, return_counts=True)
    held = held_groups(sizes, round(share * len(groups)), generator)[group]
    test, aux = held.nonzero()[:, 0], (~held).nonzero()[:, 0]
    if len(group[test].unique()) < 2:
        raise BenchError(
            f"{len(sizes)} {'groups leave' if len(sizes) > 1 else 'group leaves'} one to be "
            "scored, which has no interval: give images of more groups, or another --test-share"
        )
    if min(len(test), len(aux)) < LEAST:
        raise BenchError(
            f"{len(groups)} images of {len(sizes)} groups are dealt as {len(aux)} to the attacker "
            f"and {len(test)} to the test: each needs {LEAST}; give more, or another --test-share"
        )
    return aux[torch.randperm(len(aux), generator=generator)], test


LEAST = 20
"""Images that the attacker and the test need at least."""
