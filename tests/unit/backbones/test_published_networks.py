"""Our code of published networks is the networks: against numpy, and by what they answer to signals that they know."""

import numpy as np
import pytest
import torch

from emma.backbones.published import lwm_v1, radioml_vgg10
from emma.backbones.published.convert import read_state, renamed, without_denormals

#: Heads of the classifier in their order (that of the data set's own list is wrong: radioML/dataset, issue 25).
MODULATIONS = ("OOK", "4ASK", "8ASK", "BPSK", "QPSK", "8PSK", "16PSK", "32PSK", "16APSK", "32APSK", "64APSK")
MODULATIONS += ("128APSK", "16QAM", "32QAM", "64QAM", "128QAM", "256QAM", "AM-SSB-WC", "AM-SSB-SC", "AM-DSB-WC")
MODULATIONS += ("AM-DSB-SC", "FM", "GMSK", "OQPSK")
CEILING = "act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.value"


def vgg10(state, iq):
    """float32 ``[B, 2, 1024]`` to the 128 numbers before the head."""
    state = {key: np.asarray(value, np.float64) for key, value in state.items()}
    values = np.clip(np.round(np.float64(iq) * 64), -128, 127) / 64

    def block(values, start):
        weight = state[f"{start}.weight"]
        step = np.abs(weight).max() / 127
        weight = np.round(weight / step) * step
        if weight.ndim == 3:
            padded = np.pad(values, [(0, 0), (0, 0), (1, 1)])
            windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
            values = np.einsum("bitk,oik->bot", windows, weight, optimize=True)
        else:
            values = values @ weight.T
        norm = {part: state[f"{start + 1}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")}
        norm = {part: value[:, None] if weight.ndim == 3 else value for part, value in norm.items()}
        values = (values - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5) * norm["weight"] + norm["bias"]
        step = state[f"{start + 2}.{CEILING}"] / 255
        return np.clip(np.round(values / step), 0, 255) * step

    for layer in range(7):
        values = block(values, 1 + 4 * layer)
        values = values.reshape(*values.shape[:2], -1, 2).max(axis=3)
    return block(block(values.reshape(len(values), -1), 30), 33)


def tokens_of(channels):
    """complex64 ``[B, 32, 32]`` as the authors cut it: ``[B, 129, 16]``."""
    flat = channels.reshape(len(channels), -1)
    patches = np.concatenate([flat.real, flat.imag], axis=1).reshape(len(channels), 128, 16)
    return np.concatenate([np.full((len(channels), 1, 16), 0.2), patches], axis=1)


def lwm(state, tokens):
    """Tokens ``[B, 129, 16]`` to ``[B, 129, 64]``."""
    state = {key: np.asarray(value, np.float64) for key, value in state.items()}

    def linear(values, name):
        return values @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    values = norm(state, linear(tokens, "embedding.proj") + state["embedding.pos_embed.weight"], "embedding.norm")
    for layer in range(12):
        name = f"layers.{layer}"
        heads = []
        query, key, value = (linear(values, f"{name}.enc_self_attn.W_{kind}") for kind in "QKV")
        for head in range(12):
            part = slice(5 * head, 5 * head + 5)
            scores = np.einsum("bnd,bmd->bnm", query[..., part], key[..., part]) / np.sqrt(5)
            weights = np.exp(scores - scores.max(axis=2, keepdims=True))
            heads.append(weights / weights.sum(axis=2, keepdims=True) @ value[..., part])
        joined = linear(np.concatenate(heads, axis=2), f"{name}.enc_self_attn.linear")
        values = norm(state, values + joined, f"{name}.norm")
        hidden = np.maximum(linear(values, f"{name}.pos_ffn.fc1"), 0)
        values = values + linear(hidden, f"{name}.pos_ffn.fc2")
    return values


def norm(state, values, name):
    """Mean 0, deviation 1 of n - 1, then ``alpha`` and ``bias``."""
    mean, deviation = values.mean(axis=-1, keepdims=True), values.std(axis=-1, ddof=1, keepdims=True)
    return state[f"{name}.alpha"] * (values - mean) / (deviation + 1e-6) + state[f"{name}.bias"]


def filled_in(state, values):
    """What the head of LWM makes of encoded tokens ``[..., 64]``: ``[..., 16]``."""
    hidden = np.maximum(values @ state["linear.weight"].T + state["linear.bias"], 0)
    return norm(state, hidden, "norm") @ state["decoder.weight"].T + state["decoder_bias"]


def raised_cosine(rolloff, samples_per_symbol, span=16):
    t = np.arange(-span * samples_per_symbol, span * samples_per_symbol + 1) / samples_per_symbol
    t = np.where(np.isclose(np.abs(2 * rolloff * t), 1), t + 1e-6, t)
    return np.sinc(t) * np.cos(np.pi * rolloff * t) / (1 - (2 * rolloff * t) ** 2)


def modulated(name, scenes, rng, snr_db=20.0, samples_per_symbol=8):
    """Scenes complex128 ``[scenes, 1024]`` at unit power, of raised-cosine pulses of random roll-off and timing."""
    if name == "GMSK":
        bits = np.repeat(rng.choice([-1.0, 1.0], (scenes, 192)), samples_per_symbol, axis=1)
        t = np.arange(-2 * samples_per_symbol, 2 * samples_per_symbol + 1) / samples_per_symbol
        pulse = np.exp(-((np.pi * 0.35 * t) ** 2) * 2 / np.log(2))
        smooth = np.stack([np.convolve(row, pulse / pulse.sum(), "same") for row in bits])
        signal = np.exp(0.5j * np.pi / samples_per_symbol * np.cumsum(smooth, axis=1))[:, 100:1124]
    else:
        order = 2 if name == "BPSK" else 4 if name == "QPSK" else int(name.removesuffix("PSK").removesuffix("QAM"))
        if name.endswith("QAM"):
            levels = 2.0 * np.arange(np.sqrt(order)) - np.sqrt(order) + 1
            points = (levels[:, None] + 1j * levels).ravel()
        else:
            points = np.exp(2j * np.pi * (np.arange(order) + 0.5) / order)
        signal = np.empty((scenes, 1024), complex)
        for row in signal:
            sent = np.zeros(192 * samples_per_symbol, complex)
            sent[::samples_per_symbol] = rng.choice(points, 192)
            shaped = np.convolve(sent, raised_cosine(rng.uniform(0.2, 0.4), samples_per_symbol), "same")
            start = 160 + rng.integers(samples_per_symbol)
            row[:] = shaped[start : start + 1024]
    signal = signal * np.exp(2j * np.pi * rng.random((scenes, 1)))
    signal /= np.sqrt(np.mean(np.abs(signal) ** 2, axis=1, keepdims=True))
    noise = rng.normal(size=(*signal.shape, 2)) @ [1, 1j] / np.sqrt(2)
    signal = signal + 10 ** (-snr_db / 20) * noise
    return signal / np.sqrt(np.mean(np.abs(signal) ** 2, axis=1, keepdims=True))


def channels(scenes, rng, paths=3):
    """Channels complex64 ``[scenes, 32, 32]`` of a few paths: a row of antennas, carriers 30 kHz apart, unit power."""
    sine = rng.uniform(-1, 1, (scenes, paths, 1))
    delay = rng.uniform(0.1e-6, 1.5e-6, (scenes, paths, 1))
    gain = rng.normal(size=(scenes, paths, 2)) @ [1, 1j] * 10 ** (-rng.uniform(0, 1, (scenes, paths)))
    rows = np.exp(1j * np.pi * sine * np.arange(32))
    carriers = np.exp(-2j * np.pi * delay * 30e3 * np.arange(32))
    channel = np.einsum("np,npa,npk->nak", gain, rows, carriers)
    return (channel / np.sqrt(np.mean(np.abs(channel) ** 2, axis=(1, 2), keepdims=True))).astype(np.complex64)


def build(network, state):
    weights, _ = without_denormals(renamed(state, network.names(), network.DROPPED, "state"))
    return network.build(weights)


@pytest.fixture(params=["made up", "published"])
def state_of(request, made_up_state):
    """Name of a recipe to a state: a made-up one, and the published one where it is there."""
    if request.param == "made up":
        return made_up_state
    files = request.getfixturevalue("published_file")
    return lambda name: read_state(files(name).read_bytes())


def as_iq(scenes):
    return np.stack([scenes.real, scenes.imag], axis=1).astype(np.float32)


def test_the_classifier_is_what_numpy_computes(state_of):
    state = state_of("radioml_vgg10")
    rng = np.random.default_rng(1)
    iq = as_iq(np.concatenate([modulated(name, 4, rng) for name in ("QPSK", "16QAM")]))
    found, expected = build(radioml_vgg10, state).embed(iq, 1.0, 0.0), vgg10(state, iq)
    step = state[f"35.{CEILING}"] / 255
    steps = np.abs(found - expected) / step
    # A sum that lies between two steps may be rounded otherwise in double precision.
    assert steps.max() < 2.5 and np.mean(steps > 0.01) < 0.02
    assert np.ptp(found, axis=0).max() > 20 * step


def test_a_scene_alone_gives_the_same_bytes(state_of):
    iq = np.tile(np.random.default_rng(2).normal(scale=0.5**0.5, size=(16, 2, 256)).astype(np.float32), 4)
    backbone = build(radioml_vgg10, state_of("radioml_vgg10"))
    alone = np.concatenate([backbone.embed(iq[[k]], 1.0, 0.0) for k in range(16)])
    np.testing.assert_array_equal(backbone.embed(iq, 1.0, 0.0), alone)


def test_the_transformer_is_what_numpy_computes(state_of):
    state = state_of("lwm_v1")
    channel = channels(3, np.random.default_rng(3))
    found, expected = build(lwm_v1, state).embed(channel, 1.0, 0.0), lwm(state, tokens_of(channel))
    assert found.shape == (3, 129, 64) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())


def test_the_classifier_knows_modulations(published_file):
    state = read_state(published_file("radioml_vgg10").read_bytes())
    backbone, rng = build(radioml_vgg10, state), np.random.default_rng(4)
    right = {}
    for name in ("BPSK", "QPSK", "8PSK", "16PSK", "32PSK", "16QAM", "256QAM", "GMSK"):
        features = backbone.embed(as_iq(modulated(name, 32, rng)), 1.0, 0.0)
        answers = np.argmax(features @ state["36.weight"].T + state["36.bias"], axis=1)
        right[name] = np.mean(answers == MODULATIONS.index(name))
    # 24 classes: chance is 0.04.
    assert min(right[name] for name in ("BPSK", "QPSK", "8PSK", "GMSK")) > 0.8, right
    assert np.mean(list(right.values())) > 0.7, right


def test_the_transformer_fills_in_what_is_masked(published_file):
    state = read_state(published_file("lwm_v1").read_bytes())
    net, rng = build(lwm_v1, state).module, np.random.default_rng(5)

    def error(channel):
        """Mean square error of masked tokens over their variance, masked in pairs as in training: 0.1 throughout."""
        tokens = tokens_of(channel)
        places = np.stack([rng.choice(64, 9, replace=False) for _ in channel])
        places = (np.concatenate([places, places + 64], axis=1) + 1)[..., None]
        true = np.take_along_axis(tokens, places, axis=1)
        np.put_along_axis(tokens, places, 0.1, axis=1)
        with torch.inference_mode():
            encoded = net.encode(torch.from_numpy(tokens.astype(np.float32))).numpy()
        given = filled_in(state, np.take_along_axis(encoded, places, axis=1))
        return np.mean((given - true) ** 2) / np.var(true)

    known = channels(64, rng)
    noise = (rng.normal(size=(64, 32, 32, 2)) @ [1, 1j] / np.sqrt(2)).astype(np.complex64)
    assert error(known) < 0.75
    assert error(noise) > 1.0
    assert error(known.transpose(0, 2, 1)) > 1.0  # antennas are rows, not columns


def test_a_channel_of_eight_antennas_fills_the_input():
    rng = np.random.default_rng(6)
    csi = (rng.normal(size=(2, 8, 52, 2)) @ [1, 1j]).astype(np.complex64)
    csi[1] *= 100
    filled = lwm_v1.fill(torch.from_numpy(csi)).numpy()
    assert filled.shape == (2, 32, 32)
    np.testing.assert_allclose(np.mean(np.abs(filled) ** 2, axis=(1, 2)), 1, rtol=1e-5)
    ratio = filled / np.repeat(csi[:, :, 10:42], 4, axis=1)
    np.testing.assert_allclose(ratio, ratio[:, :1, :1] * np.ones_like(ratio), rtol=1e-4)
    np.testing.assert_allclose(lwm_v1.as_tokens(torch.from_numpy(filled)), tokens_of(filled), rtol=1e-6)
    assert not lwm_v1.fill(torch.zeros(1, 8, 52, dtype=torch.complex64)).any()


@pytest.mark.parametrize("shape", [(1, 3, 52), (1, 64, 52), (1, 8, 31)])
def test_a_channel_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match="expected antennas that divide 32 and 32 carriers or more, found"):
        lwm_v1.fill(torch.zeros(shape, dtype=torch.complex64))


def test_a_scene_of_another_length_is_refused(made_up_state):
    backbone = build(radioml_vgg10, made_up_state("radioml_vgg10"))
    with pytest.raises(ValueError, match=r"expected \[batch, 2, 1024\], found \[1, 2, 512\]"):
        backbone.embed(np.zeros((1, 2, 512), np.float32), 1.0, 0.0)
