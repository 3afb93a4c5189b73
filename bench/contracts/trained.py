"""What a defense promises of the trainings that it is part of."""

from copy import deepcopy
from functools import partial
from math import isfinite

import torch

from smashbench.bench.contracts.base import BrokenError, Check, Subject, require
from smashbench.bench.experiment.make_victim import make_victim
from smashbench.bench.experiment.models.small import Small
from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.suite.options import place_in
from smashbench.datasets import Part, Split

CLASSES = 5
AT_ONCE = {"warmup_epochs": 0, "shutoff_steps": 0}
"""Options that make a defense begin at once, where it has them."""


def _images() -> Split:
    parts = {
        name: Part(torch.rand(n, 3, 16, 16), torch.arange(n) % CLASSES)
        for name, n in (("train", 60), ("val", 20), ("aux", 20), ("test", 20))
    }
    return Split.build(parts, CLASSES)


def _trains(subject: Subject) -> None:
    """Twice, from one seed: the same victim, whose weights can be stored."""
    split, made = _images(), []
    for _ in range(2):
        torch.manual_seed(5)
        victim = Victim(Small(), subject.component, split.shape, CLASSES)
        training = Training(epochs=2, batch_size=30, precision="fp32")
        results = make_victim(victim, split, training, 0).results
        require(isfinite(results.history[-1]["loss"] or 0), "a victim's loss is not finite")
        made.append((victim.weights(), results))
    require(made[0] == made[1], "two victims trained from one seed differ")
    require(
        bool(torch.isfinite(victim.release(split.test.x)).all()),
        "a victim that was trained with it releases values that are not finite",
    )
    again = Victim(Small(), subject.component, split.shape, CLASSES)
    again.restore(made[0][0])
    torch.manual_seed(6)
    ours = victim.release(split.test.x)
    torch.manual_seed(6)
    require(
        torch.allclose(ours, again.release(split.test.x), atol=1e-5),
        "a victim restored from its weights releases something else: keep what it learns in "
        "parameters or buffers",
    )


def _trains_in_bf16(subject: Subject) -> None:
    """As suites train where they do not say otherwise."""
    split = _images()
    victim = Victim(Small(), subject.component, split.shape, CLASSES)
    training = Training(epochs=2, batch_size=30, precision="bf16")
    try:
        results = make_victim(victim, split, training, 0).results
    except RuntimeError as error:
        raise BrokenError(
            f"{type(error).__name__}: {error}{place_in(subject.component, error)}. In a training "
            "matrix products and convolutions give bfloat16 by default: cast what they give, e.g. "
            "to z.dtype, or compute under smashbench.defenses.base.full_precision(z)"
        ) from error
    require(isfinite(results.history[-1]["loss"] or 0), "a victim's loss is not finite in bf16")


def _goes_on(subject: Subject) -> None:
    """A training that ends after its second epoch goes on from what was kept, in a new victim."""
    split, kept = _images(), []
    early = partial(subject.made, options=dict.fromkeys(AT_ONCE, 1))
    training = Training(epochs=4, batch_size=30, precision="fp32")

    def trained(load: State | None) -> tuple[bytes, list[dict[str, float]]]:
        torch.manual_seed(5)
        victim = Victim(Small(), early, split.shape, CLASSES)
        keeper = Keeper(lambda: load, lambda state: kept.append(deepcopy(state)))
        history = train(victim, split, training, keeper).history
        return victim.weights(), history

    whole = trained(None)
    require(isfinite(whole[1][-1]["loss"]), "a victim's loss is not finite")
    require(
        trained(kept[1]) == whole,
        "a training that is interrupted and goes on ends elsewhere: keep what it learns in "
        "parameters or buffers, or in `progress` and `resume`",
    )


TRAINED = (
    Check("a victim trains with it, repeats, and can be stored", _trains),
    Check("a victim trains with it in bf16, too", _trains_in_bf16),
    Check("an interrupted training goes on as if nothing had happened", _goes_on),
)
