"""A line of ``records.csv`` for every trial, whatever became of it."""

from typing import Any

from smashbench.bench.experiment.metrics import METRICS, Collective
from smashbench.bench.experiment.results import QUANTILES
from smashbench.bench.store.record import AttackRecord, Record, VictimRecord
from smashbench.bench.suite.trial import Trial

THREAT = ("knowledge", "aux_images", "aux_overlap", "noise_aware", "releases_per_image")
STATISTICS = ("mean", "std", *(f"q{round(100 * q):02d}" for q in QUANTILES))


def record_line(trial: Trial, record: Record | None) -> dict[str, Any]:
    """The line of a trial; what is missing has no status."""
    line: dict[str, Any] = {
        "key": trial.key,
        "victim": trial.parent if trial.attack else trial.key,
        "defense": trial.defense_label,
        "strength": trial.victim.defense.strength,
        "seed": trial.victim.seed,
        "attack": trial.attack.label if trial.attack else None,
        "attack_seed": trial.config.seed if trial.attack else None,
        "status": record.status if record else None,
        "error": _text(record.cause) if record and record.status == "failed" else None,
        "accuracy": record.metrics.accuracy if isinstance(record, VictimRecord) else None,
    }
    attacked = record if isinstance(record, AttackRecord) else None
    for name in (
        name for name, m in METRICS.items() if not (m.linear or isinstance(m, Collective))
    ):
        known = vars(attacked.metrics[name]) if attacked and name in attacked.metrics else {}
        line |= {f"{name}_{each}": known.get(each) for each in STATISTICS}
    for name in (name for name, metric in METRICS.items() if isinstance(metric, Collective)):
        line[f"{name}_mean"] = attacked.means.get(name) if attacked else None
    for name in THREAT:
        line[name] = getattr(attacked.threat_model, name) if attacked else None
    line["flags"] = " ".join(attacked.flags) if attacked else None
    finished = record if record and record.status == "ok" else None
    for name in ("train", "fit", "reconstruct"):
        line[f"{name}_seconds"] = getattr(finished.seconds, name, None) if finished else None
    line["data_hash"] = finished.data_hash if finished else None
    line["source"] = finished.source if finished else None
    for name in ("device", "torch"):
        line[name] = _text(finished.machine.get(name, "")) or None if finished else None
    return line


def _text(free: str) -> str:
    """Free text of somebody's record, so that no spreadsheet takes it for a formula."""
    return f"'{free}" if free[:1] in tuple("=+-@") else free
