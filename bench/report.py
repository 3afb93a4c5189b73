"""Tables and figures of a results folder: pure functions of its records."""

import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

from bench import (
    diagnostics,
    figures,
    gallery,
    judgement,
    leaderboard,
    matched,
    page,
    strength,
    tables,
)
from bench.board import Board
from bench.errors import BenchError
from bench.parallel import Crew
from bench.store import Store

OPTIONAL = (
    *("leaderboard_by_defense.csv", "matched.csv", "tradeoff_*.*", "attacks.*", "gallery.png"),
    *("reconstructions.png", "diagnostics.*", "attack_cost.*", "optimum.*", "surrogates.*"),
)
"""Outputs that not every report has."""
DRAWN: dict[str, Callable[[Board, Path], list[Path]]] = {
    "attacks": figures.by_attack,
    "attack_cost": strength.over_seconds,
    "diagnostics": diagnostics.over_training,
    "optimum": strength.against_optimum,
    "surrogates": diagnostics.surrogates,
}
"""Pictures that need no images."""


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Writes to ``out``, and prints, everything that can be made from the records in ``folders``.

    Raises:
        BenchError: not results folders, not comparable ones, or nothing in them has finished.
    """
    with Crew() as crew:
        board, store = leaderboard.read(folders, crew)
        if not any(row.seeds for row in board.rows):
            raise BenchError(f"{folders[0]} holds no finished trial; run the suite first")
        light = pickle.dumps((board.drawn(), store))
        drawing = crew.start(partial(_draw, light, out), _pictures(board))
        print(tables.as_text(board))
        lines = tables.leaderboard(board)
        defenses = judgement.by_defense(board)
        written = [tables.write_csv(lines, out / "leaderboard.csv")]
        if defenses:
            written.append(tables.write_csv(defenses, out / "leaderboard_by_defense.csv"))
        written.append(tables.write_records(board, out / "records.csv"))
        written.append(tables.write_csv(strength.costs(board), out / "costs.csv"))
        if equal := matched.lines(board):
            written.append(tables.write_csv(equal, out / "matched.csv"))
        written += [path for paths in drawing() for path in paths]
        for name in OPTIONAL:  # of an earlier report, which had what it takes
            for path in out.glob(name):
                if path not in written:
                    path.unlink()
        page_path = out / "report.html"
        written.append(page.write_page(board, lines, defenses, written, page_path, crew))
    names = "  ".join(path.name for path in written)
    print(f"\n{out}: {names}")


def _pictures(board: Board) -> list[str]:
    """Names of the pictures that the board has something for, those that take longest first."""
    if not board.complete:
        return []
    names = list(figures.WORDS)
    if strength.baselines(board):
        names.append("attack_cost")
    names.append("gallery")
    if len(board.complete) <= figures.READABLE:
        names += ["attacks", "reconstructions", "diagnostics"]
    if strength.solved(board):
        names.append("optimum")
    if any("surrogate" in row.history for row in board.complete):
        names.append("surrogates")
    return names


def _draw(light: bytes, out: Path, name: str) -> list[Path]:
    """Draws a picture, in whatever process, from a board and its store."""
    board, store = _loaded(light)
    if name in figures.WORDS:
        return figures.tradeoff(board, name, out)
    if name == "gallery":
        return gallery.gallery(board, store, out)
    if name == "reconstructions":
        return gallery.reconstructions(board, store, out)
    return DRAWN[name](board, out)


@lru_cache(maxsize=1)
def _loaded(light: bytes) -> tuple[Board, Store]:
    board, store = pickle.loads(light)
    return board, store
