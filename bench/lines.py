"""Lines of CSV: values to text, and a line of ``records.csv`` for every trial."""

import csv
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any

from bench.store import Record
from bench.trials import Trial

COLUMNS = (
    *("key", "victim", "defense", "strength", "seed", "attack", "attack_seed"),
    *("status", "error", "accuracy"),
)
METRICS = ("mse", "ssim", "psnr")
QUANTILES = ("mean", "std", "q05", "q25", "q50", "q75", "q95")
THREAT = ("knowledge", "aux_images", "aux_overlap", "noise_aware", "releases_per_image")
SECONDS = ("train", "fit", "reconstruct")
_KNOWN = itemgetter(*QUANTILES)
_NUMBERS = ",".join(["%.6g"] * len(METRICS) * len(QUANTILES))
_NO_NUMBERS = "," * _NUMBERS.count(",")


class _Echo:
    """A file for ``csv.writer`` that hands back what is written."""

    @staticmethod
    def write(text: str) -> str:
        return text


_WRITER = csv.writer(_Echo, lineterminator="\n")


def _field(value: Any) -> str:
    """A value as a field of CSV: numbers with six significant digits, nothing for what is
    missing."""
    if isinstance(value, float):
        return f"{value:.6g}" if value == value else ""
    return "" if value is None or value == "" else _quoted(value)


@lru_cache(maxsize=4096, typed=True)
def _quoted(value: str | bool | int) -> str:
    """Most values are those of the line before."""
    line: Any = _WRITER.writerow([value])
    return str(line).removesuffix("\n")


def joined(values: Iterable[Any]) -> str:
    """The values as one line of CSV."""
    return ",".join(map(_field, values)) + "\n"


def header() -> str:
    """The names of the columns of ``records.csv``."""
    scores = [f"{metric}_{name}" for metric in METRICS for name in QUANTILES]
    seconds = [f"{name}_seconds" for name in SECONDS]
    made = ("data_hash", "source", "device", "torch")
    return joined([*COLUMNS, *scores, *THREAT, "flags", *seconds, *made])


def line_of(trial: Trial, record: Record) -> str:
    """The line of a trial; what is missing has no status."""
    victim = trial.config["victim"] if trial.parent else trial.config
    defense, metrics = victim["defense"], record.get("metrics", {})
    threat, seconds = record.get("threat_model", {}), record.get("seconds", {})
    machine = record.get("machine", {})
    error = record.get("error")
    start = (
        *(defense["label"], defense["strength"], victim["seed"]),
        *(
            (trial.config["attack"]["label"], trial.config["seed"])
            if trial.parent
            else (None, None)
        ),
        *(record.get("status"), error and error.splitlines()[-1], metrics.get("accuracy")),
    )
    numbers = _NO_NUMBERS
    if "mse" in metrics:  # all at once: of a hundred thousand trials these are two million
        numbers = _NUMBERS % sum((_KNOWN(metrics[metric]) for metric in METRICS), ())
    end = (
        *map(threat.get, THREAT),
        " ".join(record.get("flags", ())),
        *map(seconds.get, SECONDS),
        *(record.get("data_hash"), record.get("source")),
        *(machine.get("device"), machine.get("torch")),
    )
    fields = trial.key, trial.parent or trial.key, *map(_field, start), numbers, *map(_field, end)
    return ",".join(fields) + "\n"
