"""The tables of a suite file that describe components, and what they come to."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from smashbench.bench.errors import POINT, WRITE_ZERO, unknown
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.frozen import explain
from smashbench.bench.suite.columns import six_digits
from smashbench.bench.suite.config import Component, DefenseConfig, StackConfig
from smashbench.bench.suite.make_defense import refusal
from smashbench.bench.suite.options import is_number, options_of, resolve
from smashbench.defenses import DEFENSES

Configs = list[DefenseConfig | StackConfig]


def component(
    what: str, label: str, entry: Mapping[str, Any], table: Mapping[str, type], mistakes: list[str]
) -> Component | None:
    """What a table in the file describes; ``use`` names the component, or its label does."""
    where = f"{what}s.{label}" if label else what
    options = dict(entry)
    name = options.pop("use", label)
    if not isinstance(name, str) or name not in table:
        mistakes.append(f"{where}: {unknown(what, str(name), table)}")
        return None
    try:
        return Component(name=name, options=resolve(table[name], options))
    except ValidationError as error:
        mistakes.extend(explain(error, where, options_of(table[name])))
        return None


def swept(label: str, entry: Mapping[str, Any], mistakes: list[str]) -> Configs:
    """One configuration of a defense per strength. ``strengths`` is a list of values of its knob;
    of a stack (``use`` is a list) of the option of a part that ``sweep`` names."""
    options = dict(entry)
    strengths, where = options.pop("strengths", None), f"defenses.{label}"
    if isinstance(options.get("use"), list):
        found = _stack(label, options, strengths, mistakes)
    else:
        found = _single(label, options, strengths, mistakes)
    shown = [six_digits(config.strength) for config in found]
    if twice := [text for number, text in enumerate(shown) if text in shown[:number]]:
        mistakes.append(
            f"{where}.strengths: {twice[0]} is there twice, in the six digits that tables show"
        )
    for why in dict.fromkeys(filter(None, map(refusal, found))):
        mistakes.append(f"{where}: {why}")
    return found


def network(
    model: Component, config: DefenseConfig | StackConfig, mistakes: list[str]
) -> Component | None:
    """The network of a row: the suite's, with the options that its defense decides."""
    decided: dict[str, Any] = {}
    for part in config.parts:
        for own, option in DEFENSES[part.name].of_model.items():
            if option not in model.options:
                mistakes.append(
                    f"defenses.{config.label}: {part.name!r} decides the option {option!r} of the "
                    f"network, and {model.name!r} has none"
                )
                return None
            decided[option] = part.options[own]
    if not decided:
        return model
    return component("model", "", {**model.options, **decided, "use": model.name}, MODELS, mistakes)


def _single(label: str, options: dict[str, Any], strengths: Any, mistakes: list[str]) -> Configs:
    if "strength" in options and strengths is None:
        mistakes.append(
            f"defenses.{label}.strength: write a list of strengths to sweep, e.g. strengths = [0.1]"
        )
        return []
    base = component("defense", label, options, DEFENSES, mistakes)
    if not base:
        return []
    knob, where = DEFENSES[base.name].strength, f"defenses.{label}.strengths"

    def at_strength(found: Component) -> DefenseConfig:
        strength = found.options[knob] if knob else None
        return DefenseConfig(label=label, name=found.name, options=found.options, strength=strength)

    if strengths is None:
        return [at_strength(base)]
    if knob is None:
        mistakes.append(f"{where}: {base.name!r} has no strength to sweep; delete this line")
        return []
    if not _is_list(where, strengths, knob, mistakes):
        return []
    if knob in options:
        mistakes.append(f"defenses.{label}.{_overwritten(knob, options[knob])}")
        return []
    configs: Configs = []
    for value in strengths:
        found: list[str] = []
        one = component("defense", label, {**options, knob: value}, DEFENSES, found)
        mistakes.extend(line.replace(f"{label}.{knob}", f"{label}.strengths") for line in found)
        configs += [at_strength(one)] if one else []
    return configs


def _stack(label: str, options: dict[str, Any], strengths: Any, mistakes: list[str]) -> Configs:
    where, names = f"defenses.{label}", options.pop("use")
    if wrong := [f"use = {names!r}: {why}" for why in dict.fromkeys(_bad_parts(names))]:
        mistakes.extend(f"{where}.{why}" for why in wrong)
        return []
    sweep, knobs = options.pop("sweep", None), _knobs(names)
    example = (knobs or ["part.option"])[-1]
    for name, table in options.items():
        if name not in names or not isinstance(table, dict):
            wrong.append(f"{name}: write the options of a part as part.option, e.g. {example} = 1")
        elif strengths is not None:
            written = {f"{name}.{option}": value for option, value in table.items()}
            wrong += [_overwritten(key, value) for key, value in written.items() if key == sweep]
    if strengths is not None and sweep is None:
        wrong.append(f'sweep is missing: what strengths are of, e.g. sweep = "{example}"')
    if sweep is not None and sweep not in knobs:
        wrong.append(f"sweep = {sweep!r}: {unknown('option', str(sweep), knobs)}")
    mistakes.extend(f"{where}.{why}" for why in wrong)
    if strengths is not None and not _is_list(f"{where}.strengths", strengths, sweep, mistakes):
        return []
    values = [None] if strengths is None else strengths
    found = [] if wrong else [_at(label, names, options, sweep, v, mistakes) for v in values]
    return [config for config in found if config]


def _at(
    label: str,
    names: list[str],
    tables: dict[str, Any],
    sweep: str | None,
    value: Any,
    mistakes: list[str],
) -> StackConfig | None:
    """A stack where the option that is swept has a value (None: that of its table)."""
    swept_part, _, knob = (sweep or "").partition(".")
    found: list[str] = []
    parts = []
    for name in names:
        entry = {**DEFENSES[name].stacked, **tables.get(name, {}), "use": name}
        if value is not None and name == swept_part:
            entry[knob] = value
        part = component("defense", f"{label}.{name}", entry, DEFENSES, found)
        parts += [part] if part else []
    strength = next((part.options[knob] for part in parts if part.name == swept_part), None)
    if sweep and not found and (not is_number(strength)):
        found.append(f"defenses.{label}.sweep = {sweep!r}: its value {strength!r} is no number")
    if value is not None:
        found = [line.replace(f"{label}.{sweep} ", f"{label}.strengths ") for line in found]
    mistakes.extend(line for line in found if line not in mistakes)
    if found:
        return None
    return StackConfig(parts=tuple(parts), label=label, sweep=sweep, strength=strength)


def _bad_parts(names: list[Any]) -> Iterator[str]:
    """Why these are not the parts of a stack."""
    if len(names) < 2:
        yield "a stack has several parts; write the name alone"
    for name in names:
        if not isinstance(name, str) or name not in DEFENSES:
            yield unknown("defense", str(name), DEFENSES)
        elif names.count(name) > 1:
            yield f"every part once; {name!r} is there twice"
        elif DEFENSES[name].role == "control":
            yield f"{name!r} does nothing in a stack"


def _knobs(names: list[str]) -> list[str]:
    """Every option of every part, the strength of each part last."""
    knobs = []
    for name in names:
        component: type = DEFENSES[name]
        strength = DEFENSES[name].strength
        options = sorted(options_of(component).model_fields, key=lambda option: option == strength)
        knobs += [f"{name}.{option}" for option in options]
    return knobs


def _overwritten(option: str, value: Any) -> str:
    return f"{option} = {value!r}: `{option}` is swept; write strengths = [{value!r}] instead"


def _is_list(where: str, strengths: Any, knob: str | None, mistakes: list[str]) -> bool:
    fits = isinstance(strengths, list) and bool(strengths)
    if not fits:
        point = POINT.search(strengths) if isinstance(strengths, str) else None
        hint = f"; {WRITE_ZERO}" if point else ""
        mistakes.append(f"{where} = {strengths!r}: should be a list of values of {knob!r}{hint}")
    return fits
