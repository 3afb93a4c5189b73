"""Tables, figures and the page of a results folder: pure functions of its records."""

from collections.abc import Sequence
from pathlib import Path

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.report.board import Board
from smashbench.bench.report.figures import Figure, figures
from smashbench.bench.report.page import write_page
from smashbench.bench.report.printed import leaderboard_cells, write_printed
from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import TABLES, as_text, write_tables
from smashbench.bench.store.saved_suite import check_no_audit, check_no_run


def write_report(folders: Sequence[Path], out: Path, *, newer: bool = False) -> None:
    """Writes to ``out``, and prints, everything that can be made from the records in ``folders``,
    where ``newer`` is that of ``merge``. What an earlier report wrote and this one has nothing for
    is deleted.

    Raises:
        BenchError: not results folders, not comparable ones, or nothing in them has finished; or
            ``out`` holds an audit, or a run that is not the only one of ``folders``.
    """
    if [out.resolve()] != [folder.resolve() for folder in folders]:
        check_no_run(out)
    check_no_audit(out)
    board = read(*folders, newer=newer)
    if not any(row.seeds for row in board.rows):
        raise BenchError(f"{folders[0]} holds no finished trial; run the suite first")
    print(as_text(board))
    frames = {name: make(board) for name, make in TABLES.items()}
    page = out / "report.html"
    again = page.exists()  # else what is there is no report's
    written = write_tables(frames, out, again=again)
    written += write_printed(leaderboard_cells(board), out, "leaderboard")
    drawn = []
    for figure in figures():
        if board.complete and _applies(figure, board):
            drawn.append(figure)
            written.append(_written(figure, board, out))
        elif again:
            figure.path(out).unlink(missing_ok=True)
    pictures = [(figure, out / f"{figure.name}.png") for figure in drawn if figure.embedded]
    written.append(write_page(board, frames, pictures, page))
    print(f"\n{out}: {'  '.join(path.name for path in written)}")


def write_figures(
    folder: Path, out: Path, names: Sequence[str] = (), look: str = "paper"
) -> list[Path]:
    """Draws figures alone; returns where they are.

    Args:
        folder: a results folder.
        out: where to.
        names: which; all that apply unless told.
        look: one of ``figures.base.LOOKS``; those made of pixels are drawn for screens alone.

    Raises:
        BenchError: as ``write_report``; a figure that is not there, or has nothing to show.
    """
    board = read(folder)
    if not board.complete:
        raise BenchError(f"{folder} holds no complete row; run the suite first")
    known = {figure.name: figure for figure in figures()}
    for name in names:
        if name not in known:
            raise BenchError(unknown("figure", name, known))
        if not _applies(known[name], board):
            raise BenchError(f"the figure {name!r} has nothing to show of {board.suite.name}")
    chosen = [known[name] for name in names] or [f for f in known.values() if _applies(f, board)]
    drawn = [f for f in chosen if names or look == "screen" or not f.pixels]
    return [_written(figure, board, out, look) for figure in drawn]


def _applies(figure: Figure[Board], board: Board) -> bool:
    try:
        return figure.applies(board)
    except Exception as error:
        raise _undrawn(figure, error) from error


def _written(figure: Figure[Board], board: Board, out: Path, look: str = "screen") -> Path:
    try:
        return figure.write(board, out, look)
    except BenchError:
        raise
    except Exception as error:
        raise _undrawn(figure, error) from error


def _undrawn(figure: Figure[Board], error: Exception) -> BenchError:
    return BenchError(
        f"the figure {figure.name!r} cannot be drawn: {type(error).__name__}: {error}; if "
        "it is a plug-in's, mend it or leave out its --plugin"
    )
