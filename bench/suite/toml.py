"""Suite files: TOML becomes a typed, validated list of trials."""

import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import Field, TypeAdapter, ValidationError

from smashbench.attacks import ATTACKS
from smashbench.bench.errors import POINT, WRITE_ZERO, BenchError, unknown
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.training import Training
from smashbench.bench.frozen import Frozen, explain
from smashbench.bench.suite.columns import reserved
from smashbench.bench.suite.config import (
    PROTOCOL,
    AttackChoice,
    Component,
    Description,
    Label,
    Seed,
    VictimConfig,
)
from smashbench.bench.suite.epochs import of_defense, of_training
from smashbench.bench.suite.make_defense import shown_by
from smashbench.bench.suite.options import tuples
from smashbench.bench.suite.plugins import in_use, load_installed, load_plugin
from smashbench.bench.suite.sweeps import component, network, swept
from smashbench.bench.suite.trial import LONGEST, Suite, attack_trials, victim_trial
from smashbench.datasets import DATASETS

SUITES = Path(__file__).parent / "builtin"
LABEL: TypeAdapter[str] = TypeAdapter(Label)
SHOWN = 100
"""Most characters of an override that an error repeats."""


MORE_OR_LESS = ("seeds", "attack_seeds", "defenses", "attacks")
"""What of a suite says how many trials it has, more than how long each takes."""


class _File(Frozen):
    """A suite file as it is written."""

    description: Description
    model: dict[str, Any]
    seeds: tuple[Seed, ...] = Field(min_length=1)
    attack_seeds: Annotated[int, Ge(1), Le(1000)] = 1
    dataset: dict[str, Any]
    training: Training
    start: Training | None = None
    defenses: dict[str, dict[str, Any]] = Field(min_length=1)
    attacks: dict[str, dict[str, Any]] = Field(min_length=1)
    plugins: tuple[str, ...] = ()
    """Files of components, by paths from the folder of the suite."""
    core_minutes: Annotated[float, Gt(0)] | None = None
    """What all of it takes of one slow core: the time left, until trials have been timed."""


def names() -> dict[str, str]:
    """The built-in suites and their descriptions."""
    paths = sorted(SUITES.glob("*.toml"))
    return {path.stem: tomllib.loads(path.read_text("utf-8"))["description"] for path in paths}


def datasets() -> list[Component]:
    """The data sets of the built-in suites."""
    tables = [tomllib.loads(path.read_text("utf-8"))["dataset"] for path in SUITES.glob("*.toml")]
    return [found for each in tables if (found := component("dataset", "", each, DATASETS, []))]


def load(name: str, settings: Sequence[str] = (), plugins: Sequence[Path] = ()) -> Suite:
    """Reads a suite.

    Args:
        name: of a built-in suite, or the path of a TOML file.
        settings: ``dotted.key=value`` overrides.
        plugins: files of components, beside those that the suite names.

    Raises:
        BenchError: names every mistake in the file or in the settings, all at once.
    """
    path = SUITES / f"{name}.toml" if name in names() else Path(name)
    if not path.is_file():
        raise BenchError(unknown("suite", name, names()) + " (or give the path of a TOML file)")
    overrides = [word for setting in settings for word in ("--set", setting)]
    overrides += [word for plugin in plugins for word in ("--plugin", str(plugin))]
    command = shlex.join(["smashbench", "run", name, *overrides])
    typed = list(map(shlex.quote, map(_short, overrides)))
    where = " ".join([str(path), *(["with", *typed] if typed else [])])
    if not path.stem.isprintable():
        raise BenchError(f"{path.stem!r}: a suite has the name of its file: rename it, in letters")
    if len(command) > LONGEST:
        raise BenchError(
            f"{where}: the command has {len(command):,} characters, and a results folder keeps "
            f"{LONGEST:,}: write a suite file with these values instead"
        )
    try:
        content = _content(path, settings)
        load_installed()
        content["plugins"] = _plugins_of(where, content)
        for plugin in (*plugins, *(path.parent / name for name in content["plugins"])):
            load_plugin(plugin)
        suite = _resolve(path.stem, where, content, command)
    except RecursionError:
        raise BenchError(f"{where}: a value has brackets in brackets, hundreds deep") from None
    minutes = suite.core_minutes
    if minutes and settings:
        minutes = _in_proportion(minutes, suite, path, settings)
    return replace(suite, plugins=in_use(suite), core_minutes=minutes)


def _in_proportion(
    minutes: float, suite: Suite, path: Path, settings: Sequence[str]
) -> float | None:
    """What a suite takes with these settings, if that of the file, as it is written, takes so many
    minutes; None where a trial may take another time."""
    if any(_root(setting) not in MORE_OR_LESS for setting in settings):
        return None
    try:
        written = _resolve(path.stem, str(path), _content(path, ()), "")
    except BenchError:  # it is valid with the settings alone
        return None
    return minutes * len(suite.trials) / len(written.trials)


def _root(setting: str) -> str:
    """The first word of ``dotted.key=value``."""
    return setting.partition("=")[0].partition(".")[0].strip()


def _content(path: Path, settings: Sequence[str]) -> dict[str, Any]:
    """What a suite file holds, with the settings applied."""
    try:
        content = tomllib.loads(text := path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        text = f"{path} is not TOML: {error.reason} (byte {error.start}); save it as UTF-8"
        raise BenchError(text) from None
    except ValueError as error:  # also of numbers of 5,000 digits
        hint = f"; {WRITE_ZERO}" if POINT.search(text) else ""
        raise BenchError(f"{path} is not TOML: {error}{hint}") from None
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror or error}") from None
    for setting in settings:
        _apply(content, setting)
    return content


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _plugins_of(where: str, content: dict[str, Any]) -> list[str]:
    """The plug-ins that a suite file names, which are loaded before anything else is read."""
    named = content.get("plugins", [])
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        raise _refusal(where, [f'plugins = {named!r}: should be a list, e.g. ["my_defense.py"]'])
    return named


def _refusal(where: str, mistakes: Sequence[str]) -> BenchError:
    """All mistakes; where ``--set dataset.use=NAME`` has left options of another one, how to leave
    them out."""
    hints = [
        f"to leave out what the suite says of another {table}: --set '{table}={{use=\"{name}\"}}'"
        for table, name in re.findall(r"--set '?(dataset|model)\.use=[\"']?(\w+)", where)
        if any(each.startswith(f"{table}.") for each in mistakes)
    ]
    return BenchError("\n  ".join([f"{where}:", *dict.fromkeys(mistakes), *hints]))


def _apply(content: dict[str, Any], setting: str) -> None:
    """Sets ``a.b=value``; the value is TOML, or a plain word."""
    dotted, sign, text = setting.partition("=")
    if not sign or not dotted or "\n" in text:
        wrong = f"--set {_short(setting)!r}"
        raise BenchError(f"{wrong}: write key=value, e.g. --set training.epochs=5")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    *parents, last = dotted.split(".")
    for parent in parents:
        content = content.setdefault(parent, {})
        if not isinstance(content, dict):
            raise BenchError(f"--set {_short(setting)!r}: {parent!r} is a value, not a table")
    content[last] = value


def _resolve(name: str, where: str, content: Mapping[str, Any], command: str) -> Suite:
    file = _validated(where, dict(content))
    mistakes: list[str] = []
    model = component("model", "", file.model, MODELS, mistakes)
    for table, training in (("training", file.training), ("start", file.start)):
        mistakes.extend(f"{table}.{why}" for why in (of_training(training) if training else ()))
    if len(set(file.seeds)) < len(file.seeds):
        mistakes.append(f"seeds = {list(file.seeds)}: every seed once")
    dataset = component("dataset", "", file.dataset, DATASETS, mistakes)
    defenses = [
        config for label, entry in file.defenses.items() for config in swept(label, entry, mistakes)
    ]
    for config in defenses:
        for part in config.parts:
            of_part = f".{part.name}" if len(config.parts) > 1 else ""
            late = of_defense(part, file.training.epochs)
            mistakes.extend(f"defenses.{config.label}{of_part}.{why}" for why in late)
    if file.start and "start" in file.defenses:
        mistakes.append("defenses.start: --only and records.csv call [start] so; another name")
    diagnostics = {name for config in defenses for name in shown_by(config)}
    mistakes.extend(reserved(file.attacks, diagnostics))
    attacks = [
        found
        for label, entry in file.attacks.items()
        if (found := _attack(label, dict(entry), mistakes))
    ]
    if mistakes or not (dataset and model):
        raise _refusal(where, mistakes)
    networks = [network(model, defense, mistakes) for defense in defenses]
    if mistakes:
        raise _refusal(where, mistakes)
    victims = tuple(
        victim_trial(
            VictimConfig(
                protocol=PROTOCOL,
                dataset=dataset,
                model=own,
                training=file.training,
                defense=defense,
                seed=seed,
                start=file.start,
            )
        )
        for defense, own in zip(defenses, networks, strict=True)
        if own
        for seed in file.seeds
    )
    attacking = attack_trials(victims, attacks, file.attack_seeds)
    suite = Suite(name, file.description, victims, attacking, command)
    return replace(suite, core_minutes=file.core_minutes)


def _validated(where: str, content: dict[str, Any]) -> _File:
    """The content of a file, components as they are written."""
    for name in ("seeds", "plugins"):
        if isinstance(content.get(name), list):
            content[name] = tuple(content[name])
    for table in ("training", "start"):
        if isinstance(content.get(table), dict):
            content[table] = tuples(content[table])
    if isinstance(content.get("training"), dict) and isinstance(content.get("start"), dict):
        content["start"] = content["training"] | content["start"]
    if isinstance(model := content.get("model"), str):
        raise _refusal(where, [f"model = {model!r}: write a table, [model] with use = {model!r}"])
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise _refusal(where, explain(error, "", _File)) from None
    if mistakes := _bad_labels("defenses", file.defenses) + _bad_labels("attacks", file.attacks):
        raise _refusal(where, mistakes)
    return file


def _bad_labels(table: str, labels: Iterable[str]) -> list[str]:
    """A line for every name that tables, figures or spreadsheets could not show."""
    lines = []
    for label in labels:
        try:
            LABEL.validate_python(label)
        except ValidationError:
            shown = repr(label if len(label) <= 100 else f"{label[:100]}...")
            lines.append(
                f"{table}.{shown}: a name begins with a letter or a digit, and has no control "
                "characters and at most 200 others"
            )
    return lines


def _attack(label: str, entry: dict[str, Any], mistakes: list[str]) -> AttackChoice | None:
    """An attack with its options, and with how many pairs it gets."""
    pairs = entry.pop("pairs", None)
    found = component("attack", label, entry, ATTACKS, mistakes)
    whole = isinstance(pairs, int) and not isinstance(pairs, bool)
    if pairs is not None and not (whole and 2 <= pairs < 2**63):
        mistakes.append(
            f"attacks.{label}.pairs = {pairs!r}: should be a whole number from 2, and at most the "
            "images that the attacker has"
        )
        return None
    if found is None:
        return None
    return AttackChoice(label=label, name=found.name, options=found.options, pairs=pairs)
