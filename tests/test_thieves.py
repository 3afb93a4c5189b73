"""Thieves: attacks that reach for more than they were given, and succeed without the wall."""

import gc
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from types import FrameType

import pytest
import torch
from torch import Tensor

from smashbench.attacks.base import Attack, Knowledge
from smashbench.bench.experiment import scoring
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.wall import behind_wall

KEPT: list[Tensor] = []
"""Where whoever imports this module finds images, in the process that put them there."""
SHAPE = (3, 32, 32)
COUNT = 37
"""Images that are looked for: as many as no set of another test has, which may still be here."""
NOISE = 0.1


def rooms() -> Iterator[Tensor]:
    """Every tensor of this process that looks like images."""
    for item in gc.get_objects():
        if type(item) is Tensor and item.ndim == 4 and item.shape[1:] == SHAPE:
            yield item
        elif type(item) in (tuple, list, dict):  # tensors that the collector does not know
            values = item.values() if isinstance(item, dict) else item
            yield from (v for v in list(values) if type(v) is Tensor and v.shape[1:] == SHAPE)


class Thief(Attack):
    """Takes images from somewhere else than its releases; blank ones where it finds none."""

    kind = "floor"

    def __init__(self, first: bytes = b"") -> None:
        self.first = first

    def fit(self, knowledge: Knowledge) -> "Thief":
        self.own = knowledge.images[0].clone()
        self.prepare()
        return self

    def prepare(self) -> None: ...

    def look(self, z: Tensor) -> Iterator[Tensor]:
        """Candidates."""
        raise NotImplementedError

    def reconstruct(self, z: Tensor) -> Tensor:
        for found in self.look(z):
            taken = found is not z and found.shape == z.shape and found.is_floating_point()
            if taken and not torch.equal(found[0], self.own):
                return found.clone()
        return torch.zeros(len(z), *SHAPE)


class Collector(Thief):
    def look(self, z):
        yield from rooms()


class Framer(Thief):
    """The stack of every thread."""

    def look(self, z):
        for frame in sys._current_frames().values():
            level: FrameType | None = frame
            while level:
                yield from (v for v in level.f_locals.values() if isinstance(v, Tensor))
                level = level.f_back


class Importer(Thief):
    """What modules keep, this one and those that run trials."""

    def look(self, z):
        import smashbench.bench.run.perform  # noqa: F401

        for name, module in list(sys.modules.items()):
            if name.startswith(("smashbench", "tests")):
                for value in list(vars(module).values()):
                    yield from value if value is KEPT else ()
                    yield from [value] if isinstance(value, Tensor) else ()


class Watcher(Thief):
    """A thread that looks while the releases are made."""

    def prepare(self) -> None:
        self.found: dict[int, Tensor] = {}
        self.threads = [Thread(target=self.watch, daemon=True)]
        self.threads[0].start()

    def watch(self) -> None:
        for _ in range(4):
            self.found |= {id(each): each for each in rooms()}

    def look(self, z):
        self.threads.pop().join()
        yield from self.found.values()


PIECE = 2**28
"""Bytes of memory that are read at once."""


class Reader(Thief):
    """The memory of its process, byte by byte, for images of which it knows how one begins."""

    def look(self, z):
        size = 4 * len(z) * 3 * 32 * 32
        for content in self.pieces(size):
            place = content.find(self.first)
            while 0 <= place <= len(content) - size:
                part = bytearray(content[place : place + size])
                found = torch.frombuffer(part, dtype=torch.float32).view(len(z), *SHAPE)
                if 0 <= float(found.min()) <= float(found.max()) <= 1:
                    yield found
                place = content.find(self.first, place + 1)

    def pieces(self, size: int):
        """All that it may read, in pieces that overlap by ``size`` bytes: mappings grow large."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            start, end = (int(each, 16) for each in span.split("-"))
            if not rights.startswith("rw") or "[v" in line:
                continue
            for begin in range(start, end, PIECE):
                with open("/proc/self/mem", "rb") as memory:
                    try:
                        memory.seek(begin)
                        yield memory.read(min(PIECE + size, end - begin))
                    except (OSError, ValueError, OverflowError):
                        continue


class Replayer(Thief):
    """Seeds that the noise could have been drawn with, and the state that drew it."""

    def prepare(self) -> None:
        self.state = torch.get_rng_state()

    def look(self, z):
        starts = [lambda: torch.set_rng_state(self.state)]
        for seed in range(3):
            starts.append(lambda seed=seed: torch.manual_seed(seed_for("release", seed)))
        for start in starts:
            start()
            found = z - NOISE * torch.randn_like(z)
            if float(found.min()) >= 0 and float(found.max()) <= 1:  # images again
                yield found


class Patcher(Thief):
    """Makes the noise of all that follows vanish."""

    def prepare(self) -> None:
        torch.randn_like = torch.zeros_like  # type: ignore[assignment]

    def look(self, z):
        yield z.clone()


class Forger(Thief):
    """Makes every score a perfect one."""

    def prepare(self) -> None:
        scoring.scores_of = lambda *_: {"mse": torch.zeros(9)}  # type: ignore[assignment]

    def look(self, z):
        return iter(())


THIEVES = [Collector, Framer, Importer, Watcher, Reader, Replayer, Patcher]


def stealing(attack: Thief, photos, outside: bool) -> bool:
    """Whether it returns the images whose noisy copies it gets, without the wall or behind it."""
    secret = photos.test.x[:COUNT].clone()
    known = Knowledge(photos.aux.x, 10, {"draw": lambda index: photos.aux.x[index]})

    def release() -> Tensor:
        if not (outside and isinstance(attack, Replayer)):
            torch.manual_seed(release_seed(photos, 0))
        return secret + NOISE * torch.randn_like(secret)

    if outside:
        attack.fit(known)
        guess = attack.reconstruct(release())
    else:
        guess = behind_wall(attack, known, release, seed=0).guess
    return bool(torch.allclose(guess, secret, atol=1e-5))


@pytest.mark.slow
@pytest.mark.parametrize("kind", THIEVES)
def test_a_thief_steals_outside_and_finds_nothing_behind_the_wall(kind, photos, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "KEPT", [photos.test.x[:COUNT].clone()])
    first = photos.test.x[0].numpy().tobytes()[:64]
    monkeypatch.setattr(torch, "randn_like", torch.randn_like)  # to be put back
    assert not stealing(kind(first), photos, outside=False)
    assert stealing(kind(first), photos, outside=True)


def test_the_seed_of_a_release_depends_on_the_images(photos):
    assert release_seed(photos, 0) not in {seed_for("release", seed) for seed in range(100)}
    assert release_seed(photos, 0) == release_seed(photos, 0) != release_seed(photos, 1)


def test_scores_and_random_numbers_are_those_of_this_side(photos, monkeypatch):
    """An attack that patches a metric, and one that draws a million numbers."""
    before = scoring.scores_of
    monkeypatch.setattr(scoring, "scores_of", before)  # to be put back
    known = Knowledge(photos.aux.x, 10, {"draw": lambda index: torch.randn(len(index), 4)})
    torch.manual_seed(3)
    behind_wall(Forger(), known, lambda: torch.randn(4, 3), seed=0)
    assert scoring.scores_of is before
    drawn = torch.randn(2)
    torch.manual_seed(3)
    torch.randn(4, 3)
    assert torch.equal(torch.randn(2), drawn)
    Forger().fit(known)
    assert scoring.scores_of is not before  # without the wall


def explode() -> None:
    KEPT.append(torch.ones(1))


class Bomb(Tensor):
    """Code, if anybody unpickles it."""

    def __reduce_ex__(self, protocol):
        return explode, ()


class Bomber(Thief):
    def reconstruct(self, z):
        return torch.zeros(len(z), *SHAPE).as_subclass(Bomb)


def test_what_comes_back_is_never_unpickled(photos):
    known = Knowledge(photos.aux.x, 10, {})
    before = len(KEPT)
    guess = behind_wall(Bomber(), known, lambda: torch.zeros(5, 3), seed=0).guess
    assert type(guess) is Tensor
    assert len(KEPT) == before
    pickle.loads(pickle.dumps(torch.zeros(1).as_subclass(Bomb)))
    assert len(KEPT) == before + 1
    KEPT.pop()
