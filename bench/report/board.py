"""The rows of a report, and what they are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.results import IMAGES, DiagnosticFacts, Floors, ThreatModel
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.store.files import DamagedError
from smashbench.bench.store.record import Arrays, AttackRecord, FinishedRecord, VictimRecord
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite

if TYPE_CHECKING:
    from smashbench.bench.report.losses import Loss

RowKey = tuple[str, float | None]
"""Label and strength of a row."""
COLLAPSED = 0.2
"""Share of the way from chance to 1 below which an accuracy is near chance."""
UNKNOWN = Estimate(*[float("nan")] * 3)
"""The accuracy of a row without a trained victim."""


@dataclass
class AttackSummary:
    """One attack on all victims of a row."""

    estimates: dict[str, Estimate]
    """Metric to its mean and interval."""
    kind: str
    """``floor``, ``closed_form`` or ``trained``."""
    threat: ThreatModel
    converged: bool
    failed: bool
    """Whether every run ended within 5 % of the mean image."""
    seconds: float
    """Of fit and reconstruction, mean over the runs."""
    record: AttackRecord
    """Of the first run, whose sample images are shown."""


@dataclass
class Row:
    """One defense at one strength, over the seeds that finished."""

    defense: str
    strength: float | None
    role: str = "defense"
    """``control``, ``baseline`` or ``defense``, as the component declares it."""
    group: str = "other"
    """What kind of defense it is, as the component declares it."""
    seeds: list[int] = field(default_factory=list)
    missing: int = 0
    """Trials of this row that failed or have not run."""
    of_other_code: int = 0
    """Trials of this row that were made by code that has changed since."""
    otherwise: bool = False
    """Whether its network or training is not that of the board: folders that were merged."""
    versions: dict[str, set[str]] = field(default_factory=dict)
    """Hashes of the code that measured its victims, under ``VICTIM``, and of each attack, under
    ``attack NAME``."""
    accuracy: Estimate = UNKNOWN
    least_accuracy: float = 1.0
    """Of the victim that fared worst."""
    chance: float = 0.0
    attacks: dict[str, AttackSummary] = field(default_factory=dict)
    bound: float | None = None
    """A lower bound on the MSE of any attack that sees one release, see ``experiment.bounds``."""
    optimum: float | None = None
    """The MSE of the best possible reconstruction from one release, where it is known."""
    flags: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """The flags that say why not to trust the row."""
    randomized: bool = False
    attack_seeds: int = 1
    """Runs of its strongest attack on each victim."""
    noise: float = 0.0
    """Standard deviation of the noise in a release."""
    draws: dict[str, np.ndarray] = field(default_factory=dict)
    """The bootstrap's means (DRAWS,) of the accuracy and of the worst case's MSE and FVU: one draw
    has the same images in all rows of a board, and the same seeds in those of a role."""
    freedom: tuple[float, float] = (0, 0)
    """Degrees of freedom of seeds and of images."""
    train_seconds: float = float("nan")
    history: dict[str, np.ndarray] = field(default_factory=dict)
    """Losses, accuracies and diagnostics by epoch, mean over the seeds; NaN where not measured."""
    diagnostics: Mapping[str, DiagnosticFacts] = field(default_factory=dict)
    """How the diagnostics in ``history`` are shown, as the defense declares it."""
    inferred: dict[str, Estimate] = field(default_factory=dict)
    """Of attributes, see ``attributes.LABELS``; empty where images have none."""
    record: VictimRecord | None = None
    """Of the first victim, whose sample images are shown."""
    broken: dict[int, float] = field(default_factory=dict)
    """Of an undefended row, seed to the lowest FVU of an attack on its victim."""

    @property
    def key(self) -> RowKey:
        return self.defense, self.strength

    @property
    def label(self) -> str:
        return self.defense if self.strength is None else f"{self.defense} {self.strength:g}"

    @property
    def collapsed(self) -> bool:
        """Whether its accuracy is near chance, for a seed at least: what it protects is of no use,
        and between it and a row that works no straight line says what a strength would do."""
        return self.least_accuracy < self.chance + COLLAPSED * (1 - self.chance)

    @property
    def title(self) -> str:
        """Its label in a title, where "none" could be read as "no result"."""
        return "undefended" if self.role == "control" else self.label

    @cached_property
    def on_one_release(self) -> dict[str, AttackSummary]:
        """The attacks that see one release of an image; the worst case is one of them."""
        return {name: attack for name, attack in self.attacks.items() if attack.threat.one_release}

    def worst_attack(self, metric: str = "mse") -> str:
        """The attack with the least private mean of ``metric``; empty where there is none."""
        judge = METRICS[METRICS[metric].judge]
        means = {
            name: attack.estimates[judge.name].mean
            for name, attack in self.on_one_release.items()
            if judge.name in attack.estimates
        }
        choose = min if judge.better == "higher" else max
        return choose(means, key=means.__getitem__, default="")

    def strongest(self, kind: str) -> str:
        """The attack of a kind with the lowest MSE from one release; empty where there is none."""
        attacks = self.on_one_release.items()
        errors = {name: each.estimates["mse"].mean for name, each in attacks if each.kind == kind}
        return min(errors, key=errors.__getitem__, default="")

    def worst(self, metric: str = "mse") -> Estimate:
        """The worst case over the attacks."""
        return self.attacks[self.worst_attack(metric)].estimates[metric]

    def last(self, diagnostic: str) -> float | None:
        """A diagnostic in the last epoch."""
        return float(self.history[diagnostic][-1]) if diagnostic in self.history else None

    def measured(self, diagnostic: str) -> bool:
        """Whether a diagnostic was finite in some epoch."""
        return diagnostic in self.history and bool(np.isfinite(self.history[diagnostic]).any())


@dataclass
class Board:
    """The rows of a suite and what they are compared with."""

    suite: Suite
    rows: list[Row]
    floors: Floors
    """Predictor that needs no attack to its metrics; empty as long as no victim has finished."""
    store: Store
    records: pd.DataFrame = field(default_factory=pd.DataFrame)
    """A line per trial of the suite, victims first; docs/columns.md says what is in it."""
    waiting: list[str] = field(default_factory=list)
    """Rows of the suite of which no trial has a record: nobody may have asked for them yet."""

    def to_frame(self) -> pd.DataFrame:
        """The leaderboard: a line per row; docs/columns.md says what is in it."""
        from smashbench.bench.report.tables import leaderboard

        return leaderboard(self)

    @cached_property
    def over_noise(self) -> dict[RowKey, dict[str, Estimate | None]]:
        """What every complete row gains over plain noise."""
        from smashbench.bench.report.comparisons import against_noise

        return against_noise(self)

    @cached_property
    def sweeps(self) -> pd.DataFrame:
        """What every defense offers over its strengths: ``leaderboard_by_defense.csv``."""
        from smashbench.bench.report.comparisons import by_defense

        return by_defense(self)

    @cached_property
    def losses(self) -> "list[Loss]":
        """What every defense leaves at small losses of accuracy."""
        from smashbench.bench.report.losses import at_losses

        return at_losses(self)

    @cached_property
    def attacks_on_one_release(self) -> set[str]:
        """The attacks on one release of an image, of any row."""
        return {name for row in self.rows for name in row.on_one_release}

    @cached_property
    def complete(self) -> list[Row]:
        """The rows that are compared: of the board's network and training, without a missing
        trial, which may be the strongest."""
        return [r for r in self.rows if r.on_one_release and not (r.missing or r.otherwise)]

    @cached_property
    def controls(self) -> list[Row]:
        """The undefended rows among them."""
        return [row for row in self.complete if row.role == "control"]

    def noise_beside(self, row: Row) -> list[Row]:
        """The complete rows of plain noise that work and have the seeds of a row, and the
        undefended ones that have these at least, which are noise of strength 0; nothing where there
        is no noise but that."""
        plain = [r for r in self.controls if set(r.seeds) >= set(row.seeds)]
        noise = [r for r in self.complete if r.role == "baseline" and r.seeds == row.seeds]
        working = [r for r in plain + noise if not r.collapsed]
        return working if any(r.role == "baseline" for r in working) else []

    @cached_property
    def by_defense(self) -> dict[str, list[Row]]:
        """Label to the complete rows of this defense, in the suite's order."""
        names = dict.fromkeys(row.defense for row in self.complete)
        return {name: [row for row in self.complete if row.defense == name] for name in names}

    def swept(self, defense: str) -> list[Row]:
        """Its complete rows that work and have the seeds of the first: those of one sweep."""
        seeds = self.by_defense[defense][0].seeds
        return [r for r in self.by_defense[defense] if r.seeds == seeds and not r.collapsed]

    def doubts(self, defense: str) -> list[str]:
        """Those of its rows, each once."""
        return list(dict.fromkeys(each for row in self.by_defense[defense] for each in row.doubts))

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics that every complete row has, in the order of the table; while there is none,
        those of all rows."""
        rows = self.complete or self.rows
        measured = [set(attack.estimates) for row in rows for attack in row.on_one_release.values()]
        return [name for name in METRICS if all(name in each for each in measured)]

    @cached_property
    def partly_measured(self) -> list[str]:
        """The metrics that some complete rows have, and others have not."""
        some = {n for r in self.complete for a in r.on_one_release.values() for n in a.estimates}
        return [name for name in METRICS if name in some and name not in self.metrics]

    @cached_property
    def diagnostics(self) -> dict[str, DiagnosticFacts]:
        """The diagnostics that some row declares."""
        return {name: facts for row in self.rows for name, facts in row.diagnostics.items()}

    def images(self, record: FinishedRecord) -> Arrays:
        """Sample images (n, C, H, W), uint8, of a record, by name.

        Raises:
            DamagedError: they are not as many, or not of the shape, that others have.
        """
        found = self.store.arrays(record, "samples")
        if (shape := found["samples"].shape) != self._sampled:
            path = self.store.arrays_path(record.key, "samples")
            raise DamagedError(path, f"has images of shape {shape}, others {self._sampled}")
        return found

    @cached_property
    def _sampled(self) -> tuple[int, ...]:
        """Shape of the sample images of the first row that has some."""
        first = next(row.record for row in self.rows if row.record and self.has_images(row))
        return self.store.arrays(first, "samples")["samples"].shape

    def has_images(self, row: Row) -> bool:
        """Whether the row's sample images are there, and those that the first such row has: a pack
        may have come without them, and other code may have chosen others."""
        return self._has_samples(row) and _choice(row) == self._shown_choice

    @cached_property
    def _shown_choice(self) -> str | None:
        return next((_choice(row) for row in self.rows if self._has_samples(row)), None)

    def _has_samples(self, row: Row) -> bool:
        records = [row.record, *(attack.record for attack in row.attacks.values())]
        return all(record and self.store.has_samples(record) for record in records)


def _choice(row: Row) -> str | None:
    """The code that chose the images of a row that are kept."""
    return row.record.scoring.get(IMAGES) if row.record else None
