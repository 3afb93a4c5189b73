"""What a suite comes to: a list of trials, each named by the hash of its configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from smashbench.bench.suite.config import (
    AttackChoice,
    AttackConfig,
    Component,
    VictimConfig,
    attack_key,
    canonical,
    keys_of,
)

LONGEST = 30_000
"""Most characters of the command that a results folder keeps."""


@dataclass(frozen=True)
class Trial:
    """One unit of work: to train a victim, or to run one attack on one."""

    key: str
    config: VictimConfig | AttackConfig
    parent: str | None = None
    """The key of the victim that must be there before: of an attack the one that it attacks, of a
    victim the undefended one that it begins with, if there is one."""

    @property
    def victim(self) -> VictimConfig:
        """The configuration of the victim that it trains or attacks."""
        return self.config if isinstance(self.config, VictimConfig) else self.config.victim

    @property
    def attack(self) -> AttackChoice | None:
        """The attack that it runs; None where it trains a victim."""
        return None if isinstance(self.config, VictimConfig) else self.config.attack

    @property
    def components(self) -> list[tuple[str, Component]]:
        """What it is made of, each with the name of its table: of an attack itself, of a victim
        its defenses, its model and its data set."""
        if self.attack:
            return [("ATTACKS", self.attack)]
        defenses = [("DEFENSES", part) for part in self.victim.defense.parts]
        return [*defenses, ("MODELS", self.victim.model), ("DATASETS", self.victim.dataset)]

    starts: bool = False
    """Whether it trains what other victims begin with, and is no row of a table."""

    @property
    def defense_label(self) -> str:
        """``noise``; or ``start``, which is no defense of a table."""
        return "start" if self.starts else self.victim.defense.label

    @property
    def row(self) -> str:
        """``noise 0.4``: the defense and its strength, which are a row of the tables."""
        strength = self.victim.defense.strength
        return self.defense_label if strength is None else f"{self.defense_label} {strength:g}"

    @property
    def label(self) -> str:
        """``noise 0.4, seed 0`` or ``decoder on noise 0.4, seed 0``."""
        name = f"{self.row}, seed {self.victim.seed}"
        if self.attack is None:
            return name
        again = f", attack seed {self.config.seed}" if self.config.seed else ""
        return f"{self.attack.label} on {name}{again}"


@dataclass(frozen=True)
class Plugin:
    """A file of components of one's own, see ``plugins``."""

    name: str
    """Of the file, or of the module where a package is installed that has it."""
    sha256: str
    """Of its source."""
    source: bytes = field(default=b"", repr=False)
    """Empty where only the record of a run is known."""

    @property
    def is_file(self) -> bool:
        """Whether it is a file that somebody named, not an installed module."""
        return self.name.endswith(".py")

    @property
    def stored_at(self) -> str:
        """The path of its source in a results folder."""
        return f"plugins/{self.name}" if self.is_file else f"plugins/{self.name}.py"


@dataclass(frozen=True)
class Suite:
    """A resolved suite: every option of every component has its value."""

    name: str
    description: str
    victims: tuple[Trial, ...]
    attacks: tuple[Trial, ...]
    command: str = ""
    """What runs it; empty where several folders were read as one."""
    plugins: tuple[Plugin, ...] = ()
    of_other_code: frozenset[str] = frozenset()
    """Keys of the trials whose records were made by code that has changed since."""
    kept: frozenset[str] = frozenset()
    """Of these, the keys of those that a person wanted to keep."""
    otherwise: frozenset[str] = frozenset()
    """Where several folders were read as one: keys of the victims whose network or training is not
    that of the first."""
    core_minutes: float | None = None
    """What all trials take of one core, about, as its author measured it."""

    @cached_property
    def starts(self) -> tuple[Trial, ...]:
        """What trains the victims that others begin with."""
        firsts = dict.fromkeys(trial.parent for trial in self.victims if trial.parent)
        by_key = {trial.parent: trial.victim.undefended for trial in self.victims}
        return tuple(
            Trial(key, first, starts=True) for key in firsts if (first := by_key[key]) is not None
        )

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """All of them, each behind what it needs."""
        return self.starts + self.victims + self.attacks


def victim_trial(config: VictimConfig) -> Trial:
    """The trial that trains a victim."""
    key, first = keys_of(config)
    return Trial(key, config, first)


def attack_trials(
    victims: Sequence[Trial], attacks: Sequence[AttackChoice], attack_seeds: int
) -> tuple[Trial, ...]:
    """Every attack on every victim, with every attack seed."""
    choices = [(attack, canonical(attack)) for attack in attacks]
    return tuple(
        Trial(
            attack_key(text, own, seed),
            AttackConfig(victim=victim.victim, attack=attack, seed=seed),
            victim.key,
        )
        for victim, text in ((victim, canonical(victim.victim)) for victim in victims)
        for attack, own in choices
        for seed in range(attack_seeds)
    )
