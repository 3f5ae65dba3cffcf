"""The `emma` command: what it runs, what it refuses, what it deletes and explains; nothing here starts the workflow."""

import json
import os
import re
import signal
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from common.errors import InputError
from emma.cli.completion import script
from emma.cli.explain import read_record
from emma.cli.main import COMMANDS, find, main, summary
from emma.cli.project import PROGRAMS, Program
from emma.version import HARNESS_VERSION

ROOT = Path(__file__).parents[3]
PYTHON = sys.executable


@pytest.fixture
def project(tmp_path):
    """A project's folder with two releases."""
    folder = tmp_path / "project"
    (folder / "config/releases").mkdir(parents=True)
    (folder / "config/config.yaml").write_text("release: v0.1\neval_split: DEV\n")
    for name in ("v0.1", "tiny"):
        (folder / f"config/releases/{name}.yaml").write_text(f"release: {name}\n")
    return folder


def emma(monkeypatch, *words):
    """The status of a command; InputError as it is raised."""
    monkeypatch.setattr("sys.argv", ["emma", *map(str, words)])
    # A program of scripts/ puts its folder on the path.
    monkeypatch.setattr("sys.path", [*sys.path])
    try:
        main()
    except SystemExit as end:
        return end.code
    return 0


def test_every_command_is_told_in_one_line(monkeypatch, capsys):
    assert emma(monkeypatch) == emma(monkeypatch, "--help") == 0
    told = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name}  " in told
        assert summary(command) in told
        assert summary(command).endswith(".")
    assert emma(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"emma {HARNESS_VERSION}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["verfy", "results"], "emma: verfy is unknown, did you mean verify?"),
        (["captures"], "emma captures: expected captures check"),
        (["captures", "chek", "x"], "emma: captures chek is unknown, did you mean captures check?"),
        (["submti"], "emma: submti is unknown, did you mean submit?"),
        (["x"], "emma: x is unknown, expected one of run, show, "),
    ],
)
def test_a_command_that_is_none_is_told_what_was_meant(words, told):
    with pytest.raises(InputError, match=re.escape(told)):
        find(words)
    assert find(["captures", "check", "folder"]) == ("captures check", ["folder"])
    assert find(["run"]) == ("run", [])


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if isinstance(command, Program)])
def test_programs_are_those_of_this_checkout(name):
    assert PROGRAMS == ROOT / "scripts"
    assert (PROGRAMS / f"{COMMANDS[name].name}.py").is_file()


def test_a_program_is_called_by_the_command_s_name(monkeypatch, capsys, tmp_path):
    assert emma(monkeypatch, "submit", "check", "--help") == 0
    assert capsys.readouterr().out.startswith("usage: emma submit check ")
    with pytest.raises(InputError, match="nowhere: expected a folder of results or a release archive"):
        emma(monkeypatch, "verify", tmp_path / "nowhere")
    with pytest.raises(InputError, match="expected a folder, or both --base and --head"):
        emma(monkeypatch, "submit", "check")


def test_programs_of_the_folder_that_it_is_called_in_never_run(monkeypatch, tmp_path):
    """An archive that is checked where it was unpacked brings a verifier of its own."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/verify.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="expected a folder of results"):
        emma(monkeypatch, "verify", "results")


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """Writes a program to be found in Snakemake's place, and returns the interpreter beside it."""

    def write(body):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin/snakemake").write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{body}\n")
        (tmp_path / "bin/snakemake").chmod(0o755)
        monkeypatch.setattr("sys.executable", str(tmp_path / "bin/python"))

    return write


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run"], "snakemake --cores {n} --logger emma -- leaderboard folds"),
        (
            ["run", "all", "--release", "tiny", "--cores", "3", "--models", "prior, dsp", "--seed", "4"],
            "snakemake --cores 3 --logger emma --config release=tiny 'models=[prior,dsp]' seed=4 -- all",
        ),
        (
            ["run", "--dry-run", "--captures", "none", "--eval-split", "HOLDOUT"],
            "snakemake --cores {n} --dry-run --config eval_split=HOLDOUT real_captures=none -- leaderboard folds",
        ),
        (
            ["run", "--submissions", "submissions/a", "--cores", "1"],
            "snakemake --cores 1 --logger emma --config 'submissions=[submissions/a]' -- leaderboard folds",
        ),
        (
            ["run", "--captures", "config/mine.yaml"],
            "snakemake --configfile config/mine.yaml --cores {n} --logger emma -- leaderboard folds",
        ),
    ],
)
def test_a_run_shows_the_plain_command_and_gives_its_status(words, told, monkeypatch, project, engine, capfd):
    engine("print(sys.argv[1:], os.getcwd())\nsys.exit(3)")
    (project / "config/mine.yaml").write_text("real_captures: []\n")
    assert emma(monkeypatch, *words, "--root", project) == 3
    shown, ran = capfd.readouterr().out.splitlines()
    told = told.replace("{n}", str(len(os.sched_getaffinity(0))))
    assert shown == f"$ {told}"
    assert ran == f"{[word.strip(chr(39)) for word in told.split()[1:]]} {project}"


def test_a_run_that_ends_well_says_where_the_board_is(monkeypatch, project, engine, capfd):
    engine("sys.exit(0)")
    for words, told in {
        ("run",): f"page: {project}/results/leaderboard.html; in the terminal: emma show --release v0.1",
        ("run", "all", "--release", "tiny"): f"{project}/results/releases/tiny/leaderboard.html; ",
        ("run", "--eval-split", "HOLDOUT", "--submissions", "a,b"): "emma show --release v0.1 --eval-split HOLDOUT",
    }.items():
        assert emma(monkeypatch, *words, "--root", project) == 0
        assert told in capfd.readouterr().out.splitlines()[-1]
    for words in (("run", "folds"), ("run", "--dry-run")):
        assert emma(monkeypatch, *words, "--root", project) == 0
        assert "page:" not in capfd.readouterr().out


def test_what_the_options_show_to_be_wrong_starts_nothing(monkeypatch, project, engine, capfd):
    engine("print('ran')")
    for words, told in {
        ("run", "--release", "tinny"): "--release: tinny is unknown, did you mean tiny?",
        ("run", "--captures", "surogate"): "and surogate is unknown, did you mean surrogate?",
        ("run", "leaderbord"): "emma run: leaderbord: no such target, did you mean leaderboard?",
        ("run", "--cores", "many"): "emma run: argument --cores: many: expected a whole number",
        ("archive", "--release", "v0.2"): "--release: v0.2 is unknown, did you mean v0.1?",
        ("archive",): "git status: ",
        ("show",): "results/leaderboard.json: no such file; make it by: emma run --release v0.1",
        ("show", "--release", "tiny"): "results/releases/tiny/leaderboard.json: no such file",
    }.items():
        with pytest.raises(InputError, match=re.escape(told)):
            emma(monkeypatch, *words, "--root", project)
    with pytest.raises(InputError, match=r"expected the project's folder, with config/config\.yaml; name it by --root"):
        emma(monkeypatch, "run", "--root", project.parent)
    assert capfd.readouterr().out == ""


def test_an_archive_of_a_checkout_that_differs_is_refused_before_any_job(monkeypatch, project, engine, capfd):
    engine("print('ran', *sys.argv[1:])")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", project]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    assert emma(monkeypatch, "archive", "--release", "tiny", "--cores", 2, "--root", project) == 0
    told = capfd.readouterr().out
    assert "release=tiny -- results/releases/tiny/release/emma-tiny.zip\nran " in told
    (project / "new.txt").touch()
    with pytest.raises(InputError, match=r"1 files differ from the commit \(new\.txt\)"):
        emma(monkeypatch, "archive", "--root", project)
    assert "ran" not in capfd.readouterr().out


def test_an_interrupt_is_one_line_and_says_how_to_go_on(project, tmp_path, engine):
    """As from a keyboard: the signal reaches both, and the line comes when Snakemake has cleaned up."""
    engine(
        # Held back until Snakemake has imported, and the Snakefile takes it.
        "print('started', flush=True)\ntime.sleep(0.5)\n"
        "signal.signal(signal.SIGINT, lambda *_: (time.sleep(0.3), print('cleaned up', flush=True), sys.exit(1)))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\ntime.sleep(60)"
    )
    # Tests that run in the background have SIGINT ignored, and Python would leave it so.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.executable = {str(tmp_path / 'bin/python')!r}; from emma.cli.main import run; run()"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [PYTHON, "-c", code, "run"],
        cwd=project,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline().startswith("$ snakemake ")
        assert process.stdout.readline() == "started\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (out, err) == ("cleaned up\n", "interrupted; the same command resumes\n")
    assert process.returncode == 130


@pytest.fixture
def results(project):
    """Results of two releases, an official run and the floor events."""
    root = project / "results"
    names = ("leaderboard.json", "folds/dsp/a.parquet", "logs/fit/a.log", "README.md", "floor_events/summary.json")
    apart = ("releases/tiny/leaderboard.json", "releases/tiny/logs/a.log", "holdout/leaderboard.json")
    for name in (*names, *apart):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def names_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_one_release_is_deleted_and_nothing_else(monkeypatch, project, results, capsys):
    # The lock of one clean lives as long as its process.
    monkeypatch.setattr("emma.cli.clean.hold_alone", lambda path: True)
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").touch()
    (results / "linked").symlink_to(elsewhere)
    assert emma(monkeypatch, "clean", "--yes", "--root", project) == 0
    assert ": 4 files of release v0.1, 0 MB: deleted\n" in capsys.readouterr().out
    kept = ["README.md", "floor_events/summary.json", "holdout/leaderboard.json"]
    others = ["releases/tiny/leaderboard.json", "releases/tiny/logs/a.log"]
    assert names_in(results) == kept + others
    assert names_in(elsewhere) == ["mine.txt"]
    assert emma(monkeypatch, "clean", "--yes", "--eval-split", "HOLDOUT", "--root", project) == 0
    assert names_in(results) == [*kept[:2], *others]
    assert emma(monkeypatch, "clean", "--yes", "--release", "tiny", "--root", project) == 0
    assert names_in(results) == kept[:2]
    assert not (results / "releases/tiny").exists()
    capsys.readouterr()
    assert emma(monkeypatch, "clean", "--root", project) == 0
    assert capsys.readouterr().out == f"{results}: no results of v0.1\n"


@pytest.mark.parametrize(("answer", "gone"), [("y", True), ("YES", True), ("", False), ("no", False)])
def test_it_is_asked_before_anything_is_deleted(answer, gone, monkeypatch, project, results):
    asked = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    before = names_in(results)
    assert emma(monkeypatch, "clean", "--root", project) == (0 if gone else 1)
    assert (names_in(results) != before) is gone
    assert asked == [f"{results}: 3 files of release v0.1, 0 MB: delete? [y/N] "]


def test_nothing_is_deleted_unasked_or_under_a_run(monkeypatch, project, results):
    before = names_in(results)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="--yes: expected where nobody can be asked"):
        emma(monkeypatch, "clean", "--root", project)
    with pytest.raises(InputError, match="--release: tinny is unknown"):
        emma(monkeypatch, "clean", "--yes", "--release", "tinny", "--root", project)
    hold = "import sys; from common.files import hold_alone; hold_alone(sys.argv[1]); print(1, flush=True); input()"
    alive = project / ".snakemake/alive"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [sys.executable, "-c", hold, alive], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match="a run of this project is under way"):
            emma(monkeypatch, "clean", "--yes", "--root", project)
        other.communicate(b"\n")
    assert names_in(results) == before


@pytest.fixture(scope="module")
def completion():
    return script(COMMANDS)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("v", ["verify"]),
        ("captures ", ["check"]),
        ("run --re", ["--release"]),
        ("captures check x --ad", ["--adapter"]),
        ("submit check --he", ["--head", "--help"]),
        ("run --release t", ["tiny"]),
        ("run --release v", ["v0.1"]),
        ("run --models d", ["dsp"]),
        ("check d", ["dsp"]),
    ],
)
def test_bash_completes_commands_options_and_names(line, offered, project, completion):
    (project / "config/models").mkdir()
    (project / "config/models/dsp.yaml").touch()
    (project / "config/releases/v0.1.holdout.yaml").touch()
    words = ["emma", *line.split(" ")]
    asked = f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}'); COMP_CWORD={len(words) - 1}"
    ask = f'{completion}\n{asked}\n_emma emma "{words[-1]}" "{words[-2]}"; printf "%s\n" "${{COMPREPLY[@]}}"'
    told = subprocess.run(["bash", "-c", ask], cwd=project, capture_output=True, text=True, check=True)
    assert (told.stdout.split(), told.stderr) == (offered, "")


def note(project, name, **record):
    """Write a record as Snakemake does."""
    key = urlsafe_b64encode(name.encode()).decode()
    *folders, last = [key[start : start + 254] for start in range(0, len(key), 254)]
    path = project.joinpath(".snakemake/metadata", *(f"@{folder}" for folder in folders), last)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"record_format_version": 6, "log": [], "input": [], "shellcmd": None, **record}))


def test_a_file_is_explained_by_its_job_and_the_jobs_behind(monkeypatch, project, capsys):
    long = "results/" + "a" * 300 + ".parquet"
    note(project, "results/scenes.parquet", rule="scenes", input=["recipe.yaml"], shellcmd="make scenes")
    note(project, "results/index.parquet", rule="scenes", input=["recipe.yaml"], shellcmd="make scenes")
    note(project, long, rule="embed", input=["results/scenes.parquet"], shellcmd="embed")
    sources = [long, "results/index.parquet", *(f"weights/{number:02d}" for number in range(20))]
    made = {"starttime": 1000.0, "endtime": 1001.5, "log": ["results/logs/fit.log"]}
    note(project, "results/fit.json", rule="fit", input=sources, shellcmd="fit " + "x" * 300, **made)
    monkeypatch.chdir(project)
    assert emma(monkeypatch, "explain", "results/fit.json") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:3] == [
        "results/fit.json (not there now)",
        "  rule     fit",
        "  made     1970-01-01 00:16:41 UTC, in 1.5 s",
    ]
    assert told[3] == f"  command  fit {'x' * 196} ..."
    assert told[4:6] == ["  log      results/logs/fit.log", "  from     22 files"]
    assert told[6:9] == [f"    {long}: embed", "    results/index.parquet: scenes", "    weights/00: made by no job"]
    # Two files of one job are one job.
    assert told[-2:] == ["    and 10 more: --all", "  behind   2 jobs: embed 1, scenes 1"]
    (project / "results").mkdir()
    (project / "results/fit.json").touch()
    assert emma(monkeypatch, "explain", project / "results/fit.json", "--all", "--root", project) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "results/fit.json"
    assert f"  command  fit {'x' * 300}" in told
    assert "    weights/19: made by no job" in told


def test_a_file_without_a_record_is_told_how_to_find_its_jobs(monkeypatch, project):
    monkeypatch.chdir(project)
    with pytest.raises(InputError, match=r"no record of a job that made it; .*emma run --dry-run results/a$"):
        emma(monkeypatch, "explain", "results/a")
    note(project, "results/a", rule=3)
    with pytest.raises(InputError, match="rule: Input should be a valid string"):
        emma(monkeypatch, "explain", "results/a")
    assert read_record(project, "results/b") is None
