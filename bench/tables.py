"""Tables: the leaderboard as text, and everything that is written as CSV."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.judgement import against_noise
from bench.leaderboard import LAST, METRICS, Board, Row
from bench.stats import Estimate, columns
from bench.store import Record, Store, write_whole
from bench.suite import Suite

QUANTILES = ("mean", "std", "q05", "q25", "q50", "q75", "q95")


def leaderboard(board: Board) -> list[dict[str, Any]]:
    """A line per defense and strength, in the suite's order; docs/columns.md says what is in it."""
    attacks = list(dict.fromkeys(t.config["attack"]["label"] for t in board.suite.attacks))
    compared = against_noise(board)
    return [
        _line(row, attacks, compared.get((row.defense, row.strength), {})) for row in board.rows
    ]


def _line(row: Row, attacks: list[str], compared: Mapping[str, Estimate | None]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "defense": row.defense,
        "strength": row.strength,
        "seeds": len(row.seeds),
        "missing_trials": row.missing,
        **columns("accuracy", row.accuracy),
        "worst_attack": row.worst_attack,
        "worst_knowledge": row.levels.get(row.worst_attack),
    }
    judged = bool(row.worst_attack)
    for metric in METRICS:
        values |= columns(f"worst_{metric}", row.worst(metric) if judged else None)
    values["worst_ssim_attack"] = row.worst_ssim_attack
    for name in ("accuracy_over_noise", "mse_over_noise", "fvu_over_noise"):
        values |= columns(name, compared.get(name))
    values |= {"bound_mse": row.bound, "optimum_mse": row.optimum}
    for attack in attacks:
        for metric in METRICS:
            values |= columns(f"{attack}_{metric}", row.attacks.get(attack, {}).get(metric))
    return values | {
        "flags": " ".join(row.flags),
        "payload": row.payload or None,
        "client_parameters": row.client_parameters or None,
        **{name: float(row.history[name][-1]) if name in row.history else None for name in LAST},
    }


def records(suite: Suite, store: Store) -> Iterable[dict[str, Any]]:
    """A line per trial of a suite; what is missing has no status."""
    for trial in suite.trials:
        record = store.read(trial.key) or {}
        victim = trial.config["victim"] if trial.parent else trial.config
        defense, metrics = victim["defense"], record.get("metrics", {})
        line: dict[str, Any] = {
            "key": trial.key,
            "victim": trial.parent or trial.key,
            "defense": defense["label"],
            "strength": defense["strength"],
            "seed": victim["seed"],
            "attack": trial.config["attack"]["label"] if trial.parent else None,
            "attack_seed": trial.config["seed"] if trial.parent else None,
            "status": record.get("status"),
            "error": record.get("error", "").splitlines()[-1:],
            "accuracy": metrics.get("accuracy"),
        }
        for metric in ("mse", "ssim", "psnr"):
            line |= {f"{metric}_{name}": metrics.get(metric, {}).get(name) for name in QUANTILES}
        yield line | _circumstances(record)


def _circumstances(record: Record) -> dict[str, Any]:
    threat, seconds = record.get("threat_model", {}), record.get("seconds", {})
    names = ("knowledge", "aux_images", "aux_overlap", "noise_aware", "releases_per_image")
    return {
        **{name: threat.get(name) for name in names},
        "flags": record.get("flags"),
        **{f"{name}_seconds": seconds.get(name) for name in ("train", "fit", "reconstruct")},
        "data_hash": record.get("data_hash"),
        "source": record.get("source"),
        "device": record.get("machine", {}).get("device"),
        "torch": record.get("machine", {}).get("torch"),
    }


def write_csv(rows: Iterable[Mapping[str, Any]], path: Path) -> Path:
    """Writes lines that have the same columns, with six significant digits; what is missing is an
    empty field."""
    text = io.StringIO()
    rows = iter(rows)
    first = next(rows)
    writer = csv.DictWriter(text, fieldnames=list(first), lineterminator="\n")
    writer.writeheader()
    writer.writerow({name: _format(value) for name, value in first.items()})
    writer.writerows({name: _format(value) for name, value in row.items()} for row in rows)
    write_whole(path, text.getvalue().encode())
    return path


def _format(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_text(board: Board) -> str:
    """The leaderboard for a terminal."""
    head = ["defense", "strength", "accuracy", "bound", "worst MSE", "SSIM", "FVU", "by", "flags"]
    lines = [head]
    for row in board.rows:
        strength = "" if row.strength is None else f"{row.strength:g}"
        if not row.accuracy or not row.worst_attack:
            why = f"{row.missing} trials missing" if row.missing else "no attack on one release"
            lines.append([row.defense, strength, why, *[""] * 6])
            continue
        bound = "" if row.bound is None else f"{row.bound:.1g}"
        cells = [_interval(row.accuracy, 3), bound, _interval(row.worst("mse"), 4)]
        cells += [_interval(row.worst("ssim"), 2), _interval(row.worst("fvu"), 2)]
        flags = " ".join(flag for flag in row.flags if flag != "randomized")
        missing = f" ({row.missing} trials missing)" if row.missing else ""
        lines.append([row.defense, strength, *cells, row.worst_attack, flags + missing])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([text[0], rule, *text[1:]])


def _interval(estimate: Estimate, digits: int) -> str:
    """``0.912 [0.895, 0.928]``, without leading zeros: ``.912 [.895, .928]``."""
    mean, low, high = (re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}") for value in estimate)
    return f"{mean} [{low}, {high}]"
