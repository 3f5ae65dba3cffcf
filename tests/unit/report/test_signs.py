"""A model has one sign, in every figure and table of a board, and keeps it on the next board."""

import json
import re
from pathlib import Path

from emma.report.figures import paper
from emma.report.signs import SHAPES, signs

ROOT = Path(__file__).resolve().parents[3]
MANY = [f"model_{number}" for number in range(30)]


def look(sign):
    return sign.colour, sign.shape, sign.hollow


def scales(content):
    """The signs in a figure's specification, by model: stroke, shape and fill."""
    found = {}
    if isinstance(content, dict):
        if {"stroke", "fill", "shape"} <= content.keys():
            stroke, fill, shape = (content[key]["scale"] for key in ("stroke", "fill", "shape"))
            for place, model in enumerate(stroke["domain"]):
                hollow = fill["range"][place] == "transparent"
                found.setdefault(model, set()).add((stroke["range"][place], shape["range"][place], hollow))
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            for model, own in scales(each).items():
                found.setdefault(model, set()).update(own)
    return found


def test_every_figure_and_table_of_a_board_gives_a_model_one_sign(wide, wide_figures, wide_page, whole, packed):
    seen, signed = {}, signs(row.model for row in wide.models)
    for figure in wide_figures.values():
        for model, own in scales(paper(figure.spec, {figure.data: figure.rows}, signed)).items():
            seen.setdefault(model, set()).update(own)
    given = json.loads(packed(wide_page, "packed-figures"))["scales"]
    lists = (given[key] for key in ("@models", "@strokes", "@shapes", "@fills"))
    for model, stroke, shape, fill in zip(*lists, strict=True):
        seen[model].add((stroke, shape, fill == "transparent"))
    drawn = [name for name in wide_figures if name.startswith(("transfer", "cost", "headroom"))]
    assert len(drawn) == 26
    paths = {path: shape for shape, path in SHAPES.items()}
    symbol = r'<symbol id="sign-([^"]+)"[^>]*><path d="([^"]+)" fill="([^"]+)" stroke="([^"]+)"'
    wide_page = whole(wide_page)
    on_page = {
        model: (stroke, paths[path], fill == "none") for model, path, fill, stroke in re.findall(symbol, wide_page)
    }
    models = [row.model for row in wide.models]
    assert len(models) >= 30
    assert set(on_page) == set(models) == set(seen)
    assert seen == {model: {sign} for model, sign in on_page.items()}
    used = set(re.findall(r'<use href="#sign-([^"]+)"', wide_page))
    assert used <= set(models)


def test_thirty_models_have_thirty_signs():
    assert len({look(signs(MANY)[name]) for name in MANY}) == 30


def test_a_model_keeps_its_sign_when_another_joins_unless_they_clash():
    before, alone = signs(MANY), {name: look(signs([name])[name]) for name in MANY}
    moved = 0
    for number in range(200):
        new = f"new_{number}"
        after, own = signs([*MANY, new]), look(signs([new])[new])
        changed = [name for name in MANY if after[name] != before[name]]
        clash = [name for name in MANY if own in (alone[name], look(before[name]))]
        assert len(changed) <= len(clash)
        if changed:
            # The one that yields drew the newcomer's sign, or had only borrowed it.
            assert own in (alone[changed[0]], look(before[changed[0]]))
        moved += len(changed)
    assert 0 < moved < 60
    assert sum(look(before[name]) == alone[name] for name in MANY) >= 20


def test_more_models_than_signs_share_them():
    many = [f"m{number}" for number in range(250)]
    found = signs(many)
    counts = {}
    for name in many:
        counts[look(found[name])] = counts.get(look(found[name]), 0) + 1
    assert set(counts.values()) == {2, 3}


def test_models_that_ship_have_the_signs_that_they_draw_and_a_control_its_models_sign_hollow():
    names = [path.stem for path in (ROOT / "config/models").rglob("*.yaml")]
    found = signs(names)
    assert len(names) >= 24
    assert len({look(found[name]) for name in names}) == len(names)
    for name in names:
        assert found[name] == signs([name])[name]
        control = found[f"{name}.control"]
        assert (control.colour, control.shape, control.hollow) == (found[name].colour, found[name].shape, True)
