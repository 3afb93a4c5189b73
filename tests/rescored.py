"""Small runs that are measured again."""

from pathlib import Path

from smashbench.bench.run.attempt import attempt
from smashbench.bench.run.survey import survey
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Suite
from tests.plugged import METRIC, plug

TINY = (
    "dataset={use='photos',train=100,val=20,aux=100,test=40}",
    "training.epochs=1",
    "seeds=[0]",
    "defenses={none={},noise={strengths=[0.3]}}",
    "attacks={mean={},gmm={components=[2],draws=1}}",
)


def again(suite: Suite, folder: Path, *, keep: bool = False) -> None:
    for trial in suite.trials:
        done = attempt(trial, folder=folder, data=None, minutes=5, keep=keep)
        assert done.state == "done", done


def states(suite: Suite, folder: Path, **options) -> list[str]:
    found = survey(suite, Store(folder), deep=True, **options)
    return [found[trial.key].state for trial in suite.trials]


def metric(tmp_path: Path, source: str = METRIC) -> None:
    path = tmp_path / "mae.py"
    path.write_text(source)
    plug([path])
