"""The notebook of docs/ runs from its first cell to its last."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs" / "audit.ipynb"


def cells() -> list[str]:
    found = json.loads(NOTEBOOK.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_cell_runs_in_order_and_shows_what_was_found(capsys):
    space = {"__name__": "__main__"}
    for number, source in enumerate(cells()):
        # its audits take the minutes that they are given
        source = re.sub(r"minutes=[\d.]+", "minutes=0.4", source)
        exec(compile(source, f"cell {number}", "exec"), space)
    report = space["report"]
    assert "knowledge" in report.figures
    assert report.accuracy.low > 0.2  # ten classes
    assert {"noise", "quantise"} <= set(report.what_if_frame()["defense"])
    assert "variance" in capsys.readouterr().out
    assert report.worst.estimates["fvu"].high < 0.9


def test_outputs_are_those_of_a_run_without_an_error():
    found = json.loads(NOTEBOOK.read_text())["cells"]
    outputs = [each for cell in found for each in cell.get("outputs", [])]
    assert outputs
    assert not [each for each in outputs if each["output_type"] == "error"]
    assert max(len(json.dumps(each)) for each in outputs) < 100_000
