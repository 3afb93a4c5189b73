"""What ``smashbench check`` says of components that are nearly right, and of some that are."""

from typing import Annotated

import numpy as np
import pytest
import torch
from annotated_types import Ge, Gt, Lt
from torch import nn

from smashbench.attacks.base import Attack, AttackError
from smashbench.attacks.mean import Mean
from smashbench.bench.contracts import CONTRACTS, Subject, failure_of, outcomes
from smashbench.bench.experiment.metrics import METRICS, Metric
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.models.base import Model, SplitModel
from smashbench.datasets import Dataset, Part, Split
from smashbench.defenses.base import Defense, Diagnostic


def broken(title: str, component: type) -> dict[str, str]:
    """The promises that it breaks, and why."""
    reasons = {}
    for promise in CONTRACTS[title]:
        if why := failure_of(promise, Subject("mine", component)):
            reasons[promise.title] = why
    return reasons


def defense(transform=None, penalty=None, **facts) -> type[Defense]:
    class Mine(Defense):
        """A thing."""

    for name, value in {"transform": transform, "penalty": penalty, **facts}.items():
        if value is not None:
            setattr(Mine, name, value)
    return Mine


@pytest.mark.parametrize(
    "transform",
    [
        lambda _, z: (z * 8).round() / 8,
        lambda _, z: z + ((z * 8).round() / 8 - z).detach(),
        lambda _, z: z * (z > 0.5),
        lambda _, z: z.detach() ** 2,
    ],
    ids=["rounds", "rounds and passes gradients on", "leaves out", "detaches"],
)
def test_a_transform_with_another_derivative_than_autograd_says_is_not_smooth(transform):
    reasons = broken("DEFENSES", defense(transform))
    promise = "autograd gives the derivative of a transform that is smooth"
    assert "set transform_is = 'rough'" in reasons[promise]
    if "finite" not in str(reasons):  # but for the one that detaches, nothing else is wrong
        assert list(reasons) == [promise]
        assert not broken("DEFENSES", defense(transform, transform_is="rough"))


def test_bends_and_corners_are_smooth_enough():
    assert not broken("DEFENSES", defense(lambda _, z: (3 * z - 1).relu().tanh() + z**3))


@pytest.mark.parametrize("graph", [False, True])
def test_a_penalty_that_nothing_is_learned_from_is_refused(graph):
    """Without a graph, or with one whose gradient is 0."""

    def penalty(_, step):
        penalty = step.features.detach().var()
        assert not penalty.requires_grad
        return penalty + 0 * step.features.sum() if graph else penalty, {}

    (reason,) = broken("DEFENSES", defense(penalty=penalty)).values()
    assert "its gradient is 0, so that nothing is learned from it" in reason
    assert "without detach()" in reason


def test_statistics_that_are_never_refreshed_are_named():
    def refresh(self, features, labels):
        self.mean = features.mean(0)

    (reason,) = broken("DEFENSES", defense(refresh=refresh)).values()
    assert "override `wants_refresh`, too" in reason
    assert not broken("DEFENSES", defense(refresh=refresh, wants_refresh=property(lambda _: True)))


def test_what_is_not_a_number_is_said_once_to_be_that():
    reasons = list(broken("DEFENSES", defense(lambda _, z: z * torch.nan)).values())
    assert len(reasons) == 4
    assert all("finite" in reason for reason in reasons)


def test_numbers_of_numpy_are_random_to_torch():
    def transform(_, z):
        return z + torch.from_numpy(np.random.default_rng().standard_normal(z.shape)).float()

    reasons = broken("DEFENSES", defense(transform, transform_is="random"))
    assert "draw from torch's generator" in str(reasons)
    assert "perturb(transform(z))" not in str(reasons)


def test_a_diagnostic_is_a_tensor():
    def penalty(_, step):
        return step.features.var(), {"spread": float(step.features.detach().var())}

    mine = defense(penalty=penalty, diagnostics={"spread": Diagnostic("spread")})
    assert "'spread' should be a scalar tensor, detached" in str(broken("DEFENSES", mine))


@pytest.mark.parametrize(
    ("given", "name"), [(lambda x: x.numpy(), "ndarray"), (lambda x: None, "NoneType")]
)
def test_an_attack_rebuilds_tensors(given, name):
    class Mine(Attack):
        """The first image."""

        kind = "closed_form"

        def fit(self, knowledge):
            self.images_ = knowledge.images
            return self

        def reconstruct(self, z):
            return given(self.images_[:1].expand(len(z), -1, -1, -1))

    reasons = broken("ATTACKS", Mine)
    assert len(reasons) == 3
    assert set(reasons.values()) == {f"reconstruct gives {name}: should be a tensor of images"}


def test_a_data_set_has_four_parts():
    class Mine(Dataset):
        """Three parts."""

        needs_data = False

        def load(self, root):
            part = Part(torch.rand(20, 1, 4, 4), torch.arange(20) % 2)
            return Split.build(dict.fromkeys(("train", "val", "test"), part), 2)

    assert set(broken("DATASETS", Mine).values()) == {"Split.build is given no part 'aux'"}


def model(build) -> type[Model]:
    class Mine(Model):
        """A small one."""

    Mine.build = build
    Mine.__abstractmethods__ = frozenset()
    return Mine


def halves(channels: int, side: int, classes: int, *last: nn.Module) -> list[nn.Sequential]:
    encoder = nn.Sequential(nn.Conv2d(channels, 2, 4, 4), nn.Sigmoid())
    head = nn.Sequential(nn.Flatten(), nn.Linear(2 * (side // 4) ** 2, classes), *last)
    return [encoder, head]


def pair(_, shape, classes):
    return tuple(halves(*shape[:2], classes))


def test_a_model_is_a_split_model():
    reasons = broken("MODELS", model(pair))
    assert len(reasons) == 6
    assert set(reasons.values()) == {"build gives tuple: should be SplitModel(encoder, head)"}


def test_a_reason_is_given_once(monkeypatch):
    monkeypatch.setitem(MODELS, "mine", model(pair))
    failed = [why for _, state, why in outcomes("MODELS", "mine", None) if state == "FAILED"]
    again = "for the same reason as 'features lie in (0, 1)'"
    assert failed == ["build gives tuple: should be SplitModel(encoder, head)", *5 * [again]]


def test_a_head_gives_no_probabilities():
    def build(_, shape, classes):
        return SplitModel(*halves(*shape[:2], classes, nn.Softmax(1)))

    (reason,) = broken("MODELS", model(build)).values()
    assert "leave out its softmax" in reason


def test_a_model_takes_grey_images_or_says_that_it_does_not():
    def fixed(_, shape, classes):
        return SplitModel(*halves(3, 32, classes))

    def says(_, shape, classes):
        if shape != (3, 32, 32):
            raise ValueError("only colour images of 32 x 32")
        return fixed(_, shape, classes)

    (reason,) = broken("MODELS", model(fixed)).values()
    assert "it is built for images (1, 48, 48) and fails on them" in reason
    assert not broken("MODELS", model(says))


def test_an_attack_that_asks_for_more_images_gets_them():
    """One that is content with none is broken."""

    class Many(Mean):
        """A mean of many.

        Args:
            least: images.
            steps: at least ten, where checks would take four.
        """

        def __init__(self, *, least: int = 100, steps: Annotated[int, Ge(10)] = 20) -> None:
            self.least, self.steps = least, steps

        def fit(self, knowledge):
            if len(knowledge.images) < self.least:
                raise AttackError(f"needs {self.least} images, and has {len(knowledge.images)}")
            assert self.steps >= 10
            return super().fit(knowledge)

    assert broken("ATTACKS", Many) == {}

    class More(Many):
        """A mean of more.

        Args:
            least: images.
        """

        def __init__(self, *, least: int = 10_000) -> None:
            super().__init__(least=least)

    reasons = set(broken("ATTACKS", More).values())
    assert any("needs 10000 images, and has 1000" in reason for reason in reasons)


def test_sizes_that_a_data_set_does_not_take_are_its_own():
    """Shares of the images, where the checks ask for numbers of them."""
    share = Annotated[float, Gt(0), Lt(1)]

    class Shares(Dataset):
        """Noise of two classes.

        Args:
            train: its share of the images.
            val: its share.
        """

        needs_data = False

        def __init__(self, *, train: share = 0.5, val: share = 0.1) -> None:
            self.ends = 0, round(400 * train), round(400 * (train + val)), 340, 400

        def load(self, root=None):
            x = torch.rand(400, 3, 16, 16, generator=torch.Generator().manual_seed(0))
            parts = {
                name: Part(x[a:b], torch.arange(b - a) % 2)
                for name, a, b in zip(
                    ("train", "val", "aux", "test"), self.ends, self.ends[1:], strict=False
                )
            }
            return Split.build(parts, 2)

    assert broken("DATASETS", Shares) == {}


def test_a_metric_may_be_a_share_of_successes():
    """It is 0 of both of the worse reconstructions."""

    def found(x, guess):
        return (METRICS["ssim"].score(x, guess) > 0.9).float()

    facts = {"name": "found", "label": "found", "bounds": (0.0, 1.0), "digits": 2, "score": found}
    assert broken("METRICS", Metric(better="lower", **facts)) == {}
    (why,) = broken("METRICS", Metric(better="higher", **facts)).values()
    assert "for worse and worse reconstructions, but declares that higher" in why
    facts["score"] = lambda x, guess: torch.full((len(x),), 0.5)
    assert len(broken("METRICS", Metric(better="higher", **facts))) == 1


def test_a_transform_that_mixes_types_fails_in_the_default_precision():
    """In single precision it trains; a product is of half the precision under autocast."""
    rotation = torch.linalg.qr(torch.randn(128, 128)).Q

    def transform(self, z):
        flat = z.flatten(1)
        turned = flat @ rotation
        index = torch.arange(128).expand(len(flat), -1)
        return flat.scatter(1, index, turned).view_as(z)

    (found,) = broken("DEFENSES", defense(transform)).items()
    assert found[0] == "a victim trains with it in bf16, too"
    assert "matrix products and convolutions give bfloat16 by default: cast what they" in found[1]
