"""Attribute inference: what releases tell of an image that is not the victim's task."""

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smashbench.attacks import Knowledge
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.datasets import Split

STEPS, BATCH, LR = 1000, 128, 4e-3
LOOKS = 10
"""How often the attacker's validation is looked at; the best of them counts."""
HELD_OUT = 0.2
"""Share of the attacker's images that it validates on."""
WIDTH = 64


class Inferred(NamedTuple):
    """What is inferred of test images.

    Args:
        shares: (N,) of the attributes of each that are inferred rightly: ``from_release``, with
            what the head makes of it, and ``from_prediction``, from what the head makes of it
            alone; 0 for an image without attributes.
        attributed: (N,) which have attributes.
    """

    shares: dict[str, Tensor]
    attributed: Tensor


def inferred(victim: Victim, split: Split, z_test: Tensor, seed: int) -> Inferred | None:
    """Infers the attributes of test images, as an attacker would who knows those of its own images
    and has pairs and the head (Song and Shmatikov, "Overlearning reveals sensitive attributes",
    ICLR 2020). That the server learns the prediction is the purpose of sending; what is inferred
    beyond it is leakage.

    A network is trained on fresh releases of the attacker's images; another one gets the head's
    log-probabilities and nothing else. The weights with the lowest loss on the attacker's own
    validation images count, which are drawn without regard to groups: a group may be what is
    inferred, such as a person.

    Args:
        victim: trained.
        split: the images; None is returned where they have no attributes.
        z_test: clean features of the test images.
        seed: of the victim.
    """
    if split.aux.attributes is None or split.test.attributes is None:
        return None
    torch.manual_seed(release_seed(split, seed))
    released = victim.protect(z_test)
    known, attributed = (split.aux.attributes >= 0).all(1), (split.test.attributes >= 0).all(1)
    own, z_aux = split.aux.attributes[known], victim.encode(split.aux.x[known])
    fit, val = Knowledge(split.aux.x[known], split.classes, {}).parts(HELD_OUT)
    sizes = [int(a.max()) + 1 for a in torch.cat([own, split.test.attributes]).T]
    shares = {}
    for name, sees in (("from_release", True), ("from_prediction", False)):
        torch.manual_seed(seed_for("attributes", seed, int(sees)))
        probe = Probe(released[:1], split.classes, sizes, sees=sees).to(released.device)
        probe.standardise(victim.protect(z_aux[fit]))
        _train(probe, victim, z_aux, own, fit, val)
        guesses = [each.argmax(1) for each in _answers(probe, victim, released)]
        right = (torch.stack(guesses, 1) == split.test.attributes).float().mean(1)
        shares[name] = right * attributed
    return Inferred(shares, attributed)


class Probe(nn.Module):
    """Releases and the head's log-probabilities to logits of every attribute.

    Maps pass three convolutions, vectors and tokens two layers; what comes out stands beside the
    log-probabilities in the last layer.

    Args:
        z: a release (1, ...).
        classes: of the victim.
        sizes: how many values each attribute has.
        sees: whether it gets the release at all.
    """

    def __init__(self, z: Tensor, classes: int, sizes: list[int], *, sees: bool) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros_like(z))
        self.register_buffer("scale", torch.ones_like(z))
        layers: list[nn.Module]
        if z.ndim == 4:
            least = min(z.shape[2:])
            layers = [*_block(z.shape[1]), *([nn.MaxPool2d(2)] if least >= 8 else [])]
            layers += [*_block(WIDTH), *([nn.MaxPool2d(2)] if least >= 16 else []), *_block(WIDTH)]
            layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten()]
            width = 4 * WIDTH
        else:
            width = 4 * WIDTH
            layers = [nn.Flatten(), nn.Linear(z[0].numel(), width), nn.BatchNorm1d(width)]
            layers += [nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Dropout(0.5)) if sees else None
        self.aside = nn.Sequential(nn.Linear(classes, 64), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(64 + sees * width, size) for size in sizes)

    def standardise(self, z: Tensor) -> Self:
        """Learns mean and spread of every feature from releases (n, ...)."""
        self.mean, self.scale = z.mean(0, keepdim=True), z.std(0, keepdim=True).clamp_min(1e-4)
        return self

    def forward(self, z: Tensor, told: Tensor) -> list[Tensor]:
        parts = [self.aside(told)]
        if self.body:
            parts.append(self.body((z - self.mean) / self.scale))
        return [head(torch.cat(parts, 1)) for head in self.heads]


def _block(inputs: int) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, WIDTH, 3, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(WIDTH), nn.ReLU()]


def _train(
    probe: Probe, victim: Victim, z_aux: Tensor, own: Tensor, fit: Tensor, val: Tensor
) -> None:
    optimiser = torch.optim.AdamW(probe.parameters(), lr=LR, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LR, total_steps=STEPS)
    held_out = victim.protect(z_aux[val])
    best, kept = float("inf"), probe.state_dict()
    for step in range(1, STEPS + 1):
        index = fit[torch.randint(len(fit), (BATCH,), device=fit.device)]
        z = victim.protect(z_aux[index])
        probe.train()
        loss = _loss(probe(z, _told(victim, z)), own[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % (STEPS // LOOKS) == 0:
            error = float(_loss(_answers(probe, victim, held_out), own[val]))
            if error < best:
                best, kept = error, {n: t.clone() for n, t in probe.state_dict().items()}
    probe.load_state_dict(kept)


def _loss(answers: list[Tensor], truth: Tensor) -> Tensor:
    losses = [cross_entropy(each, y) for each, y in zip(answers, truth.T, strict=True)]
    return torch.stack(losses).mean()


@torch.no_grad()
def _answers(probe: Probe, victim: Victim, z: Tensor) -> list[Tensor]:
    """Logits (N, ...) of every attribute."""
    probe.eval()
    parts = [probe(part, _told(victim, part)) for part in z.split(500)]
    return [torch.cat(each) for each in zip(*parts, strict=True)]


@torch.no_grad()
def _told(victim: Victim, z: Tensor) -> Tensor:
    """The head's log-probabilities (n, classes) for releases."""
    victim.eval()
    told: Tensor = victim.head(z).float().log_softmax(1)
    return told
