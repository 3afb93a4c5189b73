"""Tables and figures of a results folder: pure functions of its records."""

from collections.abc import Sequence
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
from bench.errors import BenchError

OPTIONAL = (
    *("leaderboard_by_defense.csv", "matched.csv", "tradeoff_*.*", "attacks.*", "gallery.png"),
    *("reconstructions.png", "diagnostics.*", "attack_cost.*", "optimum.*", "surrogates.*"),
)
"""Outputs that not every report has."""


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Writes to ``out``, and prints, everything that can be made from the records in ``folders``.

    Raises:
        BenchError: not results folders, not comparable ones, or nothing in them has finished.
    """
    board, store = leaderboard.read(folders)
    if not any(row.seeds for row in board.rows):
        raise BenchError(f"{folders[0]} holds no finished trial; run the suite first")
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
    if board.complete:
        for metric in figures.WORDS:
            written += figures.tradeoff(board, metric, out)
        written += gallery.gallery(board, store, out)
        if len(board.complete) <= figures.READABLE:
            written += figures.by_attack(board, out)
            written += gallery.reconstructions(board, store, out)
            written += diagnostics.over_training(board, out)
        if strength.baselines(board):
            written += strength.over_seconds(board, out)
        if strength.solved(board):
            written += strength.against_optimum(board, out)
        if any("surrogate" in row.history for row in board.complete):
            written += diagnostics.surrogates(board, out)
    for name in OPTIONAL:  # of an earlier report, which had what it takes
        for path in out.glob(name):
            if path not in written:
                path.unlink()
    written.append(page.write_page(board, lines, defenses, written, out / "report.html"))
    names = "  ".join(path.name for path in written)
    print(f"\n{out}: {names}")
