"""The suite of a results folder, ``suite.json``: which trials its tables are about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.errors import BenchError
from bench.files import read_json, write_json
from bench.trials import PROTOCOL, Suite, attacks_on, victim_trial


def save_suite(suite: Suite, folder: Path) -> None:
    """Writes ``suite.json``: which trials belong to this folder's tables."""
    attacks = [
        attack.config["attack"]
        for attack in suite.attacks
        if attack.parent == suite.victims[0].key and attack.config["seed"] == 0
    ]
    attack_seeds = 1 + max(attack.config["seed"] for attack in suite.attacks)
    victims = [victim.config for victim in suite.victims]
    content: dict[str, Any] = {"name": suite.name, "description": suite.description}
    content["command"] = suite.command
    content |= {"attack_seeds": attack_seeds, "victims": victims, "attacks": attacks}
    write_json(folder / "suite.json", content)


def read_suite(folder: Path, *, current: bool = False) -> Suite:
    """The suite of a results folder.

    Args:
        folder: the results folder.
        current: the options of its defenses and attacks must be those of the present code, so
            that its trials can be run.

    Raises:
        BenchError: not a results folder, or one of another version.
    """
    path = folder / "suite.json"
    if not path.is_file():
        raise BenchError(f"{folder} is no results folder: it has no suite.json; run a suite first")
    try:
        content = read_json(path)
        if any(config["protocol"] != PROTOCOL for config in content["victims"]) or (
            current and not _is_current(content)
        ):
            raise BenchError(f"{folder} was made by another version; run the suite again")
        victims = [victim_trial(config) for config in content["victims"]]
        attacks = attacks_on(victims, content["attacks"], content["attack_seeds"])
        about = [content[name] for name in ("name", "description", "command")]
        if not (victims and attacks and all(isinstance(text, str) for text in about)):
            raise ValueError
        return Suite(about[0], about[1], tuple(victims), tuple(attacks), about[2])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BenchError(f"{path} is altered; run the suite again") from None


def trials_in(folder: Path) -> int:
    """How many trials the suite of a folder comes to; 0 where ``read_suite`` will say what is
    wrong."""
    try:
        content = orjson.loads((folder / "suite.json").read_bytes())
        return len(content["victims"]) * (1 + len(content["attacks"]) * content["attack_seeds"])
    except (OSError, KeyError, TypeError, ValueError):
        return 0


def _is_current(content: dict[str, Any]) -> bool:
    from pydantic import ValidationError

    from attacks import ATTACKS
    from bench.options import resolve
    from datasets import DATASETS
    from defenses import DEFENSES

    components: list[tuple[dict[str, Any], Mapping[str, type]]]
    components = [(config["defense"], DEFENSES) for config in content["victims"]]
    components += [(config["dataset"], DATASETS) for config in content["victims"][:1]]
    components += [(config, ATTACKS) for config in content["attacks"]]
    try:
        return all(
            resolve(table[entry["name"]], entry["options"]) == entry["options"]
            for entry, table in components
        )
    except (KeyError, ValidationError):
        return False
