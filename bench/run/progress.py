"""What a person sees while a suite runs; nothing where no person looks."""

from collections.abc import Iterable

from tqdm import tqdm

LINES = 16
"""Most running trials that get a line of their own."""


class Progress:
    """A bar over all trials, with the time left, and a line for each trial that runs.

    Args:
        total: number of trials.
        done: how many of them are done already.
        lines: most trials at once.
    """

    def __init__(self, total: int, done: int, lines: int) -> None:
        form = "{desc}{percentage:3.0f}%|{bar}| {n_fmt} of {total_fmt} trials, {elapsed}{postfix}"
        self._bar = tqdm(
            total=total, initial=done, disable=None, bar_format=form, dynamic_ncols=True
        )
        self._lines = [
            tqdm(bar_format="{desc}", position=row, leave=False, disable=None, dynamic_ncols=True)
            for row in range(1, min(lines, LINES) + 1)
        ]

    def advance(self) -> None:
        self._bar.update()

    def show(self, running: Iterable[tuple[str, float, float | None]], left: float | None) -> None:
        """Redraws, where a person looks.

        Args:
            running: label, seconds since the start and expected seconds of every running trial.
            left: seconds until the end, if known.
        """
        if self._bar.disable:
            return
        self._bar.set_postfix_str("" if left is None else f"about {duration(left)} left")
        texts = []
        for label, seconds, expected in sorted(running, key=lambda entry: -entry[1]):
            usual = f" of about {duration(expected)}" if expected else ""
            texts.append(f"  {label}: {duration(seconds)}{usual}")
        for row, line in enumerate(self._lines):
            line.set_description_str(texts[row] if row < len(texts) else "")

    @staticmethod
    def say(text: str) -> None:
        """Prints a line without disturbing the bar."""
        tqdm.write(text)

    def close(self) -> None:
        """Leaves the terminal as it is now."""
        for line in [*self._lines, self._bar]:
            line.close()


def duration(seconds: float) -> str:
    """A length of time in words.

    >>> [duration(value) for value in (0.4, 75, 3700, 200_000)]
    ['0 s', '1 min 15 s', '1 h 1 min', '2 d 7 h']
    """
    seconds = int(seconds)
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    first = next((n for n, (_, size) in enumerate(units) if seconds >= size), len(units) - 1)
    parts = []
    for name, size in units[first : first + 2]:
        parts.append(f"{seconds // size} {name}")
        seconds %= size
    return " ".join(part for part in parts if len(parts) == 1 or not part.startswith("0 "))
