"""What a model promises."""

import torch

from smashbench.bench.contracts.base import Check, Subject, require
from smashbench.bench.experiment.models import SplitModel
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import Defense

CLASSES = 7
SIZE = 32


def _built(subject: Subject) -> SplitModel:
    found = subject.component().build((3, SIZE, SIZE), CLASSES)
    require(isinstance(found, tuple) and len(found) == 2, "build should return SplitModel(...)")
    return found


def _features(subject: Subject) -> None:
    split = _built(subject)
    z = split.encoder.eval()(torch.rand(4, 3, SIZE, SIZE))
    require(len(z) == 4 and z.ndim > 1, f"the encoder makes {tuple(z.shape)} of four images")
    require(
        bool(z.min() > 0) and bool(z.max() < 1),
        f"features span [{z.min():.3g}, {z.max():.3g}]: end the encoder in a sigmoid, so that "
        "noise of a given strength means the same in every model",
    )


def _head(subject: Subject) -> None:
    split = _built(subject)
    logits = split.head.eval()(torch.rand(4, *split.feature_shape((3, SIZE, SIZE))))
    require(
        logits.shape == (4, CLASSES),
        f"the head gives {tuple(logits.shape)} for four releases and {CLASSES} classes",
    )


def _alone(subject: Subject) -> None:
    """In evaluation mode, no image changes what is released of another."""
    split, x = _built(subject), torch.rand(4, 3, SIZE, SIZE)
    encoder = split.encoder.eval()
    require(
        torch.allclose(encoder(x)[:2], encoder(x[:2]), atol=1e-5),
        "features of an image depend on the other images of its batch",
    )


def _unchanged(subject: Subject) -> None:
    """What they are given is attacked and scored afterwards."""
    split, x = _built(subject), torch.rand(4, 3, SIZE, SIZE)
    with torch.no_grad():
        for training in (False, True):
            z = split.encoder.eval()(x.clone())
            noisy = z + torch.randn_like(z)  # as defenses make it: negative, too
            for name, part, given in (("encoder", split.encoder, x), ("head", split.head, noisy)):
                before = given.clone()
                part.train(training)(given)
                require(
                    torch.equal(given, before),
                    f"the {name} changes its input in place: let its first layers return something "
                    "new, such as nn.ReLU() without inplace=True",
                )


def _victim(subject: Subject) -> None:
    first, second = (
        Victim(subject.component(), Defense, (3, SIZE, SIZE), CLASSES) for _ in range(2)
    )
    second.restore(first.weights())
    x = torch.rand(4, 3, SIZE, SIZE)
    require(
        torch.allclose(first.release(x), second.release(x), atol=1e-5),
        "a copy with the same weights releases something else",
    )
    require(first.split.client_multiply_adds((3, SIZE, SIZE)) >= 0, "its work cannot be counted")


MODEL = (
    Check("features lie in (0, 1)", _features),
    Check("the head gives a logit for each class", _head),
    Check("images of a batch do not meet", _alone),
    Check("encoder and head leave their input as it is", _unchanged),
    Check("its weights are all that there is to it", _victim),
)
