"""What an attack promises."""

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from smashbench.attacks import Attack, Knowledge
from smashbench.attacks.base import GRANTS, AttackError, WhiteBox
from smashbench.bench.contracts.base import Check, Subject, require
from smashbench.bench.experiment.wall import behind_wall, grant
from smashbench.bench.suite.kinds import KINDS_OF_ATTACKS

IMAGES, MORE, ATTACKED, NOISE = 80, 1000, 7, 0.01
"""Images that the attacker has, and those that it has if it asks for more; images that are
attacked; the standard deviation of the noise."""
BRIEF = {
    **dict.fromkeys(("max_steps", "epochs", "steps", "copy_steps", "rule_steps"), 4),
    **dict.fromkeys(("denoiser_steps", "shadow_steps", "rounds", "euler"), 4),
}
"""Options that make an attack brief, where it has them."""


def _made(subject: Subject) -> Attack:
    return subject.made(options=BRIEF)


def _encode(x: Tensor) -> Tensor:
    return avg_pool2d(x, 4)


def _protect(z: Tensor) -> Tensor:
    return z + NOISE * torch.randn_like(z)


def _unchanged(z: Tensor) -> Tensor:
    return z


def _knowledge(images: int = IMAGES) -> Knowledge:
    """Everything that may be granted, of a client that averages and adds noise."""
    x, others = torch.rand(2, images, 3, 16, 16)
    untrained = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 4, stride=4), torch.nn.Sigmoid())
    return Knowledge(
        images=x,
        classes=3,
        services={
            "draw": lambda index: _protect(_encode(x[index])),
            "others": lambda index: _protect(_encode(others[index])),
            "predict": lambda released: (released.mean((1, 2, 3)) > 0.5).long(),
            "query": lambda x: _protect(_encode(x)),
        },
        others_count=images,
        white_box=WhiteBox(_encode, _protect, _unchanged, random=False),
        untrained=untrained,
    )


def _releases(attack: Attack) -> Tensor:
    x = torch.rand(ATTACKED, 3, 16, 16)
    draws = [_protect(_encode(x)) for _ in range(attack.releases)]
    return draws[0] if len(draws) == 1 else torch.stack(draws, 1)


def _granted(attack: Attack, images: int) -> Knowledge:
    """What it says it needs, the same every time."""
    torch.manual_seed(0)
    return grant(attack.needs, _knowledge(images))


def _fitted(attack: Attack) -> Attack:
    """To few images, or to more if it asks for them."""
    try:
        return attack.fit(_granted(attack, IMAGES))
    except AttackError:
        return attack.fit(_granted(attack, MORE))


def _run(attack: Attack) -> Tensor:
    """What it rebuilds behind the wall, from as many images."""

    def rebuilt(images: int) -> Tensor:
        granted = _granted(attack, images)
        return behind_wall(attack, granted, lambda: _releases(attack), seed=0).guess

    try:
        return rebuilt(IMAGES)
    except AttackError:
        return rebuilt(MORE)


def _declared(subject: Subject) -> None:
    kind = getattr(subject.component, "kind", None)
    require(
        kind in KINDS_OF_ATTACKS,
        f"kind = {kind!r} should be one of {', '.join(KINDS_OF_ATTACKS)}",
    )
    needs = _made(subject).needs
    require(
        isinstance(needs, frozenset | set) and set(needs) <= set(GRANTS),
        f"needs = {needs!r} should be a set of {', '.join(GRANTS)}",
    )
    require(
        ("repeats" in needs) == (_made(subject).releases > 1),
        "it needs the grant 'repeats' where `releases` is more than 1, and only there",
    )
    require(isinstance(subject.component.noise_aware, bool), "noise_aware should be True or False")


def _constructor(subject: Subject) -> None:
    attack = _made(subject)
    constructed = vars(attack).copy()
    fitted = _fitted(attack)
    require(fitted is attack, "fit should return self")
    require(
        all(vars(attack).get(name) is value for name, value in constructed.items()),
        "fit changes what the constructor stored; end the names of what it learns in _",
    )
    require(isinstance(attack.converged_, bool), "converged_ should be True or False")
    require(
        all(isinstance(loss, float) for loss in attack.history_),
        "history_ should be a list of Python's numbers, e.g. float(loss)",
    )


def _rebuilt(attack: Attack) -> Tensor:
    """By a fitted attack, on this side of the wall."""
    guess = attack.reconstruct(_releases(attack))
    found = type(guess).__name__
    require(isinstance(guess, Tensor), f"reconstruct gives {found}: should be a tensor of images")
    return guess


def _images(subject: Subject) -> None:
    attack = _made(subject)
    _rebuilt(_fitted(attack))
    guess, again = _run(_made(subject)), _run(_made(subject))
    require(
        guess.shape == (ATTACKED, 3, 16, 16),
        f"reconstruct gives {tuple(guess.shape)} for {ATTACKED} releases of images (3, 16, 16)",
    )
    require(
        bool(guess.min() >= 0) and bool(guess.max() <= 1),
        f"its images span [{guess.min():.3g}, {guess.max():.3g}]; clamp them to [0, 1]",
    )
    require(
        torch.allclose(guess, again, atol=1e-5),
        "two fits from one seed rebuild different images: draw from torch's generator",
    )


def _not_finite(subject: Subject) -> None:
    known, attack = _knowledge(), _made(subject)

    def spoilt(z: Tensor) -> Tensor:
        return torch.where(torch.arange(len(z)).view(-1, 1, 1, 1) == len(z) - 1, torch.nan, z)

    services = {
        name: (lambda value, ask=ask: spoilt(ask(value))) if name != "predict" else ask
        for name, ask in known.services.items()
    }
    box = WhiteBox(lambda x: spoilt(_encode(x)), _protect, _unchanged, random=False)
    bad = Knowledge(known.images, 3, services, None, IMAGES, box, known.untrained)
    _refused_or_sound(attack, bad, "releases that are not finite")


def _few(subject: Subject) -> None:
    _refused_or_sound(_made(subject), _knowledge(3), "three images")


def _refused_or_sound(attack: Attack, known: Knowledge, what: str) -> None:
    try:
        attack.fit(grant(attack.needs, known))
    except AttackError:
        return
    require(
        bool(_rebuilt(attack).isfinite().all()),
        f"from {what} it makes images that are not finite; raise AttackError and say why",
    )


ATTACK = (
    Check("it declares its kind and what it must be granted", _declared),
    Check("the constructor stores, fit learns", _constructor),
    Check("it rebuilds images in [0, 1] with what it says it needs, the same from a seed", _images),
    Check("features that are not finite are refused", _not_finite),
    Check("too few images are refused, or enough", _few),
)
