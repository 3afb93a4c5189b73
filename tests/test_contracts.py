"""Every listed component keeps its interface; a new one is tested by being listed."""

import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

from smashbench.attacks import ATTACKS, Attack, Knowledge
from smashbench.attacks.base import GRANTS, WhiteBox
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.models.vgg11 import CONFIGURATION
from smashbench.bench.experiment.watch import WATCHED
from smashbench.bench.suite.options import options_of, resolve
from smashbench.datasets import DATASETS, DatasetError
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.base import Diagnostic, Role
from tests.fitted import step_of, victim_of

TABLES = {"defense": DEFENSES, "attack": ATTACKS, "dataset": DATASETS, "model": MODELS}
COMPONENTS = [(name, entry) for table in TABLES.values() for name, entry in table.items()]


@pytest.mark.parametrize(("name", "component"), COMPONENTS)
def test_options_are_keyword_only_with_defaults_and_documented(name, component):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    fields = options_of(component).model_fields
    documented = "".join(base.__doc__ or "" for base in component.__mro__)
    for option, field in fields.items():
        assert not field.is_required(), f"{name}.{option} has no default"
        assert re.search(rf"\b{option}\b", documented), f"{name}.{option} is not documented"
    assert resolve(component, {}).keys() == fields.keys()
    assert len((component.__doc__ or "").split(".\n")[0]) < 300


@pytest.mark.parametrize("component", DEFENSES.values())
def test_a_defense_releases_the_same_shape_and_a_scalar_penalty(component):
    shape, classes = (8, 4, 4), 5
    defense: Defense = component(shape, classes)
    assert defense.strength is None or defense.strength in options_of(component).model_fields
    z = torch.rand(12, *shape, requires_grad=True)
    y = torch.arange(12) % classes
    for mode in (True, False):
        released = defense.train(mode)(z)
        assert released.shape == z.shape
        assert released.isfinite().all()
        assert defense.randomized == (not torch.equal(defense(z), defense(z)))
    for defense.epoch in range(8):
        if defense.wants_refresh:
            defense.refresh(z.detach(), y)
        loss, diagnostics = defense.train().penalty(step_of(z, y))
        assert loss.shape == ()
        assert loss.isfinite()
        assert all(v.shape == () and not v.requires_grad for v in diagnostics.values())
    defense.load_state_dict({k: v.clone() for k, v in defense.state_dict().items()})


@pytest.mark.parametrize("component", DEFENSES.values())
def test_a_defense_declares_the_diagnostics_that_it_reports(component):
    shape, classes = (8, 4, 4), 5
    early = {"warmup_epochs": 0, "shutoff_steps": 0}
    known = options_of(component).model_fields
    defense: Defense = component(shape, classes, **{n: v for n, v in early.items() if n in known})
    z, y = torch.rand(30, *shape), torch.arange(30) % classes
    seen: set[str] = set()
    for defense.epoch in range(4):
        if defense.wants_refresh:
            defense.refresh(z, y)
        seen |= defense.train().penalty(step_of(z, y))[1].keys()
    assert seen == component.diagnostics.keys()
    for name, declared in component.diagnostics.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert isinstance(declared, Diagnostic)
        assert declared.label
    assert not component.diagnostics.keys() & WATCHED.keys()


def test_one_defense_is_the_control_and_one_the_baseline():
    roles = [component.role for component in DEFENSES.values()]
    assert set(roles) <= set(get_args(Role))
    assert roles.count("control") == roles.count("baseline") == 1


@pytest.mark.parametrize("component", ATTACKS.values())
def test_an_attack_declares_its_kind_its_knowledge_and_what_it_is_fitted_to(component):
    assert component.kind in get_args(get_type_hints(Attack)["kind"])[0].__args__
    assert component().needs <= set(GRANTS)
    assert ("repeats" in component().needs) == (component().releases > 1)
    assert isinstance(component.noise_aware, bool)


@pytest.fixture
def knowledge() -> Knowledge:
    x = torch.rand(80, 3, 16, 16)

    def encoder(x):
        return torch.nn.functional.avg_pool2d(x, 4)

    def defense(z):
        return z + 0.01 * torch.randn_like(z)

    return Knowledge(
        images=x,
        classes=3,
        services={
            "draw": lambda index: defense(encoder(x[index])),
            "predict": lambda released: (released.mean((1, 2, 3)) > 0.5).long(),
            "query": lambda x: defense(encoder(x)),
        },
        white_box=WhiteBox(encoder, defense, 0.01),
    )


def some_releases(attack: Attack, knowledge: Knowledge) -> torch.Tensor:
    """Of seven images, as many of each as the attack is given."""
    draws = [knowledge.draw(torch.arange(7)) for _ in range(attack.releases)]
    return draws[0] if len(draws) == 1 else torch.stack(draws, 1)


@pytest.mark.parametrize("component", ATTACKS.values())
def test_an_attack_reconstructs_images_in_range_and_deterministically(component, knowledge):
    known = options_of(component).model_fields
    budget = {name: 4 for name in ("max_steps", "epochs", "steps") if name in known}
    guesses = []
    for _ in range(2):
        attack: Attack = component(**budget)
        constructed = vars(attack).copy()
        torch.manual_seed(0)
        assert attack.fit(knowledge) is attack
        assert constructed.items() <= vars(attack).items()  # the constructor's values stay
        guesses.append(attack.reconstruct(some_releases(attack, knowledge)))
        assert guesses[-1].shape == (7, 3, 16, 16)
        assert guesses[-1].min() >= 0
        assert guesses[-1].max() <= 1
    assert isinstance(attack.converged_, bool)
    assert all(isinstance(loss, float) for loss in attack.history_)
    torch.manual_seed(1)
    z = some_releases(attack, knowledge)
    torch.testing.assert_close(
        attack.reconstruct(z), component_again(component, budget, knowledge, z)
    )


def component_again(component, budget, knowledge, z):
    torch.manual_seed(0)
    return component(**budget).fit(knowledge).reconstruct(z)


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_has_four_disjoint_balanced_parts(name, sets):
    component = DATASETS[name]
    root = sets if component.needs_data else None
    sizes = {"train": 200, "val": 50, "aux": 100, "test": 50}
    small = sizes if "train" in options_of(component).model_fields else {}
    split = component(**small).load(root)
    assert component(**small).load(root).hash == split.hash
    seen: set[bytes] = set()
    for part in (split.train, split.val, split.aux, split.test):
        assert part.x.dtype == torch.float32
        assert part.x.shape[1:] == split.shape
        assert len(part.x) == len(part.y)
        counts = part.y.bincount(minlength=split.classes)
        assert counts.max() <= 1.6 * counts.min() + 8
        images = {x.numpy().tobytes() for x in part.x}
        assert not images & seen
        seen |= images
    other = component(**small, seed=1).load(root)
    assert other.hash != split.hash


@pytest.mark.parametrize("name", [n for n, c in DATASETS.items() if c.needs_data])
def test_a_dataset_that_needs_data_says_where_it_looked_and_how_to_get_it(name, tmp_path):
    component = DATASETS[name]()
    how = component.how.format(name=name).partition("\n")[0]
    for root in (None, tmp_path):
        with pytest.raises(DatasetError, match="--data DIR or SMASHBENCH_DATA") as caught:
            component.load(root)
        assert how in str(caught.value)
    assert str(tmp_path / component.places(tmp_path)[0]) in str(caught.value)


def test_the_defense_of_the_readme_works_as_it_is_printed():
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", readme, flags=re.S)
    names: dict = {"__name__": "defenses.dropout"}
    exec(code, names)
    component = names["Dropout"]
    test_a_defense_releases_the_same_shape_and_a_scalar_penalty(component)
    test_options_are_keyword_only_with_defaults_and_documented("dropout", component)
    assert resolve(component, {component.strength: 0.5}) == {"rate": 0.5}


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


@pytest.mark.parametrize("component", [c for _, c in COMPONENTS])
def test_constructors_take_nothing_positional_but_shape_and_classes(component):
    parameters = list(inspect.signature(component).parameters.values())
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == (["shape", "classes"] if issubclass(component, Defense) else [])
