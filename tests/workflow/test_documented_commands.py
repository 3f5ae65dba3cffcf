"""Every command that the docs show: parsed by its own program, and run or planned on tiny where that is cheap."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from common.errors import InputError, OneLineParser
from emma.cli.main import COMMANDS, find
from emma.cli.project import PROGRAMS, Program
from workflow_support.config import ProjectConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path for pattern in ("docs/*.md", "*.md", "config/*.md", "config/*.yaml") for path in ROOT.glob(pattern))
#: Rules that a command may name; other targets are files below results/.
RULES = {"all", "leaderboard", "folds"}
#: What a Snakemake command line does without any core.
WITHOUT_CORES = ("dryrun", "archive", "executor", "profile")
#: Options of plugins that `make cluster` installs, with one value each.
PLUGINS = re.compile(r"--(slurm|storage-s3)-[a-z-]+")
#: What may stand before a program's name.
BEFORE = re.compile(r"[A-Z_]+=.*|python3?|tests/slurm_node\.py")
#: Releases that a page makes up, and words that a reader fills in.
MADE_UP = {"NAME", "own", "ranging", "..."}
#: How each command is tested, by what it begins with: run `here`, or elsewhere in a test that says the word behind the
#: colon, or only `parsed`, and why.
TESTED = {
    r"make help": "here",
    r"make .*": "here, by make -n",
    r"emma (add|check|clean|explain|run|show)\b.*": "here",
    r"emma (--help|--version|--completion|COMMAND --help)": "tests/unit/cli/test_commands.py: completion",
    r"emma archive.*": "tests/unit/cli/test_commands.py: archive",
    r"emma verify.*": "tests/workflow/test_verify.py: verify",
    r"emma captures check.*": "tests/unit/real/test_door.py: check_captures",
    r"emma submit check.*": "tests/validation/audit/test_pull_request.py: check_submission",
    r"snakemake .*(--profile|--default-storage).*": "tests/workflow/test_slurm.py: workflow/profiles/slurm",
    r"snakemake --report .*": "tests/workflow/test_report.py: --report",
    r"snakemake .*": "parsed: `emma run` shows the same command, and runs it here",
    r"scripts/(make_synthetic_floor_sessions|evaluate_floor_state_changes)\.py .*": "here",
    r"(scripts/)?prepare_egospeak_floor_eval\.py .*": "tests/unit/floor_events/test_programs.py: prepare_egospeak",
    r"scripts/(commit|open)_holdout\.py .*": "tests/validation/audit/test_holdout.py: _holdout",
    r"scripts/(freeze|install_text_data|run|verify)\.py.*": "parsed: minutes, a download, or what a rule or emma runs",
    r"scripts/draw_structure\.py": "tests/unit/core/test_structure.py: draw_structure",
    r"scripts/write_schemas\.py": "tests/unit/audit/test_schemas.py: write_schemas",
    r"(scripts/show_leaderboard|benchmarks/results_tables)\.py .*": "here",
    r"benchmarks/.*": "parsed: minutes, and not for users",
    r"scripts/\w+\.py": "parsed: a program that is spoken of",
    r"examples/\w+\.py": "tests/unit/backbones/test_examples.py: examples",
}


def spans(text):
    """Text of fenced and indented blocks, a line each, and of code within lines."""
    text = text.replace("\\\n", " ")
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.findall(r"^    (\S.*)$", text, re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", paragraph))


def commands(program, least=1):
    """Pages and words of every command line of a program, without the program's name; with it where ``least`` is 0."""
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
                if len(words) > least and re.fullmatch(program, words[0]):
                    found.append((page.relative_to(ROOT).as_posix(), tuple(words[least:])))
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


def test_a_target_behind_a_setting_is_refused_before_any_file_of_ours_is_read(tmp_path):
    """No Snakefile can say it better: where there is none, the message is the same. The FAQ quotes it."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", "release=v0.2", "all"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    last = told.stderr.strip().splitlines()[-1].partition(": Invalid config definition: ")[2]
    assert told.returncode == 1
    assert last == "Config entries have to be defined as name=value pairs. (Unparsable value: 'all')"
    assert last.partition(".")[0] in (ROOT / "docs/faq.md").read_text()


def test_messages_write_targets_behind_two_dashes():
    sources = [path for folder in ("src", "scripts") for path in (ROOT / folder).rglob("*.py")]
    lines = [line for path in sources for line in re.findall(r"snakemake --cores.*--config.*", path.read_text())]
    assert len(lines) > 1
    assert [line for line in lines if " -- " not in line] == []


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


def shown():
    """Every command line in the docs once, with the words of a program's name alone left out."""
    lines = {
        f"{program} {' '.join(words)}" for program in ("emma", "make", "snakemake") for _, words in commands(program)
    }
    own = commands(r"(scripts|benchmarks|examples)/\w+\.py|prepare_egospeak_floor_eval\.py", least=0)
    return sorted(lines | {" ".join(words) for _, words in own})


def test_every_command_is_run_planned_or_said_to_be_parsed():
    patterns = Counter(next((known for known in TESTED if re.fullmatch(known, line)), line) for line in shown())
    assert [line for line in patterns if line not in TESTED] == []
    assert [known for known in TESTED if known not in patterns] == []
    for how in TESTED.values():
        place, _, word = how.partition(": ")
        if place.startswith("tests/"):
            assert word in (ROOT / place).read_text(), how


@pytest.mark.parametrize("words", sorted({words for _, words in commands("make")}))
def test_make_plans_it(words):
    command = ["make", *([] if words == ("help",) else ["--dry-run"]), *words]
    # What `make test` hands on speaks of its own jobs, which a reader's shell does not.
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    told = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (0, "")


@pytest.fixture(scope="module")
def visit(finished, tmp_path_factory):
    """Runs a shown command line in a project with finished results of tiny, and returns what it printed.

    Files are links to those of the finished project: programs write new files and rename them.
    """
    folder = tmp_path_factory.mktemp("visit") / "project"
    shutil.copytree(finished.folder, folder, symlinks=True, copy_function=lambda a, b: Path(b).hardlink_to(a))
    weights = np.random.default_rng(0).standard_normal((8, 2, 9)).astype(np.float32)
    sizes = {"iq": ["B", 2, 1024], "embedding": ["B", 8]}
    values = {
        name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size) for name, size in sizes.items()
    }
    nodes = [
        onnx.helper.make_node("Conv", ["iq", "weights"], ["layer"]),
        onnx.helper.make_node("ReduceMean", ["layer"], ["embedding"], axes=[2], keepdims=0),
    ]
    held = [onnx.numpy_helper.from_array(weights, "weights")]
    graph = onnx.helper.make_graph(nodes, "net", [values["iq"]], [values["embedding"]], held)
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "mine.onnx")
    environment = finished.environment() | {"PYTHONPATH": str(folder / "src")}

    def run(line):
        words = shlex.split(line)
        program = {"emma": ["-m", "emma.cli"]}.get(words[0], words[:1])
        command = [sys.executable, *program, *words[1:]]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
        assert told.returncode == 0, f"{line}: {told.stdout}{told.stderr}"
        return told.stdout

    return run


def lines_of(page, *programs):
    """Command lines of a page's blocks in their order, of these programs."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    shell = [line for language, block in blocks if not language for line in block.splitlines()]
    lines = [line.removeprefix("python3 ").removeprefix("python ") for line in shell]
    return [line for line in lines if line.startswith(programs)]


def test_the_tutorial_leads_to_a_row_of_ones_own(visit):
    """Its commands in their order; of runs the last is planned, and what takes longer is run by another test."""
    lines = lines_of("docs/tutorial.md", "emma ")
    *others, run = [line for line in lines if line.startswith("emma run")]
    assert all(run.startswith(other) for other in others)
    steps = [line for line in lines if not line.startswith(("emma run", "emma verify", "emma archive"))]
    assert [line.split()[1] for line in steps] == ["show", "add", "check"]
    told = {line: visit(line) for line in steps}
    assert "ssl_conv" in told["emma show --release tiny"]
    assert "mine: ready" in told["emma check mine --results results/releases/tiny"]
    assert "embed" in visit(f"{run} --dry-run")


@pytest.mark.parametrize("page", ["docs/floor_events.md", "docs/easycom_floor_event_diagnostics.md"])
def test_the_floor_events_demonstration_runs(visit, page):
    lines = lines_of(page, "scripts/")
    assert len(lines) == 2
    assert "wrote results/floor_demo/" in [visit(line) for line in lines][-1]


def test_tables_explanations_and_deletions_run(visit):
    """On tiny, where a page shows another release."""
    assert "rule     board" in visit("emma explain results/releases/tiny/leaderboard.json")
    assert "dsp" in visit("scripts/show_leaderboard.py results/releases/tiny/leaderboard.json")
    assert "| dsp |" in visit("benchmarks/results_tables.py results/releases/tiny dsp ssl_conv")
    assert "tiny" in visit("emma clean --release tiny --yes")
