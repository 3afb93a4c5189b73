"""Lines of CSV: values to text, and a line of ``records.csv`` for every trial."""

import csv
from collections.abc import Iterable
from typing import Any

from bench.store import Record
from bench.trials import Trial

QUANTILES = ("mean", "std", "q05", "q25", "q50", "q75", "q95")


def text_of(value: Any) -> str:
    """A value in a table, with six significant digits; what is missing is an empty field."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(value) if isinstance(value, list) else str(value)


class _Echo:
    """A file for ``csv.writer`` that hands back what is written."""

    @staticmethod
    def write(text: str) -> str:
        return text


_WRITER = csv.writer(_Echo, lineterminator="\n")


def joined(values: Iterable[Any]) -> str:
    """The values as one line of CSV."""
    line: Any = _WRITER.writerow([text_of(value) for value in values])
    return str(line)


def line_of(trial: Trial, record: Record) -> str:
    """The line of a trial; what is missing has no status."""
    return joined(_values(trial, record).values())


def header(trial: Trial) -> str:
    """The names of the columns, the same for every trial."""
    return joined(_values(trial, {}))


def _values(trial: Trial, record: Record) -> dict[str, Any]:
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
        known = metrics.get(metric, {})
        line |= {f"{metric}_{name}": known.get(name) for name in QUANTILES}
    threat, seconds = record.get("threat_model", {}), record.get("seconds", {})
    names = ("knowledge", "aux_images", "aux_overlap", "noise_aware", "releases_per_image")
    return line | {
        **{name: threat.get(name) for name in names},
        "flags": record.get("flags"),
        **{f"{name}_seconds": seconds.get(name) for name in ("train", "fit", "reconstruct")},
        "data_hash": record.get("data_hash"),
        "source": record.get("source"),
        "device": record.get("machine", {}).get("device"),
        "torch": record.get("machine", {}).get("torch"),
    }
