"""An attack gets what its threat model grants; attacks that try to reach more, and cannot."""

import ctypes
import gc
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock, Thread
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from smashbench.attacks.base import Attack, AttackError, Knowledge, WhiteBox
from smashbench.bench.experiment import scoring, wall
from smashbench.bench.experiment.attack_victim import _untrained
from smashbench.bench.experiment.seeds import release_seed, seed_for
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.wall import CrashedError, LostError, behind_wall, grant
from tests.fitted import victim_of

KEPT: list[Tensor] = []
"""Where whoever imports this module finds images, in the process that put them there."""
SHAPE = (3, 32, 32)
NOISE = 0.1


def everything(victim: Victim, photos) -> Knowledge:
    z = victim.encode(photos.aux.x)
    return Knowledge(
        images=photos.aux.x,
        classes=photos.classes,
        services={
            "draw": lambda index: victim.protect(z[index]),
            "others": lambda index: victim.release(photos.val.x[index]),
            "predict": victim.predict,
            "query": victim.release,
        },
        others_count=len(photos.val.x),
        untrained=_untrained(victim.encoder),
        white_box=WhiteBox(victim.encoder, victim.defense, victim.defense.transform, random=False),
    )


GRANTED = [
    frozenset({"pairs"}),
    frozenset({"pairs", "logits"}),
    frozenset({"pairs", "query"}),
    frozenset({"pairs", "client"}),
    frozenset({"unpaired", "logits"}),
    frozenset({"architecture"}),
]


@pytest.fixture
def victim() -> Victim:
    return victim_of("small", "noise", {"noise": NOISE}, SHAPE, 10)


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
            known = found is z or len(found) != len(z) or torch.equal(found[0], self.own)
            if not known:
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


class Reader(Thief):
    """The memory of its process, byte by byte, for images of which it knows how one begins."""

    def look(self, z):
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            start, end = (int(each, 16) for each in span.split("-"))
            if rights.startswith("rw") and "[v" not in line and end - start < 2**31:
                with open("/proc/self/mem", "rb") as memory:
                    memory.seek(start)
                    try:
                        content = memory.read(end - start)
                    except (OSError, ValueError, OverflowError):
                        continue
                size, place = 4 * len(z) * 3 * 32 * 32, content.find(self.first)
                while 0 <= place <= len(content) - size:
                    part = bytearray(content[place : place + size])
                    found = torch.frombuffer(part, dtype=torch.float32).view(len(z), *SHAPE)
                    if 0 <= float(found.min()) <= float(found.max()) <= 1:
                        yield found
                    place = content.find(self.first, place + 1)


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
    secret = photos.test.x[:40].clone()
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


@pytest.mark.parametrize("kind", THIEVES)
def test_a_thief_steals_outside_and_finds_nothing_behind_the_wall(kind, photos, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "KEPT", [photos.test.x[:40].clone()])
    first = photos.test.x[0].numpy().tobytes()[:64]
    monkeypatch.setattr(torch, "randn_like", torch.randn_like)  # to be put back
    assert not stealing(kind(first), photos, outside=False)
    assert stealing(kind(first), photos, outside=True)


def test_the_seed_of_a_release_depends_on_the_images(photos):
    assert release_seed(photos, 0) not in {seed_for("release", seed) for seed in range(100)}
    assert release_seed(photos, 0) == release_seed(photos, 0) != release_seed(photos, 1)


def test_scores_and_random_numbers_are_those_of_this_side(photos):
    """An attack that patches a metric, and one that draws a million numbers."""
    before = scoring.scores_of
    known = Knowledge(photos.aux.x, 10, {"draw": lambda index: torch.randn(len(index), 4)})
    torch.manual_seed(3)
    behind_wall(Forger(), known, lambda: torch.randn(4, 3), seed=0)
    assert scoring.scores_of is before
    drawn = torch.randn(2)
    torch.manual_seed(3)
    torch.randn(4, 3)
    assert torch.equal(torch.randn(2), drawn)


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


class Saboteur(Thief):
    """Does something else than to answer."""

    def __init__(self, what: str) -> None:
        self.what = what

    def prepare(self) -> None:
        if self.what == "garbage":
            for file in range(3, 40):
                try:
                    os.write(file, b"\0\0\0\5hello" * 100)
                except OSError:
                    continue
        elif self.what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.what == "server":
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.what == "exit":
            sys.exit(3)
        elif self.what == "crash":
            ctypes.string_at(0)

    def reconstruct(self, z):
        return {
            "shape": torch.zeros(len(z), 3, 16, 16),
            "type": torch.zeros(len(z), *SHAPE).long(),
        }.get(self.what, torch.zeros(len(z), *SHAPE))


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("garbage", AttackError, "its process sent what is no answer"),
        ("killed", LostError, "perhaps for lack of memory"),
        ("server", LostError, "perhaps for lack of memory"),
        ("crash", LostError, "perhaps for lack of memory"),
        ("exit", CrashedError, "SystemExit: 3"),
        ("shape", AttackError, r"reconstruct gives \(4, 3, 16, 16\): should be images \(4, 3, 32"),
    ],
)
def test_an_attack_that_does_not_answer_is_one_clear_error(what, error, text, photos):
    known = Knowledge(photos.aux.x, 10, {})
    with pytest.raises(error, match=text):
        behind_wall(Saboteur(what), known, lambda: torch.zeros(4, 3), seed=0)
    sound = behind_wall(Saboteur("nothing"), known, lambda: torch.zeros(4, 3), seed=0)
    assert sound.guess.shape == (4, *SHAPE)  # the next is not disturbed


def test_an_attack_that_cannot_be_sent_says_so(photos):
    stuck = Saboteur("nothing")
    stuck.lock = Lock()  # type: ignore[attr-defined]
    with pytest.raises(AttackError, match="cannot be sent to the process"):
        behind_wall(stuck, Knowledge(photos.aux.x, 10, {}), lambda: torch.zeros(4, 3), seed=0)


class Inventory(Attack):
    """Says in its history what it was given: the sums of all tensors it holds."""

    kind = "floor"

    def fit(self, knowledge: Knowledge) -> "Inventory":
        box = knowledge.white_box
        held: list[Any] = [knowledge.images]
        held += [*box.encoder.parameters()] if box else []  # type: ignore[attr-defined]
        held += [*knowledge.untrained.parameters()] if knowledge.untrained else []
        self.history_ = [float(each.detach().double().sum()) for each in held]
        self.history_ += [float(len(knowledge.services)), float(knowledge.others_count)]
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return torch.zeros(len(z), *SHAPE)


@pytest.mark.parametrize("grants", GRANTED)
def test_what_was_granted_arrives_and_nothing_else(grants, victim, photos):
    attack = Inventory()
    attack.needs = grants
    granted = grant(grants, everything(victim, photos))
    found = behind_wall(attack, granted, lambda: victim.release(photos.test.x[:3]), seed=0)
    assert found.history == Inventory().fit(granted).history_
    networks = ("client" in grants) + ("architecture" in grants)
    assert len(found.history) == 3 + networks * len(list(victim.encoder.parameters()))


@pytest.mark.parametrize("grants", GRANTED)
def test_what_is_not_granted_is_an_error_to_ask_for(grants, victim, photos):
    granted = grant(grants, everything(victim, photos))
    asking = {
        "pairs": lambda: granted.draw(torch.tensor([0])),
        "logits": lambda: granted.predict(victim.release(photos.test.x[:1])),
        "query": lambda: granted.query(photos.aux.x[:1]),
        "client": lambda: granted.client,
        "unpaired": lambda: granted.others(torch.tensor([0])),
        "architecture": lambda: list(granted.architecture.parameters()),
    }
    for name, ask in asking.items():
        if name in grants:
            assert len(ask()) > 0
        else:
            with pytest.raises(AttackError, match=f"needs the grant '{name}'"):
                ask()


class Asker(Attack):
    """Uses everything it has, and tells by its images what it heard."""

    kind, needs = "floor", frozenset({"pairs", "logits", "query"})

    def fit(self, knowledge: Knowledge) -> "Asker":
        index = torch.tensor([3, 1])
        drawn, queried = knowledge.draw(index), knowledge.query(knowledge.images[index])
        self.history_ = [float(each.double().sum()) for each in (drawn, queried)]
        self.ask = knowledge.predict
        try:
            knowledge.predict(torch.zeros(1, 2))  # a release of no possible shape
        except Exception as error:
            self.history_.append(float("mat1 and mat2" in str(error) or "shape" in str(error)))
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return self.ask(z).view(-1, 1, 1, 1).float().expand(-1, *SHAPE)


def test_answers_pass_through_the_wall_unchanged(photos):
    plain = victim_of("small", "none", {}, SHAPE, 10)
    z = plain.release(photos.test.x[:20])
    found = behind_wall(Asker(), everything(plain, photos), lambda: z, seed=0)
    expected = float(plain.release(photos.aux.x[[3, 1]]).double().sum())
    assert found.history[:2] == [pytest.approx(expected)] * 2
    assert len(found.history) == 3  # an answer may be an error, and asking goes on
    assert torch.equal(found.guess[:, 0, 0, 0].long(), plain.predict(z))


def test_the_seed_decides_what_an_attack_draws(photos):
    known = Knowledge(photos.aux.x, 10, {})

    class Random(Thief):
        def reconstruct(self, z):
            return torch.rand(len(z), *SHAPE)

    first, again, other = (
        behind_wall(Random(), known, lambda: torch.zeros(4, 3), seed=seed).guess
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


class Learner(Thief):
    """Says whether scikit-learn was there before, and imports it."""

    def prepare(self) -> None:
        self.history_ = [float("sklearn.mixture" in sys.modules)]
        import sklearn.mixture  # noqa: F401

    def look(self, z):
        return iter(())


def test_what_one_attack_imported_is_there_for_the_next(photos):
    known = Knowledge(photos.aux.x, 10, {})
    with patch.object(wall, "_heavy", set()):
        wall._server.cache_clear()  # a new one
        found = [
            behind_wall(Learner(), known, lambda: torch.zeros(4, 3), seed=0).history
            for _ in range(2)
        ]
    assert found == [[0.0], [1.0]]


class Failing(Thief):
    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def prepare(self) -> None:
        raise self.error("not today")


def test_errors_of_an_attack_come_out(photos):
    known = Knowledge(photos.aux.x, 10, {})
    with pytest.raises(AttackError, match=r"^not today$"):
        behind_wall(Failing(AttackError), known, lambda: torch.zeros(1), seed=0)
    with pytest.raises(CrashedError, match=r"(?s)in prepare.*ValueError: not today$"):
        behind_wall(Failing(ValueError), known, lambda: torch.zeros(1), seed=0)


def test_an_untrained_encoder_has_other_weights_and_the_same_shapes(victim):
    """And batch statistics of no data: what was learned is gone."""
    with torch.no_grad():
        victim.encoder[2].running_mean += 1
    copy = _untrained(victim.encoder.requires_grad_(False))
    for (name, ours), theirs in zip(
        copy.state_dict().items(), victim.encoder.state_dict().values(), strict=True
    ):
        assert ours.shape == theirs.shape
        if name.endswith("weight") and ours.ndim == 4:
            assert not torch.equal(ours, theirs)
    assert float(copy[2].running_mean.abs().sum()) == 0
    assert all(parameter.requires_grad for parameter in copy.parameters())
