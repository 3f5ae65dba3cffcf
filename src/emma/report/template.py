"""The page's template (Jinja2, escaped by default), its style and its script."""

STYLE = """
:root{color-scheme:light dark;--ink:#1c2126;--muted:#5b6670;--rule:#d5dade;--accent:#0b63a5;--ground:#fff;--panel:#f4f6f7}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaed;--muted:#a0abb4;--rule:#3a444c;--accent:#6db3ea;--ground:#14181b;--panel:#1d2327}}
@media print{:root{--ink:#000;--muted:#444;--rule:#bbb;--accent:#0b63a5;--ground:#fff;--panel:#fff}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,"Liberation Sans",Arial,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.8rem 0 .4rem}h3{font-size:1rem;margin:1rem 0 .3rem}
p{max-width:46rem;margin:.4rem 0}.lead,.small{color:var(--muted)}.small{font-size:.85rem}
code{font:.85em ui-monospace,"Liberation Mono",monospace;overflow-wrap:anywhere}
.note{background:var(--panel);border-left:3px solid var(--accent);padding:.6rem 1rem;margin:1rem 0}
.note ul{margin:0;padding-left:1.1rem;max-width:60rem}
.scroll{overflow-x:auto;container-type:inline-size}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
.board{width:100%;min-width:52rem;table-layout:fixed}.c-rank{width:4.8rem}.c-name{width:12rem}.c-average{width:10rem}
.board thead th,.board th.name{white-space:normal;overflow-wrap:anywhere}thead th{vertical-align:bottom}.plain th:first-child{text-align:left}.plain thead th{white-space:normal;max-width:11rem}.plain{margin:.6rem 0}.plain .text{text-align:left}.plain .long{white-space:normal;min-width:9.5rem}
caption{text-align:left;color:var(--muted);font-size:.85rem;padding-bottom:.4rem}caption span{position:sticky;left:0;display:inline-block;max-width:100cqi}
th,td{padding:.35rem .6rem;text-align:right;vertical-align:baseline;white-space:nowrap}
th{font-weight:600}.name,th.name{text-align:left}tbody{border-top:1px solid var(--rule)}
thead button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-align:inherit}
thead button small{display:block;font-weight:400;color:var(--muted)}
button:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
[aria-sort=ascending] button::after{content:" \\25B4"}[aria-sort=descending] button::after{content:" \\25BE"}
td small{color:var(--muted)}.board td br+small{white-space:normal}.best{font-weight:700}.best small{font-weight:400}.tag{font-size:.75rem;color:var(--muted);font-weight:400}
.more td{text-align:left;padding-top:0;white-space:normal}summary{cursor:pointer;color:var(--muted);font-size:.85rem}
.more details>div{position:sticky;left:0;max-width:calc(100cqi - 1.2rem)}
dl{display:grid;grid-template-columns:minmax(7rem,13rem) minmax(0,1fr);gap:.15rem .8rem;margin:.4rem 0;font-size:.85rem}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
.by-rank .start .rank,.by-rank .middle .rank,.by-rank .end .rank{box-shadow:inset 3px 0 var(--accent)}
figure{margin:1rem 0;min-width:0;max-width:100%}.grid>.chart{width:auto}.grid figcaption,.grid details{width:0;min-width:100%}figcaption{color:var(--muted);font-size:.85rem;max-width:46rem}
.chart{max-width:100%;overflow-x:auto;width:100%}.chart svg{display:block}.grid{display:flex;flex-wrap:wrap;gap:1rem 2rem}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
#vg-tooltip-element{background:var(--ground)!important;color:var(--ink)!important;border:1px solid var(--rule)!important}
@media (max-width:40rem){body{font-size:15px}th,td{padding:.3rem .4rem}.board th.name{position:sticky;left:0;background:var(--ground)}dl{grid-template-columns:1fr}}
@media print{main{max-width:none;padding:0}.board{min-width:0}.c-rank{width:7%}.c-name{width:17%}.c-average{width:17%}.plain td,.plain th{white-space:normal;overflow-wrap:break-word}.plain .long{min-width:0}.scroll,.chart{overflow:visible}table{font-size:7.5pt}th,td{padding:2pt 3pt}@page{margin:12mm}h2,h3,h2+p{break-after:avoid}details:not([open]){display:none}figure,tr,.board tbody{break-inside:avoid}thead,caption{break-after:avoid}.chart svg{max-width:100%;height:auto}}
"""

SCRIPT = """
for (const table of document.querySelectorAll("table.board")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = body => body.rows[0].cells[column].dataset.key;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const by = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -by : by;
    };
    [...table.tBodies].sort(order).forEach(body => table.append(body));
    table.classList.toggle("by-rank", column === 0 && !down);
  }));
}
for (const place of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  vegaEmbed(place, spec, {actions: false, renderer: "svg", ast: true}).catch(error => {
    place.textContent = "This figure could not be drawn; its table holds the same numbers.";
    console.error(error);
  });
}
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {{ hashes }}">
<title>EMMA leaderboard, release {{ board.release }}</title>
<link rel="icon" href="data:,">
<style>{{ style }}</style>
</head>
<body>
<main>
<h1>EMMA leaderboard</h1>
<p class="lead">Release {{ board.release }}, scored on {{ board.eval_split | upper }} scenes, seed {{ board.seed }}, harness {{ board.harness_version }}.</p>
<p class="small">Data release <code>{{ board.data_release_hash }}</code></p>
<h2 id="ranking">Ranking</h2>
<p>Frozen backbones by how well light readouts transfer to held-out environments and devices. OOD-avg: 0 is no skill, 1 is perfect.</p>
<aside class="note" aria-label="How to read these numbers"><ul>{% for caveat in board.caveats %}<li>{{ caveat }}</li>{% endfor %}</ul></aside>
{{ table(ranked, "Ranked by OOD-avg, with 95 % intervals. A bar at the left joins neighbours in rank that cannot be told apart. A column's title sorts.", true) }}
{% if apart %}
<h3>Outside the ranking</h3>
{% if textbook and board.eval_split == "dev" %}<p class="note">{{ reference_note }}</p>{% endif %}
{{ table(apart, "Rows without a rank, by task score.", false) }}
{% endif %}
{{ figure("ranking") }}
<h2 id="held-out">Held-out values</h2>
<p>Each task with its components. Depth of colour is the place between the release's anchors; the text is the score itself. Under a score, <b>met</b> marks a value that the backbone's pretraining is declared to have seen, so that it is not unseen for this model, and <b>met?</b> one of which nobody declared whether it was. A score that is not defined says why in its table.</p>
<div class="grid">{% for name in figures if name.startswith("held_out") %}{{ figure(name) }}{% endfor %}</div>
<h2 id="details">Every score of each task</h2>
<p>Scores with their standard errors over held-out values, where there are two or more. Other metrics, and protocols that layer one axis on another, enter no average.</p>
{% for task, rows in details.items() %}<h3>{{ task.value }}</h3>
{{ plain(rows, "Scores of " ~ task.value ~ ", ± one standard error" ~ ("." if tasks[task].in_ood_avg else "; in no average.")) }}{% endfor %}
<h2 id="transfer">In-distribution against held-out</h2>
<p>The same evaluation scenes, scored by a readout that has met the value and by one that has not, on the anchors' scale. Points below the line lost by transfer.</p>
<div class="grid">{{ chart("legend", legend) }}{% for name in figures if name.startswith("transfer") %}{{ figure(name) }}{% endfor %}</div>
<h2 id="sim-to-real">Sim to real</h2>
{% if mean_gaps %}<p>One readout, fit on synthetic scenes alone, scored on synthetic and on captured scenes. The gap is 100 (synthetic − captured) on the anchors' scale, not clipped: above zero is lost on the captured side. It enters no average.</p>
{% if surrogate %}<p class="note">Bars that are hollow and dashed are surrogates: synthetic recordings by another receiver, and no real captures. Their gap shows how far another channel model and another receiver move a score; it says nothing of the air.</p>{% endif %}
{{ plain(mean_gaps, "Mean gap of each model over the tasks that have one, in percentage points.") }}
{% if without_gap %}<ul class="small">{% for task, reason in without_gap.items() %}<li>{{ task }} has no gap: {{ reason }}.</li>{% endfor %}</ul>{% endif %}
{{ figure("sim_to_real") }}
{{ plain(gaps, "Both sides of every gap. In brackets 95 % intervals, of captures over sessions drawn whole; n counts scenes. A row without a gap says why.") }}
{% if sets %}{{ plain(sets, "What each set is.") }}
<aside class="note" aria-label="Caveats of the sets"><ul>{% for text, names in caveats.items() %}<li><b>{{ names }}</b>: {{ text }}</li>{% endfor %}</ul></aside>{% endif %}
{% else %}<p class="note">Not configured: no captures were scored, so nothing here says how far scores on synthetic scenes hold on real ones.</p>{% endif %}
<h2 id="jackknife">What the averages rest on</h2>
<p>The OOD average when one task, or one held-out value in all its tasks, is dropped. Fragile: dropping a task moves it by more than the median gap between neighbours in rank.</p>
{{ figure("jackknife") }}
</main>
<script>{{ bundle }}</script>
<script>{{ script }}</script>
</body>
</html>
"""

MACROS = """
{% macro table(rows, caption, ranked) %}
<div class="scroll" tabindex="0" role="region" aria-label="{{ caption }}">
<table class="board by-rank"><caption><span>{{ caption }}</span></caption>
<colgroup><col class="c-rank"><col class="c-name"><col class="c-average">{% for task in tasks %}<col>{% endfor %}</colgroup>
<thead><tr><th scope="col"{% if ranked %} aria-sort="ascending"{% endif %}><button type="button">Rank</button></th>
<th scope="col" class="name"><button type="button">Model</button></th><th scope="col"><button type="button">OOD-avg ↑<small>95 % interval</small></button></th>
{% for task, block in tasks.items() %}<th scope="col"><button type="button">{{ task.value }}<small>{{ block.metric }} {{ arrow[block.direction] }}<br>{{ "degrees" if block.unit == "degrees" else "0 to 1" }}{{ "" if block.in_ood_avg else ", not averaged" }}</small></button></th>
{% endfor %}</tr></thead>
{% for row in rows %}<tbody class="{{ brackets.get(row.model, 'none') }}"><tr>
<td class="rank" data-key="{{ row.rank if row.rank is not none else '' }}">{{ row.rank or "–" }}{% if row.separable_from_next is false %}<span class="hidden"> cannot be told apart from the next</span>{% endif %}</td>
<th scope="row" class="name" data-key="{{ row.model }}">{{ row.model }}{% if row.kind != "backbone" %} <span class="tag">{{ "textbook" if row.kind == "reference" else "submitted" }}</span>{% endif %}{% if row.sensitivity and row.sensitivity.fragile %} <span class="tag">fragile</span>{% endif %}</th>
<td data-key="{{ row.ood_avg if row.ood_avg is not none else '' }}"{% if row.rank == 1 and row.separable_from_next %} class="best"{% endif %}>{{ number(row.ood_avg) }}{% if row.ood_avg_ci95 %} <small>{{ number(row.ood_avg_ci95[0]) }} to {{ number(row.ood_avg_ci95[1]) }}</small>{% endif %}</td>
{% for task, block in tasks.items() %}{% set own = row.tasks.get(task) %}<td data-key="{{ own.score if own and own.score is not none else '' }}">{{ number(own.score if own else none, digits(block.unit)) }}{% if own and own.undefined %}<br><small>{{ own.undefined }}</small>{% endif %}</td>{% endfor %}</tr>
<tr class="more"><td colspan="{{ 3 + tasks | length }}"><details><summary>Run manifest of {{ row.model }}</summary><div>
{% if row.undefined %}<p>No OOD-avg: {{ row.undefined }}</p>{% endif %}
<dl>{% for key, value in flat(row.run_manifest.model_dump(mode="json")) %}<dt>{{ key }}</dt><dd><code>{{ value }}</code></dd>{% endfor %}</dl></div></details></td></tr></tbody>
{% endfor %}</table></div>
{% endmacro %}
{% macro plain(rows, caption) %}
<div class="scroll" tabindex="0" role="region" aria-label="{{ caption }}"><table class="plain"><caption><span>{{ caption }}</span></caption>
<thead><tr>{% for key in columns(rows) %}<th scope="col"{% if wordy(rows, key) %} class="text"{% endif %}>{{ key.replace("_", " ") }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in rows %}<tr>{% for key in columns(rows) %}{% if loop.first %}<th scope="row">{{ row[key] }}</th>{% else %}<td{% if wordy(rows, key) %} class="text{{ " long" if row.get(key) and row[key] | length > 20 }}"{% endif %}>{{ cell(row.get(key)) }}</td>{% endif %}{% endfor %}</tr>{% endfor %}</tbody></table></div>
{% endmacro %}
{% macro chart(name, item) %}<div class="chart" role="img" tabindex="0" aria-label="{{ item.alt }}" data-spec="spec-{{ name }}"></div>
<script type="application/json" id="spec-{{ name }}">{{ item.spec | tojson }}</script>{% endmacro %}
{% macro figure(name) %}{% if name in figures %}{% set item = figures[name] %}
<figure id="figure-{{ name }}">{{ chart(name, item) }}
<figcaption>{{ item.caption }}</figcaption>
<details><summary>Table of this figure</summary><div class="scroll" tabindex="0" role="region" aria-label="Numbers of {{ name.replace("_", " ") }}"><table class="plain"><thead><tr>{% for key in item.columns %}<th scope="col">{{ key.replace("_", " ") }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in item.rows %}<tr>{% for key in item.columns %}<td>{{ cell(row[key]) }}</td>{% endfor %}</tr>{% endfor %}</tbody></table></div></details></figure>
{% endif %}{% endmacro %}
"""
