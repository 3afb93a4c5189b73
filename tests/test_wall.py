"""An attack gets what its threat model grants; attacks that try to reach more, and cannot."""

import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smashbench.attacks.base import Attack, AttackError, Knowledge, WhiteBox
from smashbench.bench.experiment.attack_victim import _untrained
from smashbench.bench.experiment.victim import Victim
from smashbench.bench.experiment.wall import behind_wall, grant
from tests.fitted import victim_of


class Thief(Attack):
    """Takes whatever it can reach from its arguments, itself and the stack: attributes, items,
    closures, the frames of its callers and of errors. Only imports are left out."""

    kind = "floor"

    def __init__(self) -> None:
        self.loot: list[Tensor] = []

    def fit(self, knowledge: Knowledge) -> "Thief":
        self.knowledge = knowledge
        self.loot += tensors(knowledge, sys._getframe())
        try:
            knowledge.predict(torch.zeros(1, 2))  # a release of no possible shape
        except Exception as error:
            self.loot += tensors(error, error.__traceback__, error.__context__, error.__cause__)
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        self.loot += tensors(self.knowledge, sys._getframe(), z)
        return torch.zeros(len(z), 3, 32, 32)


def tensors(*roots: Any) -> Iterator[Tensor]:
    """Every tensor that references lead to."""
    stack, seen = list(roots), set()
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, (ModuleType, type, str, bytes, int, float)):
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, FrameType):
            stack += [item.f_back, *item.f_locals.values()]
        elif isinstance(item, FunctionType):  # not its globals: those are imports
            stack += [item.__closure__, item.__defaults__, item.__kwdefaults__, item.__dict__]
        else:
            stack += gc.get_referents(item)


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


def places(tensors: Iterator[Tensor] | list[Tensor]) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in tensors}


@pytest.fixture
def victim() -> Victim:
    return victim_of("small", "noise", {"noise": 0.1}, (3, 32, 32), 10)


@pytest.mark.parametrize("grants", GRANTED)
def test_a_thief_finds_only_what_was_granted(grants, victim, photos):
    thief = Thief()
    thief.needs = grants
    test, labels = photos.test.x, [photos.test.y, photos.aux.y, photos.train.y]
    outcome = behind_wall(
        thief,
        grant(grants, everything(victim, photos)),
        lambda: victim.release(test),
    )
    assert outcome.guess.shape == test.shape
    found = places(thief.loot)
    assert places([photos.aux.x]) <= found  # it does look
    hidden = [test, photos.train.x, photos.val.x, *labels, *victim.head.parameters()]
    encoder = [*victim.encoder.parameters()]
    if "client" in grants:
        assert places(encoder) <= found
    else:
        hidden += encoder
    assert not places(hidden) & found


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
    """Uses everything it has."""

    kind, needs = "floor", frozenset({"pairs", "logits", "query"})

    def fit(self, knowledge: Knowledge) -> "Asker":
        index = torch.tensor([3, 1])
        self.drawn = knowledge.draw(index)
        self.queried = knowledge.query(knowledge.images[index])
        self.predict = knowledge.predict
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        self.label = self.predict(z)
        return torch.zeros(len(z), 3, 32, 32)


def test_answers_pass_through_the_wall_unchanged(photos):
    plain = victim_of("small", "none", {}, (3, 32, 32), 10)
    asker = Asker()
    z = plain.release(photos.test.x[:20])
    behind_wall(asker, everything(plain, photos), lambda: z)
    expected = plain.release(photos.aux.x[[3, 1]])
    torch.testing.assert_close(asker.drawn, expected)
    torch.testing.assert_close(asker.queried, expected)
    assert torch.equal(asker.label, plain.predict(z))


class Failing(Attack):
    kind = "floor"

    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail

    def fit(self, knowledge: Knowledge) -> "Failing":
        self.fail()
        return self

    def reconstruct(self, z: Tensor) -> Tensor:
        raise AssertionError("never reached")


def test_errors_of_an_attack_come_out(victim, photos):
    def fail() -> None:
        raise AttackError("not today")

    with pytest.raises(AttackError, match="not today") as caught:
        behind_wall(Failing(fail), everything(victim, photos), lambda: torch.zeros(1))
    assert "fail" in [entry.name for entry in caught.traceback]  # the author sees where


def test_the_thief_would_find_an_ordinary_leak(photos):
    """The search itself works: a closure, a bound method, an attribute and a caller's frame."""
    secret = photos.test.x
    holder = nn.Module()
    holder.register_buffer("kept", secret)
    for leak in (lambda: secret, holder.forward, {"a": [holder]}, sys._getframe()):
        assert places([secret]) <= places(tensors(leak))


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
