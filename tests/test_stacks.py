"""Several defenses at once: what a suite may stack, and that the whole is the sum of its parts."""

from functools import partial

import pytest
import torch

from smashbench.bench.contracts import CONTRACTS, Subject, failure_of
from smashbench.bench.contracts.defense import SHAPE
from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.train import train
from smashbench.bench.experiment.training import Training
from smashbench.bench.suite.config import Component, StackConfig, VictimConfig, key_of
from smashbench.bench.suite.make_defense import maker
from smashbench.bench.suite.options import resolve
from smashbench.bench.suite.source import source_of
from smashbench.bench.suite.toml import load
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.noise import Noise
from smashbench.defenses.stack import Stack
from tests.fitted import step_of, victim_of

SMALL = "smoke"
TRANSFORMS = [name for name, each in DEFENSES.items() if each.transform is not Defense.transform]
PENALTIES = [name for name, each in DEFENSES.items() if each.penalty is not Defense.penalty]
PAIRS = [(a, b) for a in ["noise", "dropout"] for b in PENALTIES]
PAIRS += [(a, b) for a in TRANSFORMS if a != "dropout" for b in ("class_variance", "kmeans_cem")]
PAIRS += [("nopeek", name) for name in PENALTIES if name != "nopeek"] + [("noise", "dropout")]


def stack_of(*names: str) -> Stack:
    """A stack of these, with noise first, as a suite makes it."""
    names = names if "noise" in names else ("noise", *names)
    parts = tuple(
        Component(name=name, options=resolve(DEFENSES[name], DEFENSES[name].stacked))
        for name in names
    )
    made = maker(StackConfig(parts=parts, label="stack", sweep=None, strength=None))
    stack = made(SHAPE, 5)
    assert isinstance(stack, Stack)
    stack.stand_on(stack.noise)
    return stack


LONG = [("dropout", "kmeans_cem"), ("nopeek", "gmm_cem"), ("noise", "slot_attention")]
CHECKED = [
    check
    for check in CONTRACTS["DEFENSES"]
    if check.title
    in {
        "releases have the features' shape and are finite",
        "a release is a transform of the features, and then noise",
        "it says whether releases are random, and seeds repeat them",
        "gradients reach the encoder, targets fit the cross entropy",
        "it says how many bits are sent, and can be copied",
    }
]
TRAINED = [
    check
    for check in CONTRACTS["DEFENSES"]
    if check.title == "a victim trains with it, repeats, and can be stored"
]


def test_every_promise_that_is_checked_here_is_there():
    assert (len(CHECKED), len(TRAINED)) == (5, 1)


@pytest.mark.parametrize("names", PAIRS, ids="+".join)
def test_every_pair_that_makes_sense_keeps_the_contract(names, monkeypatch):
    def made(shape, classes, **options):
        found = stack_of(*names)
        if shape == SHAPE:
            return found
        parts = tuple(
            Component(name=label, options=resolve(DEFENSES[label], DEFENSES[label].stacked))
            for label in found.labels
        )
        config = StackConfig(parts=parts, label="stack", sweep=None, strength=None)
        return maker(config)(shape, classes)

    monkeypatch.setattr("smashbench.bench.contracts.base.options_of", lambda _: _Bare)
    for check in CHECKED + (TRAINED if names in LONG else []):
        assert failure_of(check, Subject("stack", made)) is None, check.title


class _Bare:
    model_fields: dict = {}


def test_the_penalties_add_and_see_clean_features():
    stack = stack_of("dropout", "class_variance", "nopeek")
    z, y = torch.rand(40, *SHAPE), torch.arange(40) % 5
    whole, seen = stack.penalty(step_of(z, y))
    parts = stack.named_parts
    expected = sum(part.penalty(step_of(z, y))[0] for part in parts.values())
    torch.testing.assert_close(whole, expected)
    assert seen.keys() == stack.diagnostics.keys()
    assert stack.diagnostics["nopeek_distance_correlation"].label == "nopeek: distance correlation"


def test_a_penalty_is_relative_to_the_noise_of_the_whole_stack():
    """s = .05 from two parts is s = .05 from one."""
    options = {"gate": "capacity"}
    cem = DEFENSES["class_variance"]
    both = Stack(
        {"noise": Noise(SHAPE, 5, noise=0.03), "cem": cem(SHAPE, 5, noise=0.04, **options)}
    )
    both.stand_on(both.noise)
    alone = cem(SHAPE, 5, noise=0.05, **options)
    z, y = torch.rand(40, *SHAPE), torch.arange(40) % 5
    torch.testing.assert_close(both.penalty(step_of(z, y))[0], alone.penalty(step_of(z, y))[0])
    released = both(torch.full((200, *SHAPE), 0.5))
    assert both.noise == pytest.approx(0.05)
    assert float(released.std()) == pytest.approx(0.05, rel=0.02)  # and never twice


def test_transform_and_noise_of_a_stack_are_apart_unless_noise_is_transformed():
    dropout, noise = partial(DEFENSES["dropout"], rate=0.5), partial(Noise, noise=0.1)
    z = torch.rand(20, *SHAPE) + 1
    apart = Stack({"dropout": dropout(SHAPE, 5), "noise": noise(SHAPE, 5)})
    assert (apart.transform_is, apart.noise, apart.gaussian) == ("random", 0.1, True)
    assert float((apart.transform(z) == 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    assert not (apart(z) == 0).any()
    mixed = Stack({"noise": noise(SHAPE, 5), "dropout": dropout(SHAPE, 5)})
    assert (mixed.transform_is, mixed.noise, mixed.total_noise) == ("random", 0.0, 0.1)
    assert float((mixed(z) == 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    smooth = Stack({"noise": noise(SHAPE, 5), "nopeek": DEFENSES["nopeek"](SHAPE, 5)})
    assert (smooth.transform_is, smooth.noise) == ("smooth", 0.1)


def test_the_first_refit_of_a_stack_that_collects_an_epoch_comes_before_its_penalty(photos):
    """Parts are asked whether they want it in the epoch to come, not in the one that ends."""
    victim = victim_of("small", "noise", {}, photos.shape, photos.classes)
    kmeans = DEFENSES["kmeans_cem"](victim.feature_shape, photos.classes, noise=0.1)
    victim.defense = Stack({"kmeans_cem": kmeans})
    train(victim, photos, Training(epochs=2, batch_size=50, precision="fp32"))
    torch.testing.assert_close(kmeans.weights.sum(1), torch.ones(photos.classes))


def test_a_stack_sends_the_least_of_its_parts_and_refits_agree():
    stack = stack_of("dropout", "kmeans_cem")
    assert stack.payload(torch.rand(4, *SHAPE)) == DEFENSES["dropout"](SHAPE, 5).payload(
        torch.rand(4, *SHAPE)
    )
    dense = 32 * torch.Size(SHAPE).numel()
    noisy = Stack({"dropout": DEFENSES["dropout"](SHAPE, 5, rate=0.5), "noise": Noise(SHAPE, 5)})
    assert noisy.payload(torch.rand(4, *SHAPE)) == dense  # noise fills what was dropped
    coarse = Stack({"noise": Noise(SHAPE, 5), "quantise": DEFENSES["quantise"](SHAPE, 5)})
    assert coarse.payload(torch.rand(4, *SHAPE)) < dense / 4
    for name in ("vib", "shredder", "random_projection"):
        parts = {"topk": DEFENSES["topk"](SHAPE, 5), name: DEFENSES[name](SHAPE, 5)}
        assert Stack(parts).payload(torch.rand(4, *SHAPE)) == dense, name
        last = Stack(dict(reversed(parts.items())))
        assert last.payload(torch.rand(4, *SHAPE)) < dense, name
    kept = DEFENSES["random_projection"](SHAPE, 5, key="permutation")
    sparse = Stack({"topk": DEFENSES["topk"](SHAPE, 5), "key": kept})
    assert sparse.payload(torch.rand(4, *SHAPE)) < dense  # in other places
    kmeans, gmm = DEFENSES["kmeans_cem"], DEFENSES["gmm_cem"]
    epoch = Stack({"a": kmeans(SHAPE, 5, refit="epoch"), "b": gmm(SHAPE, 5, refit="epoch")})
    assert epoch.refit == "epoch"
    with pytest.raises(ValueError, match="give all one `refit`"):
        Stack({"a": kmeans(SHAPE, 5, refit="epoch"), "b": gmm(SHAPE, 5, refit="clean")})
    with pytest.raises(ValueError, match="give all one `pace`"):
        Stack(
            {
                "a": DEFENSES["gated_pooling"](SHAPE, 5, pace=0.1),
                "b": DEFENSES["slot_attention"](SHAPE, 5),
            }
        )


STACKED = [
    'defenses.both.use=["dropout", "noise", "kmeans_cem"]',
    "defenses.both.dropout.rate=0.2",
    "defenses.both.noise.noise=0.1",
]


def both(*settings: str) -> list[VictimConfig]:
    suite = load(SMALL, [*STACKED, *settings])
    return [v.victim for v in suite.victims if v.victim.defense.label == "both"]


def test_a_suite_stacks_defenses_and_sweeps_one_option_of_one_part():
    found = both("defenses.both.sweep=kmeans_cem.lam", "defenses.both.strengths=[1.0, 4]")
    stacks = [config.defense for config in found]
    assert [stack.strength for stack in stacks] == [1.0, 4.0]
    assert [stack.parts[2].options["lam"] for stack in stacks] == [1.0, 4.0]
    assert stacks[0].parts[0].options == {"rate": 0.2}
    assert stacks[0].parts[2].options["noise"] == 0.0  # it stands on the part that adds noise
    assert len({key_of(config) for config in found}) == 2
    (plain,) = both()
    assert plain.defense.strength is None
    (swept,) = both("defenses.both.sweep=noise.noise")
    assert swept.defense.strength == 0.1
    assert VictimConfig.model_validate_json(swept.model_dump_json()) == swept


def test_the_source_of_a_stack_is_that_of_all_its_parts():
    def source(*settings):
        suite = load(SMALL, settings)
        return source_of(next(v for v in suite.victims if v.victim.defense.label == "both"))

    alone = source("defenses.both.use=kmeans_cem")
    pair = source('defenses.both.use=["noise", "kmeans_cem"]')
    three = source('defenses.both.use=["noise", "kmeans_cem", "nopeek"]')
    assert len({alone, pair, three}) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (['defenses.both.use=["noise"]'], "a stack has several parts; write the name alone"),
        (['defenses.both.use=["noise", "nois"]'], "unknown defense 'nois'; did you mean 'noise'"),
        (['defenses.both.use=["noise", 3]'], "unknown defense '3'"),
        (['defenses.both.use=["noise", "noise"]'], "every part once; 'noise' is there twice"),
        (['defenses.both.use=["none", "noise"]'], "'none' does nothing in a stack"),
        (
            ["defenses.both.rate=0.2"],
            r"defenses.both.rate: write the options of a part as part.option, e.g. kmeans_cem.lam",
        ),
        (["defenses.both.dropout.rat=0.2"], "both.dropout.rat: unknown option 'rat'"),
        (["defenses.both.dropout.rate=2.0"], "both.dropout.rate = 2.0: .*less than 1"),
        (
            ["defenses.both.strengths=[1.0]"],
            'both.sweep is missing: what strengths are of, e.g. sweep = "kmeans_cem.lam"',
        ),
        (
            ["defenses.both.strengths=[1.0]", "defenses.both.sweep=kmeans_cem.la"],
            "sweep = 'kmeans_cem.la': unknown option 'kmeans_cem.la'; did you mean",
        ),
        (
            ["defenses.both.strengths=[-1.0]", "defenses.both.sweep=kmeans_cem.lam"],
            r"both.strengths = -1.0: .*greater than or equal to 0",
        ),
        (
            ["defenses.both.strengths=[1.0, 1.0]", "defenses.both.sweep=kmeans_cem.lam"],
            "1 is there twice",
        ),
        (["defenses.both.strengths=3", "defenses.both.sweep=kmeans_cem.lam"], "should be a list"),
        (["defenses.both.sweep=kmeans_cem.gate"], "its value 'log' is no number"),
        (["defenses.both.sweep=kmeans_cem.lam_steps"], r"its value \[\] is no number"),
        (
            ["defenses.both.noise.noise=0.0"],
            "defenses.both: no noise is added, so that tau .* is 0: give noise, or tau",
        ),
    ],
)
def test_a_stack_that_cannot_be_is_refused(settings, message):
    with pytest.raises(BenchError, match=message) as caught:
        load(SMALL, [*STACKED, *settings])
    assert len(str(caught.value).splitlines()) == 2  # the file, and one mistake


def test_no_noise_and_an_absolute_tau_go_together():
    (config,) = both("defenses.both.noise.noise=0.0", "defenses.both.kmeans_cem.tau=0.01")
    stack = maker(config.defense)(SHAPE, 5)
    stack.stand_on(stack.noise)
    assert stack.named_parts["kmeans_cem"].tau == 0.01


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["use=class_variance", "noise=0.0"], "no noise is added, so that tau"),
        (["use=class_variance", "noise=0.0", "gate=capacity"], "relative to noise"),
        (["use=full_gmm_cem", "noise=0.0"], "relative to noise"),
        (["use=class_variance", "gate=linear", "gamma=0.5"], "gamma = 0.5 does nothing with gate"),
        (["use=class_variance", "ramp_epochs=5"], "does nothing without scale_end"),
        (["use=gated_pooling", "attention=detached", "pace=0.1"], "pace = 0.1 does nothing"),
        (["use=slot_attention", "gate=log"], "unknown option 'gate'"),
        (["use=slot_attention", "variance=mean"], "unknown option 'variance'"),
        (["use=full_gmm_cem", "gamma=0.1"], "unknown option 'gamma'"),
        (["use=full_gmm_cem", "var_threshold=0.1"], "unknown option 'var_threshold'"),
        (["use=gmm_cem", "rank=4"], "unknown option 'rank'"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(settings, message):
    with pytest.raises(BenchError, match=message):
        load(SMALL, [f"defenses.mine.{each}" for each in settings])
