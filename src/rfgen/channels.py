"""Tables of rays from Sionna's TR 38.901 models; the only module that imports Sionna, and only when a table is made."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.streams import Seed, entropy, stream
from rfgen.physics import laws
from rfgen.physics.environment import Environment, Profiles
from rfgen.physics.propagation import SUBCLUSTER_DELAYS
from rfgen.physics.types import Bools, Floats
from rfgen.recipe import Recipe
from rfgen.scenes.base import LinkTask, Setting, Split

SCHEMA = pa.schema(
    [
        pa.field("link_id", pa.string(), nullable=False),
        pa.field("split", pa.string(), nullable=False),
        pa.field("environment", pa.string(), nullable=False),
        pa.field("band", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("los", pa.bool_(), nullable=False),
        pa.field("high", pa.bool_(), nullable=False),
        pa.field("bearing_deg", pa.float64(), nullable=False),
        pa.field("direct_zenith_deg", pa.float64(), nullable=False),
        pa.field("distance_2d_m", pa.float64()),
        pa.field("base_height_m", pa.float64()),
        pa.field("terminal_height_m", pa.float64()),
        pa.field("k_factor_db", pa.float64()),
        pa.field("delay_spread_s", pa.float64(), nullable=False),
        pa.field("cluster_delay_spread_s", pa.float64(), nullable=False),
        pa.field("path_delay_s", pa.list_(pa.float64()), nullable=False),
        pa.field("path_power", pa.list_(pa.float64()), nullable=False),
        pa.field("ray_azimuth_deg", pa.list_(pa.float64()), nullable=False),
        pa.field("ray_zenith_deg", pa.list_(pa.float64()), nullable=False),
    ]
)
#: Columns of a ray table: one value, or one array, per link.
Columns = dict[str, Sequence[Any] | NDArray[Any]]

# Rays are drawn at a terminal of this height [m] when the emitter is above it: the echoes come from the ground.
ECHO_HEIGHT_M = 1.5
# Profiles of TR 38.901 7.7.1, and offsets of the rays within a cluster of unit spread (Table 7.5-3).
PROFILES = ("A", "B", "C", "D", "E")
_OFFSETS = (0.0447, 0.1413, 0.2492, 0.3715, 0.5129, 0.6797, 0.8844, 1.1481, 1.5195, 2.1551)
RAY_OFFSETS = np.array([sign * offset for offset in _OFFSETS for sign in (1, -1)])


def links(recipe: Recipe, split: Split) -> list[tuple[str, str]]:
    """(environment, band) of every ray table of a split, in order."""
    pairs = {
        (environment, band): None
        for task in recipe.tasks_in(split)
        for environment in recipe.tasks[task].environments_in(recipe, split)
        for band in recipe.tasks[task].bands_in(recipe, split)
    }
    return list(pairs)


def split_table(recipe: Recipe, split: Split, seed: Seed) -> pa.Table:
    """All ray tables of a split, concatenated in the order of `links` (columns: see `ray_table`)."""
    return pa.concat_tables([SCHEMA.empty_table(), *split_parts(recipe, split, seed)])


def split_parts(recipe: Recipe, split: Split, seed: Seed) -> Iterator[pa.Table]:
    """The same a few links at a time: `link_chunk` of one task, environment and band."""
    for environment, band in links(recipe, split):
        yield from _parts(recipe, split, environment, band, seed)


def ray_table(recipe: Recipe, split: Split, environment: str, band: str, seed: Seed) -> pa.Table:
    """Rays of every link of a split, environment and band; one row serves one scene.

    Uplink: angles are those at the base station, directions the wave comes from. Columns: `link_id` (unique),
    `split`, `environment`, `band`, `task`, `index` (the scene's number within task, environment and band), `los`,
    `high` (an aerial emitter), `bearing_deg` [0, 360), `direct_zenith_deg`, `distance_2d_m`, `base_height_m`,
    `terminal_height_m` (null for profiles, which have no place), `k_factor_db` (null out of sight), `delay_spread_s`
    (the large-scale parameter), `cluster_delay_spread_s`, and per cluster, the strongest first: `path_delay_s`,
    `path_power` (sums to 1 without the direct path, which K adds), and twenty rays a cluster in `ray_azimuth_deg` and
    `ray_zenith_deg`. All numbers are float64 and computed so.

    Clusters and rays: TR 38.901 7.5 steps 1 to 9 by Sionna, in the unlabelled pool the profiles of 7.7.1; clusters
    later than the recipe's `longest_delay_s` are left out and the power of the others is scaled to 1 again. Line of
    sight: `rfgen.physics.laws`. High emitters take K by TR 36.777 and echoes of the ground rays. No path loss and no
    shadow fading, since scenes state an SNR. ValueError for an environment or band that the split does not have.
    """
    if (environment, band) not in links(recipe, split):
        raise ValueError(f"{split}: no links of environment {environment!r} and band {band!r} in this recipe")
    return pa.concat_tables(_parts(recipe, split, environment, band, seed))


def _parts(recipe: Recipe, split: Split, environment: str, band: str, seed: Seed) -> Iterator[pa.Table]:
    for name in recipe.tasks_in(split):
        task = recipe.tasks[name]
        places = task.environments_in(recipe, split)
        if not isinstance(task, LinkTask) or environment not in places or band not in task.bands_in(recipe, split):
            continue
        count = task.counts[split]
        for chunk in range(-(-count // recipe.link_chunk)):
            key = ("rays", name, split, environment, band, chunk)
            place, first = places[environment], chunk * recipe.link_chunk
            if isinstance(place, Profiles):
                drawn = _draw_profiles(recipe, place, stream(seed, *key), first)
            else:
                drawn = _draw(recipe, place, band, aerial_share=task.aerial_share, seed=seed, key=key)
            # A chunk is drawn whole and then cut: asking for more links leaves those there were.
            yield _table(drawn, name, split, environment, band, first=first).slice(0, count - first)


def _draw(
    setting: Setting, place: Environment, band: str, *, aerial_share: float, seed: Seed, key: tuple[str | int, ...]
) -> Columns:
    """Columns of `link_chunk` links, apart from those that name them."""
    rng = stream(seed, *key)
    n = setting.link_chunk
    u_high, u_distance, u_height, u_los = rng.random((4, n))
    bearing, k_normal = rng.uniform(0.0, 360.0, n), rng.standard_normal(n)
    high = (u_high < aerial_share) if place.aerial else np.zeros(n, bool)
    distance = _between(place.distance_m, u_distance)
    height = np.full(n, place.terminal_height_m)
    if place.aerial:
        distance = np.where(high, _between(place.aerial.distance_m, u_distance), distance)
        height = np.where(high, _between(place.aerial.height_m, u_height), height)
    los = u_los < place.los_probability(distance, height)
    sionna_seed = entropy(seed, *key, "sionna") % 2**63
    k_db, rays = _sionna(setting, place, band, los=los, distance=distance, bearing=bearing, seed=sionna_seed)
    if high.any():
        mean, std = laws.aerial_k_factor_db(place.scenario, np.where(high, height, 50.0))
        k_db = np.where(high, mean + std * k_normal, k_db)
    return {
        "los": los,
        "high": high,
        "bearing_deg": bearing,
        "direct_zenith_deg": 90.0 + np.degrees(np.arctan2(place.base_height_m - height, distance)),
        "distance_2d_m": distance,
        "base_height_m": np.full(n, place.base_height_m),
        "terminal_height_m": height,
        "k_factor_db": np.where(los, k_db, np.nan),
        **rays,
    }


def _draw_profiles(setting: Setting, place: Profiles, rng: np.random.Generator, first: int) -> Columns:
    """Columns of `link_chunk` links of the profiles in turn, as seen at the base station (departure, downlink)."""
    from sionna.phy.channel.tr38901 import models

    n = setting.link_chunk
    bearing, u_spread = rng.uniform(0.0, 360.0, n), rng.random(n)
    low, high = np.log(place.delay_spread_s)
    spread = np.exp(low + (high - low) * u_spread)
    columns: dict[str, list[Any]] = {name: [] for name in ("los", "k_db", "zenith", *_CLUSTERS)}
    for link in range(n):
        name = PROFILES[(first + link) % len(PROFILES)]
        table = json.loads(models.parameter_file(f"CDL-{name}.json", setting.spec_version).read_text())
        los = bool(table["los"])
        power = 10 ** (np.array(table["powers"]) / 10)
        delay, aod, zod = (np.array(table[column], float) for column in ("delays", "aod", "zod"))
        columns["los"].append(los)
        columns["zenith"].append(zod[0] if los else 90.0)
        # The first row of a profile in sight is the direct path.
        columns["k_db"].append(10 * np.log10(power[0] / power[1:].sum()) if los else np.nan)
        azimuth = aod[los:, None] + table["cASD"] * RAY_OFFSETS + bearing[link]
        # Rays of azimuth and zenith are coupled at random (7.7.1 step 2).
        offsets = rng.permuted(np.tile(RAY_OFFSETS, (len(power) - los, 1)), axis=1)
        zenith = zod[los:, None] + table["cZSD"] * offsets
        cut = _clusters(setting, delay[los:] * spread[link], power[los:], azimuth % 360.0, zenith, 0.0)
        for column, values in cut.items():
            columns[column].append(values)
    empty = np.full(n, np.nan)
    return {
        "los": np.array(columns["los"]),
        "high": np.zeros(n, bool),
        "bearing_deg": bearing,
        "direct_zenith_deg": np.array(columns["zenith"]),
        "distance_2d_m": empty,
        "base_height_m": empty,
        "terminal_height_m": empty,
        "k_factor_db": np.array(columns["k_db"]),
        "delay_spread_s": spread,
        "cluster_delay_spread_s": np.zeros(n),
        **{name: columns[name] for name in _CLUSTERS},
    }


_CLUSTERS = ("path_delay_s", "path_power", "ray_azimuth_deg", "ray_zenith_deg")


def _clusters(
    setting: Setting, delay: Floats, power: Floats, azimuth: Floats, zenith: Floats, spread: float
) -> dict[str, Floats]:
    """Clusters of one link that have power and come in time, the strongest first, their power scaled to a sum of 1.

    `spread` [s] is that of the delays within a cluster.
    """
    order = np.argsort(-power, kind="stable")
    latest = setting.longest_delay_s - SUBCLUSTER_DELAYS[-1] * spread
    kept = order[(power[order] > 0) & (delay[order] <= latest)]
    if not len(kept):
        raise ValueError(f"longest_delay_s: expected it above {delay.min():.3g} s, when the first echo of a link comes")
    values = (delay[kept], power[kept] / power[kept].sum(), azimuth[kept].ravel(), zenith[kept].ravel())
    return dict(zip(_CLUSTERS, values, strict=True))


def _between(limits: tuple[float, float], u: Floats) -> Floats:
    return limits[0] + (limits[1] - limits[0]) * u


def _sionna(
    setting: Setting,
    place: Environment,
    band: str,
    *,
    los: Bools,
    distance: Floats,
    bearing: Floats,
    seed: int,
) -> tuple[Floats, Columns]:
    """Rician factors [dB], and spreads, clusters and rays, of n single links."""
    import torch
    from sionna.phy import config
    from sionna.phy.channel import tr38901

    n = len(distance)
    with _one_thread(torch):
        # The generators are fresh for every chunk: a reused one continues its stream.
        config.seed = seed
        element = tr38901.PanelArray(
            num_rows_per_panel=1,
            num_cols_per_panel=1,
            polarization="single",
            polarization_type="V",
            antenna_pattern="omni",
            carrier_frequency=setting.bands_hz[band],
            precision="double",
            device="cpu",
        )
        common = {
            "carrier_frequency": setting.bands_hz[band],
            "ut_array": element,
            "bs_array": element,
            "direction": "uplink",
            "enable_pathloss": False,
            "enable_shadow_fading": False,
            "precision": "double",
            "device": "cpu",
            "spec_version": setting.spec_version,
        }
        scenario = {
            "UMa": lambda: tr38901.UMaScenario(o2i_model="low", **common),
            "UMi": lambda: tr38901.UMiScenario(o2i_model="low", **common),
            "RMa": lambda: tr38901.RMaScenario(**common),
            "InH": lambda: tr38901.InHScenario(indoor_scenario="mixed", **common),
            "InF": lambda: tr38901.InFScenario(factory_scenario="DH", **_hall(place), **common),
        }[place.scenario]()
        angle = np.radians(bearing)
        terminal_height = np.full(n, min(place.terminal_height_m, ECHO_HEIGHT_M))
        terminal = np.stack([distance * np.cos(angle), distance * np.sin(angle), terminal_height], axis=-1)
        base = np.broadcast_to([0.0, 0.0, place.base_height_m], (n, 3))

        def tensor(values: Floats) -> "torch.Tensor":
            return torch.tensor(np.ascontiguousarray(values)[:, None], dtype=torch.float64)

        zeros = np.zeros((n, 3))
        scenario.set_topology(
            tensor(terminal),
            tensor(base),
            tensor(zeros),
            tensor(zeros),
            tensor(zeros),
            torch.full((n, 1), place.scenario in ("InH", "InF")),
            torch.tensor(los[:, None, None]),
        )
        large, small = tr38901.LSPGenerator(scenario), tr38901.RaysGenerator(scenario)
        large.topology_updated_callback()
        small.topology_updated_callback()
        lsp = large()
        rays = small(lsp)

        def array(value: "torch.Tensor") -> Floats:
            values: Floats = value.detach().numpy()[:, 0, 0]
            return values

        power, delay = array(rays.powers), array(rays.delays)
        # The generator works in the downlink view: departure is the base station's side.
        azimuth, zenith = np.degrees(array(rays.aod)) % 360.0, np.degrees(array(rays.zod))
        spread = array(lsp.ds)
        k_db = 10 * np.log10(array(lsp.k_factor))
        cluster_spread = array(scenario.get_param("cDS")) * 1e-9
    cut = [_clusters(setting, *link) for link in zip(delay, power, azimuth, zenith, cluster_spread, strict=True)]
    return k_db, {
        "delay_spread_s": spread,
        "cluster_delay_spread_s": cluster_spread,
        **{name: [clusters[name] for clusters in cut] for name in _CLUSTERS},
    }


def _hall(place: Environment) -> dict[str, Any]:
    """The hall's sides; what else the scenario takes sets the line of sight, which is drawn here."""
    return {"hall_dimensions": place.factory.hall_m} if place.factory else {}


@contextlib.contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Reductions in one order whatever the machine's core count."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(before)


def _table(drawn: Columns, task: str, split: Split, environment: str, band: str, *, first: int) -> pa.Table:
    """A ray table of drawn links, numbered from `first` on."""
    n = len(drawn["los"])
    index = first + np.arange(n)
    named: Columns = {
        "link_id": [f"{split}/{task}/{environment}/{band}/{number:06d}" for number in index],
        "split": [split] * n,
        "environment": [environment] * n,
        "band": [band] * n,
        "task": [task] * n,
        "index": index,
    }
    columns = drawn | named
    return pa.Table.from_arrays(
        [pa.array(columns[field.name], field.type, from_pandas=field.nullable) for field in SCHEMA], schema=SCHEMA
    )
