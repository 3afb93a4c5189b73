"""Whether what rows leave shows protection, or only that attacks on them were short, or few."""

from collections.abc import Iterable

from smashbench.bench.report.board import Board, Row


def settled(board: Board, row: Row) -> bool:
    """Whether the strongest attack on a row had converged, and every attack on noise and on the
    undefended model was run on it, too: with more steps, or with the attack that is lacking, it
    may leave less."""
    return "not_converged" not in row.flags and not _lacking(board, row)


def all_settled(board: Board, defense: str) -> bool:
    """Whether that holds for all rows of a defense that work."""
    return all(settled(board, row) or row.collapsed for row in board.by_defense[defense])


def why_open(board: Board, rows: Iterable[Row]) -> str:
    """What is said of the attacks on rows that are not settled."""
    few = any(_lacking(board, row) for row in rows if not row.collapsed)
    lacking = ", or attacks that noise or the undefended model met were not run on them"
    return "had not converged" + (lacking if few else "")


def _lacking(board: Board, row: Row) -> set[str]:
    """The attacks on one release that noise or the undefended model met, and the row did not."""
    plain = (other for other in board.complete if other.role != "defense")
    return {name for other in plain for name in other.on_one_release} - set(row.on_one_release)
