"""Words that readers of the page may not know: tasks in words, and terms with one line each."""

from __future__ import annotations

from emma.tasks import TaskID

#: Tasks in words.
TITLES: dict[str, str] = {
    TaskID.E_LOC_AOA: "Angle of arrival",
    TaskID.E_LOC_LOS: "Line of sight",
    TaskID.E_ID_DRONE: "Drone detection",
    TaskID.E_ID_FP: "Device fingerprints",
    TaskID.E_ID_AMC: "Modulation",
    TaskID.E_SC_SENSE: "Spectrum sensing",
    TaskID.E_SC_ANOM: "Anomaly detection",
    TaskID.E_SC_SEP: "Source separation",
    TaskID.E_CH_BEAM: "Beam prediction",
    TaskID.E_CH_CSI: "Channel estimation",
    TaskID.E_S2T_CAP: "Scene captions",
    TaskID.E_S2T_QA: "Scene questions",
}

#: What a task asks of a scene.
QUESTIONS: dict[str, str] = {
    TaskID.E_LOC_AOA: "From which direction does the wave arrive?",
    TaskID.E_LOC_LOS: "Is the terminal in sight of the receiver?",
    TaskID.E_ID_DRONE: "Is one of the emitters a drone?",
    TaskID.E_ID_FP: "Which unit of a model line sent this?",
    TaskID.E_ID_AMC: "Which modulation is this?",
    TaskID.E_SC_SENSE: "Is a primary user on air?",
    TaskID.E_SC_ANOM: "Is something wrong in the band?",
    TaskID.E_SC_SEP: "What is the signal under the interference?",
    TaskID.E_CH_BEAM: "Which narrow beam receives best?",
    TaskID.E_CH_CSI: "What is the channel?",
    TaskID.E_S2T_CAP: "What is in the band, in words?",
    TaskID.E_S2T_QA: "Questions about a scene, each with an answer.",
}

#: Metrics by short names.
METRICS = {
    "MeanAngularError": "angular error",
    "BalancedAccuracy": "bal. acc.",
    "Top1Accuracy": "top-1 acc.",
    "PlainAccuracy": "accuracy",
    "TopKAccuracy": "top-k acc.",
    "SISDR": "SI-SDR",
    "SISDRImprovement": "SI-SDR gain",
    "Bleu": "BLEU",
    "Meteor": "METEOR",
    "CIDER": "CIDEr",
    "ExactMatch": "exact match",
    "PowerLoss": "power loss",
}

#: Terms of the page: what the glossary of the documentation says of each begins so, and may go on.
TERMS = {
    "OOD-avg": "The unweighted mean over the scored tasks of scores between the anchors, each on held-out values "
    "(out of distribution): 0 is no skill, 1 is perfect.",
    "anchors": "Two scores frozen with the release, no skill and perfect. A score is mapped to 0 to 1 between them; no "
    "model's result sets them.",
    "backbone": "A frozen map from radio samples to a vector. It is never trained here on labels.",
    "control": "The network of a model with the entries of its weight tensors permuted, as a row of its own.",
    "DEV": "The public evaluation scenes.",
    "HOLDOUT": "Evaluation scenes drawn from a secret seed to which the release commits.",
    "fit scenes": "The labelled scenes that a readout is fit on.",
    "floor": "A row without features: a score that is no better shows no skill.",
    "fold": "One held-out value: a readout is fit on scenes without it and scored on scenes with it.",
    "fragile": "Dropping one task moves the average by more than the median gap between neighbours in rank.",
    "headroom": "From the floor's score to the oracle's on a task.",
    "held-out value": "A value of an axis, such as an environment or a device, that no fit scene has.",
    "in-distribution": "The score on the same scenes of a readout whose fit has met the held-out value.",
    "interval": "95 % interval over scenes, refits of the readout and enrolments.",
    "oracle": "A row whose features are the true parameters of each scene, under the same readout.",
    "probe": "A head beside the pinned one, such as nearest neighbours: it shows whether the head decides the ranks.",
    "rank range": "The ranks that a model takes when one task, one held-out value or one fifth of a task's fit scenes "
    "is dropped for all ranked models at once.",
    "readout": "The light head on frozen embeddings, pinned by the task.",
    "sim-to-real gap": "The score on synthetic scenes less that of the same readouts on captured scenes, in percentage "
    "points; above zero is lost on captures.",
    "surrogate": "A synthetic capture set by another receiver model. It says nothing of the air.",
    "textbook": "A published method on one task. It stands beside the ranking and has no OOD-avg.",
}


def short_metric(name: str) -> str:
    """A metric's short name, for heads of tables."""
    return METRICS.get(name, name)


def title_of(task: str) -> str:
    """A task in words."""
    return TITLES.get(task, task)
