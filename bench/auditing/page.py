"""``audit.html``: all that an audit found, on one page that needs no network; tables beside it."""

import base64
import io
from collections.abc import Collection
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure as Canvas

from smashbench.bench.auditing.figures import FIGURES
from smashbench.bench.auditing.report import Report
from smashbench.bench.experiment.metrics import Collective
from smashbench.bench.report.tables import write_tables
from smashbench.bench.report.template import rendered
from smashbench.bench.store.files import write_whole

TITLE = "SmashBench audit"
TEMPLATE = Path(__file__).with_name("audit.html.jinja")


def write(report: Report, folder: Path, *, without: Collection[str] = ()) -> list[Path]:
    """Writes the page, the figures and the tables; what an earlier audit wrote there and this one
    has nothing for is deleted.

    Args:
        report: what to write.
        folder: where to.
        without: figures that are left out.

    Raises:
        BenchError: the folder cannot be written to.
    """
    frames = {
        "attacks": report.to_frame(),
        "knowledge": report.knowledge_frame(),
        "what_if": report.what_if_frame(),
    }
    page = folder / "audit.html"
    again = page.exists()  # else what is there is no audit's
    written, pictures = write_tables(frames, folder, again=again), {}
    for figure in FIGURES:
        name, path = figure.name, figure.path(folder)
        if name in report.figures and name not in without:
            content = _png(report.figures[name])
            write_whole(path, content)
            written.append(path)
            pictures[name] = (figure.caption, base64.b64encode(content).decode())
        elif again:
            path.unlink(missing_ok=True)
    write_whole(page, _html(report, pictures).encode())
    return [page, *written]


def _html(report: Report, pictures: dict[str, tuple[str, str]]) -> str:
    known = list(report.metrics.values())
    return rendered(
        TEMPLATE,
        title=TITLE,
        report=report,
        facts=report.facts,
        ranked=report.ranked,
        metrics=[m for m in known if m.brief or not isinstance(m, Collective)],
        leaked=[m for m in known if isinstance(m, Collective)],
        brief=[m for m in known if m.brief],
        pictures=pictures,
        shape=lambda sizes: "x".join(map(str, sizes)),
    )


def _png(canvas: Canvas) -> bytes:
    content = io.BytesIO()
    options: Any = {"metadata": {"Software": None}}
    canvas.savefig(content, format="png", dpi=canvas.dpi, **options)
    return content.getvalue()
