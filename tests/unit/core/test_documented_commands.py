"""Every command that the docs show is one that its program takes: parsed as it would be, and nothing is run."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from common.errors import InputError, OneLineParser
from emma.cli.main import COMMANDS, find
from emma.cli.project import PROGRAMS, Program
from workflow_support.config import ProjectConfig

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(path for pattern in ("docs/*.md", "*.md", "config/*.md", "config/*.yaml") for path in ROOT.glob(pattern))
#: Rules that a command may name; other targets are files below results/.
RULES = {"all", "leaderboard", "folds"}
#: What a Snakemake command line does without any core.
WITHOUT_CORES = ("dryrun", "archive", "executor", "profile")
#: Options of plugins that `make cluster` installs, with one value each.
PLUGINS = re.compile(r"--(slurm|storage-s3)-[a-z-]+")
#: What may stand before a program's name.
BEFORE = re.compile(r"[A-Z_]+=.*|python|tests/slurm_node\.py")
#: Releases that a page makes up, and words that a reader fills in.
MADE_UP = {"NAME", "own", "ranging", "..."}


def spans(text):
    """Text of fenced and indented blocks, a line each, and of code within lines."""
    text = text.replace("\\\n", " ")
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", paragraph))


def commands(program):
    """Pages and words of every command line of a program, without the program's name."""
    found = []
    for page in PAGES:
        text = page.read_text()
        lines = (
            spans(text) if page.suffix == ".md" else re.findall(r"#.*?\b((?:snakemake|emma) .*)$", text, re.MULTILINE)
        )
        for line in lines:
            for part in re.split(r"&&|\||;", line):
                try:
                    words = shlex.split(part, comments=True)
                except ValueError:
                    continue  # no shell's words
                while words and BEFORE.fullmatch(words[0]):
                    words = words[1:]
                if len(words) > 1 and words[0] == program:
                    found.append((page.relative_to(ROOT).as_posix(), tuple(words[1:])))
    return sorted(set(found))


@pytest.fixture(scope="module")
def snakemake():
    """Snakemake's own parser of a command line."""
    from snakemake.cli import get_argument_parser

    return get_argument_parser()


def faults(asked):
    """What is wrong with a command line that Snakemake takes."""
    for setting in asked.config or ():
        key, is_setting, value = setting.partition("=")
        if not is_setting:
            yield f"--config takes the target {setting}: write -- before it"
        elif key not in ProjectConfig.model_fields:
            yield f"--config {key}: no such key"
        elif key == "release" and value not in MADE_UP and not (ROOT / f"config/releases/{value}.yaml").is_file():
            yield f"no release {value}"
        elif key in {"models", "submissions"} and not isinstance(yaml.safe_load(value), list):
            yield f"{key}: no list"
    for path in asked.configfile or ():
        if path.suffix != ".yaml":
            yield f"--configfile takes the target {path}"
    for target in asked.targets:
        if target not in RULES and not target.startswith(("results/", "$")):
            yield f"no target {target}"
    if asked.cores is None and not asked.report and not any(getattr(asked, name) for name in WITHOUT_CORES):
        yield "--cores is missing"


@pytest.mark.parametrize(("page", "words"), commands("snakemake"))
def test_snakemake_takes_it(page, words, snakemake):
    places = [place for place, word in enumerate(words) if PLUGINS.fullmatch(word)]
    left_out = {*places, *(place + 1 for place in places)}
    asked = [word for place, word in enumerate(words) if place not in left_out]
    assert list(faults(snakemake.parse_args(asked))) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("--cores 8 --config release=v1.0 all", "--config takes the target all: write -- before it"),
        ("--cores 8 --config release=v0.2 -- all", "no release v0.2"),
        ("--cores 8 --config relase=v0.1 -- all", "--config relase: no such key"),
        ("--cores 8 --config models=dsp -- all", "models: no list"),
        ("--cores 8 --configfile config/real_captures.yaml all", "--configfile takes the target all"),
        ("results/release/emma-v0.1.zip", "--cores is missing"),
        ("--cores 8 leaderbord", "no target leaderbord"),
    ],
)
def test_a_trap_is_seen(line, fault, snakemake):
    assert list(faults(snakemake.parse_args(line.split()))) == [fault]


@pytest.mark.parametrize(("page", "words"), commands("make"))
def test_make_has_it(page, words):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in words if "=" not in word} <= targets


def test_make_help_lists_every_target():
    text = (ROOT / "Makefile").read_text()
    told = re.findall(r"^([a-z-]+):.*  ## \w", text, re.MULTILINE)
    # The halves of the tests are no targets to ask for.
    assert sorted([*told, "test-code", "test-validity"]) == sorted(re.search(r"\.PHONY: (.*)", text)[1].split())


@pytest.mark.parametrize(("page", "words"), commands("emma"))
def test_emma_takes_it(page, words):
    if words[0] in {"--help", "--version", "COMMAND", "--completion"}:
        return
    name, options = find([*words])
    command = COMMANDS[name]
    if isinstance(command, Program):
        text = (PROGRAMS / f"{command.name}.py").read_text()
        assert all(f'"{option.partition("=")[0]}"' in text for option in options if option.startswith("--"))
        return
    parser = OneLineParser(f"emma {name}", "")
    command.add_options(parser)
    # Without options it is the command that is spoken of.
    if options and "--help" not in options:
        parser.parse_args(options)


def test_commands_are_found():
    """A change of how the docs write them would leave nothing to look at."""
    assert len(commands("snakemake")) > 10
    assert {"leaderboard", "test"} <= {words[0] for _, words in commands("make")}
    assert {words[0] for _, words in commands("emma")} >= {"add", "run", "check", "verify", "show"}
    with pytest.raises(InputError):
        find(["ad"])
