"""How long trials take, learned from those that are done."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, log2
from statistics import fmean

from smashbench.bench.run.survey import Standing
from smashbench.bench.suite.trial import Trial

PRIOR = {"victim": 3, "trained": 3, "closed_form": 2, "floor": 1}
"""Order of the kinds of work, longest first, as long as nothing has been timed."""
BRIEF = 2.0
"""Seconds under which it is not worth ordering trials by their length."""

Group = tuple[str, ...]


class Estimates:
    """Seconds that trials take, learned from those that are done.

    Args:
        trials: all of a suite.
        standings: of every trial.
        core_minutes: what all of them take of one core, as long as nothing has been timed.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        standings: Mapping[str, Standing],
        core_minutes: float | None = None,
    ) -> None:
        self._typical = core_minutes and 60 * core_minutes / len(trials)
        self._seconds: defaultdict[Group, list[float]] = defaultdict(list)
        for trial in trials:
            if (seconds := standings[trial.key].seconds) is not None:
                self.observe(trial, seconds)

    def observe(self, trial: Trial, seconds: float) -> None:
        group = group_of(trial)
        for known in (group, group[:1]):
            self._seconds[known].append(seconds)

    def of(self, group: Group) -> float | None:
        """The mean over a ``group_of`` trials, else over all defenses or all attacks; None
        before one was timed."""
        for known in (group, group[:1]):
            if seen := self._seconds[known]:
                return fmean(seen)
        return None

    def total(self, groups: Mapping[Group, int], workers: int) -> float | None:
        """Seconds that ``workers`` need for so many trials of each group; None where there is
        nothing to go by."""
        each = {group: self.of(group) or self._typical for group, count in groups.items() if count}
        known = {group: seconds for group, seconds in each.items() if seconds is not None}
        if len(known) < len(each):
            return None
        work = sum(seconds * groups[group] for group, seconds in known.items())
        return max([work / workers, *known.values()])

    def rank(self, trial: Trial) -> float:
        """Sorts trials by their length, longest first, in steps of a factor of two; brief ones
        are alike."""
        seconds = self.of(group_of(trial))
        if seconds is None:
            from smashbench.attacks import ATTACKS

            kind = ATTACKS[trial.attack.name].kind if trial.attack else "victim"
            return -1000 * PRIOR[kind]
        return -ceil(log2(max(seconds, BRIEF)))


def group_of(trial: Trial) -> Group:
    """Trials that take alike: those of one defense, or of one attack."""
    if trial.attack:
        return ("attack", trial.attack.label)
    return ("defense", trial.defense_label)
