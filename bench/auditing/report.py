"""What an audit found."""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from smashbench.bench.auditing.curves import CurvePoint, WhatIf
from smashbench.bench.auditing.plan import strongest
from smashbench.bench.auditing.world import BROKE_OFF, UNSCORED, AuditedAttack
from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.experiment.metrics import METRICS, Metric
from smashbench.bench.experiment.results import Floors
from smashbench.bench.report.statistics import Estimate, columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


@dataclass(frozen=True)
class Facts:
    """What was audited, and how.

    Args:
        images: that were given.
        image_shape: (C, H, W).
        feature_shape: of one release.
        aux: images that the attacker had, with a release of each.
        test: images that were scored.
        groups: that the scored images come in; None where all are independent.
        grouped: whether it was said which images belong together.
        model: whether there was an encoder, and not features alone.
        minutes: that the audit took.
        budget: minutes that it was given.
    """

    images: int
    image_shape: tuple[int, int, int]
    feature_shape: tuple[int, ...]
    aux: int
    test: int
    groups: int | None
    grouped: bool
    model: bool
    minutes: float
    budget: float


def more_than_pairs(attack: AuditedAttack) -> set[str]:
    """What it was granted beside the attacker's images and a release of each."""
    return set(attack.results.threat_model.grants) - {"pairs"}


@dataclass(frozen=True)
class Report:
    """What an audit found. ``to_frame`` is the table of attacks, ``worst`` the strongest of them,
    ``figures`` are Matplotlib's, ``verdict`` says it in sentences, and ``write`` makes a page."""

    facts: Facts
    attacks: list[AuditedAttack]
    left_out: dict[str, str]
    """Attacks that were not run, and why."""
    floors: Floors
    """Mean metrics of what needs no attack."""
    knowledge: list[CurvePoint]
    """The strongest attack by the number of the attacker's pairs."""
    what_if: list[WhatIf]
    """The strongest attack on the encoder behind defenses at inference."""
    accuracy: Estimate | None
    """Of the head on the scored images, undefended; None where there is no head, or no labels."""
    originals: np.ndarray = field(repr=False)
    """The scored images (N, C, H, W), uint8."""
    groups: np.ndarray | None = field(default=None, repr=False)
    """(N,) which group each is of; None where all are independent."""
    notes: list[str] = field(default_factory=list)
    """What is odd about the images and features, or was done differently."""
    short: dict[str, str] = field(default_factory=dict)
    """What falls short in the curves, ``knowledge`` and ``what_if``; empty where nothing does."""

    @cached_property
    def ranked(self) -> list[AuditedAttack]:
        """The attacks, those with the lowest mean squared error first."""
        return sorted(self.attacks, key=lambda each: each.estimates["mse"].mean)

    @cached_property
    def worst(self) -> AuditedAttack:
        """The attack with the lowest mean squared error among those that see one release."""
        return strongest(self.attacks)

    @cached_property
    def on_one_release(self) -> list[AuditedAttack]:
        """The attacks that see one release of an image: limits and the worst case are of these."""
        return [each for each in self.attacks if each.results.threat_model.one_release]

    @cached_property
    def on_pairs(self) -> AuditedAttack:
        """The strongest of these that needs no more than pairs, as those of the knowledge curve."""
        return strongest([a for a in self.on_one_release if not more_than_pairs(a)])

    @cached_property
    def trained(self) -> AuditedAttack | None:
        """The strongest of those that are trained; None where there is none."""
        found = [each for each in self.on_one_release if each.results.kind == "trained"]
        return strongest(found) if found else None

    @property
    def without_result(self) -> list[str]:
        """Attacks that were run and left out: they broke off, or what they rebuild has no score."""
        ends = (UNSCORED, BROKE_OFF)
        return [name for name, why in self.left_out.items() if why.startswith(ends)]

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """Those that were measured of every attack: an older audit has fewer."""
        return {n: m for n, m in METRICS.items() if all(n in a.estimates for a in self.attacks)}

    def to_frame(self) -> pd.DataFrame:
        """A line per attack, strongest first: metrics with the ends of their intervals, what it
        knew, and whether it converged."""
        lines = []
        for each in self.ranked:
            threat = each.results.threat_model
            line: dict[str, object] = {
                "attack": each.name,
                "kind": each.results.kind,
                "knows": threat.knowledge,
                "pairs": each.pairs,
                "releases_per_image": threat.releases_per_image,
                "converged": each.results.converged,
                "seconds": each.seconds,
            }
            lines.append(line | _columns(each.estimates))
        return pd.DataFrame(lines)

    def knowledge_frame(self) -> pd.DataFrame:
        """A line per number of pairs: the strongest attack, and its metrics."""
        return pd.DataFrame(
            [
                {"pairs": each.pairs, "attack": each.attack, **_columns(each.estimates)}
                for each in self.knowledge
            ]
        )

    def what_if_frame(self) -> pd.DataFrame:
        """A line per defense and strength: accuracy, also of a tuned head if there is one, the
        strongest attack, and its metrics."""
        return pd.DataFrame(
            [
                {
                    "defense": each.defense,
                    "setting": each.setting,
                    **columns("accuracy", each.accuracy),
                    **(columns("tuned_accuracy", each.tuned) if each.tuned else {}),
                    "attack": each.attack,
                    **_columns(each.estimates),
                }
                for each in self.what_if
            ]
        )

    @property
    def verdict(self) -> list[str]:
        """What was found, in sentences; the first is the verdict."""
        from smashbench.bench.auditing.verdict import verdict

        return verdict(self)

    @cached_property
    def figures(self) -> "dict[str, Canvas]":
        """The figures that there is something for, by name."""
        from smashbench.bench.auditing.figures import FIGURES

        return {each.name: each.canvas(self) for each in FIGURES if each.applies(self)}

    def value(self, metric: str) -> Estimate:
        """The worst case of a metric over the attacks that see one release of an image.

        Raises:
            BenchError: there is no such metric.
        """
        return self.worst_of(metric).estimates[metric]

    def worst_of(self, metric: str) -> AuditedAttack:
        """The strongest attack by a metric, of those that see one release; raises as ``value``."""
        if metric not in self.metrics:
            raise BenchError(unknown("metric", metric, self.metrics))
        return strongest(self.attacks, metric)

    def write(self, folder: Path | str, *, gallery: bool = True) -> list[Path]:
        """Writes ``audit.html``, the tables, the figures and what ``smashbench pack`` makes a
        submission of to a folder; returns their paths.

        Args:
            folder: made if it is not there; an earlier audit in it is replaced.
            gallery: whether images are shown, original and rebuilt.

        Raises:
            BenchError: the folder cannot be written to, or holds the run of a suite.
        """
        from smashbench.bench.auditing.page import write
        from smashbench.bench.auditing.saved import check_folder, save_audit

        check_folder(Path(folder))
        saved = save_audit(self, Path(folder))
        written = write(self, Path(folder), without=() if gallery else ("gallery",))
        return [*written, *saved]

    @property
    def numbers_sent(self) -> int:
        """In a release of an image."""
        return prod(self.facts.feature_shape)


def _columns(estimates: dict[str, Estimate]) -> dict[str, float | None]:
    return {k: v for name, found in estimates.items() for k, v in columns(name, found).items()}
