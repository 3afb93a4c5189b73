"""What every defense must hold to: invariants, signs, warm-up, clipping."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from smashbench.defenses import DEFENSES
from smashbench.defenses.cem import Cem
from smashbench.defenses.kmeans_cem import KMeansCem
from smashbench.defenses.noise import Noise
from smashbench.defenses.stack import Stack
from tests.fitted import CEM, SHAPE, VARIANTS, batch, make, step_of


@pytest.fixture(scope="module", params=CEM)
def defense(request) -> Cem:
    return make(request.param, {"shutoff_steps": 0} if request.param == "slot_attention" else {})


@given(seed=st.integers(0, 2**31), n=st.integers(2, 20))
@settings(max_examples=15, deadline=None)
def test_permuting_the_batch_changes_nothing(defense, seed, n):
    torch.manual_seed(seed)
    z, y = batch(n, 4)
    order = torch.randperm(n)
    torch.testing.assert_close(
        defense.penalty(step_of(z[order], y[order]))[0], defense.penalty(step_of(z, y))[0]
    )


@pytest.mark.parametrize("name", CEM)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_relabelling_the_classes_changes_nothing(name, seed):
    """Statistics read at the wrong row are the field's commonest mistake."""
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    torch.manual_seed(seed)
    z, y = batch(20, 4)
    before = defense.penalty(step_of(z, y))[0]
    relabel = torch.randperm(4)
    for buffer_name, buffer in defense.named_buffers():
        if buffer_name in (
            "centres",
            "weights",
            "sizes",
            "spreads",
            "means",
            "precisions",
            "roots",
            "covariances",
            "log_dets",
        ):
            buffer.copy_(buffer[relabel.argsort()].clone())
    torch.testing.assert_close(defense.penalty(step_of(z, relabel[y]))[0], before)


@pytest.mark.parametrize("name", CEM)
def test_duplicating_the_batch_changes_nothing(name):
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    z, y = batch(20, 4)
    y = torch.arange(20) % 4  # no class of one sample: those are skipped, twins are not
    twice = defense.penalty(step_of(torch.cat([z, z]), torch.cat([y, y])))[0]
    torch.testing.assert_close(twice, defense.penalty(step_of(z, y))[0])


@pytest.mark.parametrize(
    ("name", "options"),
    [v for v in VARIANTS if v[0] != "slot_attention" and v[1].get("features") != "raw"]
    + [("slot_attention", {"shutoff_steps": 0, "measure": "features"})],
)
def test_a_penalty_step_lowers_the_true_variance(name, options):
    """The sign: with class means held apart, descending the penalty shrinks the spread."""
    defense = make(name, options, n=400)
    z, _ = batch(40, 4)
    y = torch.arange(40) % 4
    loss, _ = defense.penalty(step_of(z, y))
    (g,) = torch.autograd.grad(loss, z)
    assert float(g.norm()) > 0

    def variance(features: Tensor) -> Tensor:
        flat = features.detach().flatten(1)
        return torch.stack([flat[y == c].var(0, correction=0).mean() for c in range(4)]).mean()

    step = 1e-3 * g / g.norm()
    assert float(variance(z - step)) < float(variance(z))


@pytest.mark.parametrize("name", CEM)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_features_are_counted_and_cost_nothing(name, value):
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    z, _ = batch(12, 4)
    y = torch.arange(12) % 4
    spoiled = z.detach().clone()
    spoiled[0, 0, 0, 0] = value  # class 0
    spoiled.requires_grad_()
    loss, seen = defense.penalty(step_of(spoiled, y))
    assert loss.isfinite()
    assert float(seen["nonfinite"]) == 1
    (g,) = torch.autograd.grad(loss, spoiled)
    assert g.isfinite().all()
    assert (g[y == 0] == 0).all()
    others = defense.penalty(step_of(z[y != 0], y[y != 0]))[0] * (
        0.75 if name != "slot_attention" else 1
    )
    if name != "slot_attention":  # its class gate depends on the size of the batch
        torch.testing.assert_close(loss, others)
    loss, seen = defense.penalty(step_of(torch.full_like(z, value).requires_grad_(), y))
    assert float(loss.detach()) == 0
    assert loss.grad_fn is not None


def test_one_backward_equals_the_two_pass_recipe():
    """The reference stores the encoder's gradient of the loss, zeroes, and merges with lam."""
    encoder, head = nn.Linear(5, 12).double(), nn.Linear(12, 4).double()
    x, y = torch.rand(20, 5, dtype=torch.float64), torch.randint(4, (20,))
    defense, unweighted = (make("kmeans_cem", {"lam": lam}) for lam in (3.0, 1.0))

    def losses(d: Cem) -> tuple[Tensor, Tensor]:
        z = encoder(x).sigmoid()
        return nn.functional.cross_entropy(head(z), y), d.penalty(step_of(z.view(-1, *SHAPE), y))[0]

    (sum(losses(defense))).backward()
    once = [p.grad.clone() for p in encoder.parameters()]
    head_gradient = head.weight.grad.clone()
    encoder.zero_grad(), head.zero_grad()
    losses(unweighted)[1].backward()
    stored = [p.grad.clone() for p in encoder.parameters()]
    assert head.weight.grad is None  # the head gets nothing from the penalty
    encoder.zero_grad()
    losses(defense)[0].backward()
    torch.testing.assert_close(head.weight.grad, head_gradient)
    for a, p, extra in zip(once, encoder.parameters(), stored, strict=True):
        torch.testing.assert_close(a, p.grad + 3.0 * extra)


@pytest.mark.parametrize("name", CEM)
def test_warm_up_scale_ramp_and_lam(name):
    options = {"warmup_epochs": 2, "scale": 0.1, "scale_end": 0.5, "ramp_epochs": 4, "lam": 2.0}
    if name == "slot_attention":
        options["shutoff_steps"] = 0
    defense = make(name, options)
    z, y = batch(20, 4)
    values = []
    for defense.epoch in range(8):
        values.append(float(defense.penalty(step_of(z, y))[0].detach()))
    assert values[:2] == [0, 0]
    ratios = [value / values[2] for value in values[2:]]
    assert ratios == pytest.approx([1, 2, 3, 4, 5, 5])
    plain = make(name, options | {"lam": 1.0})
    plain.epoch = 2
    assert values[2] == pytest.approx(2 * float(plain.penalty(step_of(z, y))[0].detach()))


@pytest.mark.parametrize("name", CEM)
def test_clipping_limits_the_penalty_gradient_alone(name):
    options = {"lam": 100.0} | ({"shutoff_steps": 0} if name == "slot_attention" else {})
    z, y = batch(20, 4)
    free = torch.autograd.grad(make(name, options).penalty(step_of(z, y))[0], z)[0]
    loss, _ = make(name, options | {"clip": 0.01}).penalty(step_of(z, y))
    (clipped,) = torch.autograd.grad(loss, z)
    torch.testing.assert_close(clipped, free * (0.01 / free.norm()))
    loose, _ = make(name, options | {"clip": 1e6}).penalty(step_of(z, y))
    torch.testing.assert_close(torch.autograd.grad(loose, z)[0], free)


def test_noise_has_its_standard_deviation_in_training_and_in_evaluation():
    z = torch.full((200, 8, 8, 8), 0.5)
    for defense in (Noise((8, 8, 8), 2, noise=0.3), KMeansCem((8, 8, 8), 2, noise=0.3)):
        for mode in (True, False):
            released = defense.train(mode)(z)
            assert float((released - z).std()) == pytest.approx(0.3, rel=0.02)
            assert float((released - z).mean()) == pytest.approx(0, abs=0.005)


def test_cost_does_not_grow_with_the_classes():
    """Groups are never more than samples, however many classes there are."""
    from smashbench.defenses.groups import Groups

    for classes in (5, 12, 500, 10_000):
        groups = Groups.of(torch.randint(classes, (12,)), classes, torch.float32)
        assert groups.member.shape == (min(classes, 12), 12)
        assert groups.member.sum(0).tolist() == [1] * 12


def test_stronger_means_more_penalty():
    z, y = batch(20, 4)
    for name in CEM:
        options = {"shutoff_steps": 0} if name == "slot_attention" else {}
        values = [
            float(make(name, options | {"lam": lam}).penalty(step_of(z, y))[0].detach())
            for lam in (0, 1, 2)
        ]
        assert values[0] == 0
        assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kmeans_cem", {"blend": 10.0, "class_weight": "uniform"}),
        ("gmm_cem", {}),
        ("full_gmm_cem", {"rank": 4}),
        ("gated_pooling", {}),
        ("slot_attention", {"shutoff_steps": 0}),
    ],
)
@pytest.mark.parametrize("classes", [4, 40])
def test_a_step_never_looks_at_values_on_the_host(name, options, classes):
    """On the meta device tensors have no values: whatever would wait for the GPU raises."""
    defense = make(name, options | {"clip": 1.0}, classes, n=classes).to("meta")
    z = torch.empty(16, *SHAPE, device="meta", dtype=torch.float64, requires_grad=True)
    loss, diagnostics = defense.penalty(
        step_of(z, torch.empty(16, device="meta", dtype=torch.long))
    )
    loss.backward()
    assert z.grad.device.type == "meta"
    assert all(value.device.type == "meta" for value in diagnostics.values())


@pytest.mark.parametrize("name", DEFENSES)
def test_who_holds_the_client_has_what_it_runs_and_no_more(name):
    """The same releases; and nothing that was fitted to training features for penalties alone."""
    shape, options = (4, 4, 4), {"noise": 0.1} if name in {*CEM, "class_variance"} else {}
    defense = DEFENSES[name](shape, 4, **options).eval()
    stack = Stack({name: defense, "more": Noise(shape, 4)}).eval()
    for whole in (defense, stack):
        sent, z = whole.deployed(), torch.rand(6, *shape)
        released = []
        for each in (whole, sent):
            torch.manual_seed(0)
            released.append((each(z), each.transform(z)))
        for one, other in zip(*released, strict=True):
            assert torch.equal(one, other)
        if name in CEM:
            assert not [*sent.parameters(), *sent.buffers()]
