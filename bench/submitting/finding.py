"""What the check of a submission found."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """A sentence about a submission.

    Args:
        kind: ``ok``: as it should be; ``note``: for a reader to know; ``PROBLEM``: it cannot stand
            on a board.
        text: the sentence.
    """

    kind: Literal["ok", "note", "PROBLEM"]
    text: str
