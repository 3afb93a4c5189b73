"""Tables and figures of a results folder: pure functions of its records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from threadpoolctl import threadpool_limits

from attacks import ATTACKS
from bench import diagnostics, figures, leaderboard, matched, strength, tables
from bench.errors import BenchError
from bench.options import resolve
from bench.store import Store, key_of, read_json, write_json
from bench.suite import PROTOCOL, Suite, Trial
from datasets import DATASETS
from defenses import DEFENSES


def save_suite(suite: Suite, folder: Path) -> None:
    """Writes ``suite.json``: which trials belong to this folder's tables."""
    attacks = [
        attack.config["attack"] for attack in suite.attacks if attack.parent == suite.victims[0].key
    ]
    victims = [victim.config for victim in suite.victims]
    content = {"name": suite.name, "description": suite.description}
    write_json(folder / "suite.json", content | {"victims": victims, "attacks": attacks})


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
        victims = [Trial(key_of(config), config, None) for config in content["victims"]]
        attacks = []
        for victim in victims:
            for attack in content["attacks"]:
                config = {"victim": victim.config, "attack": attack}
                attacks.append(Trial(key_of(config), config, victim.key))
        return Suite(content["name"], content["description"], tuple(victims), tuple(attacks))
    except (KeyError, TypeError):
        raise BenchError(f"{path} is altered; run the suite again") from None


def _is_current(content: dict[str, Any]) -> bool:
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


def write_report(folder: Path) -> None:
    """Writes and prints everything that can be made from the records in ``folder``.

    Raises:
        BenchError: not a results folder, or nothing in it has finished.
    """
    store = Store(folder)
    with threadpool_limits(1):  # many small products: twice as fast, and the same on every machine
        board = leaderboard.build(read_suite(folder), store)
    if not any(row.seeds for row in board.rows):
        raise BenchError(f"{folder} holds no finished trial; run the suite first")
    print(tables.as_text(board))
    written = [folder / "leaderboard.csv"]
    tables.write_csv(board, written[0])
    written.append(folder / "costs.csv")
    strength.write_costs(board, written[-1])
    if matched.write_csv(board, folder / "matched.csv"):
        written.append(folder / "matched.csv")
    if board.complete:
        for metric in ("mse", "ssim"):
            written += figures.tradeoff(board, metric, folder)
        written += figures.reconstructions(board, store, folder)
        written += diagnostics.over_training(board, folder)
        if strength.baselines(board):
            written += strength.over_seconds(board, folder)
        if strength.solved(board):
            written += strength.against_optimum(board, folder)
        if any("surrogate" in row.history for row in board.complete):
            written += diagnostics.surrogates(board, folder)
    names = "  ".join(path.name for path in written)
    print(f"\n{folder}: {names}")
