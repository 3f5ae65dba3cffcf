"""Scenes made a second, per task, against Sionna's own time-domain channel application for the same links.

Ours is the whole scene: waveform, channel, hardware, noise, level. Sionna's side is the channel alone, on the same
path gains, delays and signals: ``cir_to_time_channel`` and ``ApplyTimeChannel``, without noise, in single precision.
E-ID-AMC has no multipath channel: Sionna's side applies one path of delay zero there.
"""

import numpy as np
import torch
from common import ROOT, Figure, deliver, figure, in_turn, parser
from sionna.phy.channel import ApplyTimeChannel, cir_to_time_channel

import rfgen.scenes
from emma.files import parse
from emma.release import load_release_config
from rfgen.channels import split_table
from rfgen.recipe import Recipe
from rfgen.scenes import drone, fingerprint, localisation

#: Taps before the first path, in which the band-limited pulse rises, and after the last.
EARLY, LATE = 6, 6
#: Most bytes of Sionna's taps of one portion of links.
PORTION = 2**28


class Links:
    """Path gains ``[n, A, P]``, delays [s] ``[n, P]`` and signals ``[n, samples]`` that a chunk asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = []

    def through(self, signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float) -> np.ndarray:
        """Note the call and apply the channel."""
        self.calls.append((signal, gains, delays, rate))
        return through(signal, gains, delays, rate)

    def response(self, gains: np.ndarray, delays: np.ndarray, samples: int, rate: float) -> np.ndarray:
        """Note the call, with a signal of ones for the one that is not seen here, and return the response."""
        self.calls.append((np.ones((len(gains), samples), complex), gains, delays, rate))
        return frequency_response(gains, delays, samples, rate)


through, frequency_response = localisation.through, fingerprint.frequency_response


def sionna(signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float) -> torch.Tensor:
    """Sionna's channel application, ``[n, 1, A, samples + taps - 1]``; one antenna sends, A receive.

    Links go in portions, since Sionna holds the taps of every sample and path at once.
    """
    antennas, paths = gains.shape[1:]
    taps = EARLY + int(np.ceil(delays.max() * rate)) + LATE + 1
    held = 8 * antennas * paths * (signal.shape[1] + taps - 1) * taps
    portion = max(1, PORTION // held)
    parts = [slice(start, start + portion) for start in range(0, len(gains), portion)]
    return torch.cat([_portion(signal[part], gains[part], delays[part], rate, taps) for part in parts])


def _portion(signal: np.ndarray, gains: np.ndarray, delays: np.ndarray, rate: float, taps: int) -> torch.Tensor:
    n, antennas, paths = gains.shape
    latest, samples = taps - EARLY - 1, signal.shape[1]
    steps = samples + taps - 1
    a = torch.as_tensor(gains.astype(np.complex64)).reshape(n, 1, antennas, 1, 1, paths, 1)
    a = a.expand(n, 1, antennas, 1, 1, paths, steps)
    tau = torch.as_tensor(delays.astype(np.float32)).reshape(n, 1, 1, paths)
    channel = cir_to_time_channel(rate, a, tau, -EARLY, latest, normalize=False)
    sent = torch.as_tensor(signal.astype(np.complex64)).reshape(n, 1, 1, samples)
    return ApplyTimeChannel(samples, taps, device="cpu")(sent, channel)


def task_figure(recipe: Recipe, task: str, rays: object, chunks: int, runs: int) -> Figure:
    """Time some chunks of one task."""
    keys = rfgen.scenes.chunk_keys(recipe, task, "TRAIN")[:chunks]
    links = Links()
    localisation.through = drone.through = links.through
    fingerprint.frequency_response = links.response
    made = list(rfgen.scenes.generate(recipe, task, "TRAIN", rays, 0, chunk_keys=keys))
    localisation.through = drone.through = through
    fingerprint.frequency_response = frequency_response
    count = sum(len(chunk) for chunk in made)
    if not links.calls:
        rate = recipe.tasks[task].sample_rate_hz
        links.calls = [(c.iq[:, 0], np.ones((len(c), 1, 1)), np.zeros((len(c), 1)), rate) for c in made]
    checks: dict[str, float] = {}
    if task in ("E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE"):
        call = links.calls[0]
        samples, half = call[0].shape[1], call[0].shape[1] // 2
        theirs = sionna(*call).numpy()[:, 0, :, EARLY : EARLY + samples][..., half:]
        own = through(*call)[..., half:]
        checks["error_against_sionna_db"] = float(20 * np.log10(np.linalg.norm(own - theirs) / np.linalg.norm(own)))

    def ours() -> None:
        for _ in rfgen.scenes.generate(recipe, task, "TRAIN", rays, 0, chunk_keys=keys):
            pass

    def other() -> None:
        for call in links.calls:
            sionna(*call)

    a, b = in_turn(ours, other, runs)
    checks |= {
        "scenes_per_s": count / float(np.median(a.wall)),
        "sionna_scenes_per_s": count / float(np.median(b.wall)),
    }
    what = f"{task}, {count} scenes"
    against = "Sionna's time-domain channel alone"
    return figure("scene_rates", what, against, ours=a, other=b, target=5.0, sense="at least", checks=checks)


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
