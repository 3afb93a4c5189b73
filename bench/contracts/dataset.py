"""What a data set promises."""

from smashbench.bench.contracts.base import BrokenError, Check, Subject, UncheckedError, require
from smashbench.bench.experiment.parts import mistakes_in, too_few
from smashbench.bench.suite.options import options_of
from smashbench.datasets import Dataset, DatasetError, Split

SIZES = {"train": 200, "val": 50, "aux": 100, "test": 50}
PARTS = tuple(SIZES)


def _made(subject: Subject, **options: int) -> Dataset:
    return subject.made(options={**SIZES, **options})


def _loaded(subject: Subject, **options: int) -> Split:
    """Raises UncheckedError where it needs data, and nobody said where they are."""
    if subject.component.needs_data and subject.data is None:
        raise UncheckedError("give --data DIR")
    try:
        split = _made(subject, **options).load(subject.data)
    except KeyError as error:
        if error.args[0] not in PARTS:
            raise
        raise BrokenError(f"Split.build is given no part {error.args[0]!r}") from None
    found = type(split).__name__
    require(isinstance(split, Split), f"load returns {found}: should be Split.build(...)")
    return split


def _asks(subject: Subject) -> None:
    if not subject.component.needs_data:
        return
    try:
        _made(subject).load(None)
    except DatasetError as error:
        require(
            "--data" in str(error),
            f"without a data folder it says {str(error)!r}; say that --data DIR is to be given",
        )
    else:
        require(False, "it loads without a data folder; set needs_data = False")


def _parts(subject: Subject) -> None:
    split = _loaded(subject)
    wrong = "; ".join([*mistakes_in(split)] or [*too_few(split)])
    require(not wrong, wrong)
    seen: set[bytes] = set()
    for name in PARTS:
        part = getattr(split, name)
        require(len(part.x) == len(part.y), f"{name!r} has {len(part.y)} labels for its images")
        images = {x.numpy().tobytes() for x in part.x}
        require(not images & seen, f"{name!r} has images that are in another part, too")
        seen |= images


def _classes(subject: Subject) -> None:
    split = _loaded(subject)
    for name in PARTS:
        y = getattr(split, name).y
        counts = y[y >= 0].bincount(minlength=split.classes)
        require(
            bool(counts.max() <= 1.6 * counts.min() + 8),
            f"the classes of {name!r} have from {counts.min()} to {counts.max()} images: deal "
            "every part evenly",
        )


def _repeats(subject: Subject) -> None:
    split, again = _loaded(subject), _loaded(subject)
    require(split.hash == again.hash, "two loads give different images; seed what is random")
    if "seed" in options_of(subject.component).model_fields:
        other = _loaded(subject, seed=1)
        require(other.hash != split.hash, "its seed changes nothing")


DATASET = (
    Check("without its files it says what is to be given", _asks),
    Check("four parts without a common image", _parts),
    Check("every part has all classes, evenly", _classes),
    Check("the same options give the same images", _repeats),
)
