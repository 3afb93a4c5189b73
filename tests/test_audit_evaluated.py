"""Encoders and heads that are not as a client or a server has them."""

import functools

import pytest
import torch
from torch import nn

from smashbench.bench.auditing.evaluated import check_evaluated
from smashbench.bench.auditing.given import called
from smashbench.bench.auditing.pairs import images_of, pairs_of
from smashbench.bench.auditing.prepare import prepared
from smashbench.bench.errors import BenchError
from tests.audited import DEALT, pairs


class Net(nn.Module):
    """With layers that behave otherwise in training."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 4, 4), *layers)

    def forward(self, x):
        return self.layers(x)

    features = forward


def net(*layers: nn.Module) -> Net:
    torch.manual_seed(0)
    return Net(*layers)


def batch() -> torch.Tensor:
    return pairs()[0][:16]


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ((nn.BatchNorm2d(4),), "BatchNorm2d"),
        ((nn.BatchNorm2d(4), nn.Dropout2d(0.2)), "BatchNorm2d and Dropout2d"),
    ],
)
def test_a_function_of_a_network_in_training_mode_is_refused(layers, names):
    """It is not seen in the function, and the features would look private."""
    inside = net(*layers)
    with pytest.raises(BenchError, match=rf"the encoder runs {names} in training mode: call eval"):
        check_evaluated(called(lambda x: inside(x), "encoder"), batch())
    inside.eval()
    assert check_evaluated(called(lambda x: inside(x), "encoder"), batch()) == []
    given = pairs_of(images_of(pairs()[0], None, None), None, None, None)
    inside.train()
    with pytest.raises(BenchError, match="in training mode"):
        prepared(given, lambda x: inside(x), None, **DEALT)


def test_layers_that_are_the_same_in_training_are_no_matter():
    inside = net(nn.GroupNorm(2, 4), nn.Dropout(0.0))
    assert check_evaluated(called(lambda x: inside(x), "encoder"), batch()) == []


@pytest.mark.parametrize("name", ["forward", "features"])
def test_a_method_of_a_network_is_put_into_evaluation_mode(name):
    """In a copy: the network that was given stays as it is."""
    inside, x = net(nn.BatchNorm2d(4), nn.Dropout(0.5)), batch()
    encoder = called(getattr(inside, name), "encoder")
    assert check_evaluated(encoder, x) == []
    assert inside.training
    assert torch.equal(encoder(x), inside.eval()(x))


def test_statistics_of_the_batch_are_refused_whoever_computes_them():
    with pytest.raises(BenchError, match="for an image beside other images: it differs by"):
        check_evaluated(called(lambda x: x - x.mean(0), "encoder"), batch())
    plain = net(nn.BatchNorm2d(4, track_running_stats=False))
    with pytest.raises(BenchError, match="for an image beside other images"):
        check_evaluated(called(plain, "encoder"), batch())
    rounded = called(lambda x: x + 0.02 * x.mean(), "encoder")
    assert check_evaluated(rounded, batch()) == []


def test_what_differs_from_call_to_call_is_said():
    torch.manual_seed(0)
    (told,) = check_evaluated(called(lambda x: x + 0.1 * torch.randn_like(x), "encoder"), batch())
    assert told.startswith("What the encoder returns for an image differs from call to call, by")
    assert "noise that the client adds" in told


def test_heads_are_looked_at_too():
    x, z = pairs()
    torch.manual_seed(0)
    head = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(32), nn.Linear(32, 3))
    given = pairs_of(images_of(x, None, None), z, torch.arange(200) % 3, None)
    with pytest.raises(BenchError, match="the head runs BatchNorm1d in training mode"):
        prepared(given, None, lambda z: head(z), **DEALT)
    prepared(given, None, head, **DEALT)


def test_layers_that_view_what_they_get_are_fed_so_that_they_can():
    """Images of a victim lie in memory with their channels last, which ``view`` refuses."""

    class Viewed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(768, 5)

        def forward(self, x):
            return self.linear(x.view(x.size(0), -1))

    made = Viewed()
    given = pairs_of(images_of(pairs()[0], None, None), None, None, None)
    world, *_ = prepared(given, made, None, **DEALT)
    with torch.no_grad():
        assert torch.allclose(world.z_test, made(world.split.test.x), atol=1e-6)


def test_a_decorator_may_hide_what_a_function_takes():
    def timed(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    x = batch()
    assert torch.equal(called(timed(lambda x: x[:, :1]), "encoder")(x), x[:, :1])
    assert torch.equal(
        called(functools.partial(torch.flatten, start_dim=1), "encoder")(x)[0], x[0].flatten()
    )
    assert isinstance(called(lambda **_: nn.Flatten(), "encoder").function, nn.Flatten)
