"""What several figures do with their axes."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

PLAIN = FuncFormatter(lambda value, _: f"{value:g}")
"""Plain numbers, no powers of ten."""


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
