"""``report.html``: everything a run found, on one page that needs no network."""

import base64
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from smashbench.bench.experiment.metrics import METRICS, Collective, Metric
from smashbench.bench.report.attributes import LABELS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures import Figure
from smashbench.bench.report.flags import FLAGS
from smashbench.bench.report.levels import LEVELS, by_level, levels_apart
from smashbench.bench.report.losses import DROPS
from smashbench.bench.report.quantiles import QUANTILE
from smashbench.bench.report.style import INKS
from smashbench.bench.report.svg import curves, symbols
from smashbench.bench.report.template import rendered
from smashbench.bench.report.tiles import tiles
from smashbench.bench.report.verdict import answers, verdict, without_loss
from smashbench.bench.report.view import EXPLAINED, FLOORS, panels, shared_doubts, view
from smashbench.bench.store.files import write_whole

TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write_page(
    board: Board,
    frames: Mapping[str, pd.DataFrame],
    pictures: Sequence[tuple[Figure[Board], Path]],
    path: Path,
) -> Path:
    """Writes the page.

    Args:
        board: what to show.
        frames: the tables, by name.
        pictures: figures to embed, and their PNG files.
        path: where to.
    """
    shown = [(figure, _webp(png)) for figure, png in pictures]
    text = rendered(TEMPLATE, **_parts(board, frames, shown))
    write_whole(path, text.encode())
    return path


def _parts(
    board: Board, frames: Mapping[str, pd.DataFrame], pictures: Sequence[tuple[Figure[Board], str]]
) -> dict[str, Any]:
    """What the template shows."""
    metrics = _metrics(board)
    parts: dict[str, Any] = {
        "suite": board.suite,
        "waiting": board.waiting,
        "answers": answers(board),
        "verdict": verdict(board),
        "unanswered": without_loss(board),
        **_measured(board, metrics),
        **_curves(board, metrics if board.complete else []),
        **_ranking(board, frames["leaderboard_by_defense"]),
        **_rows(board, frames["leaderboard"]),
        **_attacked(board),
        **_pictures(board, pictures),
    }
    there = {
        "pictures": parts["tiles"],
        "curves": parts["curves"],
        "defenses": parts["defenses"],
        "gallery": "gallery" in parts["drawn"],
        "diagnostics": parts["others"],
        "leakage": parts["leaked"] or parts["attributes"],
        "reproduce": board.suite.command,
    }
    parts["sections"] = [(name, text) for name, text in SECTIONS.items() if there.get(name, True)]
    return parts


def _metrics(board: Board) -> list[Metric]:
    """Those of single images, and brief ones, FVU first."""
    known = [METRICS[name] for name in board.metrics]
    shown = [metric for metric in known if metric.brief or not isinstance(metric, Collective)]
    return sorted(shown, key=lambda metric: metric.name != "fvu")


def _measured(board: Board, metrics: Sequence[Metric]) -> dict[str, Any]:
    """Metrics, and what attacks that rebuild nothing reach."""
    known = [METRICS[name] for name in board.metrics]
    return {
        "metrics": metrics,
        "leaked": [metric for metric in known if isinstance(metric, Collective)],
        "attributes": LABELS if any(row.inferred for row in board.rows) else {},
        "nothing": board.floors,
        "floors": {FLOORS.get(n, n): EXPLAINED.get(n, n) for n in board.floors},
    }


def _curves(board: Board, metrics: Sequence[Metric]) -> dict[str, Any]:
    """A curve for each of these metrics, and how their defenses are grouped."""
    many = bool(board.complete) and len(panels(board)) > 1
    groups = dict.fromkeys(row.group for row in board.complete if row.role == "defense")
    return {
        "curves": [(metric, curves(board, metric)) for metric in metrics],
        "beyond": bool(metrics) and view(board, metrics[0]).beyond,
        "many": many,
        "groups": list(groups) if many else [],
        "symbols": dict(symbols(board)),
        "inks": INKS,
    }


def _ranking(board: Board, frame: pd.DataFrame) -> dict[str, Any]:
    """The table of defenses, and what it can be ordered by."""
    drops = [round(100 * drop) for drop in DROPS]
    return {
        "defenses": [
            (each, board.by_defense[each["defense"]][0]) for each in _ranked(board, frame)
        ],
        "measures": MEASURES,
        "drops": drops,
        "sure": QUANTILE,
        "largest": max(drops),
    }


def _rows(board: Board, frame: pd.DataFrame) -> dict[str, Any]:
    """The table of rows, and its flags."""
    lines = zip(board.rows, _lines(frame), strict=True)
    return {
        "rows": [(row, line, _command(board, row)) for row, line in lines],
        "shared": shared_doubts(board) if len(board.complete) > 1 else [],
        "flags": {flag.name: flag.text for flag in FLAGS},
        "doubts": [flag.name for flag in FLAGS if flag.doubt],
        "raised": [f.name for f in FLAGS if any(f.name in row.flags for row in board.rows)],
    }


def _attacked(board: Board) -> dict[str, Any]:
    """What attacks know and reach, by level of knowledge where there are several."""
    levels = levels_apart(board)
    return {
        "threats": _threats(board),
        "levels": levels,
        "granted": {name: sorted(LEVELS[name]) for name in levels},
        "leveled": [(r, {each.name: each for each in by_level(r, levels)}) for r in board.complete],
    }


def _pictures(board: Board, pictures: Sequence[tuple[Figure[Board], str]]) -> dict[str, Any]:
    """Figures, and images beside what was rebuilt from them."""
    originals, rebuilt = tiles(board)
    return {
        "originals": originals,
        "tiles": rebuilt,
        "pictures": [(figure.name, figure.caption, data) for figure, data in pictures],
        "drawn": [figure.name for figure, _ in pictures],
        "others": [(f.name, f.caption) for f, _ in pictures if f.name not in PLACED],
    }


SECTIONS = {
    "answer": "answer",
    "pictures": "pictures",
    "curves": "curve",
    "defenses": "ranking",
    "leaderboard": "every row",
    "leakage": "beyond pixels",
    "gallery": "gallery",
    "attacks": "attacks and cost",
    "diagnostics": "diagnostics",
    "reproduce": "run a row again",
}
"""Id and name, in order."""
PLACED = ("over_noise", "gallery", "reconstructions", "attacks", "attack_cost", "knowledge")
"""Figures that have a place of their own; others are diagnostics."""
MEASURES = ("fvu_over_noise", *(f"fvu_over_noise_at_{100 * d:.0f}_points" for d in DROPS))
"""What defenses can be ranked by."""


def _ranked(board: Board, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines of the table of defenses, each with what ranks it: mean and joint interval."""
    lines = _lines(frame)
    baselines = {row.defense for row in board.complete if row.role == "baseline"}
    for line in lines:
        for name in MEASURES:
            joint = f"{name}_joint" if name == "fvu_over_noise" else name
            ends = line[f"{joint}_low"], line[f"{joint}_high"]
            value: Any = None
            reached = line[name.replace("over_noise_at", "at")]
            if line["defense"] in baselines:
                value = None if reached is None else "0 0 0"
            elif line[name] is not None and None not in ends:
                value = " ".join(f"{each:.6g}" for each in (line[name], *ends))
            line[f"{name}_joint"] = value
    return lines


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
    seconds: dict[str, list[float]] = {}
    for row in board.rows:
        for name, attack in row.attacks.items():
            facts = {"attack": name, "kind": attack.kind, "threat": attack.threat, "worst_of": 0}
            found.setdefault(name, facts)
            seconds.setdefault(name, []).append(attack.seconds)
        if worst := row.worst_attack():
            found[worst]["worst_of"] += 1
    for name, each in seconds.items():
        found[name]["seconds"] = sum(each) / len(each)
    return list(found.values())


def _webp(path: Path) -> str:
    """A picture as base64 of WebP: a third of the bytes of PNG, and the PNG lies beside."""
    content = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(content, "webp", quality=90, method=2)
    return base64.b64encode(content.getvalue()).decode()
