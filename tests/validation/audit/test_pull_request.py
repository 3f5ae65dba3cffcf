"""A pull request to the results repository: only data of one submission is read, and a maintainer's words are said."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from emma_miniature import make_bundle

from common.errors import InputError, run_script
from emma.audit.submissions.changes import extract
from emma.data.release import load_manifest

ROOT = Path(__file__).resolve().parents[3]
CARD = {
    "description": "A guest of the miniature",
    "authors": ["A. Guest"],
    "licence": "not released",
    "training_data": "none that is public",
}


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("check_submission", ROOT / "scripts/check_submission.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def said(program, monkeypatch, capsys):
    """Runs the check: its status, its lines and its faults."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["check_submission.py", *map(str, words)])
        status = 0
        try:
            run_script(program.main)
        except SystemExit as stopped:
            status = stopped.code or 0
        told = capsys.readouterr()
        return status, told.out.splitlines(), told.err.splitlines()

    return run


def git(repository, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", repository, *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def guest(project):
    """A folder ``submissions/guest`` in the project, as an author makes it."""
    folder = make_bundle(project / "results", project / "submissions/guest")
    (folder / "card.yaml").write_text(yaml.safe_dump(CARD))
    return folder


@pytest.fixture
def clone(project, guest, tmp_path):
    """The project as a repository at its base, and its commit."""
    held = tmp_path / "held"
    shutil.move(guest, held)
    (project / ".gitignore").write_text("/results\n")
    (project / "submissions/other").mkdir(parents=True)
    (project / "submissions/other/submission.yaml").write_text("model: other\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "base")
    base = git(project, "rev-parse", "HEAD")
    shutil.move(held, guest)
    yield project, base
    git(project, "checkout", "-qf", base)


def proposed(project):
    """The commit of what lies in the project."""
    git(project, "add", "-A")
    git(project, "commit", "-qm", "a pull request")
    head = git(project, "rev-parse", "HEAD")
    git(project, "checkout", "-q", "HEAD~1")
    return head


def test_a_right_folder_is_told_its_scores_and_what_its_row_would_say(project, guest, said):
    status, lines, faults = said(guest, "--root", project)
    assert (status, faults) == (0, [])
    assert lines[-1] == (
        f"{guest}: valid, 6 of 6 tasks of release mini; it would stand on the board as submitted, predictions only"
    )
    assert "guest: The same predictions throughout as many." in lines
    told = {line.split()[1] for line in lines if line.startswith("guest E-")}
    assert told == set(load_manifest(project / "results/release/manifest.json").tasks)


def test_a_standing_is_recorded_and_found_again(project, guest, said):
    assert said(guest, "--root", project, "--record")[0] == 0
    standing = json.loads((guest / "standing.json").read_text())
    assert standing["standing"] == "submitted, predictions only" and len(standing["tasks"]) == 6
    assert said(guest, "--root", project)[0] == 0
    standing["tasks"]["E-LOC-AOA"]["score"] = 1.0
    (guest / "standing.json").write_text(json.dumps(standing))
    status, _, faults = said(guest, "--root", project)
    assert (status, faults) == (2, [f"{guest}/standing.json: tasks: other scores than its predictions have"])


def test_a_release_that_is_not_here_is_named_with_what_makes_it(project, guest, said):
    shutil.copy(ROOT / "config/releases/published.json", project / "config/releases")
    published = json.loads((project / "config/releases/published.json").read_text())
    about = yaml.safe_load((guest / "submission.yaml").read_text())
    for release, told in {
        published["v1.0"]["data_release_hash"]: "`emma run --release v1.0 results/releases/v1.0/release/manifest.json`",
        "0" * 64: "none is published under it",
    }.items():
        (guest / "submission.yaml").write_text(yaml.safe_dump(about | {"data_release_hash": release}))
        status, _, faults = said(guest, "--root", project)
        assert (status, len(faults)) == (2, 1) and told in faults[0]


def rename(folder):
    folder.rename(folder.with_name("someone"))


def card(**changes):
    return lambda folder: (folder / "card.yaml").write_text(yaml.safe_dump(CARD | changes))


WRONG = {
    "no card": (lambda folder: (folder / "card.yaml").unlink(), "card.yaml: no such file"),
    "no authors": (card(authors=[]), "card.yaml: authors: "),
    "a link that runs": (card(link="javascript:alert(1)"), "card.yaml: link: "),
    "a field more": (card(rank=1), "card.yaml: rank: "),
    "code": (lambda folder: (folder / "conftest.py").touch(), "conftest.py: not of a submission; expected card.yaml"),
    "a table elsewhere": (lambda folder: (folder / "x.parquet").touch(), "x.parquet: not of a submission"),
    "large": (lambda folder: _large(folder / "standing.json"), "bytes, expected at most 67108864"),
}


def _large(path):
    path.touch()
    os.truncate(path, 2**26)


@pytest.mark.parametrize("kind", WRONG)
def test_what_a_maintainer_would_not_take_is_said_in_one_line(project, guest, said, kind):
    change, message = WRONG[kind]
    change(guest)
    status, lines, faults = said(guest, "--root", project)
    assert (status, lines) == (2, [])
    assert any(message in fault for fault in faults)


def test_the_folder_has_the_model_s_name_which_no_other_has(project, guest, said):
    rename(guest)
    (project / "submissions/GUEST").mkdir()
    other = project / "submissions/someone"
    status, _, faults = said(other, "--root", project)
    assert status == 2
    assert f"{other}: expected a folder of the model's name, guest" in faults
    assert any("model: guest stands on the board already" in fault for fault in faults)


def test_a_pull_request_is_checked_from_its_objects_alone(clone, said, tmp_path):
    """What the commit says of attributes, filters and hooks does nothing, and the checkout stays that of the base."""
    project, base = clone
    mark = tmp_path / "ran"
    git(project, "config", "filter.run.smudge", f"touch {mark}")
    (project / ".git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    head = proposed(project)
    status, lines, faults = said("--root", project, "--base", base, "--head", head)
    assert (status, faults) == (0, [])
    assert lines[-1].startswith("submissions/guest: valid, 6 of 6 tasks")
    assert not (project / "submissions/guest").exists() and not mark.exists()
    assert git(project, "rev-parse", "HEAD") == base


def second(project):
    shutil.copytree(project / "submissions/guest", project / "submissions/two")


def link(project):
    (project / "submissions/guest/predictions/x").symlink_to("/etc/passwd")


def executable(project):
    (project / "submissions/guest/submission.yaml").chmod(0o755)


def submodule(project):
    entry = f"160000,{git(project, 'rev-parse', 'HEAD')},submissions/guest/sub"
    git(project, "update-index", "--add", "--cacheinfo", entry)


def removed(project):
    shutil.rmtree(project / "submissions/guest")
    shutil.rmtree(project / "submissions/other")


def many(project):
    for number in range(5001):
        (project / f"submissions/guest/{number}").touch()


REFUSED = {
    "code of the project": (
        lambda project: (project / "x.py").touch(),
        "x.py: changed, expected changes of one folder",
    ),
    "attributes": (
        lambda project: (project / "submissions/.gitattributes").write_text("* filter=run\n"),
        "submissions/.gitattributes: changed, expected changes of one",
    ),
    "two submissions": (second, "submissions/: guest, two changed, expected one submission"),
    "another's submission": (
        lambda project: (project / "submissions/other/submission.yaml").write_text("model: x\n"),
        "submissions/: guest, other changed, expected one submission",
    ),
    "a link": (link, "submissions/guest/predictions/x: mode 120000, expected a plain file"),
    "a program": (executable, "submissions/guest/submission.yaml: mode 100755, expected a plain file"),
    "a repository in it": (submodule, "submissions/guest/sub: mode 160000, expected a plain file"),
    "a removal": (removed, "submissions/other: removed, expected a maintainer to do so"),
    "too many files": (many, "files, "),
    "nothing": (lambda project: shutil.rmtree(project / "submissions/guest"), "changes nothing since"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_pull_request_that_changes_anything_else_is_refused(clone, said, kind):
    project, base = clone
    change, message = REFUSED[kind]
    change(project)
    if kind == "nothing":
        git(project, "commit", "-qm", "nothing", "--allow-empty")
        head = git(project, "rev-parse", "HEAD")
    elif kind == "a repository in it":
        git(project, "add", "submissions/guest/submission.yaml")
        git(project, "commit", "-qm", "a pull request")
        head = git(project, "rev-parse", "HEAD")
        git(project, "checkout", "-qf", base)
    else:
        head = proposed(project)
    status, lines, faults = said("--root", project, "--base", base, "--head", head)
    assert (status, lines, len(faults)) == (2, [], 1)
    assert message in faults[0]


def raw_tree(project, *entries):
    """A tree of names that no checkout would make."""
    content = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(blob) for mode, name, blob in entries)
    command = ["git", "-C", project, "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    return subprocess.run(command, input=content, capture_output=True, check=True).stdout.decode().strip()


def test_a_name_that_leads_out_of_the_folder_writes_nothing(clone, tmp_path):
    project, base = clone
    blob = git(project, "hash-object", "-w", str(project / "submissions/guest/submission.yaml"))
    up = raw_tree(project, ("100644", "evil", blob))
    inner = raw_tree(
        project, ("40000", "..", raw_tree(project, ("40000", "..", raw_tree(project, ("40000", "..", up)))))
    )
    folders = raw_tree(
        project, ("40000", "guest", inner), ("40000", "other", git(project, "rev-parse", f"{base}:submissions/other"))
    )
    kept = [line.split() for line in git(project, "ls-tree", base).splitlines()]
    entries = [(mode.lstrip("0"), name, folders if name == "submissions" else sha) for mode, _, sha, name in kept]
    head = git(project, "commit-tree", raw_tree(project, *entries), "-p", base, "-m", "x")
    out = tmp_path / "a" / "b" / "c"
    out.mkdir(parents=True)
    with pytest.raises(InputError, match=r"expected a path without \. and \.\."):
        extract(project, base, head, out)
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "words", [["--base", "HEAD"], ["x", "--base", "a", "--head", "b"], [], ["--base=-n", "--head=-n"]]
)
def test_neither_folder_nor_commits_is_one_line(clone, said, words):
    status, _, faults = said("--root", clone[0], *words)
    assert (status, len(faults)) == (2, 1)


def test_the_recipe_of_continuous_integration_runs_nothing_of_a_pull_request():
    """Its definition and checkout are the base's, its token reads, and no text of a pull request enters a shell."""
    recipe = yaml.safe_load((ROOT / ".github/workflows/submissions.yml").read_text())
    assert list(recipe[True]) == ["pull_request_target"]
    assert recipe["permissions"] == {"contents": "read"} and "secrets" not in str(recipe)
    (job,) = recipe["jobs"].values()
    checkout = job["steps"][0]["with"]
    assert checkout["ref"] == "${{ github.event.pull_request.base.sha }}" and not checkout["persist-credentials"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert not [command for command in commands if "${{" in command or "checkout" in command]
    assert commands[-1].split()[1:] == ["submit", "check", "--base", '"$BASE"', "--head", "refs/pull/head"]
    given = {"${{ github.event.pull_request.number }}", "${{ github.event.pull_request.base.sha }}"}
    assert set(job["env"].values()) == given
