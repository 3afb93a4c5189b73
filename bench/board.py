"""The rows of a leaderboard, and what they are compared with."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.flags import QUALIFIERS
from bench.stats import Estimate
from bench.store import Record
from bench.trials import Suite, canonical

METRICS = ("mse", "ssim", "psnr", "fvu")
LAST = ("class_variance", "capacity_nats", "surrogate", "active_gates", "effective_samples")
"""Diagnostics of the last epoch that are columns of the leaderboard."""


@dataclass
class Row:
    """One defense at one strength, over the seeds that finished."""

    defense: str
    strength: float | None
    component: str = ""
    """Name of the defense in ``DEFENSES``; ``defense`` is its label in the suite."""
    seeds: list[int] = field(default_factory=list)
    missing: int = 0
    """Trials of this row that failed or have not run."""
    accuracy: Estimate | None = None
    attacks: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    """Attack to ``floor``, ``closed_form`` or ``trained``."""
    threats: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Attack to its threat model."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Attack to the seconds of fit and reconstruction, mean over the seeds."""
    repeats: set[str] = field(default_factory=set)
    """Attacks that see several releases of an image: another threat, never the worst case."""
    bound: float | None = None
    """A lower bound on the MSE of any attack that sees one release, see ``bench.bounds``."""
    optimum: float | None = None
    """The MSE of the best possible reconstruction from one release, where it is known."""
    worst_attack: str = ""
    """The attack with the lowest mean MSE."""
    worst_ssim_attack: str = ""
    """The attack with the highest mean SSIM."""
    flags: list[str] = field(default_factory=list)
    payload: int = 0
    client_parameters: int = 0
    noise: float | None = None
    """Standard deviation of the noise that the defense adds, of those that add any."""
    chance: float = 0.0
    """Accuracy of the most frequent class."""
    draws: dict[str, np.ndarray] = field(default_factory=dict)
    """The bootstrap's means (DRAWS,) of the accuracy and of the worst case's MSE and FVU, paired
    between the rows of a board."""
    freedom: tuple[int, int] = (0, 0)
    """Degrees of freedom of seeds and of images."""
    train_seconds: float = float("nan")
    history: dict[str, np.ndarray] = field(default_factory=dict)
    """Losses, accuracies and diagnostics by epoch, mean over the seeds; NaN where not measured."""
    originals: Record | None = None
    """Where the sample images are, with the first seed: key and hashes of a record."""
    samples: dict[str, Record] = field(default_factory=dict)
    """Attack to where its reconstructions of them are."""
    broken: dict[int, float] = field(default_factory=dict)
    """Of an undefended row, seed to the lowest FVU of an attack on its victim."""
    data: set[str] = field(default_factory=set)
    """Hashes of the data that its records were made from: one, if all is well."""
    lines: dict[str, str] = field(default_factory=dict)
    """Key of a trial to its line of ``records.csv``."""

    @property
    def levels(self) -> dict[str, str]:
        """Attack to the knowledge it was granted."""
        return {attack: threat["knowledge"] for attack, threat in self.threats.items()}

    @property
    def doubts(self) -> list[str]:
        """The flags that say why not to trust the row."""
        return [flag for flag in self.flags if flag not in QUALIFIERS]

    @property
    def label(self) -> str:
        return self.defense if self.strength is None else f"{self.defense} {self.strength:g}"

    def worst(self, metric: str) -> Estimate:
        """The worst case over the attacks: highest for SSIM, else that of the lowest MSE."""
        attack = self.worst_ssim_attack if metric == "ssim" else self.worst_attack
        return self.attacks[attack][metric]


@dataclass
class Board:
    """The rows of a suite and what they are compared with."""

    suite: Suite
    rows: list[Row]
    floors: dict[str, dict[str, float]]
    """Predictor to MSE and SSIM; empty as long as no victim has finished."""

    def drawn(self) -> "Board":
        """What pictures need of it: without draws and lines, and with a victim for each data set
        and model instead of all trials."""
        kinds = {
            canonical({name: victim.config[name] for name in ("dataset", "model")}): victim
            for victim in self.suite.victims
        }
        suite = self.suite._replace(victims=tuple(kinds.values()), attacks=())
        return Board(suite, [replace(row, draws={}, lines={}) for row in self.rows], self.floors)

    @property
    def complete(self) -> list[Row]:
        """The rows that can be judged: without a missing trial, which may be the strongest."""
        return [row for row in self.rows if row.worst_attack and not row.missing]

    @property
    def controls(self) -> list[Row]:
        """The undefended rows among them."""
        return [row for row in self.complete if row.component == "none"]
