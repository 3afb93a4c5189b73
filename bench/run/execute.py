"""Running a suite, or a part of it."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.run.attempt import Outcome, attempt, log_size, lost
from smashbench.bench.run.engines import ENGINES, RunOptions
from smashbench.bench.run.engines.base import Work
from smashbench.bench.run.engines.local import Local
from smashbench.bench.run.estimates import Estimates
from smashbench.bench.run.progress import Progress
from smashbench.bench.run.scheduler import TICK, Scheduler
from smashbench.bench.run.selection import choose, selection
from smashbench.bench.run.survey import Standing, left_behind, mend, standing_of, survey
from smashbench.bench.store.files import DamagedError, stamp_of
from smashbench.bench.store.saved_suite import (
    check_folder,
    keep_sources,
    left_out_of,
    read_suite,
    save_suite,
)
from smashbench.bench.store.store import Store
from smashbench.bench.suite.plugins import plugin_options
from smashbench.bench.suite.trial import Suite, Trial
from smashbench.datasets import DATASETS, DatasetError, Split


def execute(
    suite: Suite,
    options: RunOptions,
    *,
    only: Sequence[str] = (),
    failed: bool = False,
    limit: int | None = None,
) -> int:
    """Runs what is not done; ``only``, ``failed``, ``limit`` as in ``selection.choose``.

    What is damaged is named on standard error, set aside and done again. Returns how many trials
    failed.

    Raises:
        BenchError, DatasetError: something a person must change first; what is finished stays.
    """
    wanted = selection(suite, only)
    images = _check_data(suite, options)
    check_folder(suite, options.folder)
    standings = _standings(suite, options)
    _check_images(suite, options, images)
    chosen = choose(suite, standings, only=wanted, failed=failed, limit=limit)
    old, left_out = _of_other_code(standings), left_out_of(suite, options.folder)
    _save(suite, options, old, wanted=options.keep_outdated)  # or a clear error, now
    if left_out:
        print(left_out, file=sys.stderr)
    if not chosen:
        asked = "all that was asked for is" if only or failed else "all trials are"
        print(f"nothing to do: {asked} done in {options.folder}")
    if options.engine == "local":
        _say_if_slow(chosen)
    trained = any(trial.attack is None for trial in chosen)
    store, keep = Store(options.folder), options.keep_outdated
    try:
        failures = _run(suite, chosen, options, standings) if chosen else 0
        if trained and limit is None and (left := left_behind(suite, standings, store, keep=keep)):
            print(
                f"{len(left)} finished trials are done again: their victims had to be trained "
                "again, and have other weights on this machine, or are run by other code",
                file=sys.stderr,
            )
            failures += _run(suite, left, options, standings)
    finally:  # what was done again, however this ended, is of other code no more
        if old:
            now = survey(suite, store, keep=keep)
            _save(suite, options, _of_other_code(now), wanted=keep)
    return failures


def _say_if_slow(trials: Sequence[Trial]) -> None:
    """Where trainings in bf16 take ten times as long as in float32, a person should know."""
    import torch

    precisions = {trial.victim.training.precision for trial in trials if trial.attack is None}
    slow = torch.backends.mkldnn.is_available() and not torch.cuda.is_available()
    if "bf16" in precisions and slow and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print(
            "trainings of this suite are in bf16, which is about ten times as slow as float32 on "
            "this processor: --set training.precision=fp32 makes other trainings, in float32",
            file=sys.stderr,
        )


def rescore(suite: Suite, options: RunOptions) -> tuple[str, int]:
    """Measures again what was measured by other metrics than the present ones and is still there:
    reconstructions are scored, victims are encoded; nothing is trained or attacked. Returns how
    many trials that were, in words, and how many could not be, or are not there any more.

    Raises:
        BenchError, DatasetError: something a person must change first; records stay as they are.
    """
    images = _check_data(suite, options)
    keep_sources(suite, options.folder)  # workers load them from there
    standings = _standings(suite, options)
    _check_images(suite, options, images)
    chosen = [trial for trial in suite.trials if standings[trial.key].state == "unscored"]
    left = _run(suite, chosen, options, standings) if chosen else 0
    _save(suite, options, _of_other_code(standings), wanted=False)  # its metrics have worked
    text = f"{len(chosen) - left} of {len(suite.trials)} trials measured again"
    if kept := sum(standing.state == "kept" for standing in standings.values()):
        again = f"smashbench rerun {options.folder}{plugin_options(suite, options.folder)}"
        text += f"; {kept} are kept as they are, because their code has changed or what they made "
        text += f"is gone: {again} makes them anew"
    if gone := sum(standing.lacking for standing in standings.values()):
        text += f"; {gone} lack a metric, and what they made is not here to be measured by it"
    return text, left + gone


def _check_data(suite: Suite, options: RunOptions) -> str:
    """Loads the images: where that cannot be done, an attack asks for more of them than there are,
    or a training would move them out of sight, nothing else is begun. Returns their hash."""
    dataset = suite.victims[0].victim.dataset
    try:
        split = DATASETS[dataset.name](**dataset.options).load(options.data)
    except (BenchError, DatasetError):
        raise
    except Exception as error:  # whatever a data set of somebody's own raises
        what = f"the data set {dataset.name!r} cannot be loaded"
        raise BenchError(f"{what}: {type(error).__name__}: {error}") from error
    if not isinstance(split, Split):
        what = f"the data set {dataset.name!r} loads {type(split).__name__}"
        raise BenchError(f"{what}, not a Split: `smashbench check` tests a plug-in's")
    known, side = len(split.aux.x), min(split.shape[1:])
    for victim in (trial.victim for trial in suite.victims):
        for table, training in (("training", victim.training), ("start", victim.start)):
            if training and training.shift >= side:
                raise BenchError(
                    f"{table}.shift = {training.shift}: images have {side} pixels; give less"
                )
    for each in (trial.attack for trial in suite.attacks):
        if each and each.pairs and each.pairs > known:
            raise BenchError(
                f"attacks.{each.label}.pairs = {each.pairs}: the attacker has {known} images; give "
                "fewer"
            )
    return split.hash


def _check_images(suite: Suite, options: RunOptions, images: str) -> None:
    """Refuses images with this hash where finished victims of the present code are of others: no
    report could show both.

    Raises:
        BenchError: says what to do.
    """
    from smashbench.bench.suite.source import source_of  # imports PyTorch

    store = Store(options.folder)
    for trial in suite.victims:
        record = None
        with suppress(DamagedError):
            record = store.finished(trial.key)
        if record and record.source == source_of(trial) and record.data_hash != images:
            raise BenchError(
                f"the images are not those that {options.folder} was made from ({images} and "
                f"{record.data_hash}): put these back, or start anew with another --out"
            )


def _standings(suite: Suite, options: RunOptions) -> dict[str, Standing]:
    """The standing of every trial, after what is damaged was named and set aside."""
    standings, damages = mend(suite, Store(options.folder), keep=options.keep_outdated)
    for damage in damages:
        print(f"{damage.path}: {damage.reason}; set aside, to be redone", file=sys.stderr)
    return standings


def _of_other_code(standings: Mapping[str, Standing]) -> frozenset[str]:
    """The keys of what other code made."""
    return frozenset(k for k, each in standings.items() if each.state in ("kept", "outdated"))


def _save(suite: Suite, options: RunOptions, old: frozenset[str], *, wanted: bool) -> None:
    """Saves the suite with what other code made, and which of that is kept on request, of this run
    or of an earlier one."""
    kept = old if wanted else old & suite.kept
    save_suite(replace(suite, of_other_code=old, kept=kept), options.folder)


def _run(
    suite: Suite, chosen: list[Trial], options: RunOptions, standings: Mapping[str, Standing]
) -> int:
    work = _work(suite, options, standings)
    again = {trial.key for trial in chosen if standings[trial.key].state == "unscored"}
    timed = standings
    if len(again) == len(chosen):  # how long training took says nothing about how long this takes
        timed = {trial.key: Standing("missing") for trial in suite.trials}
    estimates = Estimates(suite.trials, timed, suite.core_minutes)
    now = {trial.key for trial in chosen}
    done = sum(each.state == "done" for key, each in standings.items() if key not in now)
    with closing(ENGINES[options.engine](work, options)) as engine:
        scheduler = Scheduler(chosen, Store(options.folder), engine, estimates, again)
        with closing(Progress(done + len(chosen), done, engine.workers)) as progress:
            scheduler.run(progress)
    if scheduler.failed:
        print(f"{scheduler.failed} trials failed: smashbench status {options.folder} says why")
    if scheduler.unscored:
        print(
            f"{scheduler.unscored} trials could not be measured again and are as they were: mend "
            "the metric, or leave out its --plugin",
            file=sys.stderr,
        )
    return scheduler.failed + scheduler.unscored


def _work(suite: Suite, options: RunOptions, standings: Mapping[str, Standing]) -> Work:
    """What every worker does with a trial."""
    from smashbench.bench.suite.source import source_of  # imports PyTorch

    store = Store(options.folder)
    failed = [key for key, each in standings.items() if each.state in ("failed", "left_out")]
    stamps = {key: stamp_of(store.record_path(key)) for key in failed}
    return partial(
        attempt,
        folder=options.folder,
        data=options.data,
        minutes=options.minutes,
        failures={key: stamp for key, stamp in stamps.items() if stamp},
        keep=options.keep_outdated,
        plugins=tuple(options.folder / each.stored_at for each in suite.plugins if each.is_file),
        sources=frozenset(filter(None, map(source_of, suite.trials))),
    )


def run_single(suite: Suite, keys: Sequence[str], options: RunOptions) -> int:
    """Attempts the trials with these keys, victims first, in one process beside this one, which
    writes down how it was lost; waits where another process is at one.

    Returns how many failed.

    Raises:
        BenchError, DatasetError: something a person must change first.
    """
    failures = 0
    store = Store(options.folder)
    trials = [trial for trial in suite.trials if trial.key in keys]
    standings = {trial.key: standing_of(trial, store) for trial in trials}
    _check_images(suite, options, _check_data(suite, options))
    with closing(Local(_work(suite, options, standings), options)) as engine:
        for trial in trials:
            outcome = Outcome("busy")
            while outcome.state == "busy":
                log = log_size(trial, store)
                engine.submit(trial)
                while not (ended := engine.wait(TICK)):
                    pass
                outcome = ended[0][1]
                if outcome.state == "lost":
                    outcome = lost(trial, store, outcome.text, since=log)
                if outcome.state == "busy":
                    time.sleep(TICK)
            if outcome.state == "stop":
                raise BenchError(outcome.text)
            print(f"{outcome.state}: {trial.label}", *outcome.text.splitlines()[-1:], sep="  ")
            failures += outcome.state in ("failed", "unscored")
    _no_longer_old(trials, store)
    return failures


def _no_longer_old(trials: Sequence[Trial], store: Store) -> None:
    """Takes what was done again by the present code off the folder's list of what was not."""
    saved = read_suite(store.folder)
    listed = [trial for trial in trials if trial.key in saved.of_other_code]
    new = {t.key for t in listed if standing_of(t, store).state not in ("kept", "outdated")}
    if new:
        old, kept = saved.of_other_code - new, saved.kept - new
        save_suite(replace(saved, of_other_code=old, kept=kept), store.folder)


def check_keys(suite: Suite, keys: Sequence[str]) -> None:
    """Raises BenchError for a key that is no trial of the suite."""
    known = {trial.key for trial in suite.trials}
    for key in keys:
        if key not in known:
            raise BenchError(unknown("trial", key, known))
