"""The suite of a results folder, ``suite.json``: which trials its tables are about."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field, ValidationError

from smashbench.bench.errors import BenchError
from smashbench.bench.frozen import Frozen, explain
from smashbench.bench.store.files import words, write_whole
from smashbench.bench.suite.config import PROTOCOL, AttackChoice, Component, VictimConfig
from smashbench.bench.suite.trial import Suite, attack_trials, victim_trial


class SavedSuite(Frozen):
    """What ``suite.json`` holds."""

    name: str
    description: str
    command: str
    attack_seeds: Annotated[int, Ge(1), Le(1000)]
    victims: tuple[VictimConfig, ...] = Field(min_length=1)
    attacks: tuple[AttackChoice, ...] = Field(min_length=1)


def save_suite(suite: Suite, folder: Path) -> None:
    """Writes ``suite.json``: which trials belong to this folder's tables."""
    first = [trial for trial in suite.attacks if trial.parent == suite.victims[0].key]
    saved = SavedSuite(
        name=suite.name,
        description=suite.description,
        command=suite.command,
        attack_seeds=1 + max(trial.config.seed for trial in first),
        victims=tuple(trial.victim for trial in suite.victims),
        attacks=tuple(t.attack for t in first if t.attack and t.config.seed == 0),
    )
    content = json.dumps(saved.model_dump(mode="json"), indent=1, allow_nan=False)
    write_whole(folder / "suite.json", content.encode() + b"\n")


def read_suite(folder: Path, *, current: bool = False) -> Suite:
    """The suite of a results folder.

    Args:
        folder: the results folder.
        current: the options of its defenses and attacks must be those of the present code, so
            that its trials can be run.

    Raises:
        BenchError: not a results folder, one that was altered, or one of another version.
    """
    path = folder / "suite.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BenchError(
            f"{folder} is no results folder: it has no suite.json; run a suite first"
        ) from None
    except OSError as error:
        raise BenchError(f"{path}: {words(error)}") from None
    try:
        saved = SavedSuite.model_validate_json(content)
    except ValidationError as error:
        found = "; ".join(explain(error, "", SavedSuite)[:3])
        raise BenchError(f"{path} is altered ({found}); run the suite again") from None
    if any(config.protocol != PROTOCOL for config in saved.victims):
        raise BenchError(f"{folder} was made by another version; run the suite again")
    if current:
        _check_current(saved, folder)
    victims = tuple(map(victim_trial, saved.victims))
    attacks = attack_trials(victims, saved.attacks, saved.attack_seeds)
    suite = Suite(saved.name, saved.description, victims, attacks, saved.command)
    if len({trial.key for trial in suite.trials}) < len(suite.trials):
        raise BenchError(f"{path} is altered (it has a trial twice); run the suite again")
    return suite


def _check_current(saved: SavedSuite, folder: Path) -> None:
    """Raises BenchError where a component, or one of its options, is not that of this checkout."""
    from smashbench.attacks import ATTACKS  # here: reports need no PyTorch
    from smashbench.bench.suite.options import resolve
    from smashbench.datasets import DATASETS
    from smashbench.defenses import DEFENSES

    components: list[tuple[str, Mapping[str, type], Component]]
    components = [("defense", DEFENSES, config.defense) for config in saved.victims]
    components += [("data set", DATASETS, saved.victims[0].dataset)]
    components += [("attack", ATTACKS, attack) for attack in saved.attacks]
    for what, table, config in components:
        if config.name not in table:
            raise BenchError(f"{folder}: this checkout has no {what} {config.name!r}")
        try:
            same = resolve(table[config.name], config.options) == config.options
        except ValidationError:
            same = False
        if not same:
            raise BenchError(
                f"{folder} was made by another version: the options of the {what} "
                f"{config.name!r} are not those of this checkout; run the suite again"
            )
