"""Every command in the README, in docs and in the helps is one that can be typed."""

import re
import shlex
from importlib.util import find_spec

import pytest

from smashbench.bench.command import EXAMPLES, parser
from tests.commands import ROOT
from tests.test_extending import BLOCKS

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]
MAKE = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.M)


def typed(text: str) -> list[str]:
    """The commands in fenced blocks and in code within the text, continued lines as one."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.S | re.M)
    blocks = [block for language, block in fenced if language in ("", "sh", "bash")]
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`((?:smashbench|make|python -m) [^`]+)`", text)
    return [line.split(" # ")[0].strip() for line in lines]


def commands(start: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for line in typed((ROOT / page).read_text()):
            words = re.sub(r"^(?:[A-Z_]+=\S+ )*", "", line).split(" && ")
            found += [(page, word) for word in words if word.startswith(start)]
    return found


@pytest.mark.parametrize(("page", "line"), commands("smashbench "), ids=str)
def test_every_command_of_a_page_is_one_of_the_command_line(page, line):
    words = shlex.split(line)[1:]
    if len(words) == 1:
        assert words[0] in EXAMPLES  # named in a sentence
    elif words != ["COMMAND", "--help"]:
        choice = parser().parse_args([*words, *(["--out", "DIR"] if words[0] == "trial" else [])])
        assert callable(choice.command)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_a_help_is_one_of_its_command(name, capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for line in EXAMPLES[name].strip().splitlines():
        assert line.strip() in shown
        words = shlex.split(line)
        assert words[:2] == ["smashbench", name]
        assert callable(parser().parse_args(words[1:]).command)


def test_every_target_of_make_is_there():
    found = commands("make ")
    assert len(found) > 5
    for page, line in found:
        targets = [word for word in line.split()[1:] if "=" not in word and word != "[SUITE=quick]"]
        assert set(targets) <= {*MAKE, "help"}, (page, line)


def test_every_module_that_is_run_is_there():
    for page, line in commands("python -m "):
        assert find_spec(line.split()[2]), (page, line)


def test_the_cheap_ones_run(run, here, tmp_path, clean, monkeypatch):
    """Those of the README on a finished run, and its own defense up to the list of its trials."""
    files = dict(BLOCKS)
    (tmp_path / "my_ceiling.py").write_text(files["my_ceiling.py"])
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "quick").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    assert here("list").returncode == 0
    assert here("status", "results/quick").returncode == 0
    assert here("compare", "results/quick", "results/quick").returncode == 0
    done = here("figure", "results/quick", "tradeoff_fvu", "--out", "paper")
    assert done.returncode == 0
    assert (tmp_path / "paper" / "tradeoff_fvu.pdf").read_bytes().startswith(b"%PDF")
    lines = [line for page, line in commands("smashbench ") if page == "README.md"]
    (own,) = [line for line in lines if "my_ceiling.py" in line and " run " in line]
    done = here(*shlex.split(own)[1:], "--dry-run", "--out", "new")
    assert done.returncode == 0, done.stderr
    assert "decoder on ceiling 0.4, seed 1" in done.stdout
    assert here("check", "my_ceiling.py").returncode == 0


def test_a_figure_that_is_not_there_is_refused(run, refused):
    refused(["figure", run, "tradeof_fvu"], "did you mean 'tradeoff_fvu'")
    refused(["figure", run, "optimum"], "nothing to show")
