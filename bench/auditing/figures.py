"""The figures of an audit, in the style of the reports."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure as Canvas
from torch.nn.functional import interpolate

from smashbench.bench.auditing.curves import CurvePoint
from smashbench.bench.auditing.report import Report
from smashbench.bench.auditing.world import AuditedAttack
from smashbench.bench.experiment.metrics import ACCURACY, METRICS
from smashbench.bench.report.figures.axes import counted
from smashbench.bench.report.figures.base import Figure
from smashbench.bench.report.figures.images import DPI, picture
from smashbench.bench.report.style import SOFT, Mark
from smashbench.bench.report.text import number

SHOWN, LINES = 3, 4
"""Images of a block of the gallery, and most attacks in it."""
LARGEST = 64
"""Pixels of a side above which the gallery shows an image smaller."""


def exposure(report: Report) -> np.ndarray:
    """The scored images (N,), the best rebuilt first: by the share of an image's own variance that
    the strongest attack leaves unexplained."""
    originals = report.originals.reshape(len(report.originals), -1).astype(np.float64) / 255
    contrast = np.maximum(originals.var(1), 1e-4)
    return np.argsort(report.worst.scores["mse"] / contrast, kind="stable")


def _gallery(report: Report) -> Canvas:
    order, most = exposure(report), min(SHOWN, len(report.originals) // 3)
    middle = len(order) // 2 - most // 2
    blocks = order[:most], order[middle : middle + most], order[len(order) - most :]
    lines = [("original", [_small(report.originals[each]) for each in blocks])]
    for each in report.ranked[:LINES]:
        label = f"{each.name}  (FVU {number(each.estimates['fvu'].mean, 2)})"
        lines.append((label, [_small(each.reconstructions[block]) for block in blocks]))
    return picture(["rebuilt best", "median", "rebuilt worst"], lines)


def _small(images: np.ndarray) -> np.ndarray:
    """Images (n, C, H, W), uint8, of at most ``LARGEST`` pixels a side."""
    share = LARGEST / max(images.shape[2:])
    if share >= 1:
        return images
    found = interpolate(
        torch.from_numpy(images).float(), scale_factor=share, mode="bilinear", antialias=True
    )
    return found.round().clamp(0, 255).to(torch.uint8).numpy()


def _knowledge(report: Report) -> Canvas:
    canvas = Canvas(figsize=(7.2, 3.2), layout="constrained")
    points: list[CurvePoint | AuditedAttack] = [*report.knowledge, report.on_pairs]
    pairs = [each.pairs for each in points]
    for axes, name, mark in zip(canvas.subplots(1, 2), ("fvu", "rank_1"), (2, 4), strict=True):
        found = [each.estimates[name] for each in points]
        colour = Mark(mark).ink.figure
        low, high = [each.low for each in found], [each.high for each in found]
        axes.fill_between(pairs, low, high, alpha=0.2, color=colour)
        axes.plot(pairs, [each.mean for each in found], color=colour, marker="o", markersize=4)
        counted(axes, pairs, "images that the attacker has features of")
        axes.set_ylim(0, 1.05 * max(1.0, *high))
        axes.set_ylabel(METRICS[name].axis)
        floor = 1.0 if name == "fvu" else 1 / report.facts.test
        axes.axhline(floor, color=SOFT, linestyle="--", linewidth=0.8)
    return canvas


def _what_if(report: Report) -> Canvas:
    return _over_accuracy(report) if report.accuracy else _by_setting(report)


def _by_setting(report: Report) -> Canvas:
    """A line for every defense and strength, where no accuracy is known."""
    points = report.what_if
    canvas = Canvas(figsize=(7.2, 0.8 + 0.24 * len(points)), layout="constrained")
    axes = canvas.subplots()
    names = list(dict.fromkeys(each.defense for each in points))
    for place, each in enumerate(points):
        style: dict[str, Any] = Mark(names.index(each.defense)).line
        mean, low, high = each.estimates["fvu"]
        axes.hlines(place, low, high, style["color"], linewidth=0.8)
        axes.plot(mean, place, markersize=6, **style)
    axes.set_yticks(range(len(points)), [f"{each.defense} {each.setting}" for each in points])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1)
    axes.set_xlabel(METRICS["fvu"].axis)
    return canvas


def _over_accuracy(report: Report) -> Canvas:
    canvas = Canvas(figsize=(7.2, 4.2), layout="constrained")
    axes = canvas.subplots()
    for place, name in enumerate(dict.fromkeys(each.defense for each in report.what_if)):
        points = [each for each in report.what_if if each.defense == name and each.accuracy]
        style: dict[str, Any] = Mark(place).line
        x = [each.accuracy for each in points if each.accuracy]
        y = [each.estimates["fvu"] for each in points]
        at, height = [each.mean for each in x], [each.mean for each in y]
        bars: dict[str, Any] = {"colors": style["color"], "linewidth": 0.7, "alpha": 0.6}
        axes.vlines(at, [each.low for each in y], [each.high for each in y], **bars)
        axes.hlines(height, [each.low for each in x], [each.high for each in x], **bars)
        axes.plot(at, height, label=name, markersize=6, **style)
        for point, left, up in zip(points, at, height, strict=True):
            at_mark: Any = {"textcoords": "offset points", "fontsize": 6, "color": SOFT}
            axes.annotate(point.setting, (left, up), (4, 4), **at_mark)
    axes.set_ylim(0, 1.1)
    axes.set_xlabel(ACCURACY.label)
    axes.set_ylabel(METRICS["fvu"].axis)
    axes.legend(fontsize=8)
    return canvas


FIGURES: list[Figure[Report]] = [
    Figure(
        name="gallery",
        caption="The scored images that the strongest attack rebuilds best, as usual and worst, by "
        "the share of an image's own variance that is left unexplained, and what the attacks made "
        "of them.",
        applies=lambda report: True,
        draw=_gallery,
        dpi=DPI,
    ),
    Figure(
        name="knowledge",
        caption="Leakage by what the attacker has: the strongest attack that needs so many images "
        "and their features, and nothing else, with 95 % intervals; dashed, what needs no features "
        "at all.",
        applies=lambda report: bool(report.knowledge),
        draw=_knowledge,
    ),
    Figure(
        name="what_if",
        caption="What would help: the encoder behind defenses that need no training, attacked with "
        "releases that passed them. More FVU is more private; up and to the right is "
        "better where accuracy is known.",
        applies=lambda report: len(report.what_if) > 1,
        draw=_what_if,
    ),
]
"""In the order of the page."""
