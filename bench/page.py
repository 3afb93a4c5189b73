"""``report.html``: everything a run found, on one page that needs no network."""

import base64
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from bench.board import Board, Row
from bench.figures import WORDS
from bench.files import write_whole
from bench.flags import FLAGS
from bench.judgement import DROPS
from bench.parallel import Crew
from bench.plot import curves, legend

PICTURES = {
    "gallery": "What the strongest attack rebuilds from each defense at the strength that protects "
    "most while it costs at most five points of accuracy. In brackets accuracy and attack. On the "
    "right test images of each row's own: the owner at the 5 % quantile of unexplained variance, "
    "and the median; each original beside what was rebuilt.",
    "reconstructions": "Originals and reconstructions of every row.",
    "attacks": "Every attack by itself.",
    "diagnostics": "What the regularisers say and do during training.",
    "surrogates": "Do the surrogates tell the truth? What they say against the true variance "
    "within classes, and that against the worst case.",
    "attack_cost": "What more time buys an attack.",
    "optimum": "Attacks against the best possible reconstruction.",
}


def write_page(
    board: Board,
    lines: Sequence[Mapping[str, Any]],
    defenses: Sequence[Mapping[str, Any]],
    pictures: Sequence[Path],
    path: Path,
    crew: Crew,
) -> Path:
    """Writes the page.

    Args:
        board: what to show.
        lines: the leaderboard's, in the order of the board's rows.
        defenses: those of the table by defense.
        pictures: figures that were written; the PNG files that ``PICTURES`` names are embedded.
        path: where to.
        crew: helps with the pictures.
    """
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    names = [name for name in PICTURES if path.parent / f"{name}.png" in pictures]
    converted = crew.start(_webp, [path.parent / f"{name}.png" for name in names])
    svg = {name: curves(board, name) for name in WORDS} if board.complete else {}
    embedded = zip(names, converted(), strict=True)
    text = environment.get_template("page.html.jinja").render(
        suite=board.suite,
        rows=[
            (row, line, _command(board, row)) for row, line in zip(board.rows, lines, strict=True)
        ],
        defenses=defenses,
        drops=[round(100 * drop) for drop in DROPS],
        floors=board.floors,
        curves=svg,
        words=WORDS,
        legend=legend(board),
        raised=[name for name in FLAGS if any(name in row.flags for row in board.rows)],
        flags=FLAGS,
        threats=_threats(board),
        pictures=[(name, PICTURES[name], data) for name, data in embedded],
    )
    write_whole(path, text.encode())
    return path


def _command(board: Board, row: Row) -> str:
    """What runs a row again; nothing where several folders were read as one."""
    strength = [] if row.strength is None else ["--only", f"strength={row.strength:.12g}"]
    words = ["--only", f"defense={row.defense}", *strength]
    return f"{board.suite.command} {shlex.join(words)}" if board.suite.command else ""


def _threats(board: Board) -> list[dict[str, Any]]:
    """What each attack was granted, from the rows that it attacked."""
    found: dict[str, dict[str, Any]] = {}
    for row in board.rows:
        for attack in row.attacks:
            facts = {"attack": attack, "kind": row.kinds[attack], **row.threats[attack]}
            facts["worst of"] = 0
            found.setdefault(attack, facts)
        if row.worst_attack:
            found[row.worst_attack]["worst of"] += 1
    return list(found.values())


def _webp(path: Path) -> str:
    """A picture as base64 of WebP: a third of the bytes of PNG, and the PNG lies beside."""
    content = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(content, "webp", quality=90, method=2)
    return base64.b64encode(content.getvalue()).decode()


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"
