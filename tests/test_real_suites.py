"""The suites on stored images run, on small copies of them and for a step or two."""

import json

import pytest

BRIEF = "{mean={},decoder={width=8,blocks=1,max_steps=5}}"


@pytest.mark.parametrize(
    ("name", "model", "shape"),
    [("tiny_imagenet", "resnet20", "8x16x16"), ("facescrub", "vgg11_cut2", "8x24x24")],
)
def test_a_suite_runs_on_images_of_its_size(name, model, shape, sets, here, tmp_path):
    settings = [f"model={model}", "training.epochs=1", "seeds=[0]", f"attacks={BRIEF}"]
    overrides = [word for setting in settings for word in ("--set", setting)]
    only = ["--only", "defense=none", "--workers", 1]
    done = here("run", name, *overrides, *only, "--data", sets, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    records = [json.loads(path.read_text()) for path in (tmp_path / "records").glob("*.json")]
    assert {record["status"] for record in records} == {"ok"}
    (victim,) = [record for record in records if record["parent"] is None]
    c, h, w = map(int, shape.split("x"))
    assert victim["payload"] == c * h * w
    assert (tmp_path / "gallery.png").exists()
