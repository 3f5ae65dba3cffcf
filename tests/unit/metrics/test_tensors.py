"""Metrics take what torch and numpy hold, in any precision, without importing torch to find out."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from common.arrays import as_numpy
from emma import SimToRealGap
from emma.evaluation.statistics import bootstrap_interval, paired_bootstrap_difference
from emma.metrics import METRICS

pytestmark = pytest.mark.filterwarnings("error", "ignore:ComplexHalf support is experimental")
SOURCES = Path(__file__).parents[3] / "src"
SCORES, CLASSES = [0.5, 0.25, 0.75, -1.0], [[0.5, 0.0], [0.25, 1.0], [0.0, -3.0], [-1.0, 0.0]]
FORMS = {
    "float32": torch.tensor,
    "half": lambda values: torch.tensor(values, dtype=torch.float16),
    "bfloat16": lambda values: torch.tensor(values, dtype=torch.bfloat16),
    "float8": lambda values: torch.tensor(values).to(torch.float8_e5m2),
    "with gradient": lambda values: torch.tensor(values, dtype=torch.bfloat16, requires_grad=True),
    "list of tensors": lambda values: list(torch.tensor(values, requires_grad=True)),
    "list of numpy scalars": lambda values: [
        np.float32(v) if np.ndim(v) == 0 else np.float32(v).tolist() for v in values
    ],
    "read only": lambda values: np.broadcast_to(np.array(values), np.shape(values)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_real_inputs(form):
    binary, labels = [1, 0, 1, 0], [0, 1, 0, 0]
    for name in ("AUC", "AUROC", "EER"):
        expected = METRICS[name](SCORES, binary)
        assert METRICS[name].checked(form(SCORES), torch.tensor(binary)) == expected
        assert METRICS[name].checked(form(SCORES), form([float(b) for b in binary])) == expected
    for name in ("PlainAccuracy", "Top1Accuracy", "BalancedAccuracy", "AUC", "AUROC"):
        assert METRICS[name].checked(form(CLASSES), torch.tensor(labels)) == METRICS[name](CLASSES, labels)
        assert METRICS[name].checked(form(CLASSES), np.array(labels, np.uint8)) == METRICS[name](CLASSES, labels)
    assert METRICS["MeanAngularError"].checked(form(SCORES), form(SCORES[::-1])) == 1.0
    for name in ("NMSE", "SISDR"):
        expected = METRICS[name](CLASSES, CLASSES[::-1])
        assert METRICS[name].checked(form(CLASSES), form(CLASSES[::-1])) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_complex_inputs(dtype):
    rng = np.random.default_rng(0)
    estimate, reference = np.round(rng.standard_normal((2, 4, 8, 2)) @ [1, 1j], 1)
    tensors = [torch.tensor(values).to(dtype) for values in (estimate, reference)]
    for name in ("NMSE", "SISDR"):
        expected = METRICS[name](estimate, reference)
        rel = 1e-2 if dtype == torch.complex32 else 1e-5 if dtype == torch.complex64 else 1e-12
        assert METRICS[name].checked(*tensors) == pytest.approx(expected, rel=rel)
        # The conjugate of a tensor is a view that numpy does not know.
        assert METRICS[name](*(tensor.conj() for tensor in tensors)) == pytest.approx(expected, rel=rel)


def test_resampling_takes_tensors():
    target = torch.tensor([1, 0] * 10)
    preds = torch.linspace(0, 1, 20, dtype=torch.bfloat16, requires_grad=True)
    plain = preds.detach().float().numpy(), target.numpy()
    weights = torch.ones(3, 20, dtype=torch.int64)
    assert np.array_equal(METRICS["AUC"].resampled(preds, target, weights), METRICS["AUC"].resampled(*plain, weights))
    assert bootstrap_interval(METRICS["AUC"], preds, target, seed=1) == bootstrap_interval(
        METRICS["AUC"], *plain, seed=1
    )
    differences = [
        paired_bootstrap_difference(
            METRICS["AUC"], *arrays, seed=1, strata=strata, mean_over_strata=True, n_resamples=50
        )
        for arrays, strata in (
            ((preds, preds.flip(0), target), torch.arange(20) % 4 // 2),
            ((plain[0], plain[0][::-1], plain[1]), np.arange(20) % 4 // 2),
        )
    ]
    assert differences[0] == differences[1]


def test_what_is_wrong_with_a_tensor_is_said_as_ever():
    for preds in (torch.tensor([0.1, torch.nan]), torch.empty(2, device="meta"), torch.eye(2).to_sparse()):
        with pytest.raises(ValueError, match=r"^preds"):
            METRICS["MeanAngularError"](preds, [0.0, 0.0])


def test_as_numpy_keeps_what_numpy_can_hold():
    for dtype, expected in (
        (torch.float16, np.float16),
        (torch.float64, np.float64),
        (torch.bfloat16, np.float32),
        (torch.uint8, np.uint8),
        (torch.int64, np.int64),
        (torch.bool, np.bool_),
        (torch.complex32, np.complex64),
    ):
        array = as_numpy(torch.ones(3).to(dtype))
        assert array.dtype == expected
        assert array.shape == (3,)
    assert as_numpy(torch.tensor(0.5, requires_grad=True)).shape == ()


def test_nobody_imports_torch_to_find_out():
    code = (
        "import sys, numpy as np; from emma import METRICS, SimToRealGap\n"
        "METRICS['MeanAngularError'](np.array([1.0]), [2.0]); SimToRealGap()(1, np.float32(0.5))\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize(
    "half", [0.5, np.float32(0.5), np.array(0.5), torch.tensor(0.5), torch.tensor(0.5, dtype=torch.bfloat16)], ids=repr
)
def test_gap_takes_numbers_of_any_library(half):
    assert SimToRealGap()(half, 0) == 50.0
    assert SimToRealGap()(1, half) == 50.0
    assert type(SimToRealGap()(half, half)) is float
    assert SimToRealGap()(torch.tensor(0.75, requires_grad=True), half) == 25.0
    assert SimToRealGap()(torch.tensor(0.9), np.float32(0.5)) == pytest.approx(40.0, abs=1e-5)


@pytest.mark.parametrize(
    "bad",
    [
        torch.tensor([0.5]),
        np.array([0.5]),
        [0.5],
        torch.tensor(torch.nan),
        np.float32("inf"),
        np.True_,
        torch.tensor(True),
        1j,
        torch.tensor(1j),
        torch.empty((), device="meta"),
        10**400,
    ],
    ids=repr,
)
def test_gap_refuses_what_is_no_number(bad):
    for scores in ((bad, 0.5), (0.5, bad)):
        with pytest.raises(ValueError, match="_score: expected a finite number, found"):
            SimToRealGap()(*scores)
