"""Line-of-sight probabilities and aerial Rician factors of the standards, as plain functions.

Terrestrial: 3GPP TR 38.901 V16.1, Table 7.4.2-1. Aerial: 3GPP TR 36.777 V15.0, Table B-1 (line of sight),
Tables B.1.2-1 and B.1.2-2 (K of RMa-AV and UMa-AV) and clause B.1.3 (K = 15 dB, where no table is given).
"""

import numpy as np

from common.errors import unknown
from rfgen.physics.types import Floats

SCENARIOS = ("UMa", "RMa", "UMi", "InH", "InF")
# Terminals above this height [m] follow the aerial laws of TR 36.777.
AERIAL_FROM_M = {"UMa": 22.5, "RMa": 10.0, "UMi": 22.5}
# Above this height every link is in sight (UMi-AV has no such height).
ALWAYS_LOS_M = {"UMa": 100.0, "RMa": 40.0, "UMi": np.inf}


def los_probability(
    scenario: str, distance_2d_m: Floats, height_m: Floats | float, *, decay_m: float | None = None
) -> Floats:
    """Probability of line of sight at 2-D distance [m] and terminal height [m], float64, broadcast.

    Terrestrial for terminals up to 13 m; aerial from the heights of TR 36.777 on. InH is the mixed office; InF needs
    `decay_m` (`factory_decay_m`). ValueError for heights between the two, an unknown scenario or a missing decay.
    """
    if scenario not in SCENARIOS:
        raise ValueError(f"scenario: {unknown(scenario, SCENARIOS)}")
    d, h = np.broadcast_arrays(np.asarray(distance_2d_m, float), np.asarray(height_m, float))
    aerial = h > AERIAL_FROM_M.get(scenario, np.inf)
    if np.any((h > 13.0) & ~aerial):
        raise ValueError(f"height_m: {scenario} has no law here between 13 m and {AERIAL_FROM_M.get(scenario)} m")
    if scenario == "InF":
        if decay_m is None:
            raise ValueError("decay_m: expected the decay of the factory's clutter for InF")
        return np.exp(-d / decay_m)
    return np.where(aerial, _aerial_los(scenario, d, np.where(aerial, h, 50.0)), _ground_los(scenario, d))


def factory_decay_m(
    density: float, size_m: float, clutter_height_m: float, base_height_m: float, terminal_height_m: float
) -> float:
    """K of InF-SH and InF-DH [m], over which the probability of line of sight falls to 1 / e (Table 7.4.2-1)."""
    rise = (base_height_m - terminal_height_m) / (clutter_height_m - terminal_height_m)
    return float(-size_m / np.log1p(-density) * rise)


def _ground_los(scenario: str, d: Floats) -> Floats:
    safe = np.maximum(d, 1e-3)
    if scenario == "RMa":
        return np.where(d <= 10.0, 1.0, np.exp(-(d - 10.0) / 1000.0))
    if scenario == "InH":  # mixed office
        middle = np.exp(-(d - 1.2) / 4.7)
        return np.where(d <= 1.2, 1.0, np.where(d < 6.5, middle, 0.32 * np.exp(-(d - 6.5) / 32.6)))
    decay = 63.0 if scenario == "UMa" else 36.0
    return np.where(d <= 18.0, 1.0, 18.0 / safe + np.exp(-d / decay) * (1.0 - 18.0 / safe))


def _aerial_los(scenario: str, d: Floats, h: Floats) -> Floats:
    lg = np.log10(h)
    if scenario == "RMa":
        p1, d1 = np.maximum(15021.0 * lg - 16053.0, 1000.0), np.maximum(1350.8 * lg - 1602.0, 18.0)
    elif scenario == "UMa":
        p1, d1 = 4300.0 * lg - 3800.0, np.maximum(460.0 * lg - 700.0, 18.0)
    else:
        p1, d1 = 233.98 * lg - 0.95, np.maximum(294.05 * lg - 432.94, 18.0)
    far = np.maximum(d, d1)
    probability = d1 / far + np.exp(-far / p1) * (1.0 - d1 / far)
    return np.where(h > ALWAYS_LOS_M.get(scenario, np.inf), 1.0, probability)


def aerial_k_factor_db(scenario: str, height_m: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation [dB] of the Rician factor of an aerial terminal in sight, float64 like `height_m`."""
    h = np.asarray(height_m, float)
    if scenario == "RMa":
        return 22.55 * np.log10(h) - 4.72, 6.988 * np.exp(0.01659 * h)
    if scenario == "UMa":
        return 4.217 * np.log10(h) + 5.787, 8.158 * np.exp(0.0046 * h)
    return np.full_like(h, 15.0), np.zeros_like(h)
