"""Several results folders read as one: a submission beside what it is compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from smashbench.bench.errors import BenchError
from smashbench.bench.store.record import Arrays, FinishedRecord, Record, agreed
from smashbench.bench.store.saved_suite import read_suite
from smashbench.bench.store.store import Store
from smashbench.bench.suite.config import AttackConfig, canonical
from smashbench.bench.suite.trial import Suite, Trial


class Stores(Store):
    """The records of several folders; a trial's are those of the first folder that has them, or of
    its home, if it is given one."""

    def __init__(self, folders: Sequence[Path], homes: Mapping[str, int]) -> None:
        super().__init__(folders[0])
        self._stores = [Store(folder) for folder in folders]
        self._homes = homes

    def read(self, key: str) -> Record | None:
        return self._home(key).read(key)

    def arrays_path(self, key: str, name: str) -> Path:
        return self._home(key).arrays_path(key, name)

    def arrays(self, record: FinishedRecord, name: str) -> Arrays:
        return self._home(record.key).arrays(record, name)

    def has_samples(self, record: FinishedRecord) -> bool:
        return self._home(record.key).has_samples(record)

    def home(self, key: str) -> int:
        """The number of the folder that a trial is read from."""
        if key in self._homes:
            return self._homes[key]
        name = self.record_name(key)
        there = [number for number, store in enumerate(self._stores) if store.has(name)]
        if len(there) < 2:
            return (there or [0])[0]
        return next((n for n in there if self._stores[n].finished(key)), there[0])

    def _home(self, key: str) -> Store:
        return self._stores[self.home(key)]


def merge(folders: Sequence[Path], *, newer: bool = False) -> tuple[Suite, Store]:
    """One suite of all folders, and a store of their records.

    A trial that several folders have counts once. Where folders give one name to different
    defenses or attacks, or to other options or trainings of one, those of later folders carry the
    folder's name. Every victim keeps the attacks of the folders it is in.

    Args:
        folders: the results folders.
        newer: a defense that a later folder has, too, has the rows of the last such folder alone:
            it was improved. Undefended rows and plain noise are those of all folders.

    Raises:
        BenchError: one is no results folder, or its data, or the metrics it was scored with,
            differ from those of the first.
    """
    suites = [read_suite(folder) for folder in folders]
    if len(folders) == 1:
        return suites[0], Store(folders[0])
    homes: dict[str, int] = {}
    _check_facts(folders, suites)
    if newer:
        suites, homes = _newest(folders, suites)
    trials = _under_own_names(folders, suites).values()
    name = " + ".join(dict.fromkeys(suite.name for suite in suites))
    victims = tuple(trial for trial in trials if trial.attack is None)
    attacks = tuple(trial for trial in trials if trial.attack)
    plugins = tuple(dict.fromkeys(plugin for suite in suites for plugin in suite.plugins))
    store = Stores(folders, homes)
    old = frozenset(t.key for t in trials if t.key in suites[store.home(t.key)].of_other_code)
    suite = Suite(
        name,
        suites[0].description,
        victims,
        attacks,
        plugins=plugins,
        of_other_code=old,
        otherwise=_trained_otherwise(suites),
    )
    return suite, store


def check_comparable(folders: Sequence[Path]) -> None:
    """Refuses results folders that cannot stand on one board; raises as ``merge`` does."""
    _check_facts(folders, [read_suite(folder) for folder in folders])


def _check_facts(folders: Sequence[Path], suites: Sequence[Suite]) -> None:
    """Refuses records of other data or metrics than those of the first folder."""
    ours = _facts(folders[0], suites[0])
    for folder, suite in zip(folders, suites, strict=True):
        for what, value in _facts(folder, suite).items():
            if ours.setdefault(what, value) != value:  # a metric may be of some of them alone
                raise BenchError(
                    f"{folder} is not comparable with {folders[0]}: its records have {what} "
                    f"{value} instead of {ours[what]}; report them apart, or `smashbench "
                    "rescore` both if only metrics differ"
                )


def _trained_otherwise(suites: Sequence[Suite]) -> frozenset[str]:
    """The victims of later folders whose network or training is not that of the first."""
    from smashbench.bench.suite.alike import differences  # here: one folder needs no PyTorch

    first = {trial.victim.defense.label: trial.victim for trial in suites[0].victims}.values()
    return frozenset(
        trial.key
        for suite in suites[1:]
        for trial in suite.victims
        if differences(trial.victim, first)
    )


def _under_own_names(folders: Sequence[Path], suites: Sequence[Suite]) -> dict[str, Trial]:
    """The trials of all suites by key; what means something else in an earlier folder carries the
    name of its own."""
    from smashbench.bench.suite.alike import sweep_of  # here: one folder needs no PyTorch

    meanings: dict[tuple[object, ...], str] = {}
    sort: tuple[object, ...]

    def own_name(name: str, sort: tuple[object, ...], meaning: str, folder: Path) -> str:
        """The name, or where it means something else already, with the folder's."""
        for label in (name, f"{name} ({folder.resolve().name})", f"{name} ({folder.resolve()})"):
            if meanings.setdefault((label, *sort), meaning) == meaning:
                return label
        raise BenchError(f"{folder}: {name!r} means several things in it; report it apart")

    trials: dict[str, Trial] = {}
    for folder, suite in zip(folders, suites, strict=True):
        for trial in suite.victims:
            defense = trial.victim.defense
            sort, meaning = ("defense",), sweep_of(trial.victim)
            if meaning is None:  # strengths are told apart one by one
                sort = ("defense", defense.strength)
                meaning = canonical(trial.victim.model_copy(update={"seed": 0}))
            label = own_name(defense.label, sort, meaning, folder)
            renamed = defense.model_copy(update={"label": label})
            config = trial.victim.model_copy(update={"defense": renamed})
            trials.setdefault(trial.key, Trial(trial.key, config, trial.parent))
        for trial in suite.attacks:
            assert trial.attack
            label = own_name(trial.attack.label, ("attack",), canonical(trial.attack), folder)
            attacking = AttackConfig(
                victim=trials[str(trial.parent)].victim,
                attack=trial.attack.model_copy(update={"label": label}),
                seed=trial.config.seed,
            )
            trials.setdefault(trial.key, Trial(trial.key, attacking, trial.parent))
    return trials


def _newest(folders: Sequence[Path], suites: list[Suite]) -> tuple[list[Suite], dict[str, int]]:
    """Suites without the defenses that a later folder has, too, and the folders, by number, that
    their trials are to be read from."""
    last: dict[str, int] = {}
    for number, (folder, suite) in enumerate(zip(folders, suites, strict=True)):
        store = Store(folder)
        for trial in suite.victims:
            record = store.victim(trial.key)
            if record and record.facts.role == "defense":
                last[trial.victim.defense.label] = number
    kept: list[Suite] = []
    homes: dict[str, int] = {}
    for number, suite in enumerate(suites):
        left = {t.key for t in suite.trials if last.get(t.victim.defense.label, number) == number}
        homes |= {
            t.key: number for t in suite.trials if t.key in left and t.victim.defense.label in last
        }
        victims, attacks = (
            tuple(trial for trial in some if trial.key in left)
            for some in (suite.victims, suite.attacks)
        )
        kept.append(replace(suite, victims=victims, attacks=attacks))
    return kept, homes


def _facts(folder: Path, suite: Suite) -> dict[str, str]:
    """What all records of a folder must share, with each other and with other folders.

    Raises:
        BenchError: they do not, or there is none.
    """
    store = Store(folder)
    records = [record for trial in suite.trials if (record := store.finished(trial.key))]
    if not records:
        raise BenchError(f"{folder} holds no finished trial; run the suite first")
    return agreed(records, f"the records of {folder}")
