"""Scenes made a second, per task, against Sionna's own time-domain channel application for the same links.

Ours is the whole scene: waveform, channel, hardware, noise, level. Sionna's side is the channel alone, on the same
path gains, delays and signals, without noise, in single precision: ``cir_to_time_channel`` and ``ApplyTimeChannel`` on
gains at every sample, as its ``TimeChannel`` calls them. Among the checks stands what somebody gets who knows that the
channel does not change within a scene, and has Sionna work out the taps once. E-ID-AMC has no multipath channel:
Sionna's side applies one path of delay zero there.
"""

import numpy as np
import torch
from measuring import ROOT, Figure, deliver, figure, in_turn, parser
from sionna.phy.channel import ApplyTimeChannel, cir_to_time_channel

import rfgen.scenes
from common.files import parse
from emma.data.release import load_release_config
from rfgen.channels import split_table
from rfgen.recipe import Recipe
from rfgen.scenes import drone, fingerprint, localisation

#: Taps before the first path, in which the band-limited pulse rises, and after the last.
EARLY, LATE = 6, 6
#: Links that go through Sionna together, and of how many of a task's its own way is timed: it takes gigabytes a link.
BATCH, TIMED = 5, 8


class Links:
    """Path gains ``[n, A, P]``, delays [s] ``[n, P]`` and signals ``[n, samples]`` that a chunk asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = []

    def apply_channel(
        self, signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float, window: slice | None = None
    ) -> np.ndarray:
        """Note the call and apply the channel."""
        self.calls.append((signal, gains, delays, rate))
        return apply_channel(signal, gains, delays, rate, window)

    def response(self, gains: np.ndarray, delays: np.ndarray, samples: int, rate: float) -> np.ndarray:
        """Note the call, with a signal of ones for the one that is not seen here, and return the response."""
        self.calls.append((np.ones((len(gains), samples), complex), gains, delays, rate))
        return frequency_response(gains, delays, samples, rate)


apply_channel, frequency_response = localisation.apply_channel, fingerprint.frequency_response


def sionna(signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float, *, once: bool = False) -> np.ndarray:
    """Sionna's channel application, ``[n, A, samples]`` from the first path on; one antenna sends, A receive.

    Links whose latest paths are alike go together, since Sionna gives all of a batch as many taps as the latest needs;
    with ``once``, the taps are worked out once for all samples, else link by link from gains at every sample.
    """
    latest = np.ceil(delays.max(axis=1) * rate).astype(int) + LATE
    order, out = np.argsort(latest), np.empty((*gains.shape[:2], signal.shape[1]), np.complex64)
    batch = BATCH if once else 1
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        out[rows] = _batch(signal[rows], gains[rows], delays[rows], rate, int(latest[rows].max()), once)
    return out


def _batch(
    signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float, latest: int, once: bool
) -> np.ndarray:
    n, antennas, paths = gains.shape
    taps, samples = EARLY + latest + 1, signal.shape[1]
    steps = samples + taps - 1
    a = torch.as_tensor(gains.astype(np.complex64)).reshape(n, 1, antennas, 1, 1, paths, 1)
    tau = torch.as_tensor(delays.astype(np.float32)).reshape(n, 1, 1, paths)
    a = a if once else a.expand(*a.shape[:-1], steps)
    channel = cir_to_time_channel(rate, a, tau, -EARLY, latest, normalize=False)
    channel = channel.expand(*channel.shape[:-2], steps, taps)
    sent = torch.as_tensor(signal.astype(np.complex64)).reshape(n, 1, 1, samples)
    received = ApplyTimeChannel(samples, taps, device="cpu")(sent, channel)
    return received.numpy()[:, 0, :, EARLY : EARLY + samples]


def task_figure(recipe: Recipe, task: str, rays: object, chunks: int, runs: int) -> Figure:
    """Time some chunks of one task."""
    keys = rfgen.scenes.chunk_keys(recipe, task, "TRAIN")[:chunks]
    links = Links()
    localisation.apply_channel = drone.apply_channel = links.apply_channel
    fingerprint.frequency_response = links.response
    made = list(rfgen.scenes.generate(recipe, task, "TRAIN", rays, 0, chunk_keys=keys))
    localisation.apply_channel = drone.apply_channel = apply_channel
    fingerprint.frequency_response = frequency_response
    count = sum(len(chunk) for chunk in made)
    if not links.calls:
        rate = recipe.tasks[task].sample_rate_hz
        links.calls = [(c.iq[:, 0], np.ones((len(c), 1, 1)), np.zeros((len(c), 1)), rate) for c in made]
    checks: dict[str, float] = {}
    if recipe.tasks[task].needs_links:
        call = links.calls[0]
        half = call[0].shape[1] // 2
        theirs = sionna(*call, once=True)[..., half:]
        own = apply_channel(*call)[..., half:]
        checks["error_against_sionna_db"] = float(20 * np.log10(np.linalg.norm(own - theirs) / np.linalg.norm(own)))

    def ours() -> None:
        for _ in rfgen.scenes.generate(recipe, task, "TRAIN", rays, 0, chunk_keys=keys):
            pass

    def once() -> None:
        for call in links.calls:
            sionna(*call, once=True)

    signal, gains, delays, rate = links.calls[0]
    # Evenly spaced in their latest delays, on which the number of taps depends.
    by_delay = np.argsort(delays.max(axis=1))
    some = by_delay[np.unique(np.linspace(0, len(by_delay) - 1, TIMED).round().astype(int))]
    a, b = in_turn(ours, lambda: sionna(signal[some], gains[some], delays[some], rate), runs)
    c, d = in_turn(ours, once, runs)
    rates = [count / float(np.median(side.wall)) for side in (a, c, d)]
    theirs = len(some) / float(np.median(b.wall))
    checks |= {"scenes_per_s": rates[0], "sionna_scenes_per_s": theirs, "sionna_taps_once_scenes_per_s": rates[2]}
    checks["ratio_to_taps_once"] = rates[1] / rates[2]
    what = f"{task}, {count} scenes; Sionna: {len(some)} of their links"
    against = "Sionna's time-domain channel alone"
    value = rates[0] / theirs
    return figure(
        "scene_rates", what, against, ours=a, other=b, value=value, target=5.0, sense="at least", checks=checks
    )


def main() -> None:
    """Time every task of a release."""
    made = parser(__doc__, 3)
    made.add_argument("--release", default="v0.1", help="release whose recipe is used (default v0.1)")
    options = made.parse_args()
    torch.set_num_threads(1)
    config = load_release_config(ROOT / f"config/releases/{'tiny' if options.tiny else options.release}.yaml")
    values = dict(config.rfgen)
    recipe = parse(Recipe, values, "rfgen")
    rays = split_table(recipe, "TRAIN", 0)
    tasks = ("E-LOC-AOA",) if options.tiny else tuple(recipe.tasks)
    chunks = 1 if options.tiny else 2
    with torch.inference_mode():
        deliver([task_figure(recipe, task, rays, chunks, options.runs) for task in tasks], options)


if __name__ == "__main__":
    main()
