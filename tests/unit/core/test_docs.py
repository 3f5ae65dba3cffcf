"""What the docs say is what the project is: links lead somewhere, numbers are the release's, commands parse."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import snakemake
import yaml

from emma.data.release import load_release_config
from emma.tasks import TaskID

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "config/README.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    for target in re.findall(r"\w`?\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def blocks(page, language):
    """The fenced blocks of a page that are in a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_shown_yaml_parses(page):
    for block in blocks(page, "yaml"):
        assert yaml.safe_load(block)


def programs():
    """Command lines of our own programs in the docs: the page, the program, its options."""
    found = []
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.replace("\\\n", " ").splitlines():
                if "scripts/" not in line:
                    continue
                words = shlex.split(line, comments=True)
                for place, word in enumerate(words):
                    if re.fullmatch(r"scripts/\w+\.py", word):
                        options = [item.partition("=")[0] for item in words[place:] if item.startswith("--")]
                        found.append((page.name, word, tuple(options)))
    return sorted(set(found))


@pytest.mark.parametrize(("page", "program", "options"), programs())
def test_programs_and_options_shown_exist(page, program, options):
    text = (ROOT / program).read_text()
    for option in options:
        assert f'"{option}"' in text, f"{page}: {program} has no {option}"


def test_files_that_conda_and_pip_are_given_exist():
    text = " ".join(" ".join(page.read_text() for page in PAGES).split())
    named = re.findall(r"(?:conda env create -f|pip install -r) (envs/[\w.]+)", text)
    assert set(named) == {"envs/emma.yaml", "envs/requirements.txt", "envs/kubernetes.txt"}
    assert all((ROOT / name).is_file() for name in named)
    assert yaml.safe_load((ROOT / "envs/emma.yaml").read_text())["dependencies"][-1] == {"pip": ["-r requirements.txt"]}


def test_the_verifier_has_help():
    shown = {program for _, program, _ in programs()}
    assert {"scripts/verify.py", "scripts/open_holdout.py"} <= shown
    command = [sys.executable, "scripts/verify.py", "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert "--deep" in result.stdout


def cards():
    text = (ROOT / "docs/tasks.md").read_text()
    return {block.split(":")[0]: " ".join(block.split()) for block in text.split("\n## ")[1:]}


def test_task_cards_hold_the_release_s_numbers():
    """The numbers of v0.1, and of v1.0 where v0.1 lacks the task."""
    release, later = (load_release_config(ROOT / f"config/releases/{name}.yaml") for name in ("v0.1", "v1.0"))
    found = cards()
    assert set(found) == {task.value for task in later.tasks}
    for task in later.tasks:
        source = release if task in release.tasks else later
        spec, card, recipe = source.tasks[task], found[task.value], source.rfgen["tasks"][task.value]
        assert f"{spec.readout.max_parameters:,}" in card
        assert spec.metric in card
        assert f"{recipe['samples']:,} samples at 20 MS/s" in card
        assert recipe["sample_rate_hz"] == 20e6
        rows = recipe.get("probes") or recipe.get("array", {}).get("elements") or recipe.get("elements", 1)
        assert f"{rows} {'probe beams' if 'probes' in recipe else 'antenna'}" in card
        for value in spec.held_out if len(spec.held_out) < 12 else ():
            assert value in card
        if "snr_db" in recipe:
            low, high = recipe["snr_db"]
            assert f"SNR {low:.0f} to {high:.0f} dB" in card
    assert len(release.tasks[TaskID.E_ID_FP].classes) == 12
    assert len(release.tasks[TaskID.E_ID_AMC].classes) == 11
    families = release.rfgen["tasks"]["E-ID-DRONE"]
    assert (len(families["present"]), len(families["present"] + families["absent"])) == (3, 8)
    low, mid, high = (release.rfgen["tasks"]["E-ID-AMC"]["regimes_db"][name] for name in ("low", "mid", "high"))
    assert "low -10 to 0, mid 0 to 10, high 10 to 20 dB" in found["E-ID-AMC"]
    assert (low, mid, high) == ([-10.0, 0.0], [0.0, 10.0], [10.0, 20.0])


def test_messages_of_the_faq_are_those_that_are_said():
    """By the longest piece of a message that holds no name; those of Snakemake itself are looked up there."""
    source = "".join(path.read_text() for folder in ("src", "scripts") for path in (ROOT / folder).rglob("*.py"))
    engine = Path(snakemake.__file__).parent
    source += "".join((engine / name).read_text() for name in ("cli.py", "workflow.py", "exceptions.py"))
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs/faq.md").read_text(), re.MULTILINE)
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    pieces = [max(re.split(r"\.\.\.|\b(?:NAME|OTHER|KEY|FILE)\b|\d", span), key=len).strip(" :?") for span in spans]
    assert len(pieces) > 15
    assert [piece for piece in pieces if piece not in source] == []
