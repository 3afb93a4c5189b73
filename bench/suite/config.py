"""Configurations: what a trial is, down to every option, as frozen values; a key is their hash."""

import hashlib
import json
from functools import lru_cache
from typing import Annotated, Any

from annotated_types import Ge, Lt, MinLen
from pydantic import (
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
)

from smashbench.bench.experiment.training import Training
from smashbench.bench.frozen import Frozen, Name

PROTOCOL = 7
"""Part of every key: raised when a change of the code makes old records incomparable."""

Seed = Annotated[int, Ge(0), Lt(2**63)]
Description = Annotated[str, StringConstraints(max_length=3000)]
"""What a suite is about."""
Label = Annotated[
    str, StringConstraints(pattern=r"^[\p{L}\p{N}_][^\p{C}]*$", min_length=1, max_length=200)
]
"""Of a defense or an attack in a suite: begins with a letter or digit, so that no spreadsheet takes
it for a formula, and has no control characters."""
Options = dict[str, Any]
Whole = Annotated[int, Ge(-(2**63)), Lt(2**63)]
DEEPEST = 8
"""Most levels of lists in the value of an option."""


class Component(Frozen):
    """A defense, attack, data set or model by name, with all its options as plain JSON values."""

    name: Name
    options: Options

    @field_validator("options")
    @classmethod
    def _plain(cls, options: Options) -> Options:
        for name, value in options.items():
            if not _is_plain(value, DEEPEST):
                raise ValueError(f"option {name!r} is no number, text, truth value or list of them")
        return options


def _is_plain(value: object, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(each, depth - 1) for each in value)
    if isinstance(value, float):
        return value - value == 0  # finite
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is None or isinstance(value, str)


class DefenseConfig(Component):
    """A defense at one strength, under its label in the suite."""

    label: Label
    strength: Whole | float | None

    @property
    def parts(self) -> tuple[Component, ...]:
        """The defenses that it stacks: itself."""
        return (self,)


class StackConfig(Frozen):
    """Several defenses at once, at one strength, under their label in the suite."""

    parts: Annotated[tuple[Component, ...], MinLen(2)]
    label: Label
    sweep: str | None
    """``part.option``, what the strength is the value of; None where nothing is swept."""
    strength: Whole | float | None


class AttackChoice(Component):
    """An attack under its label in the suite, with as many of the attacker's pairs as it is given:
    all of them, unless ``pairs`` says how many."""

    label: Label
    pairs: Annotated[int, Ge(2), Lt(2**63)] | None = None

    @model_serializer(mode="wrap")
    def _short(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without ``pairs`` where it says nothing: the keys of most attacks are older than it."""
        content: dict[str, Any] = write(self)
        if self.pairs is None:
            content.pop("pairs", None)
        return content


NOTHING = DefenseConfig(label="none", name="none", options={}, strength=None)
"""No defense."""


class VictimConfig(Frozen):
    """All that decides a victim."""

    protocol: int
    dataset: Component
    model: Component
    training: Training
    defense: DefenseConfig | StackConfig
    seed: Seed
    start: Training | None = None
    """How the undefended victim is trained whose weights it begins with; None begins anew."""

    @property
    def undefended(self) -> "VictimConfig | None":
        """The victim whose weights it begins with."""
        if self.start is None:
            return None
        changes = {"defense": NOTHING, "training": self.start, "start": None}
        return self.model_copy(update=changes)


class AttackConfig(Frozen):
    """All that decides an attack: its victim, too."""

    victim: VictimConfig
    attack: AttackChoice
    seed: Seed


def key_of(config: VictimConfig | AttackConfig) -> str:
    """The key of a configuration: a hash of its canonical JSON, 16 hexadecimal digits."""
    return keys_of(config)[0]


def keys_of(config: VictimConfig | AttackConfig) -> tuple[str, str | None]:
    """The key of a configuration, and that of the victim that it is about: the one an attack
    attacks, or the one a victim begins with."""
    if isinstance(config, VictimConfig):
        first = config.undefended
        return _hashed(canonical(config)), key_of(first) if first else None
    victim = canonical(config.victim)
    return attack_key(victim, canonical(config.attack), config.seed), _hashed(victim)


def attack_key(victim: str, attack: str, seed: int) -> str:
    """The key of an attack, from the canonical JSON of its victim and of its choice."""
    return _hashed(f'{{"attack":{attack},"seed":{seed},"victim":{victim}}}')


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(config: Frozen) -> str:
    """JSON with sorted keys and without spaces.

    >>> canonical(Component(name="mean", options={"b": 1.0, "a": [2]}))
    '{"name":"mean","options":{"a":[2],"b":1.0}}'
    """
    return _sorted(config.model_dump_json())


@lru_cache(maxsize=4096)  # a victim is in the configuration of each of its attacks
def _sorted(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), allow_nan=False)
