"""The images that are kept to be seen: by a rule on the test images, each showing something."""

import torch

from smashbench.bench.experiment.kept_images import SAMPLES, chosen_images
from smashbench.datasets.base import Part, Split


def _split(classes: int, each: int) -> Split:
    """Test images of ``classes`` with contrasts 0, 1, ..., each - 1 in every class, shuffled."""
    y = torch.arange(classes).repeat_interleave(each)
    slope = torch.linspace(-0.5, 0.5, 16)[None, None, None, :].expand(len(y), 3, 16, 16)
    share = (torch.arange(each) / (each - 1)).repeat(classes)
    x = 0.5 + slope * share[:, None, None, None] * (1 - 0.05 * y / classes)[:, None, None, None]
    order = torch.randperm(len(y))
    test = Part(x[order], y[order])
    return Split.build(dict.fromkeys(("train", "val", "aux", "test"), test), classes)


def test_one_image_of_each_class_at_the_same_quantile_the_clearest_first():
    split = _split(classes=8, each=11)
    chosen = chosen_images(split)
    x, y = split.test.x[chosen], split.test.y[chosen]
    assert y.tolist() == list(range(8))  # the first class has the most contrast
    span = x.flatten(1).amax(1) - x.flatten(1).amin(1)
    torch.testing.assert_close(span, 0.9 * (1 - 0.05 * torch.arange(8) / 8))


def test_of_many_classes_some_and_of_few_classes_several():
    assert len(set(split_classes(20))) == SAMPLES
    counts = torch.tensor(split_classes(3)).bincount()
    assert counts.tolist() == [3, 3, 2]
    assert len(chosen_images(_split(classes=1, each=21)).unique()) == SAMPLES


def split_classes(classes: int) -> list[int]:
    split = _split(classes, each=11)
    return split.test.y[chosen_images(split)].tolist()


def test_every_image_of_the_photographs_shows_something(photos):
    """Black corners of two photographs used to fill two of eight columns."""
    contrast = photos.test.x.var((2, 3)).mean(1)
    assert contrast[chosen_images(photos)].min() > 2 * contrast.quantile(0.05)
