"""Every listed component keeps its contract; a new one is tested by being listed."""

from typing import get_args

import pytest
import torch

from smashbench.attacks import ATTACKS
from smashbench.bench.contracts import CONTRACTS, Subject, failure_of
from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.models.vgg11 import CONFIGURATION
from smashbench.bench.suite.toml import load
from smashbench.datasets import DATASETS, DatasetError
from smashbench.defenses import DEFENSES
from smashbench.defenses.base import Role
from tests.fitted import victim_of

TABLES = {
    "DEFENSES": DEFENSES,
    "ATTACKS": ATTACKS,
    "DATASETS": DATASETS,
    "MODELS": MODELS,
    "METRICS": METRICS,
}
PROMISES = [
    pytest.param(title, name, promise, id=f"{name}: {promise.title}")
    for title, table in TABLES.items()
    for name in table
    for promise in CONTRACTS[title]
]


@pytest.mark.parametrize(("title", "name", "promise"), PROMISES)
def test_every_component_keeps_its_contract(title, name, promise, request):
    component = TABLES[title][name]
    needs_data = title == "DATASETS" and component.needs_data
    data = request.getfixturevalue("sets") if needs_data else None
    assert failure_of(promise, Subject(name, component, data)) is None


def test_one_defense_is_the_control_and_one_the_baseline():
    roles = [component.role for component in DEFENSES.values()]
    assert set(roles) <= set(get_args(Role))
    assert roles.count("control") == roles.count("baseline") == 1


@pytest.mark.parametrize("name", [n for n, c in DATASETS.items() if c.needs_data])
def test_a_dataset_that_needs_data_says_where_it_looked_and_how_to_get_it(name, tmp_path):
    component = DATASETS[name]()
    how = component.how.format(name=name).partition("\n")[0]
    for root in (None, tmp_path):
        with pytest.raises(DatasetError, match="--data DIR or SMASHBENCH_DATA") as caught:
            component.load(root)
        assert how in str(caught.value)
    assert str(tmp_path / component.places(tmp_path)[0]) in str(caught.value)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [32, 48, 64])
def test_a_model_ends_its_client_in_bounded_features(name, size):
    victim = victim_of(name, "none", {}, (3, size, size), 7)
    z = victim.encode(torch.rand(4, 3, size, size))
    assert z.shape[1:] == victim.feature_shape
    assert z.min() > 0
    assert z.max() < 1
    assert victim.predict(z).shape == (4,)


def test_model_sizes_are_the_documented_ones():
    small, vgg = (victim_of(name, "none", {}, (3, 32, 32), 10) for name in ("small", "vgg11"))
    assert small.feature_shape == vgg.feature_shape == (8, 8, 8)
    assert 80_000 < sum(p.numel() for p in small.parameters()) < 120_000
    assert vgg.split.client_parameters == 85_256  # Xia et al.: 85k
    assert round(sum(p.numel() for p in vgg.head.parameters()) / 1e6, 1) == 9.7


@pytest.mark.parametrize(
    ("name", "options", "shape", "parameters", "operations"),
    [
        ("vgg11", {"cut": 2}, (8, 16, 16), 6_536, 2_949_120),
        ("vgg11", {"cut": 3}, (8, 16, 16), 85_256, None),
        ("vgg11", {}, (8, 8, 8), 85_256, None),
        ("vgg11", {"channels": 16}, (16, 8, 8), 94_480, None),
        ("vgg11", {"cut": 5}, (8, 8, 8), 390_152, None),
        ("resnet18", {}, (8, 8, 8), 684_680, None),
        ("resnet20", {}, (8, 8, 8), 68_456, None),
        ("small", {}, (8, 8, 8), 7_496, 1_769_472),
        ("small", {"channels": 4}, (4, 8, 8), 6_340, None),
    ],
)
def test_what_the_client_sends_holds_and_computes(name, options, shape, parameters, operations):
    """By hand, vgg11 after 2 entries: 3x64 and 64x8 kernels of 9, biases, batch statistics; every
    kernel at each of its places."""
    assert 6_536 == 9 * (3 * 64 + 64 * 8) + 64 + 8 + 2 * 64
    assert 2_949_120 == 9 * (3 * 64 * 32**2 + 64 * 8 * 16**2)
    assert 1_769_472 == 9 * (3 * 16 * 32**2 + 16 * 32 * 16**2 + 32 * 8 * 8**2)
    split = MODELS[name](**options).build((3, 32, 32), 10)
    assert split.feature_shape((3, 32, 32)) == shape
    assert split.client_parameters == parameters
    assert operations in (None, split.client_multiply_adds((3, 32, 32)))
    assert split.head(torch.rand(2, *shape)).shape == (2, 10)


def test_a_cut_moves_layers_and_changes_none():
    """The convolutions in their order are those of the configuration, around the bottleneck."""
    for cut in (2, 3, 4, 5):
        encoder, head = MODELS["vgg11"](cut=cut).build((3, 32, 32), 10)
        kinds = [
            [
                layer.out_channels if isinstance(layer, torch.nn.Conv2d) else "M"
                for layer in part
                if isinstance(layer, torch.nn.Conv2d | torch.nn.MaxPool2d)
            ]
            for part in (encoder, head)
        ]
        assert kinds[0] == [*CONFIGURATION[:cut], 8]
        assert kinds[1] == [kinds[0][-2] if cut % 2 else kinds[0][-3], *CONFIGURATION[cut:]]


def test_the_reference_network_is_that_of_its_authors():
    """The server's first convolution is plain; the client starts from Xavier's uniform weights,
    within sqrt(6 / (inputs + outputs)), and biases of 0."""
    model = MODELS["vgg11"]
    torch.manual_seed(0)
    plain = model(decoding="plain", initial="xavier").build((3, 32, 32), 10)
    ours = model().build((3, 32, 32), 10)
    kinds = [type(layer).__name__ for layer in plain.head[:2]]
    assert kinds == ["Conv2d", "Conv2d"]
    assert [type(layer).__name__ for layer in ours.head[:3]] == ["Conv2d", "BatchNorm2d", "ReLU"]
    assert len(ours.head) == len(plain.head) + 2
    convolutions = [each for each in plain.encoder if isinstance(each, torch.nn.Conv2d)]
    assert len(convolutions) == 3
    for each in convolutions:
        fans = 9 * (each.in_channels + each.out_channels)
        limit = (6 / fans) ** 0.5
        assert 0.95 * limit < float(each.weight.detach().abs().max()) <= limit * (1 + 1e-6)
        assert float(each.bias.detach().abs().max()) == 0
    head = plain.head[0]
    assert float(head.bias.detach().abs().max()) > 0  # the server's weights are torch's own


def test_the_suite_of_the_reference_protocol_has_its_constants():
    suite = load("xia2025")
    config = suite.victims[0].victim
    training = config.training
    assert config.model.options["decoding"] == "plain"
    assert config.model.options["initial"] == "xavier"
    assert (training.epochs, training.idle_epochs, training.lr) == (240, 1, 0.05)
    cells = {
        (v.victim.defense.label, v.victim.defense.strength): v.victim.defense for v in suite.victims
    }
    levels = {0.01, 0.025, 0.05, 0.1, 0.15}
    for label, weight in (("xia2025", 16.0), ("xia2025_lambda_8", 8.0)):
        assert {strength for name, strength in cells if name == label} == levels
        noise, cem = cells[label, 0.025].parts
        assert noise.options == {"noise": 0.025}
        assert (cem.options["lam"], cem.options["noise"]) == (weight, 0.0)
        assert cem.options["refit"] == "epoch"
        for epoch, factor in cem.options["lam_steps"]:  # .001 / lr until lr is below 4.1e-4
            lr = 0.05 * 0.2 ** sum(at <= epoch for at in (60, 120, 180))
            assert factor == pytest.approx(0.001 / lr if lr > 4.1e-4 else 1.0)
    for victim in load("presets").victims:
        assert len(victim.victim.defense.options["lam_steps"]) == 4
