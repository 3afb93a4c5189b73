"""Runs trials on an engine: whole rows as long as there are many, then the longest first."""

import time
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from heapq import heappop, heappush

from smashbench.bench.errors import BenchError
from smashbench.bench.run.attempt import Outcome, failure, log_size, lost
from smashbench.bench.run.engines import Engine
from smashbench.bench.run.estimates import Estimates, group_of
from smashbench.bench.run.progress import Progress
from smashbench.bench.run.survey import SETTLED, standing_of
from smashbench.bench.store.failures import write_failure
from smashbench.bench.store.store import Store
from smashbench.bench.suite.trial import Trial

TICK = 1.0
"""Seconds between two looks at what other runs do, and between two drawings."""

Ready = tuple[float, int, int, Trial]
"""A trial that can start, behind what it is sorted by: rank, its victim's place in the suite, its
own."""


class Scheduler:
    """The trials of a run and where each of them is.

    Args:
        trials: what to run; where an attack's victim is not among them, it is trained.
        store: where the records go.
        engine: runs them.
        estimates: how long they take, improved on the way.
        rescored: keys of trials that are only to be measured again, and need no victim.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        store: Store,
        engine: Engine,
        estimates: Estimates,
        rescored: Container[str] = (),
    ) -> None:
        self.store, self.engine, self.estimates = store, engine, estimates
        self.keep = engine.options.keep_outdated
        self.failed = 0
        self.unscored = 0
        """Trials that could not be measured again."""
        self._order = {trial.key: number for number, trial in enumerate(trials)}
        self._left = {trial.key: trial for trial in trials}
        self._victims: list[Ready] = []
        self._attacks: list[Ready] = []
        """On victims that are trained."""
        self._groups = Counter(map(group_of, trials))
        """How many of each group are left."""
        self._running: dict[str, tuple[float, int]] = {}
        """When each began, and where its log does."""
        self._elsewhere: list[Trial] = []
        """Trials that another run is at."""
        self._timed = {t.key for t in trials if t.key not in rescored} or set(self._left)
        """Trials whose seconds are learned from: if some are run, how long it takes to measure
        others again says nothing of them."""
        self._waiting: defaultdict[str, list[Trial]] = defaultdict(list)
        """Trials by the key of the victim that they need."""
        ready = []
        for trial in trials:
            if trial.parent in self._left and trial.key not in rescored:
                self._waiting[trial.parent].append(trial)
            else:
                ready.append(trial)
        for trial in ready:  # whose rank is that of the longest that waits for it
            self._queue(trial)

    def run(self, progress: Progress) -> None:
        """Runs all trials; one that fails becomes a record with its cause, and its attacks too.

        Raises:
            BenchError: something a person must change before the rest can run.
        """
        while self._left:
            while (trial := self._next()) is not None:
                log = log_size(trial, self.store)
                self.engine.submit(trial)
                self._running[trial.key] = time.monotonic(), log
            self._show(progress)
            for trial, outcome in self.engine.wait(TICK):
                self._settle(trial, outcome, progress)
            self._look_elsewhere(progress)

    def _next(self) -> Trial | None:
        """What starts next, if a worker is free: the longest of all that can start. But as long as
        more victims wait than there are workers, attacks on those that are trained go first:
        whatever ends a long run leaves whole rows."""
        victims, attacks, workers = self._victims, self._attacks, self.engine.workers
        if not (victims or attacks) or len(self._running) >= workers:
            return None
        if attacks and (len(victims) > workers or not victims or attacks[0] < victims[0]):
            return heappop(attacks)[-1]
        return heappop(victims)[-1]

    def _queue(self, trial: Trial) -> None:
        after = self._waiting.get(trial.key, [])
        rank = min(map(self.estimates.rank, [trial, *after]))
        order = self._order[trial.key]
        entry = rank, self._order.get(str(trial.parent), order), order, trial
        heappush(self._attacks if trial.attack else self._victims, entry)

    def _settle(self, trial: Trial, outcome: Outcome, progress: Progress) -> None:
        _, log = self._running.pop(trial.key)
        if outcome.state == "lost":
            outcome = lost(trial, self.store, outcome.text, since=log, keep=self.keep)
        state, text, seconds = outcome
        if state == "stop":
            raise BenchError(text)
        if state == "busy":
            self._elsewhere.append(trial)
        elif state == "unscored":
            progress.say(text)
            self.unscored += 1
            self._give_up(trial, progress)
        elif state == "done":
            if seconds is not None and trial.key in self._timed:
                self.estimates.observe(trial, seconds)
            self._finish(trial, progress)
        else:
            self._fail(trial, text, progress)

    def _finish(self, trial: Trial, progress: Progress) -> None:
        self._drop(trial, progress)
        for attack in self._waiting.pop(trial.key, []):
            self._queue(attack)

    def _fail(self, trial: Trial, cause: str, progress: Progress) -> None:
        short = (cause.splitlines() or ["no cause given"])[-1]
        progress.say(f"failed: {trial.label}: {short}")
        fallen = self._give_up(trial, progress)
        for each in fallen:
            with self.store.claim(each.key) as ours:
                if ours:
                    why = f"its victim {trial.key} failed: {short}"
                    write_failure(self.store, failure(each, why))
        self.failed += 1 + len(fallen)

    def _give_up(self, trial: Trial, progress: Progress) -> list[Trial]:
        """Drops a trial and what needs it; returns the latter."""
        fallen = [trial]
        for each in fallen:  # grows by what needs it
            fallen += self._waiting.pop(each.key, [])
        for each in fallen:
            self._drop(each, progress)
        return fallen[1:]

    def _drop(self, trial: Trial, progress: Progress) -> None:
        del self._left[trial.key]
        self._groups[group_of(trial)] -= 1
        progress.advance()

    def _look_elsewhere(self, progress: Progress) -> None:
        """What another run was at is done, or may be tried again."""
        held, self._elsewhere = self._elsewhere, []
        for trial in held:
            if standing_of(trial, self.store, keep=self.keep).state in SETTLED:
                self._finish(trial, progress)
            elif self.store.claimed(trial.key):
                self._elsewhere.append(trial)
            else:
                self._queue(trial)

    def _show(self, progress: Progress) -> None:
        now = time.monotonic()
        running = [
            (self._left[key].label, now - started, self.estimates.of(group_of(self._left[key])))
            for key, (started, _) in self._running.items()
        ]
        left = self.estimates.total(self._groups, self.engine.workers)
        progress.show(running, left)
