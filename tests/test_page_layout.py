"""The page in a real browser, with six defenses and with thirty: nothing overlaps, nothing is cut
off, from 360 to 1920 pixels, in light, in dark and on paper."""

import base64
from pathlib import Path

import pandas as pd
import pytest

from smashbench.bench.report.page import write_page
from smashbench.bench.report.rows import read
from smashbench.bench.report.tables import TABLES, write_csv
from tests.browser import opened
from tests.many import write_many

WIDTHS = (360, 1280, 1920)
MEASURE = (Path(__file__).parent / "page_layout.js").read_text()


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many") / "forged"
    write_many(folder)
    board = read(folder)
    frames = {name: make(board) for name, make in TABLES.items()}
    write_csv(frames["leaderboard_by_defense"], folder / "leaderboard_by_defense.csv")
    write_page(board, frames, [], folder / "report.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    with opened() as driver:
        yield driver


def _sized(browser, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["run", "many"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overlaps_and_nothing_is_cut_off(browser, request, board, width):
    _sized(browser, width, "dark" if width == 1280 else "light")
    browser.get(f"file://{request.getfixturevalue(board)}/report.html")
    metrics = [
        o.get_attribute("value") for o in browser.find_elements("css selector", "#metric option")
    ]
    assert metrics[:4] == ["fvu", "mse", "ssim", "psnr"]
    for metric in metrics:
        browser.execute_script(
            "const m = document.getElementById('metric'); m.value = arguments[0];"
            "m.dispatchEvent(new Event('change'));",
            metric,
        )
        assert browser.execute_script(MEASURE) == []


@pytest.mark.slow
def test_the_first_column_stays_while_a_table_is_scrolled(browser, many):
    _sized(browser, 360, "light")
    browser.get(f"file://{many}/report.html")
    script = """
      const room = document.querySelector('#board').closest('.scroll'); room.scrollLeft = 200;
      const cell = document.querySelector('#board tbody td').getBoundingClientRect();
      const left = cell.left - room.getBoundingClientRect().left;
      return [room.scrollLeft, left, cell.width / room.clientWidth];
    """
    scrolled, left, share = browser.execute_script(script)
    assert scrolled == 200
    assert abs(left) < 1
    assert share < 0.5


@pytest.mark.slow
def test_a_group_is_chosen_everywhere(browser, many):
    _sized(browser, 1280, "light")
    browser.get(f"file://{many}/report.html")
    browser.find_element("css selector", "#groups button[data-group=CEM]").click()
    for selector, wanted in (("#board tbody tr", 1 + 4 + 21), ("#ranks tbody tr", 2 + 7)):
        shown = [e for e in browser.find_elements("css selector", selector) if e.is_displayed()]
        assert len(shown) == wanted
    panels = browser.find_elements("css selector", "#plot-fvu .panel")
    titles = [p.get_attribute("data-group") for p in panels if p.is_displayed()]
    assert titles == ["CEM"]


@pytest.mark.slow
def test_defenses_are_ranked_by_what_is_chosen(browser, many):
    _sized(browser, 1280, "light")
    browser.get(f"file://{many}/report.html")
    table = pd.read_csv(many / "leaderboard_by_defense.csv").set_index("defense")
    script = """
      const rank = document.getElementById('rank'); rank.value = arguments[0];
      rank.dispatchEvent(new Event('change'));
      return [...document.querySelectorAll('#ranks tbody tr')].map(row =>
        [row.cells[0].textContent.trim(), row.querySelector('.rank').textContent]);
    """
    for name in ("fvu_over_noise", "fvu_over_noise_at_5_points"):
        found = [(who, rank) for who, rank in browser.execute_script(script, name) if rank]
        values = table[name].fillna(0)[[who for who, _ in found]]
        assert list(values) == sorted(values, reverse=True)
    overall = {who: rank for who, rank in browser.execute_script(script, "fvu_over_noise") if rank}
    for who, rank in overall.items():
        best, worst = (int(table.loc[who, f"rank_{end}"]) for end in ("best", "worst"))
        assert rank == (str(best) if best == worst else f"{best} to {worst}")


@pytest.mark.slow
def test_a_mark_speaks_on_focus_hover_and_touch(browser, many):
    from selenium.webdriver.common.action_chains import ActionChains

    for width in (1280, 360):
        _sized(browser, width, "light")
        browser.get(f"file://{many}/report.html")
        tip = browser.find_element("id", "tip")
        assert not tip.is_displayed()
        script = """
          const points = [...document.querySelectorAll('#plot-fvu .point')];
          const point = points.filter(each => each.checkVisibility())[3];
          point.scrollIntoView({block: 'center'}); return point;
        """
        point = browser.execute_script(script)
        browser.execute_script("arguments[0].focus()", point)
        assert tip.text == point.get_attribute("aria-label")
        assert browser.execute_script(
            "const b = arguments[0].getBoundingClientRect();"
            "return b.left >= 0 && b.right <= document.documentElement.clientWidth && b.top >= 0",
            tip,
        )
        browser.execute_script("arguments[0].blur()", point)
        assert not tip.is_displayed()
        ActionChains(browser).move_to_element(point).perform()
        assert tip.is_displayed()
        browser.execute_script("hush(); arguments[0].dispatchEvent(new MouseEvent('click'))", point)
        assert tip.is_displayed()


@pytest.mark.slow
def test_on_paper_no_table_is_wider_than_the_page(browser, many):
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get(f"file://{many}/report.html")
    _sized(browser, 718, "light")  # A4 at 96 pixels per inch, less its margins
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    wide = "return [...document.querySelectorAll('table, .tiles, .plot, pre')].filter(e =>"
    wide += " e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"
    assert browser.execute_script(wide) == 0
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
