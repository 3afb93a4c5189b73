"""Suites: what is accepted, what is refused, and what the refusal says."""

import tomllib

import pytest
import torch

from smashbench.bench.errors import BenchError
from smashbench.bench.experiment.models import MODELS
from smashbench.bench.experiment.seeds import seed_for
from smashbench.bench.suite import toml as suite
from smashbench.bench.suite.columns import ambiguous
from smashbench.bench.suite.config import key_of
from smashbench.bench.suite.options import resolve
from smashbench.defenses import DEFENSES, Defense
from smashbench.defenses.kmeans_cem import KMeansCem

SMOKE = suite.load("smoke")


def test_every_built_in_suite_loads_and_says_what_it_is():
    for name, description in suite.names().items():
        loaded = suite.load(name)
        assert loaded.name == name
        assert len(description) > 20
        keys = [trial.key for trial in loaded.trials]
        assert len(set(keys)) == len(keys)


def test_quick_covers_what_it_promises():
    quick = suite.load("quick")
    strengths: dict[str, set] = {}
    for victim in quick.victims:
        defense = victim.victim.defense
        strengths.setdefault(defense.name, set()).add(defense.strength)
    assert set(strengths) == {
        "none", "noise", "kmeans_cem", "gmm_cem", "gated_pooling", "slot_attention"
    }  # fmt: skip
    assert all(len(values) >= 2 for name, values in strengths.items() if name != "none")
    assert len(strengths["noise"]) >= 3  # others are compared with its frontier
    assert {victim.config.seed for victim in quick.victims} == {0, 1}
    names = {trial.attack.name for trial in quick.attacks}
    assert names == {"mean", "class_mean", "gmm", "decoder"}


def test_configurations_are_fully_resolved():
    config = next(v.victim for v in SMOKE.victims if v.victim.defense.name == "kmeans_cem")
    options = config.defense.options
    assert options["clusters"] == 5  # a default of the component
    assert options["noise"] == 0.1  # the suite's
    assert options["gamma"] == 0.01  # a default of its base
    assert config.defense.strength == options["lam"] == 0.1
    assert config.training.weight_decay == 5e-4


def test_a_victim_key_ignores_the_attacks_and_a_seed_changes_it():
    fewer = suite.load("smoke", ["attacks={mean={}}"])
    assert [v.key for v in fewer.victims] == [v.key for v in SMOKE.victims]
    other = suite.load("smoke", ["seeds=[1]"])
    assert not {v.key for v in other.victims} & {v.key for v in SMOKE.victims}


def test_settings_override_and_plain_words_are_strings():
    changed = suite.load(
        "smoke", ["training.epochs=7", "model.use=vgg11", "defenses.noise.strengths=[0.5]"]
    )
    assert changed.victims[0].victim.training.epochs == 7
    assert changed.victims[0].victim.model.name == "vgg11"
    assert [v.victim.defense.strength for v in changed.victims][1] == 0.5
    for wrong in ("training.epochs", "=3", "description.x=3", "training.epochs=5\nx=3"):
        with pytest.raises(BenchError, match="--set"):
            suite.load("smoke", [wrong])


def test_use_names_the_component_of_a_preset():
    changed = suite.load("smoke", ['defenses.mine={use="kmeans_cem", strengths=[0.3]}'])
    last = changed.victims[-1].victim.defense
    assert (last.label, last.name, last.strength) == ("mine", "kmeans_cem", 0.3)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("defenses.nois={}", "unknown defense 'nois'; did you mean 'noise'"),
        ("attacks.decodr={}", "unknown attack 'decodr'; did you mean 'decoder'"),
        ("dataset.use=photo", "unknown dataset 'photo'; did you mean 'photos'"),
        ("model.use=smal", "unknown model 'smal'; did you mean 'small'"),
        ("model=small", r"model = 'small': .*\[model\]"),
        ("model={use='vgg11',cut=6}", "model.cut = 6.*less than or equal to 5"),
        ("model={use='vgg11',cuts=2}", "unknown option 'cuts'; did you mean 'cut'"),
        ("trainin.epochs=3", "trainin.*did you mean 'training'"),
        ("training.epoch=3", "training.epoch: .*did you mean 'epochs'"),
        ("training.epochs=many", "training.epochs = 'many'.*integer"),
        ("training.epochs=0", "training.epochs = 0.*greater than 0"),
        ("seeds=[]", "seeds.*at least 1"),
        ("seeds=[1, 1]", "every seed once"),
        ("seeds=[-1]", "seeds.0 = -1"),
        ("training.lr=inf", "training.lr = inf.*finite"),
        ("attacks.worst={use='gmm'}", "attacks.worst: this name is a column"),
        ("attacks.bound={use='gmm'}", "attacks.bound: this name is a column"),
        ("attacks.attacks_over_train={use='gmm'}", "over_train: this name is a column"),
        ("training.milestones=[1, 99]", "training.milestones = .*: epoch 99 never comes"),
        ("training={epochs=2,milestones=[1],idle_epochs=2}", "idle_epochs = 2: nothing is learned"),
        ("start={milestones=[99]}", "start.milestones = .*: epoch 99 never comes"),
        ("training.epochs=1", "defenses.kmeans_cem.warmup_epochs = 1: its penalty never begins"),
        (
            "defenses.kmeans_cem.lam_steps=[[1, 2.0], [9, 3.0]]",
            r"kmeans_cem.lam_steps = \[\[1, 2.0\], \[9, 3.0\]\]: epoch 9 never comes",
        ),
        (
            "defenses.kmeans_cem={scale_end=1.0,ramp_epochs=100}",
            r"ramp_epochs = 100: \d epochs, of which 1 are warm-up, end before scale_end",
        ),
        (
            "defenses.both={use=['kmeans_cem','dropout'],kmeans_cem={warmup_epochs=9}}",
            "defenses.both.kmeans_cem.warmup_epochs = 9: its penalty never begins",
        ),
        ("defenses.noise.strengths=[1, 1.0]", "strengths: 1 is there twice"),
        ("defenses.slot_attention.width=6", "multiple of 4"),
        ("dataset.trian=100", "unknown option 'trian'; did you mean 'train'"),
        ("defenses.noise={strength=[1]}", "noise.strength: write a list of strengths to sweep"),
        ("seeds=0", r"seeds = 0: input should be a list, e.g. \[0, 1\]"),
        ("seeds=[]", "the list should have at least 1 item, not 0"),
        ("dataset.train=5", "dataset.train = 5.*greater than or equal to 10"),
        ("defenses.noise.strengths=[true]", r"noise.strengths = True.*valid number"),
        ('defenses.noise.strengths=["much"]', r"noise.strengths = 'much'.*valid number"),
        ("defenses.noise.strengths=[-1.0]", r"noise.strengths = -1.0.*greater than or equal to 0"),
        ("defenses.noise.strengths=0.5", "should be a list of values of 'noise'"),
        ("defenses.noise.strengths=[]", "should be a list of values of 'noise'"),
        ("defenses.noise.strengths=[.5]", "of values of 'noise'; TOML writes 0.1, not .1"),
        ("defenses.none.strengths=[1]", "'none' has no strength to sweep"),
        ("defenses.noise.noise=nan", "finite"),
        ("defenses.noise.noise=77", r"noise.noise = 77: `noise` is swept; .* strengths = \[77\]"),
        (
            'defenses.a={use=["dropout", "noise"],sweep="noise.noise",strengths=[1],noise.noise=9}',
            r"a.noise.noise = 9: `noise.noise` is swept; write strengths = \[9\] instead",
        ),
        ("defenses.kmeans_cem.gate=lgo", "'lgo'.*'log', 'linear' or 'capacity'"),
        ("defenses.kmeans_cem.cluster=3", "unknown option 'cluster'; did you mean 'clusters'"),
        ("attacks.gmm.components=[1]", "components.0 = 1.*greater than or equal to 2"),
        (f"attacks.gmm.pairs={2**63}", f"gmm.pairs = {2**63}: should be a whole number from 2"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(setting, message):
    with pytest.raises(BenchError, match=message) as caught:
        suite.load("smoke", [setting])
    assert "smoke.toml" in str(caught.value)


def test_a_defense_may_decide_an_option_of_the_network_for_its_row_alone():
    changed = suite.load("smoke", ["defenses.bottleneck.strengths=[2, 5]", "seeds=[0]"])
    found = {(v.victim.defense.label, v.victim.defense.strength): v for v in changed.victims}
    assert found["none", None].victim.model.options["channels"] == 8
    for channels in (2, 5):
        config = found["bottleneck", channels].victim
        assert config.model.options["channels"] == channels
        made = MODELS[config.model.name](**config.model.options).build((3, 32, 32), 10)
        assert made.encoder(torch.rand(1, 3, 32, 32)).shape == (1, channels, 8, 8)
    started = suite.load("smoke", ["defenses.bottleneck.strengths=[2]", "start={epochs=1}"])
    narrow = started.victims[-1].victim
    assert narrow.undefended
    assert narrow.undefended.model == narrow.model


def test_a_network_without_the_option_that_a_defense_decides_is_named():
    stack = 'defenses.thin={use=["bottleneck", "noise"], sweep="noise.noise", strengths=[0.1, 0.2]}'
    settings = ["dataset={use='gaussian'}", "model={use='linear'}", stack]
    wanted = "defenses.thin: 'bottleneck' decides the option 'channels' .*'linear' has none"
    with pytest.raises(BenchError, match=wanted) as caught:
        suite.load("smoke", settings)
    assert len(str(caught.value).splitlines()) == 2


def test_all_mistakes_are_reported_at_once():
    settings = ["defenses.nois={}", "attacks.decodr={}", "model.use=smal", "dataset.train=5"]
    with pytest.raises(BenchError) as caught:
        suite.load("smoke", settings)
    assert len(str(caught.value).splitlines()) == 5


def test_a_suite_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(BenchError, match="unknown suite 'quik'; did you mean 'quick'"):
        suite.load("quik")
    broken = tmp_path / "broken.toml"
    broken.write_text("model = \n")
    with pytest.raises(BenchError, match=r"broken.toml is not TOML: .*line 1"):
        suite.load(str(broken))
    broken.write_text("[defenses.noise]\nstrengths = [.5]\n")
    with pytest.raises(BenchError, match=r"line 2, column 14\); TOML writes 0.1, not .1"):
        suite.load(str(broken))


def test_a_file_that_is_not_utf_8_is_one_error_with_what_to_do(tmp_path):
    text = (suite.SUITES / "smoke.toml").read_text().replace('description = "', 'description = "é')
    broken = tmp_path / "broken.toml"
    for encoding in ("latin-1", "utf-16"):
        broken.write_bytes(text.encode(encoding))
        with pytest.raises(BenchError, match=r"broken.toml is not TOML: .*save it as UTF-8"):
            suite.load(str(broken))


def test_brackets_in_brackets_are_one_error(tmp_path):
    deep = 3000 * "[" + 3000 * "]"
    broken = tmp_path / "broken.toml"
    broken.write_text(f"seeds = {deep}\n")
    for name, settings in ((str(broken), []), ("smoke", [f"seeds={deep}"])):
        with pytest.raises(BenchError, match="brackets in brackets") as caught:
            suite.load(name, settings)
        assert len(str(caught.value)) < 500


def test_a_command_that_is_too_long_to_be_kept_is_refused_before_anything_runs():
    with pytest.raises(BenchError, match="a results folder keeps 30,000: write a suite") as caught:
        suite.load("smoke", [f"seeds={list(range(8000))}"])
    assert len(str(caught.value)) < 500


def test_an_attack_cannot_have_a_column_that_is_a_diagnostic_of_a_defense():
    """``adversary_mse`` would be the error of an attack, or of the defender's own adversary."""
    attack = "attacks.adversary={use='gmm'}"
    with pytest.raises(BenchError, match=r"attacks\.adversary: 'adversary_mse' is a diagnostic"):
        suite.load("smoke", [attack, "defenses.arl={}"])
    stack = 'defenses.both={use=["arl", "noise"]}'  # where it is `arl_adversary_mse`
    with pytest.raises(BenchError, match=r"attacks\.arl_adversary: 'arl_adversary_mse' is a"):
        suite.load("smoke", [attack.replace("adversary", "arl_adversary"), stack])
    assert suite.load("smoke", [attack, stack])


def test_what_tables_could_not_tell_apart_is_named():
    """Of a suite that somebody else made: a TOML file has every label once."""
    victims = [trial.victim for trial in SMOKE.victims]
    choices = list({trial.attack.label: trial.attack for trial in SMOKE.attacks}.values())
    more = [each.model_copy(update={"seed": 7}) for each in victims]
    assert ambiguous([*victims, *more], choices) == []
    assert ambiguous(victims, [choices[0].model_copy(update={"label": "worst"})]) == [
        "attacks.worst: this name is a column of the tables; choose another"
    ]
    first, second = (each.model_copy(update={"label": "same"}) for each in choices[:2])
    assert ambiguous(victims, [first, second]) == ["attacks.same: two attacks have this name"]
    noisy = next(each for each in victims if each.defense.label == "noise")
    other = noisy.defense.model_copy(update={"name": "dropout"})
    changes = {"defense": other}, {"training": noisy.training.model_copy(update={"epochs": 99})}
    for change in changes:
        (line,) = ambiguous([*victims, noisy.model_copy(update=change)], choices)
        assert line.startswith(f"defenses.noise: two have this name at strength {other.strength}")


def test_a_path_works_like_a_name(tmp_path):
    copy = tmp_path / "mine.toml"
    copy.write_text((suite.SUITES / "smoke.toml").read_text())
    loaded = suite.load(str(copy))
    assert loaded.name == "mine"
    assert [t.key for t in loaded.trials] == [t.key for t in SMOKE.trials]
    assert tomllib.loads(copy.read_text())["description"] == loaded.description


def test_options_are_strict():
    assert resolve(KMeansCem, {"lam": 1})["lam"] == 1.0
    with pytest.raises(ValueError, match="clusters"):
        resolve(KMeansCem, {"clusters": 2.5})


def test_seeds_depend_on_every_name_and_on_nothing_else():
    seeds = {seed_for(*names) for names in [("a", 0), ("a", 1), ("b", 0), ("a", "b", 0)]}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for("attack", "decoder", 0) == 6616669882454530188  # in every process, ever


def test_keys_put_together_from_parts_are_those_of_the_whole_configurations():
    whole = suite.load("smoke", ["attack_seeds=2"])
    assert all(trial.key == key_of(trial.config) for trial in whole.trials)
    assert len({trial.key for trial in whole.trials}) == len(whole.trials)


def test_a_mistake_in_an_override_says_where_it_was_typed():
    with pytest.raises(BenchError, match=r"smoke\.toml with --set nonsense=1:\n") as caught:
        suite.load("smoke", ["nonsense=1"])
    assert "model, plugins, seeds" in str(caught.value)


def test_a_defense_of_ones_own_may_take_vectors_alone_and_name_its_options_as_it_likes(monkeypatch):
    """It has no strength either, which a stack need not have."""

    class Flat(Defense):
        def __init__(self, shape, classes, *, lam_steps: int = 10, warmup_epochs: int = 50):
            (self.size,) = shape
            super().__init__(shape, classes)

    monkeypatch.setitem(DEFENSES, "flat", Flat)
    assert suite.load("smoke", ["defenses.flat={}"]).victims[-1].row == "flat"
    stack = suite.load("smoke", ["defenses.both={use=['flat','noise']}"])
    assert stack.victims[-1].row == "both"
    with pytest.raises(BenchError, match=r"as part.option, e.g. noise.noise = 1"):
        suite.load("smoke", ["defenses.both={use=['flat','noise'],lam=1}"])
