"""What a model promises."""

import torch

from smashbench.bench.contracts.base import BrokenError, Check, Subject, require
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.models import SplitModel
from smashbench.bench.experiment.victim import Victim
from smashbench.defenses import Defense

CLASSES = 7
SHAPE = (3, 32, 32)
GREY = (1, 48, 48)


def _built(subject: Subject, shape: tuple[int, int, int] = SHAPE) -> SplitModel:
    found = subject.component().build(shape, CLASSES)
    require(
        isinstance(found, SplitModel),
        f"build gives {type(found).__name__}: should be SplitModel(encoder, head)",
    )
    return found


def _features(subject: Subject) -> None:
    split = _built(subject)
    z = split.encoder.eval()(torch.rand(4, *SHAPE))
    require(len(z) == 4 and z.ndim > 1, f"the encoder makes {tuple(z.shape)} of four images")
    require(
        bool(z.min() > 0) and bool(z.max() < 1),
        f"features span [{z.min():.3g}, {z.max():.3g}]: end the encoder in a sigmoid, so that "
        "noise of a given strength means the same in every model",
    )


def _head(subject: Subject) -> None:
    split = _built(subject)
    logits = split.head.eval()(torch.rand(4, *split.feature_shape(SHAPE)))
    require(
        logits.shape == (4, CLASSES),
        f"the head gives {tuple(logits.shape)} for four releases and {CLASSES} classes",
    )
    sums = logits.sum(1)
    require(
        bool(logits.min() < 0) or not torch.allclose(sums, torch.ones_like(sums), atol=1e-4),
        "the head gives probabilities: leave out its softmax, which the cross entropy has",
    )


def _grey(subject: Subject) -> None:
    try:
        split = _built(subject, GREY)
    except (ValueError, BenchError):
        return
    try:
        z = split.encoder.eval()(torch.rand(2, *GREY))
        split.head.eval()(z)
    except RuntimeError as error:
        raise BrokenError(
            f"it is built for images {GREY} and fails on them ({error}): make its layers by the "
            "`image_shape` that build is given, or let build raise a ValueError that says which "
            "images it takes"
        ) from None


def _alone(subject: Subject) -> None:
    """In evaluation mode, no image changes what is released of another."""
    split, x = _built(subject), torch.rand(4, *SHAPE)
    encoder = split.encoder.eval()
    require(
        torch.allclose(encoder(x)[:2], encoder(x[:2]), atol=1e-5),
        "features of an image depend on the other images of its batch",
    )


def _unchanged(subject: Subject) -> None:
    """What they are given is attacked and scored afterwards."""
    split, x = _built(subject), torch.rand(4, *SHAPE)
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
    _built(subject)
    first, second = (Victim(subject.component(), Defense, SHAPE, CLASSES) for _ in range(2))
    second.restore(first.weights())
    x = torch.rand(4, *SHAPE)
    require(
        torch.allclose(first.release(x), second.release(x), atol=1e-5),
        "a copy with the same weights releases something else",
    )
    require(first.split.client_multiply_adds(SHAPE) >= 0, "its work cannot be counted")


MODEL = (
    Check("features lie in (0, 1)", _features),
    Check("the head gives a logit for each class", _head),
    Check("it takes grey images of another size, or says that it does not", _grey),
    Check("images of a batch do not meet", _alone),
    Check("encoder and head leave their input as it is", _unchanged),
    Check("its weights are all that there is to it", _victim),
)
