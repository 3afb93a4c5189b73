"""The defenses against literal loops, values worked by hand, and invariants."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from defenses import DEFENSES
from defenses.cem import Cem
from defenses.gated_pooling import GatedPooling
from defenses.gmm_cem import GmmCem
from defenses.kmeans_cem import KMeansCem
from defenses.noise import Noise
from defenses.slot_attention import SlotAttention
from tests import reference

SHAPE = (2, 3, 2)
HAND = torch.tensor([[0.0, 0.0], [0.2, 0.1], [-0.1, 0.05], [0.15, -0.05]], dtype=torch.float64)

VARIANTS = [
    ("kmeans_cem", {}),
    ("kmeans_cem", {"variance": "mean", "gate": "capacity", "noise": 0.2}),
    ("kmeans_cem", {"variance": "per_dim", "gate": "linear", "clusters": 3}),
    ("kmeans_cem", {"variance": "per_dim", "class_weight": "uniform"}),
    (
        "kmeans_cem",
        {"variance": "mean", "pooling": "cluster", "blend": 10.0, "class_weight": "uniform"},
    ),
    ("kmeans_cem", {"variance": "per_dim", "blend": 0.5}),
    ("gmm_cem", {}),
    ("gmm_cem", {"variance": "mean", "gate": "linear", "components": 3}),
    ("gmm_cem", {"variance": "trace", "gate": "capacity", "class_weight": "uniform"}),
    ("gmm_cem", {"covariance": "full", "rank": 4, "components": 2}),
    ("gated_pooling", {}),
    ("gated_pooling", {"features": "raw", "variance": "mean", "noise": 0.05}),
    ("gated_pooling", {"features": "raw", "variance": "trace", "attention": "uniform"}),
    ("gated_pooling", {"attention": "detached", "gate": "capacity", "noise": 0.3}),
    ("slot_attention", {"shutoff_steps": 0}),
    ("slot_attention", {"shutoff_steps": 0, "measure": "features", "slots": 3, "rounds": 2}),
    (
        "slot_attention",
        {"shutoff_steps": 0, "slot_power": 3.0, "mass_power": 0.5, "margin_sharpness": 4.0},
    ),
]
CEM = sorted({name for name, _ in VARIANTS})


def make(name: str, options: dict, classes: int = 4, n: int = 48, shape=SHAPE) -> Cem:
    """A float64 defense past its warm-up, with statistics fitted on random features."""
    torch.manual_seed(1)
    defense = DEFENSES[name](shape, classes, **options)
    assert isinstance(defense, Cem)
    defense.epoch = defense.warmup_epochs
    defense.refresh(torch.rand(n, *shape), torch.arange(n) % classes)
    return defense.double().eval()


def batch(n: int, classes: int, shape=SHAPE) -> tuple[Tensor, Tensor]:
    z = torch.rand(n, *shape, dtype=torch.float64, requires_grad=True)
    return z, torch.randint(classes, (n,))


def gradients(loss: Tensor, z: Tensor, defense: nn.Module) -> list[Tensor]:
    inputs = [z, *defense.parameters()]
    found = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize(("n", "classes"), [(24, 4), (7, 4), (1, 4), (16, 500)])
def test_penalty_and_gradients_equal_the_literal_loops(name, options, n, classes):
    """With missing classes, classes of one sample, one sample in all, and 500 classes."""
    defense = make(name, options, classes, n=3 * classes)
    z, y = batch(n, classes)
    fast, _ = defense.penalty(z, y)
    slow = reference.penalty(z, y, defense)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)
    for a, b in zip(gradients(fast, z, defense), gradients(slow, z, defense), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_kmeans_by_hand():
    defense = KMeansCem(
        (2, 1, 1), 2, clusters=2, noise=0.1, var_threshold=0.2, gamma=1e-6, lam=1.0
    ).double()
    defense.epoch = 1
    defense.centres[1] = torch.tensor([[-0.05, 0.025], [0.175, 0.025]])
    defense.weights[1] = torch.tensor([0.5, 0.5])
    loss, _ = defense.penalty(HAND.view(4, 2, 1, 1), torch.ones(4, dtype=torch.long))
    assert float(loss.detach()) == pytest.approx(
        0.85147, abs=5e-6
    )  # v = .5 * .003125 + .5 * .00625


def test_kmeans_refresh_finds_the_centres_worked_by_hand():
    defense = KMeansCem((2, 1, 1), 2, clusters=2)
    defense.refresh(HAND.float().view(4, 2, 1, 1), torch.ones(4, dtype=torch.long))
    centres = defense.centres[1][defense.centres[1][:, 0].argsort()]
    expected = torch.tensor([[-0.05, 0.025], [0.175, 0.025]])
    torch.testing.assert_close(centres, expected)
    assert defense.weights.tolist() == [[0, 0], [0.5, 0.5]]


def test_gated_attention_by_hand(monkeypatch):
    monkeypatch.setattr("defenses.gated_pooling.layer_norm", lambda z, shape: z)
    defense = GatedPooling(
        (2, 1, 1), 2, variance="trace", noise=0.1, var_threshold=0.2, gamma=1e-6,
        warmup_epochs=0, scale=1.0,
    )  # fmt: skip
    defense.vu, defense.w = nn.Linear(2, 4, bias=False), nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        defense.vu.weight.copy_(torch.eye(2).repeat(2, 1))
        defense.w.weight.fill_(1)
    loss, seen = defense.double().penalty(HAND, torch.ones(4, dtype=torch.long))
    assert float(loss.detach()) == pytest.approx(2.16710, abs=5e-6)
    attention = torch.tensor([0.237516, 0.278964, 0.232408, 0.251111], dtype=torch.float64)
    assert float(seen["effective_samples"]) == pytest.approx(
        1 / float((attention**2).sum()), rel=1e-5
    )


@pytest.mark.parametrize("name", CEM)
@given(seed=st.integers(0, 2**31), n=st.integers(2, 20))
@settings(max_examples=15, deadline=None)
def test_permuting_the_batch_changes_nothing(name, seed, n):
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    torch.manual_seed(seed)
    z, y = batch(n, 4)
    order = torch.randperm(n)
    torch.testing.assert_close(defense.penalty(z[order], y[order])[0], defense.penalty(z, y)[0])


@pytest.mark.parametrize("name", CEM)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_relabelling_the_classes_changes_nothing(name, seed):
    """Statistics read at the wrong row are the field's commonest mistake."""
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    torch.manual_seed(seed)
    z, y = batch(20, 4)
    before = defense.penalty(z, y)[0]
    relabel = torch.randperm(4)
    for buffer_name, buffer in defense.named_buffers():
        if buffer_name in (
            "centres",
            "weights",
            "sizes",
            "spreads",
            "means",
            "precisions",
            "log_dets",
        ):
            buffer.copy_(buffer[relabel.argsort()].clone())
    torch.testing.assert_close(defense.penalty(z, relabel[y])[0], before)


@pytest.mark.parametrize("name", CEM)
def test_duplicating_the_batch_changes_nothing(name):
    defense = make(name, {"shutoff_steps": 0} if name == "slot_attention" else {})
    z, y = batch(20, 4)
    y = torch.arange(20) % 4  # no class of one sample: those are skipped, twins are not
    twice = defense.penalty(torch.cat([z, z]), torch.cat([y, y]))[0]
    torch.testing.assert_close(twice, defense.penalty(z, y)[0])


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
    loss, _ = defense.penalty(z, y)
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
    loss, seen = defense.penalty(spoiled, y)
    assert loss.isfinite()
    assert float(seen["nonfinite"]) == 1
    (g,) = torch.autograd.grad(loss, spoiled)
    assert g.isfinite().all()
    assert (g[y == 0] == 0).all()
    others = defense.penalty(z[y != 0], y[y != 0])[0] * (0.75 if name != "slot_attention" else 1)
    if name != "slot_attention":  # its class gate depends on the size of the batch
        torch.testing.assert_close(loss, others)
    loss, seen = defense.penalty(torch.full_like(z, value).requires_grad_(), y)
    assert float(loss.detach()) == 0
    assert loss.grad_fn is not None


def test_one_backward_equals_the_two_pass_recipe():
    """The reference stores the encoder's gradient of the loss, zeroes, and merges with lam."""
    encoder, head = nn.Linear(5, 12).double(), nn.Linear(12, 4).double()
    x, y = torch.rand(20, 5, dtype=torch.float64), torch.randint(4, (20,))
    defense, unweighted = (make("kmeans_cem", {"lam": lam}) for lam in (3.0, 1.0))

    def losses(d: Cem) -> tuple[Tensor, Tensor]:
        z = encoder(x).sigmoid()
        return nn.functional.cross_entropy(head(z), y), d.penalty(z.view(-1, *SHAPE), y)[0]

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
        values.append(float(defense.penalty(z, y)[0].detach()))
    assert values[:2] == [0, 0]
    ratios = [value / values[2] for value in values[2:]]
    assert ratios == pytest.approx([1, 2, 3, 4, 5, 5])
    plain = make(name, options | {"lam": 1.0})
    plain.epoch = 2
    assert values[2] == pytest.approx(2 * float(plain.penalty(z, y)[0].detach()))


@pytest.mark.parametrize("name", CEM)
def test_clipping_limits_the_penalty_gradient_alone(name):
    options = {"lam": 100.0} | ({"shutoff_steps": 0} if name == "slot_attention" else {})
    z, y = batch(20, 4)
    free = torch.autograd.grad(make(name, options).penalty(z, y)[0], z)[0]
    loss, _ = make(name, options | {"clip": 0.01}).penalty(z, y)
    (clipped,) = torch.autograd.grad(loss, z)
    torch.testing.assert_close(clipped, free * (0.01 / free.norm()))
    loose, _ = make(name, options | {"clip": 1e6}).penalty(z, y)
    torch.testing.assert_close(torch.autograd.grad(loose, z)[0], free)


def test_attention_alone_fools_itself_and_the_diagnostics_say_so():
    """The known trap: features fixed, attention trained, the loss collapses."""
    defense = GatedPooling((32, 2, 2), 10, warmup_epochs=0, scale=1.0)
    z, y = torch.rand(128, 32, 2, 2), torch.arange(128) % 10
    optimiser = torch.optim.Adam(defense.parameters(), 0.05)
    values = []
    for _ in range(60):
        loss, seen = defense.penalty(z, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        values.append((float(loss.detach()), float(seen["effective_samples"])))
    assert values[-1][0] < 0.1 * values[0][0]
    assert values[0][1] > 10
    assert values[-1][1] < 2


def test_adversarial_attention_climbs_and_features_descend():
    joint, adversarial = (
        GatedPooling(SHAPE, 4, warmup_epochs=0, attention=attention)
        for attention in ("joint", "adversarial")
    )
    adversarial.load_state_dict(joint.state_dict())
    z, y = batch(20, 4)
    z = z.float().detach().requires_grad_()
    a = gradients(joint.penalty(z, y)[0], z, joint)
    joint.penalty(z, y)[0].backward()
    plain = [p.grad for p in joint.parameters()]
    z.grad = None
    adversarial.penalty(z, y)[0].backward()
    torch.testing.assert_close(z.grad, a[0])
    for p, q in zip(adversarial.parameters(), plain, strict=True):
        torch.testing.assert_close(p.grad, -q)


def test_slots_measure_and_never_predict_the_variance():
    """Scaling the features about their class means scales what the slots measure."""
    defense = SlotAttention(
        SHAPE, 1, shutoff_steps=0, measure="features", slots=1, snr_sharpness=0.0
    ).double().eval()  # fmt: skip
    for parameter in defense.dimension_gate.parameters():
        nn.init.zeros_(parameter)  # both sigmoid gates are now 1/2
    defense.epoch = defense.warmup_epochs
    z, y = batch(30, 1)
    v = z.detach().flatten(1).var(0, correction=0) + 1e-8
    gate = 1 / (1 + math.exp(-10 * (1 - 0.05)))
    margin = torch.nn.functional.softplus((v / defense.tau).log() - 0.1)
    loss, _ = defense.penalty(z, y)
    assert float(loss.detach()) == pytest.approx(gate * 0.25 * float(margin.mean()) * defense.scale)


def test_slots_compete_over_the_samples_of_a_class():
    """A sample of another class must not change a class's slots."""
    defense = make("slot_attention", {"shutoff_steps": 0})
    assert isinstance(defense, SlotAttention)
    defense.class_sharpness = 0.0
    z, _ = batch(12, 4)
    y = torch.tensor([0] * 6 + [1] * 6)
    moved = torch.cat([z[:6], torch.rand(6, *SHAPE, dtype=z.dtype)])
    inputs = z.detach().requires_grad_(), moved.detach().requires_grad_()
    first = [
        torch.autograd.grad(defense.penalty(i, y)[0], i)[0][:6] for i in inputs
    ]  # class 0's gradient is independent of class 1's samples
    torch.testing.assert_close(*first)
    assert float(first[0].norm()) > 0


def test_slot_shutoff_counts_calls_and_stays_connected():
    defense = make("slot_attention", {"shutoff_steps": 2})
    z, y = batch(20, 4)
    losses = [defense.penalty(z, y)[0] for _ in range(3)]
    assert [float(loss.detach()) == 0 for loss in losses] == [True, True, False]
    assert losses[0].grad_fn is not None
    shut = make("slot_attention", {"shutoff_steps": 0, "gate_range": (0.9, 1.0)})
    loss, seen = shut.penalty(z, y)
    assert float(loss.detach()) == 0
    assert float(seen["shut_off"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"snr_threshold": 5.0},
        {"snr_sharpness": 1.0},
        {"margin": 1.0},
        {"margin_sharpness": 5.0},
        {"mass_power": 0.0},
        {"class_threshold": 0.5},
        {"class_sharpness": 1.0},
        {"slot_power": 4.0},
        {"rounds": 1},
        {"slots": 2},
        {"width": 32},
        {"measure": "features"},
        {"var_threshold": 1.0},
    ],
)
def test_every_slot_option_matters(options):
    z, y = batch(20, 4)
    plain = make("slot_attention", {"shutoff_steps": 0}).penalty(z, y)[0]
    changed = make("slot_attention", {"shutoff_steps": 0} | options).penalty(z, y)[0]
    assert abs(plain - changed).detach() > 1e-6 * plain.detach()


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem"])
def test_refresh_copes_with_small_and_missing_classes(name):
    """Fewer samples than clusters, one sample, none; equal samples."""
    defense = DEFENSES[name](SHAPE, 5)
    features = torch.rand(20, *SHAPE)
    features[10:14] = features[10]
    labels = torch.tensor([0] * 10 + [1] * 4 + [2] * 1 + [3] * 5)
    defense.refresh(features, labels)
    assert defense.weights.sum(1).tolist() == pytest.approx([1, 1, 1, 1, 0])
    defense.epoch = 1
    loss, _ = defense.penalty(features.requires_grad_(), labels)
    assert loss.isfinite()


@pytest.mark.parametrize("name", ["kmeans_cem", "gmm_cem"])
def test_refresh_is_asked_for_every_few_epochs_after_the_warm_up(name):
    defense = DEFENSES[name](SHAPE, 2, warmup_epochs=3, refresh_every=2)
    wanted = []
    for defense.epoch in range(8):
        wanted.append(defense.wants_refresh)
    assert wanted == [False, False, False, True, False, True, False, True]


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_gmm_responsibilities_equal_scikit_learn(covariance):
    from sklearn.mixture import GaussianMixture

    defense = GmmCem(SHAPE, 1, components=2, covariance=covariance, rank=12).double()
    x = torch.cat([torch.randn(60, 12) * 0.3, torch.randn(40, 12) * 0.5 + 0.8]).double()
    defense.refresh(x.view(-1, *SHAPE), torch.zeros(100, dtype=torch.long))
    ours = GaussianMixture(2, covariance_type=covariance, reg_covar=1e-6, random_state=0)
    ours.weights_, ours.means_ = (t[0].numpy() for t in (defense.weights, defense.means))
    if covariance == "full":
        ours.precisions_cholesky_ = defense.precisions[0].numpy()
        low = (x - defense.centre) @ defense.basis
    else:
        ours.precisions_cholesky_ = defense.precisions[0].sqrt().numpy()
        low = x
    y = torch.zeros(100, dtype=torch.long)
    centred = low[:, None] - defense.means[y]
    mine = defense._responsibilities(centred, centred.square(), y)
    expected = torch.as_tensor(ours.predict_proba(low.numpy()))
    torch.testing.assert_close(mine, expected, rtol=1e-6, atol=1e-6)


def test_noise_has_its_standard_deviation_in_training_and_in_evaluation():
    z = torch.full((200, 8, 8, 8), 0.5)
    for defense in (Noise((8, 8, 8), 2, noise=0.3), KMeansCem((8, 8, 8), 2, noise=0.3)):
        for mode in (True, False):
            released = defense.train(mode)(z)
            assert float((released - z).std()) == pytest.approx(0.3, rel=0.02)
            assert float((released - z).mean()) == pytest.approx(0, abs=0.01)


def test_cost_does_not_grow_with_the_classes():
    """Groups are never more than samples, however many classes there are."""
    from defenses.groups import Groups

    for classes in (5, 12, 500, 10_000):
        groups = Groups.of(torch.randint(classes, (12,)), classes, torch.float32)
        assert groups.member.shape == (min(classes, 12), 12)
        assert groups.member.sum(0).tolist() == [1] * 12


def test_stronger_means_more_penalty():
    z, y = batch(20, 4)
    for name in CEM:
        options = {"shutoff_steps": 0} if name == "slot_attention" else {}
        values = [
            float(make(name, options | {"lam": lam}).penalty(z, y)[0].detach()) for lam in (0, 1, 2)
        ]
        assert values[0] == 0
        assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kmeans_cem", {"blend": 10.0, "class_weight": "uniform"}),
        ("gmm_cem", {}),
        ("gmm_cem", {"covariance": "full", "rank": 4}),
        ("gated_pooling", {}),
        ("slot_attention", {"shutoff_steps": 0}),
    ],
)
@pytest.mark.parametrize("classes", [4, 40])
def test_a_step_never_looks_at_values_on_the_host(name, options, classes):
    """On the meta device tensors have no values: whatever would wait for the GPU raises."""
    defense = make(name, options | {"clip": 1.0}, classes, n=classes).to("meta")
    z = torch.empty(16, *SHAPE, device="meta", dtype=torch.float64, requires_grad=True)
    loss, diagnostics = defense.penalty(z, torch.empty(16, device="meta", dtype=torch.long))
    loss.backward()
    assert z.grad.device.type == "meta"
    assert all(value.device.type == "meta" for value in diagnostics.values())
