"""``smashbench audit`` as a person types it."""

from functools import wraps
from inspect import signature

import numpy as np
import pytest
import torch

from smashbench.bench import audit
from smashbench.bench.auditing import command
from smashbench.bench.command import main, parser
from smashbench.bench.errors import BenchError
from tests.inside import cells_inside
from tests.worlds import images

LINES = """
import torch

def encoder():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 2, 4, 4), torch.nn.Sigmoid())

def load():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 3))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with images, features and a file of one's own."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    x = images(150, 16)
    (tmp_path / "mine.py").write_text(LINES)
    names: dict[str, object] = {}
    exec(LINES, names)
    with torch.no_grad():
        np.save("z.npy", names["encoder"]()(x).numpy())
    np.save("x.npy", (x * 255).round().byte().permute(0, 2, 3, 1).numpy())
    np.save("y.npy", torch.arange(150).numpy() % 3)
    return tmp_path


def test_every_option_is_one_of_the_library_with_its_default():
    choice, known = (
        vars(parser().parse_args(["audit", "--images", "x"])),
        signature(audit).parameters,
    )
    assert choice.keys() - known.keys() == {"command", "out", "gallery", "fail_below", "fail_above"}
    assert known.keys() - choice.keys() == {"progress"}
    for name in known.keys() & choice.keys() - {"images"}:
        assert choice[name] == known[name].default, name


def test_what_is_typed_arrives(monkeypatch, tmp_path):
    seen = {}

    @wraps(audit)  # whose signature says which options there are
    def spy(**options):
        seen.update(options)
        raise BenchError("enough")

    monkeypatch.setattr(command, "audit", spy)
    typed = "--images x --features z --groups folders --labels y --size 32 --repeated --trust-order"
    typed += " --tune-head --test-share .2 --budget 1 --memory 2 --seed 7"
    assert main(["audit", *typed.split(), "--out", str(tmp_path)]) == 2
    assert seen == {
        **{"images": "x", "features": "z", "model": None, "head": None, "labels": "y"},
        **{"groups": "folders", "layout": None, "size": 32, "repeated": True, "trust_order": True},
        **{"tune_head": True, "test_share": 0.2, "minutes": 1.0, "memory": 2.0, "seed": 7},
        "progress": True,
    }


def audited(*arguments: str) -> int:
    with cells_inside():
        return main(["audit", "--images", "x.npy", "--budget", ".001", *arguments])


@pytest.mark.slow
def test_it_writes_a_page_and_says_what_leaks(here, capsys):
    assert audited("--features", "z.npy", "--labels", "y.npy", "--head", "mine.py:load") == 0
    out, err = capsys.readouterr()
    assert out.startswith("An attacker with 105 images of its own and their features rebuilds ")
    assert "attack      MSE" in out
    assert "not tried: map: needs the encoder" in out
    assert "note: The head is right for" in out
    assert "audit: audit.html  attacks.csv" in out
    assert "left] attack ridge" in err
    assert (here / "audit" / "audit.html").is_file()


@pytest.mark.slow
def test_a_limit_that_is_not_kept_is_the_exit_code(here, capsys):
    options = ("--model", "mine.py:encoder", "--out", "found")
    assert audited(*options, "--fail-below", "fvu=.99") == 1
    *_, untrained, few, last = capsys.readouterr().out.splitlines()
    assert "no decoder was trained, so no limit is shown to be kept" in untrained
    assert few.startswith("not private enough: the attacker had 105 pairs")
    assert last.startswith("not private enough: fvu = ")
    assert last.endswith("below 0.99")
    assert audited(*options) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fail-below", "fvu"], "write METRIC=VALUE, e.g. --fail-below fvu=.5"),
        (["--fail-below", "fvu=high"], "write METRIC=VALUE"),
        (["--fail-below", "fvu=nan"], "write METRIC=VALUE"),
        (["--fail-below", "fuv=.5"], "unknown metric 'fuv'; did you mean 'fvu'?"),
        (["--fail-below", "rank_1=.5"], "a lower rank_1 is more private: use --fail-above"),
        (["--fail-above", "fvu=.5"], "a higher fvu is more private: use --fail-below"),
        (["--fail-above", "rank_1=inf"], "write METRIC=VALUE, e.g. --fail-above rank_1=.1"),
        (["--fail-below", "fvu=-inf"], "write METRIC=VALUE, e.g. --fail-below fvu=.5"),
        (["--fail-above", "rank_1=10"], "every audit keeps to that; for 10 % write rank_1=.1"),
        (["--fail-above", "rank_1=1"], "rank_1 lies between 0 and 1, so that every audit keeps"),
        (["--fail-above", "ssim=2"], "ssim lies between -1 and 1"),
        (["--fail-below", "mse=-1"], "--fail-below mse=-1: mse is at least 0, so that every audit"),
        (["--fail-below", "fvu=0"], "fvu is at least 0, so that every audit keeps to that"),
        (["--features", "y.npy"], "features (150,): should be (N, ...)"),
        (["--features", "x.npy", "--model", "mine.py:encoder"], "give features or a model"),
        (["--labels", "folders"], "the images come from no folder"),
        (["--layout", "NCHW"], "in NCHW have 16 channels"),
        (["--out", "x.npy"], "--out x.npy: x.npy is no folder that can be written to"),
        (["--out", "x.npy/found"], "x.npy is no folder that can be written to"),
    ],
)
def test_what_was_typed_wrong_is_one_line_and_exit_2(here, capsys, arguments, words):
    given = [] if "--features" in arguments else ["--features", "z.npy"]
    assert audited(*given, *arguments) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("error: ")
    assert words in err
