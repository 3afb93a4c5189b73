"""Numbers for people: the one place where estimates become text."""

import re

from smashbench.bench.report.statistics import Estimate


def number(value: float | None, digits: int) -> str:
    """A value with so many digits after the point and without a leading zero; nothing for None.

    >>> number(0.0104, 3), number(-0.5, 1), number(-0.01, 1), number(None, 2)
    ('.010', '-.5', '.0', '')
    """
    return "" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:z.{digits}f}")


def percent(share: float) -> str:
    """A share in percent, with two digits or, from 100 on, all.

    >>> percent(0.0123), percent(0.234), percent(0.997), percent(1.234)
    ('1.2 %', '23 %', '100 %', '123 %')
    """
    return f"{100 * share:{'.0f' if abs(share) >= 0.995 else '.2g'}} %"


def signed(value: float, digits: int) -> str:
    """A difference: with its sign, and so many digits.

    >>> signed(0.07, 2), signed(-0.128, 2), signed(-0.004, 2)
    ('+.07', '-.13', '-.00')
    """
    return ("+" if value >= 0 else "-") + number(abs(value), digits)


def estimate(value: Estimate | None, digits: int) -> str:
    """A mean and its interval: ``.912 [.895, .928]``; nothing for None.

    >>> estimate(Estimate(0.9118, 0.895, 0.9279), 3)
    '.912 [.895, .928]'
    """
    if value is None:
        return ""
    mean, low, high = (number(each, digits) for each in value)
    return f"{mean} [{low}, {high}]"
