"""The suites on stored images run, on small copies of them and for a step or two."""

import json
import shutil

import pytest

BRIEF = "{mean={},decoder={width=8,blocks=1,max_steps=5}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "shape"),
    [
        ("tiny_imagenet", "dataset.classes=['n01','n03']", "8x16x16"),
        ("facescrub", "model={use='vgg11',cut=2}", "8x24x24"),
        ("fashion_mnist", "dataset={use='fashion_mnist'}", "8x8x8"),
    ],
)
def test_a_suite_runs_on_images_of_its_size(name, change, shape, sets, here, tmp_path):
    brief = ["training.epochs=1", "training.precision=fp32", "seeds=[0]", f"attacks={BRIEF}"]
    settings = [change, *brief, "defenses={none={}}"]
    overrides = [word for setting in settings for word in ("--set", setting)]
    done = here("run", name, *overrides, "--workers", 1, "--data", sets, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in (tmp_path / "records").glob("*.json")]
    assert {record["status"] for record in records} == {"ok"}
    (victim,) = [record for record in records if record["parent"] is None]
    c, h, w = map(int, shape.split("x"))
    assert victim["payload"] == 32 * c * h * w
    assert (tmp_path / "gallery.png").exists()


@pytest.mark.slow
def test_images_that_change_between_a_victim_and_its_attacks_are_refused(sets, here, tmp_path):
    """The split would be dealt anew, and what the victim was trained on might be the attacker's."""
    images = shutil.copytree(sets / "images", tmp_path / "data" / "images")
    settings = ["dataset={use='image_folder',size=32}", f"attacks={BRIEF}", "defenses={none={}}"]
    overrides = [word for setting in settings for word in ("--set", setting)]
    run = ["run", "smoke", *overrides, "--data", tmp_path / "data", "--out", tmp_path / "out"]
    assert here(*run, "--limit", 1, "--workers", 1).returncode == 0
    shutil.copy(images / "person_1" / "3.pgm", images / "person_1" / "99.pgm")
    done = here(*run, "--workers", 1)
    assert done.returncode != 0
    assert "the images are not those that" in done.stderr
    assert "put these back, or start anew with another --out" in done.stderr
