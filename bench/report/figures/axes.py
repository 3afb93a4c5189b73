"""What several figures do with their axes."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
"""Plain numbers, no powers of ten."""


def counted(axes: Axes, counts: list[int], label: str) -> None:
    """A horizontal logarithmic axis with these numbers of things alone."""
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{n:,}" for n in counts])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)


def logarithmic(axes: Axes, *names: str) -> None:
    """Logarithmic axes with plain numbers, few enough to read."""
    for name in names:
        axis = axes.xaxis if name == "x" else axes.yaxis
        axes.set(**{f"{name}scale": "log"})
        low, high = axis.get_view_interval()
        steps = (1, 2, 5) if high < 100 * low else (1,)
        axis.set_major_locator(LogLocator(subs=steps, numticks=5))
        axis.set_major_formatter(PLAIN)
        axis.set_minor_locator(NullLocator())
