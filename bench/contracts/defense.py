"""What a defense promises."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from math import isfinite
from typing import get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from smashbench.bench.contracts.base import Check, Subject, require
from smashbench.bench.experiment.make_victim import make_victim
from smashbench.bench.experiment.models.small import Small
from smashbench.bench.experiment.progress import Keeper, State
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.watch import WATCHED
from smashbench.bench.suite.options import options_of
from smashbench.datasets import Part, Split
from smashbench.defenses import Defense
from smashbench.defenses.base import Diagnostic, Role, Step, Transform

SHAPE, CLASSES, IMAGES = (8, 4, 4), 5, 30
LONGEST = 30
"""Characters in the name of a group, which legends show."""
EPOCHS = 8
"""So that what waits for some epochs has begun."""
AT_ONCE = {"warmup_epochs": 0, "shutoff_steps": 0}
"""Options that make a defense begin at once, where it has them."""


def _made(subject: Subject) -> Defense:
    return subject.made(SHAPE, CLASSES, options=AT_ONCE)


def _features() -> tuple[Tensor, Tensor]:
    return torch.rand(IMAGES, *SHAPE, requires_grad=True), torch.arange(IMAGES) % CLASSES


def _step(z: Tensor, y: Tensor, defense: Defense) -> Step:
    images = torch.rand(len(z), 3, 16, 16, requires_grad=defense.differentiates_images)
    return Step(images, y, z, defense)


def _strength(subject: Subject) -> None:
    knob, options = subject.component.strength, list(options_of(subject.component).model_fields)
    require(
        knob is None or knob in options,
        f"strength = {knob!r} is none of its options ({', '.join(options) or 'it has none'})",
    )
    roles = get_args(Role)
    require(subject.component.role in roles, f"role should be one of {', '.join(roles)}")
    group = subject.component.group
    require(
        isinstance(group, str) and 0 < len(group) <= LONGEST,
        f"group = {group!r} should be a text of at most {LONGEST} characters",
    )


def _releases(subject: Subject) -> None:
    defense, (z, _) = _made(subject), _features()
    for mode in (True, False):
        released = defense.train(mode)(z)
        require(
            released.shape == z.shape,
            f"transform makes {tuple(released.shape)} of features {tuple(z.shape)}; releases have "
            "the features' shape",
        )
        require(bool(released.isfinite().all()), "releases have values that are not finite")


def _alone(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    if defense.transform_is == "random":
        return
    together, alone = defense.transform(z)[:1], defense.transform(z[:1])
    require(
        torch.allclose(together, alone, rtol=1e-3, atol=1e-5),
        "the transform of an image depends on the other images of its batch, but a client has one "
        "image: compute statistics of training features in `refresh`, and keep them in buffers",
    )


def _again(step: Callable[[], Tensor]) -> Tensor:
    """What a step gives after the same seed as ever."""
    torch.manual_seed(3)
    return step()


def _separable(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    released = _again(lambda: defense(z))
    require(
        torch.equal(released, _again(lambda: defense.perturb(defense.transform(z)))),
        "a release is something else than perturb(transform(z)): override `transform` (what is "
        "done to features) and set `noise` (what is added to that), not `forward`",
    )
    kinds = get_args(Transform)
    found = defense.transform_is
    require(found in kinds, f"transform_is = {found!r} should be one of {', '.join(kinds)}")
    equal = torch.equal(defense.transform(z), defense.transform(z))
    require(
        (found == "random") != equal,
        f"two transforms of the same features are {'equal' if equal else 'different'}, but "
        f"`transform_is` is {found!r}",
    )
    residual = (defense(z) - defense.transform(z)).detach()
    if equal and defense.noise:
        spread = float(residual.std())
        require(
            abs(spread - defense.noise) < 0.1 * defense.noise,
            f"noise = {defense.noise:g}, but what is added to the transform has a standard "
            f"deviation of {spread:.3g}",
        )


def _random(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    equal = torch.equal(defense(z), defense(z))
    require(
        defense.randomized != equal,
        f"two releases of the same features are {'equal' if equal else 'different'}, but "
        f"`randomized` is {defense.randomized}: set `noise`, or `transform_is`",
    )
    require(
        torch.equal(_again(lambda: defense(z)), _again(lambda: defense(z))),
        "two releases after the same torch.manual_seed differ: draw from torch's generator",
    )


def _penalty(subject: Subject) -> None:
    defense, (z, y) = _made(subject), _features()
    seen: set[str] = set()
    for defense.epoch in range(EPOCHS):
        if defense.wants_refresh:
            defense.refresh(z.detach(), y)
        given = defense.train().penalty(_step(z, y, defense))
        require(
            isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Tensor),
            f"penalty gives {type(given).__name__}: should be a scalar tensor and a dictionary of "
            "diagnostics, e.g. return weight * variance, {}",
        )
        penalty, diagnostics = given
        require(
            penalty.shape == () and bool(penalty.isfinite()),
            f"penalty gives {penalty.detach()} in epoch {defense.epoch}, not one finite number",
        )
        for name, value in diagnostics.items():
            require(
                value.shape == () and not value.requires_grad,
                f"the diagnostic {name!r} should be a scalar tensor, detached",
            )
        seen |= diagnostics.keys()
    declared = subject.component.diagnostics
    require(
        seen == declared.keys(),
        f"penalty reports the diagnostics {sorted(seen)}, but declared are {sorted(declared)}",
    )
    for name, each in declared.items():
        fits = isinstance(each, Diagnostic) and re.fullmatch(r"[a-z][a-z0-9_]*", name)
        require(bool(fits), f"the diagnostic {name!r} should be declared as Diagnostic(label)")
        require(name not in WATCHED, f"the diagnostic {name!r} is watched already; rename it")


def _gradients(subject: Subject) -> None:
    defense, (z, y) = _made(subject), _features()
    defense.epoch = EPOCHS
    if defense.wants_refresh:
        defense.refresh(z.detach(), y)
    step = _step(z, y, defense.train())
    penalty, _ = defense.penalty(step)
    targets = defense.targets(y)
    require(
        targets.shape in ((IMAGES,), (IMAGES, CLASSES)),
        f"targets gives {tuple(targets.shape)}: should be classes (B,), or probabilities "
        "(B, classes)",
    )
    logits = step.released.flatten(1)[:, :CLASSES]
    (cross_entropy(logits, targets) + penalty).backward()
    require(
        z.grad is not None and bool(z.grad.isfinite().all()),
        "no finite gradient reaches the encoder through forward and penalty",
    )


def _payload(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    bits = defense.payload(defense(z).detach())
    require(
        isinstance(bits, int) and bits > 0, f"payload gives {bits!r}: should be bits for one image"
    )
    noise = defense.noise
    require(
        isinstance(noise, float | int) and noise >= 0 and isfinite(noise),
        f"noise = {noise!r} should be a standard deviation",
    )
    copy = deepcopy(defense)
    copy.load_state_dict(defense.state_dict())


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
    require(
        trained(kept[1]) == whole,
        "a training that is interrupted and goes on ends elsewhere: keep what it learns in "
        "parameters or buffers, or in `progress` and `resume`",
    )


DEFENSE = (
    Check("its strength is one of its options, its role is known", _strength),
    Check("releases have the features' shape and are finite", _releases),
    Check("a release is a transform of the features, and then noise", _separable),
    Check("the transform of an image depends on no other image", _alone),
    Check("it says whether releases are random, and seeds repeat them", _random),
    Check("the penalty is a number, its diagnostics are declared", _penalty),
    Check("gradients reach the encoder, targets fit the cross entropy", _gradients),
    Check("it says how many bits are sent, and can be copied", _payload),
    Check("a victim trains with it, repeats, and can be stored", _trains),
    Check("an interrupted training goes on as if nothing had happened", _goes_on),
)
