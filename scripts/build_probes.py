"""Build the probe report: every model under every probe, the ranks of each, and a figure of the curves."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import write_json, write_text
from emma.data.release import load_manifest
from emma.report.probes import curves
from emma.results.probes import probes_report


def main() -> None:
    """Read the probes of every model, write one JSON report and one figure."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--probes", type=Path, nargs="+", required=True, help="files probes/MODEL.json")
    parser.add_argument("--out", type=Path, required=True, help="reports/probes.json")
    parser.add_argument("--figure", type=Path, required=True, help="reports/probes.svg")
    arguments = parser.parse_args()
    report = probes_report(load_manifest(arguments.manifest), arguments.probes)
    import vl_convert

    write_text(arguments.figure, vl_convert.vegalite_to_svg(curves(report)))
    write_json(arguments.out, report.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
