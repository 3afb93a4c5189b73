"""The page in a real browser: sorting, filtering, curves, keyboard, no network, no errors."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
COLUMNS = ("defense", "strength", "accuracy", "MSE", "SSIM", "PSNR", "FVU")


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
    assert all(link.startswith("data:") for link in parser.links)
    assert "http" not in re.sub(r"data:[^\"]*", "", text)
    for flag in ("not_converged", "randomized"):
        assert f"<dt>{flag}</dt>" in text
    assert "smashbench run smoke --out again --only defense=noise --only strength=0.3" in text


def test_what_a_label_holds_is_text(run, tmp_path, here):
    """A defense's name in a submission is not markup."""
    from tests.test_merge import submission

    theirs = submission(run, tmp_path / "theirs", label="x <script>alert(1)</script>")
    here("report", run, theirs, "--out", tmp_path / "both")
    text = (tmp_path / "both" / "report.html").read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.fixture(scope="module")
def browser(run):
    if not (CHROMIUM and DRIVER):
        pytest.skip("no browser: apt install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,1000")
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get(f"file://{run}/report.html")
    yield driver
    driver.quit()


def shown(browser, column: str) -> list[str]:
    script = """
      const heads = [...document.querySelectorAll('#board th')].map(h => h.textContent.trim());
      const n = heads.indexOf(arguments[0]);
      return [...document.querySelectorAll('#board tbody tr')].filter(r => !r.hidden)
        .map(r => r.cells[n].dataset.value);
    """
    return browser.execute_script(script, column)


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
        values = known if column == "defense" else [float(cell) for cell in known]
        assert values == sorted(values, reverse=order < 0)
        sort = head(browser, column).find_element("xpath", "..").get_attribute("aria-sort")
        assert sort == way


@pytest.mark.slow
def test_rows_are_filtered_by_words_and_by_doubts(browser):
    field = browser.find_element("id", "filter")
    field.send_keys("noise 0.3")
    assert shown(browser, "defense") == ["noise"]
    assert browser.find_element("id", "count").text == "1 of 7 rows"
    field.clear()
    field.send_keys("cem")
    assert sorted(shown(browser, "defense")) == ["gmm_cem", "kmeans_cem"]
    browser.find_element("id", "trusted").click()
    assert shown(browser, "defense") == []  # smoke's decoders never converge
    browser.find_element("id", "trusted").click()
    field.clear()
    field.send_keys(" ")
    assert len(shown(browser, "defense")) == 7


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
        points = browser.find_elements("css selector", f"#plot-{metric} .point")
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
def test_it_fits_a_phone_and_follows_dark_mode(browser):
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    colours = []
    for scheme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        script = "return getComputedStyle(document.body).backgroundColor"
        colours.append(browser.execute_script(script))
    assert colours == ["rgb(255, 255, 255)", "rgb(22, 22, 22)"]


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
