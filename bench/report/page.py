"""``report.html``: everything a run found, on one page that needs no network."""

import base64
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.comparisons import DROPS
from smashbench.bench.report.figures import Figure
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.report.style import INKS
from smashbench.bench.report.svg import curves, legend
from smashbench.bench.report.text import number
from smashbench.bench.report.verdict import verdict
from smashbench.bench.store.files import write_whole


def write_page(
    board: Board,
    frames: Mapping[str, pd.DataFrame],
    pictures: Sequence[tuple[Figure, Path]],
    path: Path,
) -> Path:
    """Writes the page.

    Args:
        board: what to show.
        frames: the tables, by name.
        pictures: figures to embed, and their PNG files.
        path: where to.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    metrics = [METRICS[name] for name in board.metrics()]
    lines = _lines(frames["leaderboard"])
    text = environment.get_template("page.html.jinja").render(
        suite=board.suite,
        rows=[
            (row, line, _command(board, row)) for row, line in zip(board.rows, lines, strict=True)
        ],
        waiting=board.waiting,
        verdict=verdict(board),
        metrics=metrics,
        defenses=_lines(frames["leaderboard_by_defense"]),
        drops=[round(100 * drop) for drop in DROPS],
        floors=board.floors,
        curves=[(metric, curves(board, metric)) for metric in metrics] if board.complete else [],
        legend=legend(board),
        inks=INKS,
        flags={flag.name: flag.text for flag in FLAGS},
        raised=[flag.name for flag in FLAGS if any(flag.name in row.flags for row in board.rows)],
        threats=_threats(board),
        pictures=[(figure.name, figure.caption, _webp(png)) for figure, png in pictures],
    )
    write_whole(path, text.encode())
    return path


def _lines(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A dictionary per line, with None for what is missing."""
    plain = frame.astype(object)
    return [
        {str(k): v for k, v in line.items()}
        for line in plain.where(plain.notna(), None).to_dict("records")
    ]


def _command(board: Board, row: Row) -> str:
    """What runs a row again, in a folder of its own: where it is done there is nothing to do.
    Nothing where several folders were read as one."""
    strength = [] if row.strength is None else ["--only", f"strength={row.strength:.12g}"]
    words = ["--out", "again", "--only", f"defense={row.defense}", *strength]
    return f"{board.suite.command} {shlex.join(words)}" if board.suite.command else ""


def _threats(board: Board) -> list[dict[str, Any]]:
    """What each attack was granted, from the rows that it attacked."""
    found: dict[str, dict[str, Any]] = {}
    for row in board.rows:
        for name, attack in row.attacks.items():
            facts = {"attack": name, "kind": attack.kind, "threat": attack.threat, "worst_of": 0}
            found.setdefault(name, facts)
        if worst := row.worst_attack():
            found[worst]["worst_of"] += 1
    return list(found.values())


def _webp(path: Path) -> str:
    """A picture as base64 of WebP: a third of the bytes of PNG, and the PNG lies beside."""
    content = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(content, "webp", quality=90, method=2)
    return base64.b64encode(content.getvalue()).decode()
