"""What a suite comes to: a list of trials, each named by the hash of its configuration."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PROTOCOL = 3
"""Part of every key: raised when a change of the code makes old records incomparable."""


class Trial(NamedTuple):
    """One unit of work. A victim's ``parent`` is None; an attack's is the key of its victim."""

    key: str
    config: dict[str, Any]
    parent: str | None

    @property
    def source(self) -> str:
        """A hash of the code of the defense or attack that this trial is about."""
        from attacks import ATTACKS  # here: reports need no PyTorch, and start faster without
        from bench.options import source_of
        from defenses import DEFENSES

        table: Mapping[str, type] = ATTACKS if self.parent else DEFENSES
        return source_of(table[self.config["attack" if self.parent else "defense"]["name"]])

    @property
    def label(self) -> str:
        """``noise 0.4, seed 0`` or ``decoder on noise 0.4, seed 0``."""
        victim = self.config["victim"] if self.parent else self.config
        defense = victim["defense"]
        strength = "" if defense["strength"] is None else f" {defense['strength']:g}"
        name = f"{defense['label']}{strength}, seed {victim['seed']}"
        if self.parent is None:
            return name
        again = f", attack seed {self.config['seed']}" if self.config["seed"] else ""
        return f"{self.config['attack']['label']} on {name}{again}"


class Suite(NamedTuple):
    """A resolved suite: every option of every component has its value."""

    name: str
    description: str
    victims: tuple[Trial, ...]
    attacks: tuple[Trial, ...]
    command: str = "python -m bench run"
    """What runs it."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.victims + self.attacks


def key_of(config: Mapping[str, Any]) -> str:
    """The key of a configuration: a hash of its canonical JSON, 16 hexadecimal digits.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return key_of_text(canonical(config))


def canonical(config: Mapping[str, Any]) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)


def key_of_text(text: str) -> str:
    """The key of a configuration from its ``canonical`` text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def victim_trial(config: dict[str, Any]) -> Trial:
    """The trial that trains a victim."""
    return Trial(key_of(config), config, None)


def attacks_on(
    victims: Sequence[Trial], attacks: Sequence[dict[str, Any]], attack_seeds: int
) -> list[Trial]:
    """Every attack on every victim, with every attack seed.

    The keys are those of the whole configurations; their texts are put together from parts, for
    there may be a hundred thousand.
    """
    parts = [(attack, canonical(attack)) for attack in attacks]
    found = []
    for victim in victims:
        text = canonical(victim.config)
        for attack, part in parts:
            for seed in range(attack_seeds):
                key = key_of_text(f'{{"attack":{part},"seed":{seed},"victim":{text}}}')
                config = {"victim": victim.config, "attack": attack, "seed": seed}
                found.append(Trial(key, config, victim.key))
    return found
