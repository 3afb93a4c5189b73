"""Reports: records become rows, comparisons, tables, figures and a page."""

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.rows import read

__all__ = ["Board", "Row", "read"]
