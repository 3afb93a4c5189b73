"""The kinds of components that a plug-in may add, and what each must be to be used at all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from smashbench.bench.errors import BenchError
from smashbench.bench.frozen import explain
from smashbench.bench.suite.columns import is_column, no_metric
from smashbench.bench.suite.config import Component
from smashbench.bench.suite.options import is_number, options_of, resolve

TITLES = ("DEFENSES", "ATTACKS", "DATASETS", "MODELS", "METRICS", "FIGURES", "ENGINES")
KINDS_OF_ATTACKS = ("floor", "closed_form", "trained")
NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True)
class Kind:
    """A kind of component that a plug-in may add.

    Args:
        word: for one.
        module: where they are; it is imported when it is needed, since some import PyTorch.
        type_name: what each of them is: a subclass of it, or an instance where ``instances``.
        title: of the table of those that are there.
        instances: whether they are values rather than classes.
        made: how the names begin of those that the project makes itself; empty where none are.
    """

    word: str
    module: str
    type_name: str
    title: str
    instances: bool = False
    made: str = ""

    def base(self) -> type:
        """What each of them is."""
        return getattr(import_module(self.module), self.type_name)

    def table(self) -> Any:
        """Those that are there."""
        return getattr(import_module(self.module), self.title)

    @property
    def names(self) -> list[str]:
        """Of those that are there."""
        table = self.table()
        return [each.name for each in table] if isinstance(table, list) else list(table)

    def add(self, entries: Any) -> None:
        """Adds the components of a plug-in's table."""
        table = self.table()
        if isinstance(table, list):
            table.extend(entries)
        else:
            table.update(entries)


def names_in(plugin: str, kind: Kind, entries: Any) -> tuple[str, ...]:
    """The names in a table of a plug-in.

    Raises:
        BenchError: it is no such table.
    """
    start, base = f"plug-in {plugin}: {kind.title}", kind.base()
    if isinstance(kind.table(), list):
        if not isinstance(entries, list | tuple):
            raise BenchError(f"{start} should be a list of {base.__name__} objects")
        named = [getattr(each, "name", str(each)) for each in entries]
        if twice := [name for name in named if named.count(name) > 1]:
            raise BenchError(f"{start} has two that are called {twice[0]!r}; rename one")
        entries = dict(zip(named, entries, strict=True))
    if not isinstance(entries, Mapping):
        raise BenchError(f'{start} should be a table, e.g. {kind.title} = {{"mine": Mine}}')
    for name, entry in entries.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BenchError(f"{start}[{name!r}]: names are lower case, digits and underscores")
        if kind.made and name.startswith(kind.made):
            raise BenchError(
                f"{start}[{name!r}]: names that begin with {kind.made!r} are made here; rename it"
            )
        if name in kind.names:
            raise BenchError(
                f"{start}[{name!r}]: this name is taken by another {kind.word}; rename it"
            )
        if kind.instances:
            fits = isinstance(entry, base)
        else:
            fits = isinstance(entry, type) and issubclass(entry, base)
        if not fits:
            wanted = f"{base.__name__} object" if kind.instances else f"subclass of {base.__name__}"
            raise BenchError(f"{start}[{name!r}] should be a {wanted}; it is {entry!r}")
        if kind.instances and entry.name != name:
            raise BenchError(f"{start}[{name!r}] calls itself {entry.name!r}; use one name")
    return tuple(entries)


def unusable(component: Any) -> str:
    """Why a component could not be made from a suite, or is no metric that tables could show;
    empty where it could."""
    if not isinstance(component, type):
        return _misdeclared(component)
    from smashbench.attacks.base import Attack  # here: reports need no PyTorch
    from smashbench.defenses.base import Defense

    if lacking := getattr(component, "__abstractmethods__", None):
        return f"has no {', '.join(sorted(lacking))}"
    if issubclass(component, Defense) and component.forward is not Defense.forward:
        return "overrides `forward`: override `transform`, and set `noise` for what is added to it"
    if taken := [name for name in columns_of(component) if is_column(name)]:
        return f"has a diagnostic {taken[0]!r}, which is a column of the tables; rename it"
    try:
        fields = options_of(component).model_fields
    except Exception as error:
        return f"has an option whose type cannot be read ({type(error).__name__}: {error})"
    knob = getattr(component, "strength", None)
    words = {"use", "strengths", "sweep"}
    words |= {"pairs"} if issubclass(component, Attack) else set()
    words |= {"strength"} - {knob} if issubclass(component, Defense) else set()
    for name, field in fields.items():
        if field.is_required():
            return f"has no default for its option {name!r}"
        if name in words:
            return f"has an option {name!r}, a word that suites use otherwise; rename it"
    try:
        defaults = resolve(component, {name: field.default for name, field in fields.items()})
    except ValidationError as error:
        why = "; ".join(explain(error, "", options_of(component)))
        return f"has defaults that are not valid: {why}"
    except Exception as error:
        return f"has defaults that are not valid: {error}"
    try:
        Component(name="mine", options=defaults)
        resolve(component, defaults)  # as a suite would write them
    except ValidationError as error:
        why = "; ".join(explain(error, "", options_of(component)))
        return f"has an option that no suite could set: {why}; use numbers, texts or tuples of them"
    if knob is not None and knob not in fields:
        return f"has strength = {knob!r}, which is none of its options"
    if knob is not None and not is_number(fields[knob].default):
        return f"has strength = {knob!r}, whose default is no number"
    for own in getattr(component, "of_model", ()):
        if own not in fields:
            return f"has of_model for {own!r}, which is none of its options"
    if hasattr(component, "needs") and getattr(component, "kind", None) not in KINDS_OF_ATTACKS:
        return f"should have a kind, one of {', '.join(KINDS_OF_ATTACKS)}"
    return ""


def columns_of(component: type) -> list[str]:
    """The diagnostics that a defense declares as columns, before it is made."""
    declared = getattr(component, "diagnostics", None)
    known = declared if isinstance(declared, Mapping) else {}
    return [name for name, each in known.items() if getattr(each, "column", False)]


def _misdeclared(metric: Any) -> str:
    """Why tables could not show a metric; empty where they could."""
    if no_metric(metric.name):
        return "would have columns of the tables that are something else's; rename it"
    derived = metric.derive is not None
    if (metric.score is None) != derived or bool(metric.of) != derived:
        return "should have either `score`, or `derive` and the metric it is derived `of`"
    if metric.better not in ("higher", "lower"):
        return f"has better = {metric.better!r}: should be 'higher' or 'lower'"
    bounds, digits = metric.bounds, metric.digits
    numbers = isinstance(bounds, tuple) and len(bounds) == 2 and all(map(is_number, bounds))
    if not (numbers and bounds[0] < bounds[1]):
        return f"has bounds = {bounds!r}: should be (low, high)"
    if not (isinstance(metric.label, str) and metric.label):
        return "has no label"
    if not isinstance(digits, int) or digits < 0:
        return f"has digits = {digits!r}: those after the point, 0 or more"
    return ""


EXPERIMENT = "smashbench.bench.experiment"
KINDS = {
    kind.title: kind
    for kind in (
        Kind("defense", "smashbench.defenses", "Defense", "DEFENSES"),
        Kind("attack", "smashbench.attacks", "Attack", "ATTACKS"),
        Kind("data set", "smashbench.datasets", "Dataset", "DATASETS"),
        Kind("model", f"{EXPERIMENT}.models", "Model", "MODELS"),
        Kind("metric", f"{EXPERIMENT}.metrics", "Metric", "METRICS", instances=True),
    )
}
"""The tables of a plug-in by their ``TITLES``; ``plugged`` adds those of the wings above this."""
