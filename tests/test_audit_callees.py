"""Encoders and heads that do or return what they should not."""

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.attacks.ridge import Ridge
from smashbench.bench import audit
from smashbench.bench.auditing.given import called
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.errors import BenchError
from tests.audited import DEALT, SOON, pairs
from tests.inside import cells_inside


def head(*, inplace: bool) -> nn.Sequential:
    """Of a network whose nonlinearity follows the cut."""
    torch.manual_seed(1)
    return nn.Sequential(nn.ReLU(inplace=inplace), nn.Flatten(), nn.Linear(32, 3))


def test_a_head_that_works_in_place_changes_no_number():
    x, z = pairs()
    z, labels = z - z.mean(), torch.arange(200) % 3
    found = []
    for inplace in (False, True):
        given = pairs_of(images_of(x, None, None), z.clone(), labels, None)
        world, accuracy, _ = prepared(given, None, head(inplace=inplace), **DEALT)
        assert (world.z_test < 0).any()
        with cells_inside():
            attacked = world.attack("ridge", Ridge())
        found.append((accuracy, world.accuracy(), attacked.results.metrics, world.z_test))
    (*plain, z_plain), (*changed, z_changed) = found
    assert plain == changed
    assert torch.equal(z_plain, z_changed)


def test_an_encoder_that_works_in_place_changes_no_image():
    net = nn.Sequential(nn.Threshold(0.5, 0.0, inplace=True), nn.Flatten())
    x = torch.rand(4, 1, 16, 16)
    before = x.clone()
    assert torch.equal(called(net, "encoder")(x), torch.where(x > 0.5, x, 0).flatten(1))
    assert torch.equal(x, before)


def growing(x: torch.Tensor) -> torch.Tensor:
    """A feature for every image of the batch."""
    return x.flatten(1)[:, : len(x)]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: torch.fft.fft2(x), r"complex numbers: .* return torch\.view_as_real\(z\)"),
        (lambda x: np.fft.fft2(x.numpy()), "the encoder returns complex numbers"),
        (lambda x: x.numpy().astype(object), "the encoder returns holds Python objects: should be"),
        (lambda x: x.numpy().astype(str), "the encoder returns holds <U.*: should be numbers"),
        (lambda x: x.flatten(1)[:, 9999:], r"returns \(8, 0\), no number for an image: what did"),
        (growing, r"returns \(8,\) for an image of one batch and \(2,\) of another"),
    ],
)
def test_what_an_encoder_may_not_return_is_one_error(model, words):
    with pytest.raises(BenchError, match=words):
        audit(images=pairs()[0], model=model, minutes=SOON)


def test_numbers_of_another_byte_order_are_numbers():
    x = torch.rand(2, 1, 4, 4)
    assert torch.equal(called(lambda x: x.numpy().astype(">f4"), "encoder")(x), x)


def test_logits_that_are_no_numbers_are_refused_and_forbidden_classes_are_not():
    """Of 60 scored images, three have no logit; minus infinity is a class that cannot be."""
    x, z = pairs()

    def made(value: float, most: float):
        def head(z):
            logits = z.flatten(1)[:, :3].clone()
            logits[z.flatten(1).amin(1) <= most, 0] = value
            return logits

        return head

    given = pairs_of(images_of(x, None, None), z, torch.arange(200) % 3, None)
    world, *_ = prepared(given, None, None, **DEALT)
    third = float(world.z_test.flatten(1).amin(1).sort().values[2])
    with pytest.raises(BenchError, match=r"the head returns NaN for 3 of 60 images: should be"):
        prepared(given, None, made(torch.nan, third), **DEALT)
    prepared(given, None, made(-torch.inf, third), **DEALT)
