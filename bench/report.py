"""Tables and figures of a results folder: pure functions of its records."""

from pathlib import Path

from bench import diagnostics, figures, leaderboard, matched, strength, tables
from bench.errors import BenchError
from bench.store import Store, key_of, read_json, write_json
from bench.suite import PROTOCOL, Suite, Trial


def save_suite(suite: Suite, folder: Path) -> None:
    """Writes ``suite.json``: which trials belong to this folder's tables."""
    attacks = [
        attack.config["attack"] for attack in suite.attacks if attack.parent == suite.victims[0].key
    ]
    victims = [victim.config for victim in suite.victims]
    content = {"name": suite.name, "description": suite.description}
    write_json(folder / "suite.json", content | {"victims": victims, "attacks": attacks})


def read_suite(folder: Path) -> Suite:
    """The suite of a results folder.

    Raises:
        BenchError: not a results folder.
    """
    path = folder / "suite.json"
    if not path.is_file():
        raise BenchError(f"{folder} is no results folder: it has no suite.json; run a suite first")
    try:
        content = read_json(path)
        if any(config["protocol"] != PROTOCOL for config in content["victims"]):
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


def write_report(folder: Path) -> None:
    """Writes and prints everything that can be made from the records in ``folder``.

    Raises:
        BenchError: not a results folder, or nothing in it has finished.
    """
    board = leaderboard.build(read_suite(folder), Store(folder))
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
        written += figures.reconstructions(board, folder)
        written += diagnostics.over_training(board, folder)
        if strength.baselines(board):
            written += strength.over_seconds(board, folder)
        if strength.solved(board):
            written += strength.against_optimum(board, folder)
        if any("surrogate" in row.history for row in board.complete):
            written += diagnostics.surrogates(board, folder)
    names = "  ".join(path.name for path in written)
    print(f"\n{folder}: {names}")
