"""The tables for papers: whole environments, as many cells as columns, and no character that LaTeX would take."""

import re
import shutil
import subprocess

import pytest

from emma.report.latex import appendix, bibtex, latex, tex
from emma.results.records import Board

#: Characters that LaTeX reads as its own, in a name and in a sentence.
HOSTILE = r"a_b & 100% $x$ #1 {y} ~ ^ \input{z} [o] <|> é ±1°"
NAME = r"[a]_b & 1% $x$ {y} <\z>"
PACKAGES = ("booktabs", "threeparttable", "adjustbox", "longtable")


def has_tex():
    """Whether a TeX with the packages of the tables is here."""
    if not (shutil.which("pdflatex") and shutil.which("kpsewhich")):
        return False
    styles = [f"{name}.sty" for name in PACKAGES]
    return subprocess.run(["kpsewhich", *styles], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def hostile(board):
    """The board with hostile names and sentences, more held-out values than a table is wide, controls and a gap."""
    content = board.model_dump(mode="json")
    content["caveats"] = [HOSTILE, "[begins like an option]"]
    for row in content["models"]:
        block = row["tasks"]["E-ID-DRONE"]
        value = block["values"].pop("E_URBAN")
        block["values"] |= {f"E_U{place}_&": value for place in range(5)}
    first, second, *_ = content["models"]
    first["model"] = NAME
    bought = {"score": 0.4, "difference": 0.2, "ci95": [0.05, 0.35]}
    first["control"] = {"model": "first.control", "ood_avg": bought, "tasks": {}}
    second["tasks"]["E-ID-DRONE"]["beats_floor"] = {"p": 0.2}
    none = {"gap_percentage_points": None, "over": [], "undefined": "none"}
    gap = {"gap_percentage_points": 4.2, "over": ["E-ID-DRONE"], "undefined": None}
    first["sim_to_real"] = gap | {"kind": "real", "matched": none, "tasks": {}}
    return Board.model_validate(content)


def bare(text):
    """Text without comments, mathematics and what is escaped."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    return re.sub(r"\\[&%$#_{}]|\$[^$]*\$", "", text)


def tables(text):
    """The lines of cells of every tabular and longtable, with the number of its columns."""
    for columns, body in re.findall(
        r"\\begin\{(?:tabular|longtable)\}\{([lr]+)\}(.*?)\\end\{(?:tabular|longtable)\}", text, re.S
    ):
        yield len(columns), [line for line in body.splitlines() if line.endswith("\\\\") and "\\caption" not in line]


@pytest.mark.parametrize("made", [tex, appendix])
def test_environments_and_braces_are_whole_and_lines_have_a_cell_per_column(hostile, made):
    text = bare(made(hostile))
    open_ones = []
    for step, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        if step == "begin":
            open_ones.append(name)
        else:
            assert open_ones.pop() == name
    assert open_ones == []
    depth = 0
    for brace in re.findall(r"[{}]", text):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    plain = re.sub(r"~?\\(?:ref|label)\{[^}]*\}", "", text)
    assert not re.search(r"[#_^~%$<>|]", plain)
    assert [line for line in plain.splitlines() if "&" in line and not line.endswith("\\\\")] == []
    found = list(tables(text))
    assert found
    for columns, lines in found:
        assert len(lines) > len(hostile.models)
        for line in lines:
            spanned = re.match(r"\\multicolumn\{(\d+)\}", line)
            assert (int(spanned[1]) if spanned else line.count("&") + 1) == columns


def test_what_latex_would_read_is_written_out():
    assert latex("a_b & 5%") == "a\\_b \\& 5\\%"
    assert latex("[x] <y>\n\nz") == "{[}x{]} \\textless{}y\\textgreater{} z"
    assert latex("\\input{z}") == "\\textbackslash{}input\\{z\\}"


def test_the_ranking_has_caption_label_notes_and_short_names(hostile):
    text = tex(hostile)
    for part in (
        "\\begin{table*}",
        "\\caption{EMMA, release v9, DEV scenes",
        "\\label{tab:emma-v9}",
        "\\toprule",
        "\\midrule",
    ):
        assert text.count(part) >= 1
    assert "\\item[\\dag] does not beat the floor" in text
    assert "0.950\\tnote{\\dag}" in text
    assert "Table~\\ref{tab:emma-v9-E-ID-DRONE}" in text
    head = text[text.index("\\toprule") : text.index("\\midrule")]
    assert [cell in head for cell in ("Drone", "detection", "AUC $\\uparrow$", "E-ID-DRONE)", "real")] == [True] * 5
    assert "leave-one" not in head
    caveat = text[text.index("\\begin{tablenotes}") :]
    assert f"\\item {latex(HOSTILE)}" in caveat
    assert "\\item {[}begins" in caveat


def test_the_appendix_holds_every_held_out_value_once(hostile, board):
    text = appendix(hostile)
    block = hostile.models[0].tasks["E-ID-DRONE"]
    assert len(block.values) == 6
    assert text.count("\\begin{longtable}") == 2
    assert text.count("\\label{tab:emma-v9-E-ID-DRONE}") == 1
    heads = [lines[0] for _, lines in tables(text)]
    assert [cell for line in heads for cell in re.findall(r"U\d\\_\\&|RURAL", line)] == [
        "RURAL", "U0\\_\\&", "U1\\_\\&", "U2\\_\\&", "U3\\_\\&", "U4\\_\\&",
    ]  # fmt: skip
    assert text.count(latex(NAME)) == 2
    assert appendix(board).count("\\begin{longtable}") == 1
    assert "broken & -- & -- & -- \\\\" in appendix(board)


@pytest.mark.skipif(not has_tex(), reason="no TeX with booktabs, threeparttable, adjustbox and longtable here")
def test_a_paper_with_both_tables_and_the_references_compiles(hostile, tmp_path):
    (tmp_path / "board.tex").write_text(tex(hostile))
    (tmp_path / "appendix.tex").write_text(appendix(hostile))
    (tmp_path / "board.bib").write_text(bibtex(hostile))
    (tmp_path / "paper.tex").write_text(
        "\\documentclass[twocolumn]{article}\n\\usepackage[T1]{fontenc}\n"
        f"\\usepackage{{{','.join(PACKAGES)},url}}\n\\begin{{document}}\n\\nocite{{*}}\n\\input{{board}}\n"
        "\\bibliographystyle{plain}\\bibliography{board}\n\\onecolumn\\appendix\n\\input{appendix}\n\\end{document}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper"]
    steps = [command, ["bibtex", "paper"], command, command]
    for step in steps:
        done = subprocess.run(
            step, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, errors="replace"
        )
        assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert "undefined" not in log
    assert not re.findall(r"Overfull .hbox \((?:[5-9]|\d\d)[\d.]*pt", log)
