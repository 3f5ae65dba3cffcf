"""Clustered multipath after Saleh and Valenzuela, with angles: a channel model that the releases' scenes do not use."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag

from rfgen.captures.limits import Deviation, Portion, Spread
from rfgen.physics import arrays
from rfgen.physics.fields import Model, _as_tuple
from rfgen.physics.types import Bools, Complexes, Floats

# Rays drawn in a cluster; those later than `_DECAYS` ray decays carry no power.
_RAYS, _DECAYS = 40, 6.0

_Rate = Annotated[float, Field(ge=1e3, le=1e12)]
_Decay = Annotated[float, Field(ge=1e-12, le=1e-2)]


class ClusterLaw(Model):
    """The channel in one line-of-sight state.

    Clusters arrive at `cluster_rate_hz`, `clusters` on average, and decay over `cluster_decay_s` with a shadowing of
    `cluster_shadow_db`; rays arrive at the first of `ray_rates_hz` with probability `ray_mix`, else at the last, and
    decay over `ray_decay_s`. Cluster angles spread about the bearing (normal), rays about their cluster (Laplace), both
    as standard deviations. `k_factor_db` is the mean ratio of the direct path to the rest, null where there is none.
    """

    clusters: Annotated[float, Field(gt=0, le=100, description="mean number of clusters")]
    cluster_rate_hz: Annotated[_Rate, Field(description="rate at which clusters arrive, in Hz")]
    cluster_decay_s: Annotated[_Decay, Field(description="decay of the clusters' power, in seconds")]
    cluster_shadow_db: Annotated[Spread, Field(description="standard deviation of a cluster's power, in dB")]
    cluster_spread_deg: Annotated[
        Deviation, Field(description="standard deviation of clusters' angles about the bearing, in degrees")
    ]
    ray_rates_hz: Annotated[
        tuple[_Rate, ...],
        BeforeValidator(_as_tuple),
        Field(min_length=1, max_length=2, description="one rate at which rays arrive, or two that are mixed, in Hz"),
    ]
    ray_mix: Annotated[Portion, Field(description="probability of the first rate")]
    ray_decay_s: Annotated[_Decay, Field(description="decay of the rays' power in a cluster, in seconds")]
    ray_spread_deg: Annotated[
        Deviation, Field(description="standard deviation of rays' angles about their cluster, in degrees")
    ]
    k_factor_db: Annotated[
        float | None,
        Field(ge=-100, le=100, description="mean ratio of the direct path to the rest, in dB; null without one"),
    ]
    k_factor_std_db: Annotated[Spread, Field(description="standard deviation of that ratio, in dB")]


class Multipath(Model):
    """The channel in line of sight and out of it."""

    los: Annotated[ClusterLaw, Field(description="in line of sight")]
    nlos: Annotated[ClusterLaw, Field(description="out of it")]


# Rays spread as Spencer et al. 2000 measured; angles of clusters and K are those of TR 38.901, indoor office.
_SIGHT = {"cluster_spread_deg": 42.0, "ray_spread_deg": 25.5, "k_factor_db": 7.0, "k_factor_std_db": 4.0}
_NO_SIGHT = {"cluster_spread_deg": 59.0, "ray_spread_deg": 25.5, "k_factor_db": None, "k_factor_std_db": 0.0}
# Spencer et al. 2000, table II, Clyde building.
_OFFICE = {
    "clusters": 5.0,
    "cluster_rate_hz": 6.0e7,
    "cluster_decay_s": 3.36e-8,
    "cluster_shadow_db": 3.0,
    "ray_rates_hz": (1.96e8,),
    "ray_mix": 1.0,
    "ray_decay_s": 2.86e-8,
}
# IEEE 802.15.4a channel model, residential (Molisch et al. 2004): CM1 and CM2.
_CM1 = {
    "clusters": 3.0,
    "cluster_rate_hz": 4.7e7,
    "cluster_decay_s": 2.261e-8,
    "cluster_shadow_db": 2.75,
    "ray_rates_hz": (1.54e9, 1.5e8),
    "ray_mix": 0.095,
    "ray_decay_s": 1.253e-8,
}
_CM2 = {
    "clusters": 3.5,
    "cluster_rate_hz": 1.2e8,
    "cluster_decay_s": 2.627e-8,
    "cluster_shadow_db": 2.93,
    "ray_rates_hz": (1.77e9, 1.5e8),
    "ray_mix": 0.045,
    "ray_decay_s": 1.75e-8,
}
_PUBLISHED: dict[str, Multipath] = {
    name: Multipath.model_validate({"los": los | _SIGHT, "nlos": nlos | _NO_SIGHT})
    for name, los, nlos in (("office", _OFFICE, _OFFICE), ("residential", _CM1, _CM2))
}

#: A published indoor model by its name, or numbers of one's own; an error speaks of the one that was meant.
AnyMultipath = Annotated[
    Annotated[Literal["office", "residential"], Tag("name")] | Annotated[Multipath, Tag("numbers")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "numbers"),
]


def numbers_of(model: Multipath | Literal["office", "residential"]) -> Multipath:
    """The numbers of a model that may be named."""
    return _PUBLISHED[model] if isinstance(model, str) else model


@dataclass(frozen=True)
class Paths:
    """Paths of n links: complex `gain`, `delay_s` and `azimuth_deg`, all `[n, P]`; unit mean power per link."""

    gain: Complexes
    delay_s: Floats
    azimuth_deg: Floats

    def at(self, positions: Floats) -> Complexes:
        """Gains `[n, elements, P]` at an array's `positions` `[elements, 2]` in wavelengths."""
        return arrays.response(positions, self.azimuth_deg).transpose(0, 2, 1) * self.gain[:, None]

    def with_power(self) -> "Paths":
        """The same links without the paths that have no power in any; what pads the others is at delay 0."""
        silent = self.gain == 0
        kept = np.argsort(silent, axis=1, kind="stable")[:, : int((~silent).sum(axis=1).max())]
        delay = np.where(silent, 0.0, self.delay_s)
        return Paths(*(np.take_along_axis(part, kept, axis=1) for part in (self.gain, delay, self.azimuth_deg)))


def draw(model: Multipath, los: Bools, bearing_deg: Floats, rng: np.random.Generator) -> Paths:
    """Paths of links with the states `los` `[n]` and bearings `[n]` in degrees.

    References: A. Saleh and R. Valenzuela, "A Statistical Model for Indoor Multipath Propagation", IEEE JSAC 5, 1987;
    Q. Spencer et al., "Modeling the Statistical Time and Angle of Arrival Characteristics of an
    Indoor Multipath Channel", IEEE JSAC 18(3), 2000, equation (8) for the angles of rays.
    """
    n = len(los)
    most = max(_most_clusters(law) for law in (model.los, model.nlos))
    parts = np.zeros((3, n, 1 + most * _RAYS), complex)
    for law, chosen in ((model.los, los), (model.nlos, ~los)):
        made = _in_state(law, bearing_deg[chosen], rng)
        parts[:, chosen, : made.shape[2]] = made
    return Paths(parts[0], parts[1].real, parts[2].real)


def _most_clusters(law: ClusterLaw) -> int:
    """A number of clusters that is hardly ever exceeded."""
    return int(np.ceil(law.clusters + 4 * np.sqrt(law.clusters)))


def _in_state(law: ClusterLaw, bearing_deg: Floats, rng: np.random.Generator) -> Complexes:
    """Gain, delay and azimuth of links in one state, `[3, n, 1 + C R]`; the direct path comes first."""
    n, most = len(bearing_deg), _most_clusters(law)
    number = np.clip(rng.poisson(law.clusters, n), 1, most)
    start = rng.exponential(1 / law.cluster_rate_hz, (n, most)).cumsum(axis=1)
    start -= start[:, :1]
    rate = np.where(rng.random((n, most, _RAYS)) < law.ray_mix, law.ray_rates_hz[0], law.ray_rates_hz[-1])
    ray = (rng.exponential(1.0, (n, most, _RAYS)) / rate).cumsum(axis=2)
    ray -= ray[..., :1]
    level = 10 ** (law.cluster_shadow_db * rng.standard_normal((n, most)) / 10) * np.exp(-start / law.cluster_decay_s)
    power = level[..., None] * np.exp(-ray / law.ray_decay_s)
    power *= (np.arange(most) < number[:, None])[..., None] & (ray < _DECAYS * law.ray_decay_s)
    power = power.reshape(n, most * _RAYS)
    power /= power.sum(axis=1, keepdims=True)
    middle = bearing_deg[:, None] + law.cluster_spread_deg * rng.standard_normal((n, most))
    azimuth = middle[..., None] + rng.laplace(0.0, law.ray_spread_deg / np.sqrt(2), (n, most, _RAYS))
    fading = rng.standard_normal((n, most * _RAYS, 2)).view(complex)[..., 0] / np.sqrt(2)
    k = np.zeros(n)
    if law.k_factor_db is not None:
        k = 10 ** ((law.k_factor_db + law.k_factor_std_db * rng.standard_normal(n)) / 10)
    direct = np.sqrt(k / (1 + k)) * np.exp(2j * np.pi * rng.random(n))
    gain = np.concatenate([direct[:, None], fading * np.sqrt(power / (1 + k)[:, None])], axis=1)
    delay = np.concatenate([np.zeros((n, 1)), (start[..., None] + ray).reshape(n, most * _RAYS)], axis=1)
    return np.stack([gain, delay, np.concatenate([bearing_deg[:, None], azimuth.reshape(n, most * _RAYS)], axis=1)])
