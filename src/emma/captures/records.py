"""The records of captured scenes: a conversion, a model's scores on a set, and the sim-to-real report."""

from __future__ import annotations

from typing import Literal

from emma.captures.settings import CaptureSet, Labels, SceneShape
from emma.data.provenance import Provenance
from emma.evaluation.records import Score
from emma.results.records import SimToReal
from emma.tasks import Anchors, Strict, TaskID


class Conversion(Strict):
    """What became of a set.

    Attributes:
        adapter: what read it.
        set: its name.
        task: the task of its scenes.
        split: that of every captured scene.
        scene: the canonical scene; None where the set already holds scenes.
        mapping: where its labels are, and what they are called in the task.
        converts: what the adapter converts, and how.
        cannot_give: what the set does not hold.
        geometry_wavelengths: element positions, where the set gives them.
        files_sha256: SHA-256 by file that was read.
        scenes: number of scenes.
        sessions: number of sessions.
        disjoint: number of scenes where those that overlap in one recording or annotation count as one.
        caveats: sentences that the conversion adds to the set's own, such as unknown carriers; shown with its score.
        index_hash: content hash of the index.
        labels_hash: content hash of the labels.
    """

    adapter: str
    set: str
    task: TaskID
    split: str
    scene: SceneShape | None
    mapping: Labels
    converts: dict[str, str]
    cannot_give: tuple[str, ...]
    geometry_wavelengths: tuple[tuple[float, ...], ...] | None
    files_sha256: dict[str, str]
    scenes: int
    sessions: int
    disjoint: int
    caveats: tuple[str, ...]
    index_hash: str
    labels_hash: str


class ConversionRecord(Conversion):
    """``captures/SET/record.json``; ``record_sha256`` is the content hash of the rest."""

    record_sha256: str


class SideScore(Score):
    """One side of a set.

    Attributes:
        normalized: the score on the anchors' scale, not clipped.
        sessions: number of captured sessions; None on the synthetic side.
        balanced_accuracy: beside plain accuracy; None for other metrics.
    """

    normalized: float | None
    sessions: int | None
    balanced_accuracy: float | None = None


class GroupScore(Strict):
    """The captured score of one group of a set, shown alone; ``n`` scenes."""

    metric: str
    score: float | None
    n: int


class InDomain(Strict):
    """What readouts reach that were fit on as many scenes, on the same captured scenes.

    Attributes:
        captured: fit on captured scenes of other sessions: what the set allows this model.
        synthetic: fit on as many synthetic scenes: what is lost from there is the shift.
        undefined_reason: why there is neither.
    """

    captured: SideScore | None = None
    synthetic: SideScore | None = None
    undefined_reason: str | None = None


class CaptureScores(Strict):
    """One model on one set; ``undefined_reason`` says why there is no gap.

    ``hashes``: content hashes of the predictions by name, each in a file of that name beside the record.
    """

    synth: SideScore | None = None
    captured: SideScore | None = None
    in_domain: InDomain | None = None
    apart: dict[str, GroupScore] = {}  # noqa: RUF012 (pydantic copies defaults)
    gap_percentage_points: float | None = None
    undefined_reason: str | None = None
    hashes: dict[str, str] | None = None


class CaptureRecord(CaptureScores):
    """``captures/SET/MODEL/metrics.json``; ``record_sha256`` is that of the set's conversion."""

    model: str
    set: str
    task: TaskID
    data_release_hash: str
    eval_split: Literal["dev", "holdout"]
    seed: int
    harness_version: str
    record_sha256: str
    model_provenance: Provenance


class SetRecord(Strict):
    """What a set is."""

    kind: Literal["real", "surrogate"]
    task: TaskID
    adapter: str
    licence: str
    demonstration: bool
    caveats: tuple[str, ...]
    metric: str
    unit: str
    classes: tuple[str, ...]
    anchors: Anchors
    scenes: int
    sessions: int
    record_sha256: str
    declared: CaptureSet


class ModelSet(CaptureScores):
    """A model on a set; ``release_score`` on the release's own scenes is shown beside and never subtracted."""

    task: TaskID
    release_score: float | None


class ModelGaps(SimToReal):
    """A model's block of the board, and the sets behind it."""

    sets: dict[str, ModelSet]

    @property
    def block(self) -> SimToReal:
        """The block alone, as it stands on the board."""
        return SimToReal(**{name: getattr(self, name) for name in SimToReal.model_fields})


class SimToRealReport(Strict):
    """``results/reports/sim_to_real.json``."""

    release: str
    data_release_hash: str
    eval_split: Literal["dev", "holdout"]
    seed: int
    harness_version: str
    kind: Literal["real", "surrogate"]
    sets: dict[str, SetRecord]
    models: dict[str, ModelGaps]
