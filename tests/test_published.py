"""Published figures stand beside a suite that has their protocol, and no other."""

from pathlib import Path

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.figures.tradeoff import tradeoff
from smashbench.bench.report.published import REFERENCE, published_points
from smashbench.bench.report.rows import read
from smashbench.bench.suite.config import Component
from smashbench.bench.suite.toml import load
from smashbench.bench.suite.trial import Suite, victim_trial
from tests import forge


def test_published_rows_stand_beside_their_own_protocol_alone():
    def suite(model_changes: dict | None = None, **changes) -> Suite:
        model_changes = model_changes or {}
        dataset = Component(name="cifar10", options={"split": "xia2025"} | changes)
        model = Component(name="vgg11", options=REFERENCE | model_changes)
        update = {"dataset": dataset, "model": model}
        config = forge.victim_trial().victim.model_copy(update=update)
        return Suite("hand", "", (victim_trial(config),), ())

    found = {row.name: value for row, value in published_points(suite(), "mse")}
    assert found["bottleneck + CEM"] == 0.0058
    assert len(found) == 15
    assert published_points(suite(split="disjoint"), "mse") == []
    assert published_points(suite({"decoding": "block"}), "mse") == []
    assert {v.victim.model.name for v in load("xia2025").victims} == {"vgg11"}
    assert len(published_points(load("xia2025"), "mse")) == 15
    narrow = load("xia2025", ["defenses.bottleneck.strengths=[4]"])
    assert len(published_points(narrow, "mse")) == 15
    assert published_points(suite(), "ssim") == []  # theirs is another SSIM


def test_a_figure_with_published_rows_says_which_they_are():
    board = read(Path(__file__).parents[1] / "results" / "xia2025")
    for metric, told in (("mse", True), ("ssim", False)):
        title = tradeoff(METRICS[metric]).draw(board).get_suptitle()
        assert (" ".join(title.split()).endswith("; grey rings: as published")) == told
