"""Names that columns of tables have. Nothing else may have them: one column would hide another."""

from collections.abc import Iterable

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.suite.config import AttackChoice, VictimConfig, canonical

RESERVED = frozenset(
    ("worst", "bound", "optimum", "train", "attacks", "attacks_over_train", "defense", "strength")
)
"""Labels that no attack has."""
FIXED = frozenset(
    (
        *("defense", "strength", "seeds", "missing_trials", "accuracy", "accuracy_drop"),
        *("attribute", "attribute_over_prediction", "bound_mse", "optimum_mse", "flags"),
        *("accuracy_over_noise", "mse_over_noise", "fvu_over_noise", "fvu_over_noise_joint"),
        *("payload", "client_parameters", "client_multiply_adds"),
    )
)
"""Columns of every board, without those of the worst case; of an interval its middle."""
AFTER_WORST = ("attack", "knowledge")
"""What stands behind ``worst_`` and is no metric."""
ENDS = ("_low", "_high")


def is_column(name: str) -> bool:
    """Whether every board has, or may have, a column of this name.

    >>> [is_column(each) for each in ("accuracy_low", "worst_fvu", "surrogate")]
    [True, True, False]
    """
    return name.startswith("worst_") or _middle(name) in FIXED


def no_metric(name: str) -> bool:
    """Whether a metric of this name would have columns that are something else's."""
    other = name in AFTER_WORST or name.endswith("_attack") or _middle(name) != name
    return other or is_column(name)


def _middle(name: str) -> str:
    for end in ENDS:
        name = name.removesuffix(end)
    return name


def six_digits(strength: float | None) -> str:
    """A strength as tables show it, empty where there is none: no two of a defense may be alike.

    >>> six_digits(0.5), six_digits(0.5000000001), six_digits(None)
    ('0.5', '0.5', '')
    """
    return "" if strength is None else f"{strength:g}"


def reserved(labels: Iterable[str], diagnostics: Iterable[str] = ()) -> list[str]:
    """A line for every attack one of whose columns would be something else's.

    Args:
        labels: of the attacks.
        diagnostics: that defenses declare as columns.
    """
    lines, shown = [], set(diagnostics)
    for label in labels:
        if label in RESERVED:
            lines.append(f"attacks.{label}: this name is a column of the tables; choose another")
        for column in sorted(shown & {f"{label}_{metric}" for metric in METRICS}):
            lines.append(f"attacks.{label}: {column!r} is a diagnostic of a defense; rename it")
    return lines


def ambiguous(victims: Iterable[VictimConfig], attacks: Iterable[AttackChoice]) -> list[str]:
    """A line for everything of a suite that tables would show as something else, or as one thing
    though it is two: attacks with the name of a column, two attacks of one name, two defenses, or
    trainings of one, under one name at one strength in six digits. Two are what differs in JSON, as
    1 and 1.0 do: their keys differ, too."""
    choices = list(attacks)
    lines = reserved(choice.label for choice in choices)
    meanings: dict[tuple[str, ...], str] = {}
    for choice in choices:
        meaning = canonical(choice)
        if meanings.setdefault((choice.label,), meaning) != meaning:
            lines.append(f"attacks.{choice.label}: two attacks have this name")
    for victim in victims:
        label, strength = victim.defense.label, six_digits(victim.defense.strength)
        meaning = canonical(victim.model_copy(update={"seed": 0}))
        if meanings.setdefault((label, strength), meaning) != meaning:
            at = f" at strength {strength}, in the six digits that tables show" if strength else ""
            lines.append(f"defenses.{label}: two have this name{at}, or one is trained in two ways")
    return list(dict.fromkeys(lines))
