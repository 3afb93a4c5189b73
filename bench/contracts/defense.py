"""What a defense promises."""

import re
from collections.abc import Callable
from copy import deepcopy
from math import isfinite
from typing import get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from smashbench.bench.contracts.base import Check, Subject, require
from smashbench.bench.contracts.trained import AT_ONCE, CLASSES, TRAINED
from smashbench.bench.experiment.watch import WATCHED
from smashbench.bench.suite.options import options_of
from smashbench.defenses import Defense
from smashbench.defenses.base import Diagnostic, Role, Step, Transform

SHAPE, IMAGES = (8, 4, 4), 30
LONGEST = 30
"""Characters in the name of a group, which legends show."""
EPOCHS = 8
"""So that what waits for some epochs has begun."""
SMALL, PROBES = 1e-3, 8
"""Half a difference of features, and directions that it is taken in."""


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
        torch.allclose(together, alone, rtol=1e-3, atol=1e-5, equal_nan=True),
        "the transform of an image depends on the other images of its batch, but a client has one "
        "image: compute statistics of training features in `refresh`, and keep them in buffers",
    )


def _equal(one: Tensor, other: Tensor) -> bool:
    """To the last bit; what is not a number is refused elsewhere."""
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _again(step: Callable[[], Tensor]) -> Tensor:
    """What a step gives after the same seed as ever."""
    torch.manual_seed(3)
    return step()


def _separable(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    released = _again(lambda: defense(z))
    if not _equal(released, _again(lambda: defense(z))):
        return  # with another generator than torch's, which the next promise says
    require(
        _equal(released, _again(lambda: defense.perturb(defense.transform(z)))),
        "a release is something else than perturb(transform(z)): override `transform` (what is "
        "done to features) and set `noise` (what is added to that), not `forward`",
    )
    kinds = get_args(Transform)
    found = defense.transform_is
    require(found in kinds, f"transform_is = {found!r} should be one of {', '.join(kinds)}")
    equal = _equal(defense.transform(z), defense.transform(z))
    require(
        (found == "random") != equal,
        f"two transforms of the same features are {'equal' if equal else 'different'}, but "
        f"`transform_is` is {found!r}",
    )
    residual = (defense(z) - defense.transform(z)).detach()
    if equal and defense.noise and residual.isfinite().all():
        spread = float(residual.std())
        require(
            abs(spread - defense.noise) < 0.1 * defense.noise,
            f"noise = {defense.noise:g}, but what is added to the transform has a standard "
            f"deviation of {spread:.3g}",
        )


def _random(subject: Subject) -> None:
    defense, (z, _) = _made(subject).eval(), _features()
    equal = _equal(defense(z), defense(z))
    require(
        defense.randomized != equal,
        f"two releases of the same features are {'equal' if equal else 'different'}, but "
        f"`randomized` is {defense.randomized}: set `noise`, or `transform_is`",
    )
    require(
        _equal(_again(lambda: defense(z)), _again(lambda: defense(z))),
        "two releases after the same torch.manual_seed differ: draw from torch's generator",
    )


def _smooth(subject: Subject) -> None:
    """Differences of the transform along random directions are what autograd says."""
    defense, (z, y) = _made(subject).eval(), _features()
    if defense.wants_refresh:
        defense.refresh(z.detach(), y)
    if defense.transform_is != "smooth" or not defense.transform(z).isfinite().all():
        return
    off = size = 0.0
    for _ in range(PROBES):
        along, across = torch.randn(2, *z.shape)
        total = (across * defense.transform(z)).sum() + 0 * z.sum()  # a graph, if it has none
        (slope,) = torch.autograd.grad(total, z)
        with torch.no_grad():
            ahead, behind = (defense.transform(z + s * along) for s in (SMALL, -SMALL))
            found = float((across * (ahead - behind)).sum()) / (2 * SMALL)
        said = float((slope * along).sum())
        off, size = off + (found - said) ** 2, size + said**2
    require(
        off <= 0.01 * size + 1e-6,
        "autograd does not give the derivative of the transform: set transform_is = 'rough' if it "
        "rounds, thresholds or leaves out; else do not detach features, or leave torch",
    )


def _penalty(subject: Subject) -> None:
    defense, (z, y) = _made(subject), _features()
    seen: set[str] = set()
    refreshed = type(defense).refresh is Defense.refresh
    for defense.epoch in range(EPOCHS):
        if defense.wants_refresh:
            refreshed = True
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
                isinstance(value, Tensor) and value.shape == () and not value.requires_grad,
                f"the diagnostic {name!r} should be a scalar tensor, detached",
            )
        seen |= diagnostics.keys()
    require(
        refreshed,
        f"`refresh` is never called in {EPOCHS} epochs: override `wants_refresh`, too: the "
        "property that says whether it is to be called at the start of `self.epoch`",
    )
    declared = subject.component.diagnostics
    require(
        seen == declared.keys(),
        f"penalty reports the diagnostics {sorted(seen)}, but declared are {sorted(declared)}",
    )
    for name, each in declared.items():
        fits = isinstance(each, Diagnostic) and re.fullmatch(r"[a-z][a-z0-9_]*", name)
        require(bool(fits), f"the diagnostic {name!r} should be declared as Diagnostic(label)")
        require(name not in WATCHED, f"the diagnostic {name!r} is watched already; rename it")


def _moves(penalty: Tensor, learned: list[Tensor]) -> bool:
    """Whether any of what is learned would change to lower it."""
    if not penalty.requires_grad:
        return False
    slopes = torch.autograd.grad(penalty, learned, retain_graph=True, allow_unused=True)
    return any(slope is not None and bool(slope.any()) for slope in slopes)


def _gradients(subject: Subject) -> None:
    defense, (z, y) = _made(subject), _features()
    defense.epoch = EPOCHS
    if defense.wants_refresh:
        defense.refresh(z.detach(), y)
    step = _step(z, y, defense.train())
    penalty, _ = defense.penalty(step)
    learned = [each for each in defense.parameters() if each.requires_grad]
    require(
        float(penalty.detach()) == 0 or _moves(penalty, [z, *learned]),
        f"penalty gives {float(penalty.detach()):.3g}, but its gradient is 0, so that nothing is "
        "learned from it: compute it from `step.features` or `step.released` without detach(), "
        ".data or NumPy",
    )
    targets = defense.targets(y)
    require(
        targets.shape in ((IMAGES,), (IMAGES, CLASSES)),
        f"targets gives {tuple(targets.shape)}: should be classes (B,), or probabilities "
        "(B, classes)",
    )
    logits = step.released.flatten(1)[:, :CLASSES]
    loss = cross_entropy(logits, targets) + penalty
    if loss.requires_grad:
        loss.backward()
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


DEFENSE = (
    Check("its strength is one of its options, its role is known", _strength),
    Check("releases have the features' shape and are finite", _releases),
    Check("a release is a transform of the features, and then noise", _separable),
    Check("autograd gives the derivative of a transform that is smooth", _smooth),
    Check("the transform of an image depends on no other image", _alone),
    Check("it says whether releases are random, and seeds repeat them", _random),
    Check("the penalty is a number, its diagnostics are declared", _penalty),
    Check("gradients reach the encoder, targets fit the cross entropy", _gradients),
    Check("it says how many bits are sent, and can be copied", _payload),
    *TRAINED,
)
