"""What ``smashbench check`` says of a model whose parts change what they are given."""

import pytest
from torch import nn

from smashbench.bench.contracts import Subject, failure_of
from smashbench.bench.contracts.model import MODEL
from smashbench.bench.experiment.models.base import Model, SplitModel

(PROMISE,) = (each for each in MODEL if each.title == "encoder and head leave their input as it is")


def model(encoder: nn.Module, head: nn.Module) -> type[Model]:
    class Mine(Model):
        """A small one."""

        def build(self, image_shape, classes):
            first = nn.Sequential(encoder, nn.Conv2d(3, 2, 4, 4), nn.Sigmoid())
            last = nn.Sequential(head, nn.Flatten(), nn.Linear(128, classes))
            return SplitModel(first, last)

    return Mine


@pytest.mark.parametrize("layer", [nn.Hardtanh(0.2, 0.8, inplace=True), nn.Dropout(inplace=True)])
def test_a_first_layer_that_works_in_place_breaks_it(layer):
    """A dropout does so in training alone, where a defense learns from the same features."""
    for name, parts in (("encoder", (layer, nn.ReLU())), ("head", (nn.ReLU(), layer))):
        why = failure_of(PROMISE, Subject("mine", model(*parts)))
        assert why is not None
        assert why.startswith(f"the {name} changes its input in place: let its first layers")


def test_a_later_one_that_does_keeps_it():
    later = nn.Sequential(nn.Hardtanh(0.2, 0.8), nn.Hardtanh(0.3, 0.7, inplace=True))
    assert failure_of(PROMISE, Subject("mine", model(later, later))) is None


def test_a_rectifier_in_place_changes_no_clean_feature_and_every_noisy_release():
    head = nn.ReLU(inplace=True)
    why = failure_of(PROMISE, Subject("mine", model(nn.Identity(), head)))
    assert why is not None
    assert "the head changes its input" in why
