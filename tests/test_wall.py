"""An attack gets what its threat model grants; attacks that try to reach more, and cannot."""

import ctypes
import os
import signal
import sys
from threading import Lock
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from smashbench.attacks.base import Attack, AttackError, Knowledge, WhiteBox
from smashbench.bench.experiment import wall
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.wall import CrashedError, LostError, behind_wall, grant
from tests.fitted import victim_of
from tests.test_thieves import NOISE, SHAPE, Thief


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
        untrained=victim.untrained(),
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


@pytest.mark.slow
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


def test_an_error_of_this_side_is_not_blamed_on_the_attack(photos):
    def release() -> Tensor:
        raise ValueError("our own")

    with pytest.raises(ValueError, match="our own"):
        behind_wall(Saboteur("nothing"), Knowledge(photos.aux.x, 10, {}), release, seed=0)


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
            self.history_.append(float(str(error).startswith("RuntimeError: ")))
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        return self.ask(z).view(-1, 1, 1, 1).float().expand(-1, *SHAPE)


def test_answers_pass_through_the_wall_unchanged(photos):
    plain = victim_of("small", "none", {}, SHAPE, 10)
    z = plain.release(photos.test.x[:20])
    found = behind_wall(Asker(), everything(plain, photos), lambda: z, seed=0)
    expected = float(plain.release(photos.aux.x[[3, 1]]).double().sum())
    assert found.history[:2] == [pytest.approx(expected)] * 2
    assert found.history[2:] == [1.0]  # an answer may be an error, and asking goes on
    assert torch.equal(found.guess[:, 0, 0, 0].long(), plain.predict(z))


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    victim.encoder.requires_grad_(False)
    copy = victim.untrained()
    for (name, ours), theirs in zip(
        copy.state_dict().items(), victim.encoder.state_dict().values(), strict=True
    ):
        assert ours.shape == theirs.shape
        if name.endswith("weight") and ours.ndim == 4:
            assert not torch.equal(ours, theirs)
    assert float(copy[2].running_mean.abs().sum()) == 0
    assert all(parameter.requires_grad for parameter in copy.parameters())
