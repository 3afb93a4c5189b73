"""How far a training is: all that it takes to go on after an interruption, to the last bit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from smashbench.bench.experiment.average import Average
from smashbench.bench.experiment.victim import Victim

State = dict[str, Any]
"""Tensors, numbers and texts, nested."""


class Keeper(NamedTuple):
    """Where the state of a training is kept.

    Args:
        load: the state that was kept last; None where there is none.
        save: keeps a state, whole or not at all.
    """

    load: Callable[[], State | None]
    save: Callable[[State], None]


NOWHERE = Keeper(lambda: None, lambda state: None)
"""For trainings that begin anew."""


def captured(
    victim: Victim,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    average: Average,
    history: list[dict[str, float]],
    seconds: float,
) -> State:
    """The state of a training at the end of an epoch, the random numbers' included."""
    state = {
        "victim": victim.state_dict(),
        "defense": victim.defense.progress(),
        "optimiser": optimiser.state_dict(),
        "schedule": schedule.state_dict(),
        "average": average.slow,
        "random": torch.get_rng_state(),
        "history": history,
        "seconds": seconds,
    }
    if torch.cuda.is_available():
        state["random_cuda"] = torch.cuda.get_rng_state()
    return state


def resumed(
    state: State,
    victim: Victim,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    average: Average,
) -> tuple[list[dict[str, float]], float]:
    """Puts everything where ``captured`` found it; returns history and seconds."""
    victim.load_state_dict(state["victim"])
    victim.defense.resume(state["defense"])
    optimiser.load_state_dict(state["optimiser"])
    schedule.load_state_dict(state["schedule"])
    average.slow = [slow.to(average.fast[0].device) for slow in state["average"]]
    torch.set_rng_state(state["random"].cpu())
    if "random_cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["random_cuda"].cpu())
    return state["history"], state["seconds"]
