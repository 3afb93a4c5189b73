"""What may be audited: encoders, files, features; and what is one error."""

import re
import threading

import numpy as np
import pytest
import torch
from torch import nn

from smashbench.bench import audit
from smashbench.bench.auditing import plan
from smashbench.bench.auditing.given import Called, Given, called, differentiable
from smashbench.bench.auditing.pairs import Images, pairs_of
from smashbench.bench.auditing.tensors import tensor_of
from smashbench.bench.command import main
from smashbench.bench.errors import BenchError
from smashbench.defenses import Defense
from tests.audited import SOON, encoder, pairs
from tests.commands import ROOT
from tests.inside import cells_inside

UNRELATED = torch.rand(200, 4, generator=torch.Generator().manual_seed(0))
"""Features that have nothing to do with any image."""


@pytest.fixture(scope="module")
def world():
    torch.manual_seed(0)  # at random, one draw in fifty looks related
    return pairs()


def test_an_encoder_that_ignores_its_input_is_refused(world):
    x, _ = world
    with pytest.raises(BenchError, match="the same for every image"):
        audit(images=x, model=lambda batch: torch.ones(len(batch), 4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give features or a model"),
        ({"features": UNRELATED, "model": abs}, "one of them, not both"),
        ({"images": np.full((9, 3, 16, 16), np.nan), "model": abs}, "images are not finite"),
        ({"images": "nowhere", "model": abs}, "images: there is no file nowhere"),
        ({"model": lambda size: nn.Flatten()}, "a function that makes it takes no argument"),
        ({"features": UNRELATED}, "Is their order the same"),
        ({"model": lambda x: 3}, r"the encoder returns int for a batch of \d+"),
        ({"model": lambda x: x[:1]}, r"the encoder returns \(1, 3, 16, 16\) for a batch"),
        ({"model": nn.Linear}, "the class Linear needs arguments; name a function"),
        ({"model": nn.Linear(5, 5)}, "the encoder fails on a batch .* RuntimeError"),
        ({"model": "mine.py"}, "write FILE.py:NAME"),
        ({"model": "none/mine.py:encoder"}, "--model none/mine.py: No such file"),
        ({"model": encoder(), "head": nn.Flatten(0)}, "the head returns"),
        ({"model": encoder(), "minutes": 0.0}, "--budget 0: should be minutes"),
        ({"model": encoder(), "test_share": 1.5}, "--test-share 1.5: should be from"),
        ({"model": encoder(), "memory": 1.0}, "--memory 1: 20 images"),
        ({"model": encoder(), "memory": float("inf")}, "--memory inf: should be GiB"),
        ({"model": encoder(), "repeated": True}, "--repeated is about --features"),
        ({"model": encoder(), "size": 32}, "--size 32 is of folders of image files"),
        ({"model": encoder(), "seed": 2**64}, "--seed 18446744073709551616: should be"),
        ({"model": encoder(), "labels": np.arange(200) + 10**12}, "should number the classes"),
    ],
)
def test_what_cannot_be_audited_is_one_error(world, options, words):
    with pytest.raises(BenchError, match=words):
        audit(**{"images": world[0], "minutes": SOON} | options)


def test_features_that_tell_nothing_are_audited_when_that_is_said(world):
    x, _ = world
    with cells_inside():
        found = audit(features=torch.rand(200, 4), images=x, trust_order=True, minutes=SOON)
    assert found.worst.estimates["fvu"].mean > 0.95
    assert found.verdict[0].startswith("No attack came much closer than the mean image")


def test_several_releases_are_an_axis(world):
    x, z = world
    repeated = z[:, None] + 0.05 * torch.randn(200, 3, *z.shape[1:])
    with cells_inside():
        found = audit(features=repeated, images=x, repeated=True, minutes=SOON)
    assert found.facts.feature_shape == (2, 4, 4)
    assert "larger --budget" in found.left_out["averaging"]
    assert found.worst.estimates["fvu"].mean < 0.9


def test_files_name_encoders_and_what_makes_them(tmp_path):
    (tmp_path / "neighbour.py").write_text("SCALE = 2\n")
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom neighbour import SCALE\n"
        "def twice(x):\n    return SCALE * x\n"
        "def make():\n    return torch.nn.Flatten()\n"
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
        "net = Net()\nnumber = 3\n"
    )
    x = torch.rand(2, 3, 4, 4)
    for name, wanted in (("twice", 2 * x), ("make", x.flatten(1)), ("Net", x + 1), ("net", x + 1)):
        assert torch.equal(called(f"{tmp_path}/mine.py:{name}", "encoder")(x), wanted)
    first, again = (called(f"{tmp_path}/mine.py:net", "encoder") for _ in range(2))
    assert type(first.function) is type(again.function)  # the file was run once
    with pytest.raises(BenchError, match="unknown name 'nets'; did you mean 'net'"):
        called(f"{tmp_path}/mine.py:nets", "encoder")
    with pytest.raises(BenchError, match="it is int"):
        called(f"{tmp_path}/mine.py:number", "head")
    (tmp_path / "ends.py").write_text("import sys\ndef net():\n    sys.exit(0)\n")
    with pytest.raises(BenchError, match="net: SystemExit: 0"):
        called(f"{tmp_path}/ends.py:net", "encoder")
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(BenchError, match=r"broken\.py: ZeroDivisionError"):
        called(f"{tmp_path}/broken.py:net", "encoder")


def test_the_file_of_the_documentation_is_an_encoder_and_a_head(tmp_path):
    text = (ROOT / "docs" / "audit.md").read_text()
    (lines,) = re.findall(r"```python\n# mine\.py\n(.*?)```", text, flags=re.S)
    (tmp_path / "mine.py").write_text(lines)
    z = called(f"{tmp_path}/mine.py:encoder", "encoder")(torch.rand(2, 3, 32, 32))
    assert z.shape == (2, 16, 16, 16)
    assert called(f"{tmp_path}/mine.py:head", "head")(z).shape == (2, 10)


def test_the_encoders_of_the_documentation_send_maps_and_tokens(tmp_path):
    text = (ROOT / "docs" / "audit.md").read_text()
    (lines,) = re.findall(r"```python\n# my_encoder\.py\n(.*?)```", text, flags=re.S)
    (tmp_path / "my_encoder.py").write_text(lines)
    x = torch.rand(2, 3, 32, 32)
    shapes = {"early": (64, 8, 8), "middle": (128, 4, 4), "late": (512, 1, 1)}
    for name, shape in (shapes | {"transformer": (65, 96)}).items():
        made = called(f"{tmp_path}/my_encoder.py:{name}", "encoder").eval()
        assert made(x).shape == (2, *shape)


def test_every_option_is_documented(capsys):
    text = (ROOT / "docs" / "audit.md").read_text()
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert len(options) > 15
    assert all(f"`{option}" in text for option in options)


@pytest.mark.filterwarnings(
    "ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning"
)
def test_a_compiled_encoder_is_copied_and_gradients_come_through_it():
    compiled = torch.jit.trace(nn.Conv2d(3, 2, 3), torch.rand(2, 3, 8, 8))
    found = called(compiled, "encoder")
    x = torch.rand(4, 3, 8, 8)
    assert torch.equal(found(x), compiled(x))
    Given(found, Defense((1,), 1), None, (2, 6, 6))  # freezes the copy
    assert all(p.requires_grad for p in compiled.parameters())
    assert differentiable(found, x)


def test_a_text_that_is_called_an_array_is_none(tmp_path):
    (tmp_path / "x.npy").write_text("1, 2, 3")
    with pytest.raises(BenchError, match=r"x\.npy is no \.npy file"):
        tensor_of(tmp_path / "x.npy", "images")


def test_a_function_may_return_an_array(world):
    made = called(lambda x: x.flatten(1).numpy()[:, :7], "encoder")
    assert made(world[0][:3]).shape == (3, 7)
    backwards = called(lambda x: x.flatten(1).numpy()[:, ::-1], "encoder")
    assert torch.equal(backwards(world[0][:3]), world[0][:3].flatten(1).flip(1))


def test_images_must_be_large_enough_for_all_metrics(world):
    with pytest.raises(BenchError, match="should be at least 11x11 pixels"):
        audit(images=world[0][..., :10, :10], features=world[1])


def test_labels_of_any_whole_type_are_read(world):
    images = Images(world[0])
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64, np.int32):
        found = pairs_of(images, world[1], np.arange(200).astype(kind), None)
        assert found.labels.tolist() == list(range(200))


def test_a_damaged_archive_is_one_error(tmp_path):
    path = tmp_path / "z.npz"
    np.savez_compressed(path, z=np.random.default_rng(0).random((50, 8)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(BenchError, match=r"z.npz cannot be read"):
        tensor_of(str(path), "features")


def test_the_image_on_which_an_encoder_fails_is_named(world):
    x = world[0].clone()
    x[57] = 1.0  # and no other

    def model(batch):
        z = batch.flatten(1)[:, :9].clone()
        z[batch.flatten(1).amin(1) == 1] = torch.nan
        return z

    with pytest.raises(BenchError, match="features of image 57 are not finite"):
        audit(images=x, model=model, minutes=SOON)


def test_an_encoder_that_cannot_be_copied_is_no_white_box(world):
    net = encoder()
    net.lock = threading.Lock()
    with cells_inside():
        found = audit(images=world[0], model=net, minutes=SOON)
    assert "needs a copy of the encoder" in found.left_out["map"]
    assert found.attacks


@pytest.mark.slow
def test_features_too_many_for_a_decoder_leave_it_out(world):
    """The moments of 12,000 features at one place need 4.6 GiB in double precision."""
    x, z = world
    wide = z.flatten(1).repeat(1, 375)
    with cells_inside():
        found = audit(features=wide, images=x, minutes=SOON)
    assert "12001 features in closed form would need" in found.left_out["decoder"]
    assert {"ridge", "knn"} <= {each.name for each in found.attacks}


@pytest.mark.slow
def test_features_too_many_for_a_mixture_leave_it_out(world):
    x, z = world
    with cells_inside():
        found = audit(features=z.repeat(1, 33, 1, 1), images=x, minutes=SOON)  # 33 times 32
    why = "keeps a covariance of all features in every component: 1056 are too many"
    assert found.left_out["gmm"] == why


def test_one_group_alone_cannot_be_scored(world):
    with pytest.raises(BenchError, match="2 groups leave one to be scored, which has no interval"):
        audit(images=world[0], model=encoder(), groups=np.arange(200) % 2, minutes=SOON)


def test_what_does_not_fit_is_in_no_curve(world, monkeypatch):
    """Else the curves would say more than the verdict."""
    monkeypatch.setattr(plan, "ridge_bytes", lambda *shapes: 2**40)
    with cells_inside():
        found = audit(images=world[0], features=world[1], minutes=SOON)
    why = "would need 1024.0 GiB, more than half of --memory 4: give a larger one"
    assert found.left_out["ridge"] == why
    assert found.what_if
    for each in (*found.what_if, *found.knowledge):
        assert each.attack == "knn"


def test_a_network_is_left_as_it_was(world):
    net = nn.Sequential(encoder(), nn.Dropout())
    with cells_inside():
        audit(images=world[0], model=net, minutes=SOON)
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_gradients_say_whether_the_encoder_is_a_white_box(world):
    x = world[0][:2]

    class Cut(nn.Module):
        def forward(self, x):
            return x.detach().flatten(1)

    class Elsewhere(nn.Module):
        def forward(self, x):
            return torch.from_numpy(x.numpy()).flatten(1)

    assert not differentiable(Called(Elsewhere(), "encoder"), x)
    assert differentiable(Called(encoder(), "encoder"), x)
    assert not differentiable(Called(Cut(), "encoder"), x)
    assert not differentiable(Called(lambda x: x.flatten(1), "encoder"), x)
