"""The page in a real browser: sorting, filtering, curves, keyboard, no network, no errors."""

import html
import json
import re
import shlex
from html.parser import HTMLParser

import pandas as pd
import pytest

from tests.browser import opened
from tests.commands import bench

COLUMNS = ("defense", "accuracy", "MSE", "SSIM", "PSNR", "FVU")


class _Balanced(HTMLParser):
    """Every element that must be closed is, in order."""

    void = ("meta", "link", "input", "img", "line", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.links += [v for k, v in attributes if k in ("src", "href") and v]
        if tag not in self.void and not (self.open and self.open[-1] == tag == "option"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_holds_all_it_needs(run):
    parser = _Balanced()
    text = (run / "report.html").read_text()
    parser.feed(text)
    assert parser.open == []
    inner = {link[1:] for link in parser.links if link.startswith("#")}
    assert all(f'id="{target}"' in text for target in inner)
    assert all(link.startswith(("data:", "#")) for link in parser.links)
    assert "http" not in re.sub(r"data:[^\"]*", "", text)
    for flag in ("not_converged", "randomized"):
        assert f'<dt id="flag-{flag}">' in text
    assert "smashbench run smoke --out again --only defense=noise --only strength=0.3" in text


@pytest.mark.slow
def test_the_command_of_a_row_runs_it_again(run, tmp_path, here):
    """Its numbers are the same; nothing else is run."""
    text = html.unescape((run / "report.html").read_text())
    (command,) = re.findall(r"<code>(smashbench run [^<]*strength=0\.3[^<]*)</code>", text)
    words = shlex.split(command.replace("--out again", f"--out {tmp_path / 'again'}"))
    done = bench(*words[1:])
    assert done.returncode == 0, done.stderr
    compared = here("compare", run, tmp_path / "again")
    assert compared.stdout.startswith("1 row in both: none moved\n")
    assert compared.returncode == 0
    ours, theirs = (
        pd.read_csv(folder / "leaderboard.csv", usecols=["defense", "strength", "decoder_mse"])
        for folder in (run, tmp_path / "again")
    )
    errors = [
        each.loc[(each["defense"] == "noise") & (each["strength"] == 0.3), "decoder_mse"]
        for each in (ours, theirs)
    ]
    assert errors[0].tolist() == errors[1].tolist()
    assert len(errors[0]) == 1


@pytest.mark.slow
def test_what_a_label_holds_is_text(run, tmp_path, here):
    """A defense's name in a submission is not markup."""
    from tests.submitted import submission

    theirs = submission(run, tmp_path / "theirs", label="x <script>alert(1)</script>")
    here("report", run, theirs, "--out", tmp_path / "both")
    text = (tmp_path / "both" / "report.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.fixture(scope="module")
def browser(run):
    with opened() as driver:
        driver.get(f"file://{run}/report.html")
        yield driver


def shown(browser, column: str) -> list[str]:
    script = """
      const heads = [...document.querySelectorAll('#board th')].map(h => h.textContent.trim());
      const n = heads.indexOf(arguments[0]);
      return [...document.querySelectorAll('#board tbody tr')].filter(r => !r.hidden)
        .map(r => r.cells[n].dataset.value);
    """
    return browser.execute_script(script, column)


def rows(browser) -> list[str]:
    """Defense and strength of the rows that are shown."""
    cells = browser.find_elements("css selector", "#board tbody td:first-child")
    return [" ".join(cell.text.split()) for cell in cells if cell.is_displayed()]


def head(browser, column: str):
    for button in browser.find_elements("css selector", "#board th button"):
        if button.text.split("\n")[0].strip() == column:
            return button
    raise AssertionError(column)


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_columns_sort_both_ways_with_what_is_missing_last(browser, column):
    for way, order in (("ascending", 1), ("descending", -1)):
        head(browser, column).click()
        cells = shown(browser, column)
        known = [cell for cell in cells if cell]
        assert cells[len(known) :] == [""] * (len(cells) - len(known))
        values = [float(cell) for cell in known]
        assert values == sorted(values, reverse=order < 0)
        sort = head(browser, column).find_element("xpath", "..").get_attribute("aria-sort")
        assert sort == way


@pytest.mark.slow
def test_rows_are_filtered_by_words_and_by_doubts(browser):
    field = browser.find_element("id", "filter")
    field.send_keys("noise 0.3")
    assert rows(browser) == ["noise 0.3"]
    assert browser.find_element("id", "count").text == "1 of 7 rows"
    field.clear()
    field.send_keys("_cem")
    assert sorted(name.split()[0] for name in rows(browser)) == ["gmm_cem", "kmeans_cem"]
    browser.find_element("id", "trusted").click()
    assert rows(browser) == []  # smoke's decoders never converge
    browser.find_element("id", "trusted").click()
    field.clear()
    field.send_keys(" ")
    assert len(rows(browser)) == 7


@pytest.mark.slow
def test_curves_change_with_the_metric_and_points_speak(browser):
    chosen = browser.find_element("id", "metric")
    for metric in ("fvu", "ssim", "psnr", "mse"):
        option = chosen.find_element("css selector", f"option[value={metric}]")
        option.click()
        visible = [
            p.get_attribute("id")
            for p in browser.find_elements("class name", "plot")
            if p.is_displayed()
        ]
        assert visible == [f"plot-{metric}"]
        points = browser.find_elements("css selector", f"#plot-{metric} .wide .point")
        assert len(points) == 7
        text = points[1].get_attribute("aria-label")
        assert re.match(rf"noise 0\.3: accuracy \.\d+ \[.*\], worst {metric.upper()} ", text)
        assert points[1].get_attribute("tabindex") == "0"


@pytest.mark.slow
def test_it_works_from_the_keyboard(browser):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    head(browser, "accuracy").send_keys(keys.ENTER)
    cells = [float(cell) for cell in shown(browser, "accuracy")]
    assert cells == sorted(cells)


@pytest.mark.slow
def test_it_follows_dark_mode(browser):
    colours = []
    for scheme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        script = "return getComputedStyle(document.body).backgroundColor"
        colours.append(browser.execute_script(script))
    assert colours == ["rgb(255, 255, 255)", "rgb(22, 22, 22)"]


@pytest.mark.slow
def test_pictures_are_those_of_the_chosen_loss(browser):
    chosen = browser.find_element("id", "loss")
    for loss in ("1", "5"):
        chosen.find_element("css selector", f"option[value='{loss}']").click()
        tiles = browser.find_elements("css selector", ".tile[data-losses]")
        shown = [tile for tile in tiles if tile.is_displayed()]
        assert all(loss in tile.get_attribute("data-losses").split() for tile in shown)
        names = [tile.find_element("tag name", "b").text.split()[0] for tile in shown]
        assert names[0] == "none"
        assert len(names) == len(set(names))


@pytest.mark.slow
def test_nothing_is_asked_of_a_network_and_nothing_fails(browser):
    assert browser.get_log("browser") == []
    asked = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert asked  # the log was on
