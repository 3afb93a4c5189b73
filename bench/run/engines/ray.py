"""Tasks on a Ray cluster: the one RAY_ADDRESS names, else one started on this machine.

Every node must see the checkout and the results folder under the same paths.
"""

import logging
import time
from typing import Any

from smashbench.bench.errors import BenchError, unknown
from smashbench.bench.processes import environment
from smashbench.bench.run.attempt import Outcome
from smashbench.bench.run.engines.base import Engine, RunOptions, Work
from smashbench.bench.suite.trial import Trial

AT_ONCE = 1000
"""Tasks given to Ray at once, unless told otherwise."""
RESOURCES = ("num_cpus", "num_gpus", "memory")


class Ray(Engine):
    """One Ray task per trial; resources: num_cpus (1 unless told), num_gpus, memory (bytes)."""

    def __init__(self, work: Work, options: RunOptions) -> None:
        super().__init__(work, options)
        try:
            import ray
        except ImportError:
            raise BenchError("--engine ray needs Ray: pip install 'ray>=2.40'") from None
        needs = _numbers(options)
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        try:
            _check(needs, [node for node in ray.nodes() if node["Alive"]])
        except BenchError:
            ray.shutdown()
            raise
        inherited = {"env_vars": environment()}

        def attempt(trial: Trial) -> Outcome:
            return work(trial)

        self._attempt = ray.remote(attempt).options(max_retries=0, runtime_env=inherited, **needs)
        self._running: dict[Any, Trial] = {}

    @property
    def workers(self) -> int:
        return self.options.workers or AT_ONCE

    def submit(self, trial: Trial) -> None:
        self._running[self._attempt.remote(trial)] = trial

    def wait(self, seconds: float) -> list[tuple[Trial, Outcome]]:
        import ray

        if not self._running:
            time.sleep(seconds)
            return []
        ended, _ = ray.wait(list(self._running), timeout=seconds)
        return [(self._running.pop(task), _outcome(task)) for task in ended]

    def close(self) -> None:
        """Ends what runs and leaves the cluster."""
        import ray

        for task in self._running:
            ray.cancel(task, force=True)
        ray.shutdown()


def _outcome(task: Any) -> Outcome:
    import ray

    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        return Outcome("lost", " ".join(str(error).split()))


def _numbers(options: RunOptions) -> dict[str, float]:
    needs = {"num_cpus": 1.0}
    for name, value in options.resources.items():
        if name not in RESOURCES:
            raise BenchError(f"--resource {name}: {unknown('resource', name, RESOURCES)}")
        try:
            needs[name] = float(value)
        except ValueError:
            raise BenchError(f"--resource {name}={value}: should be a number") from None
    return needs


def _check(needs: dict[str, float], nodes: list[dict[str, Any]]) -> None:
    """Refuses what no node could ever give: Ray itself would wait for it without end."""
    theirs = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    offers = [
        {name: node["Resources"].get(theirs[name], 0.0) for name in RESOURCES} for node in nodes
    ]
    if not any(all(offer[name] >= need for name, need in needs.items()) for offer in offers):
        asked = ", ".join(f"{name}={need:.12g}" for name, need in needs.items())
        there = "; ".join(
            ", ".join(f"{name}={value:.12g}" for name, value in offer.items()) for offer in offers
        )
        raise BenchError(f"no node of the cluster can run a trial with {asked}; there is: {there}")
