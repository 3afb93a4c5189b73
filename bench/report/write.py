"""Tables, figures and the page of a results folder: pure functions of its records."""

from collections.abc import Sequence
from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.report.board import Board
from smashbench.bench.report.figures import Figure, figures
from smashbench.bench.report.page import write_page
from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import TABLES, as_text, write_csv


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Writes to ``out``, and prints, everything that can be made from the records in ``folders``.
    What an earlier report wrote and this one has nothing for is deleted.

    Raises:
        BenchError: not results folders, not comparable ones, or nothing in them has finished.
    """
    board = read(*folders)
    if not any(row.seeds for row in board.rows):
        raise BenchError(f"{folders[0]} holds no finished trial; run the suite first")
    print(as_text(board))
    written: list[Path] = []
    frames = {name: make(board) for name, make in TABLES.items()}
    for name, frame in frames.items():
        path = out / f"{name}.csv"
        if frame.empty:
            path.unlink(missing_ok=True)
        else:
            written.append(write_csv(frame, path))
    drawn = []
    for figure in figures():
        if board.complete and _applies(figure, board):
            drawn.append(figure)
            written += _written(figure, board, out)
        else:
            for path in figure.paths(out):
                path.unlink(missing_ok=True)
    pictures = [(figure, out / f"{figure.name}.png") for figure in drawn if figure.embedded]
    written.append(write_page(board, frames, pictures, out / "report.html"))
    print(f"\n{out}: {'  '.join(path.name for path in written)}")


def _applies(figure: Figure, board: Board) -> bool:
    try:
        return figure.applies(board)
    except Exception as error:
        raise _undrawn(figure, error) from error


def _written(figure: Figure, board: Board, out: Path) -> list[Path]:
    try:
        return figure.write(board, out)
    except BenchError:
        raise
    except Exception as error:
        raise _undrawn(figure, error) from error


def _undrawn(figure: Figure, error: Exception) -> BenchError:
    return BenchError(
        f"the figure {figure.name!r} cannot be drawn: {type(error).__name__}: {error}; tables are "
        "written; if it is a plug-in's, mend it or leave out its --plugin"
    )
