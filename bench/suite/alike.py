"""What decides a victim beside its defense, and beside the strength of that."""

from collections.abc import Collection, Iterable
from typing import Any

from smashbench.bench.suite.config import Component, DefenseConfig, VictimConfig, canonical
from smashbench.defenses import DEFENSES

SHARED = ("dataset", "model", "training", "start")
"""What all rows of a board share, up to the options of the model that a defense decides."""


def decided(victim: VictimConfig) -> set[str]:
    """The options of the model that its defense decides."""
    known = [DEFENSES[part.name] for part in victim.defense.parts if part.name in DEFENSES]
    return {option for defense in known for option in defense.of_model.values()}


def differences(victim: VictimConfig, board: Iterable[VictimConfig]) -> list[str]:
    """In which of ``SHARED`` a victim differs from that of the board which is most like it. A row
    whose own defense decides other options of the model is a measure only where all do."""
    own, known = decided(victim), list(board)
    known = [each for each in known if decided(each) <= own] or known
    return min((_differing(victim, each) for each in known), key=len, default=[])


def _differing(one: VictimConfig, other: VictimConfig) -> list[str]:
    free = decided(one) | decided(other)
    return [what for what in SHARED if _shared(one, what, free) != _shared(other, what, free)]


def _shared(victim: VictimConfig, what: str, free: set[str]) -> Any:
    value = getattr(victim, what)
    return _without(value, free) if what == "model" else value


def sweep_of(victim: VictimConfig) -> str | None:
    """Canonical JSON of what the rows of one sweep share: everything but the seed, the strength,
    and the options that it decides. None where the code that would say which these are is not
    here."""
    defense = victim.defense
    if any(part.name not in DEFENSES for part in defense.parts):
        return None
    changes: dict[str, Any] = {"strength": None}
    if isinstance(defense, DefenseConfig):
        changes["options"] = _without(defense, {DEFENSES[defense.name].strength}).options
    else:
        swept, _, knob = (defense.sweep or "").partition(".")
        changes["parts"] = tuple(
            _without(part, {knob}) if part.name == swept else part for part in defense.parts
        )
    of_all = {"seed": 0, "defense": defense.model_copy(update=changes)}
    model = _without(victim.model, decided(victim))
    return canonical(victim.model_copy(update=of_all | {"model": model}))


def _without(component: Component, names: Collection[str | None]) -> Component:
    left = {name: value for name, value in component.options.items() if name not in names}
    return component.model_copy(update={"options": left})
