"""ONNX files as people have them: each embeds the right values, or ends in one line that says what to do."""

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper

from common.errors import InputError
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import AXES, Contract, lay_out, normalise
from emma.backbones.onnx_file import OnnxBackbone
from emma.backbones.onnx_graph import (
    BatchNorm,
    batch_norms,
    candidates,
    find_head,
    floating_weights,
    guess_layout,
    read_graph,
    with_shapes,
)

SAMPLES, WIDTH = 32, 5
FLOAT, HALF, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
MATRIX = np.random.default_rng(1).normal(size=(2 * SAMPLES, WIDTH)).astype(np.float32)


def scenes(count=5, antennas=1, length=SAMPLES):
    rng = np.random.default_rng(2)
    return (rng.normal(size=(count, antennas, length, 2)) @ [1, 1j]).astype(np.complex64)


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), output.split(), name=f"the_{op.lower()}", **attributes)


def file(nodes, given, answers, weights=None, opset=17, ir=8, domains=()):
    stored = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    made = helper.make_graph(nodes, "g", given, answers, stored)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(made, opset_imports=opsets, ir_version=ir)


def linear(shape=("B", 2, SAMPLES), kind=FLOAT, matrix=MATRIX, more=(), answer=None, **settings):
    """Flatten, then a matrix: the network whose answer is known for every layout."""
    nodes = [node("Flatten", "x", "f"), node("MatMul", "f W", "y"), *more]
    answer = [value("y", [shape[0], matrix.shape[1]], kind)] if answer is None else answer
    return file(nodes, [value("x", shape, kind)], answer, {"W": matrix}, **settings)


def embed(model, iq=None, output=None, **contract):
    data = model if isinstance(model, bytes) else model.SerializeToString()
    iq, contract = scenes() if iq is None else iq, Contract(**contract)
    backbone = OnnxBackbone("m", data, "m.onnx", contract=contract, output=output)
    index = pa.table({"sample_rate_hz": [2e7] * len(iq), "center_frequency_hz": [1e9] * len(iq)})
    return embed_batch(backbone, iq, index, contract)


def expected(iq, layout="channels", matrix=MATRIX):
    given = lay_out(normalise(iq, "unit_power"), layout)
    return given.reshape(len(iq), -1).astype(np.float64) @ matrix


REAL = {
    "channels": ("B", 2, SAMPLES),
    "channels_last": ("B", SAMPLES, 2),
    "interleaved": ("B", 1, 2 * SAMPLES),
    "image": ("B", 1, 2, SAMPLES),
    "column": ("B", 2, 1, SAMPLES),
    "pairs": ("B", 1, SAMPLES, 2),
    "image_last": ("B", 2, SAMPLES, 1),
}


@pytest.mark.parametrize("layout", REAL)
def test_a_layout_is_read_off_the_file_and_fills_it(layout):
    fit = guess_layout(REAL[layout])
    assert (fit.layout, fit.antennas, fit.samples) == (layout, 1, SAMPLES)
    np.testing.assert_allclose(embed(linear(REAL[layout]), layout=layout), expected(scenes(), layout), atol=1e-4)


@pytest.mark.parametrize("layout", AXES)
def test_every_layout_places_i_and_q_where_its_axes_say(layout):
    iq = scenes(3, 4, 6)
    parts = np.stack([iq.real, iq.imag])  # [2, B, A, T]
    orders = {
        "channels": parts.transpose(1, 2, 0, 3),
        "stacked": parts.transpose(1, 0, 2, 3),
        "interleaved": parts.transpose(1, 2, 3, 0),
        "pairs": parts.transpose(1, 2, 3, 0),
        "channels_last": parts.transpose(1, 3, 2, 0),
        "image": parts.transpose(1, 2, 0, 3),
        "image_last": parts.transpose(1, 2, 0, 3),
        "column": parts.transpose(1, 2, 0, 3),
        "time_first": parts.transpose(1, 3, 2, 0),
    }
    sizes = {"A": 4, "T": 6, "2A": 8, "2T": 12, "1": 1, "2": 2}
    shape = (3, *(sizes[axis] for axis in AXES[layout]))
    found = lay_out(iq, layout)
    np.testing.assert_array_equal(found, orders[layout].reshape(shape))
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("axes", "guess"),
    [
        (("B", 16, 256), ("channels", 8, 256)),
        (("B", 256, 16), ("channels_last", 8, 256)),
        (("B", "C", "T"), ("channels", None, None)),
        (("B", 2, "T"), ("channels", 1, None)),
        (("B", "T", 2), ("channels_last", 1, None)),
        ((None, 8, 256, 2), ("pairs", 8, 256)),
        (("B", 16, 256, 1), ("image_last", 8, 256)),
        (("B", 1, 16, 256), ("image", 8, 256)),
        ((1, 2, 1, 504), ("column", 1, 504)),
        (("B", 504, 2, 1), ("time_first", 1, 504)),
        (("B", 504, 1, 2), None),
        (("B", "a", "b", "c"), None),
    ],
)
def test_a_layout_is_guessed_from_axes(axes, guess):
    fit = guess_layout(axes)
    assert guess == (None if fit is None else (fit.layout, fit.antennas, fit.samples))


# Files that load, with the values that numpy gives.


def identity_after(op, shape, **attributes):
    return linear(more=[node(op, "y", "z", **attributes)], answer=[value("z", shape)])


LOADS = {
    "fixed batch 1": (lambda: linear((1, 2, SAMPLES)), {"batch_size": 1}),
    "fixed batch 1, asked for more": (lambda: linear((1, 2, SAMPLES)), {}),
    "fixed batch 8": (lambda: linear((8, 2, SAMPLES)), {}),
    "fixed batch 2, asked for 3": (lambda: linear((2, 2, SAMPLES)), {"batch_size": 3}),
    "initialiser that is an input too": (
        lambda: file(
            [node("Flatten", "x", "f"), node("MatMul", "f W", "y")],
            [value("x", ["B", 2, SAMPLES]), value("W", MATRIX.shape)],
            [value("y", ["B", WIDTH])],
            {"W": MATRIX},
            opset=9,
            ir=3,
        ),
        {},
    ),
    "initialiser that is an input too, cut out": (
        lambda: file(
            [node("Flatten", "x", "f"), node("MatMul", "f W", "y"), node("Add", "y c", "z")],
            [value("x", ["B", 2, SAMPLES]), value("W", MATRIX.shape), value("c", [WIDTH])],
            [value("z", ["B", WIDTH])],
            {"W": MATRIX, "c": np.ones(WIDTH, np.float32)},
            opset=9,
            ir=3,
        ),
        {"output": "y"},
    ),
    "fixed batch, axes of the answer unknown": (lambda: linear((3, 2, SAMPLES), answer=[value("y", None)]), {}),
    "float64": (lambda: linear(kind=DOUBLE, matrix=MATRIX.astype(np.float64)), {}),
    "weights in a constant node": (
        lambda: file(
            [
                node("Constant", "", "W", value=numpy_helper.from_array(MATRIX)),
                node("Flatten", "x", "f"),
                node("MatMul", "f W", "y"),
            ],
            [value("x", ["B", 2, SAMPLES])],
            [value("y", ["B", WIDTH])],
        ),
        {},
    ),
    "answer [B, D, 1, 1]": (
        lambda: file(
            [node("Flatten", "x", "f"), node("MatMul", "f W", "m"), node("Unsqueeze", "m a", "y")],
            [value("x", ["B", 2, SAMPLES])],
            [value("y", ["B", WIDTH, 1, 1])],
            {"W": MATRIX, "a": np.array([2, 3])},
        ),
        {},
    ),
    "answer [B, 1, D]": (
        lambda: file(
            [node("Flatten", "x", "f"), node("MatMul", "f W", "m"), node("Unsqueeze", "m a", "y")],
            [value("x", ["B", 2, SAMPLES])],
            [value("y", ["B", 1, WIDTH])],
            {"W": MATRIX, "a": np.array([1])},
        ),
        {},
    ),
    "dynamic everything": (
        lambda: linear(("B", "C", "T"), answer=[value("y", ["B", "D"])]),
        {"samples": SAMPLES, "antennas": 1},
    ),
    "no shapes at all": (lambda: linear(("B", "C", "T"), answer=[value("y", None)]), {"samples": SAMPLES}),
    "several outputs, one named": (
        lambda: linear(more=[node("Relu", "y", "z")], answer=[value("y", ["B", WIDTH]), value("z", ["B", WIDTH])]),
        {"output": "y"},
    ),
    "two inputs, one for a part that is cut off": (
        lambda: file(
            [node("Flatten", "x", "f"), node("MatMul", "f W", "y"), node("Add", "y other", "z")],
            [value("x", ["B", 2, SAMPLES]), value("other", ["B", WIDTH])],
            [value("z", ["B", WIDTH])],
            {"W": MATRIX},
        ),
        {"output": "y"},
    ),
    "softmax head, the layer before it named": (lambda: identity_after("Softmax", ["B", WIDTH]), {"output": "y"}),
    "dropout that is switched off": (
        lambda: linear(more=[node("Dropout", "y", "z")], answer=[value("z", ["B", WIDTH])]),
        {},
    ),
}


@pytest.mark.parametrize("name", LOADS)
def test_an_awkward_file_embeds_the_right_values(name):
    make, contract = LOADS[name]
    np.testing.assert_allclose(embed(make(), **contract), expected(scenes()), atol=1e-4)


def test_half_precision_is_cast_in_and_out():
    found = embed(linear(kind=HALF, matrix=MATRIX.astype(np.float16)))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(scenes()), atol=0.05)


def test_tokens_are_pooled():
    model = file(
        [node("Transpose", "x", "y", perm=[0, 2, 1])], [value("x", ["B", 2, "T"])], [value("y", ["B", "T", 2])]
    )
    unit = normalise(scenes(), "unit_power")[:, 0]
    np.testing.assert_allclose(embed(model, pooling="max"), np.stack([unit.real.max(1), unit.imag.max(1)], 1))


def branching(output_shape=("B", WIDTH)):
    """An If whose branches use a tensor from outside."""
    branch = [
        helper.make_graph([helper.make_node(op, ["m"], [name])], name, [], [value(name, output_shape)])
        for op, name in (("Identity", "yes"), ("Neg", "no"))
    ]
    nodes = [
        node("Flatten", "x", "f"),
        node("MatMul", "f W", "m"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch[0], else_branch=branch[1]),
        node("Softmax", "y", "z"),
    ]
    given = [value("x", ["B", 2, SAMPLES])]
    return file(nodes, given, [value("z", ["B", WIDTH])], {"W": MATRIX, "c": np.array(True)})


def test_control_flow_keeps_what_its_branches_use_when_it_is_cut_out():
    np.testing.assert_allclose(embed(branching(), output="y"), expected(scenes()), atol=1e-4)


# Files that end in one line.


def beside(folder):
    onnx.save_model(linear(), folder / "w.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return (folder / "w.onnx").read_bytes()


def training_norm(folder):
    stored = {name: np.ones(2, np.float32) for name in "sbmv"}
    norm = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["n", "", ""], name="bn", training_mode=1)
    return file([norm, node("Flatten", "n", "y")], [value("x", ["B", 2, SAMPLES])], [value("y", ["B", 64])], stored)


def training_dropout(folder):
    stored = {"ratio": np.array(0.5, np.float32), "mode": np.array(True)}
    nodes = [node("Dropout", "x ratio mode", "d"), node("Flatten", "d", "y")]
    return file(nodes, [value("x", ["B", 2, SAMPLES])], [value("y", ["B", 64])], stored)


def sparse(folder):
    numbers = numpy_helper.from_array(np.array([1, 2], np.float32), "W")
    stored = helper.make_sparse_tensor(numbers, numpy_helper.from_array(np.array([0, 3])), [2 * SAMPLES])
    nodes = [node("Flatten", "x", "f"), node("Mul", "f W", "y"), node("Relu", "y", "z")]
    model = file(nodes, [value("x", ["B", 2, SAMPLES])], [value("z", ["B", 2 * SAMPLES])])
    model.graph.sparse_initializer.append(stored)
    return model


def fixed_within(folder):
    nodes = [node("Reshape", "x s", "f"), node("MatMul", "f W", "y")]
    stored = {"W": MATRIX, "s": np.array([1, 2 * SAMPLES])}
    return file(nodes, [value("x", ["B", 2, SAMPLES])], [value("y", ["B", WIDTH])], stored)


REFUSED = {
    "a text file": (lambda folder: b"not a network\n", {}, "expected an ONNX file"),
    "an empty file": (lambda folder: b"", {}, "expected an ONNX file with at least one node"),
    "weights beside it": (beside, {}, r"weights within, found them in w\.bin .* onnx\.save"),
    "opset too new": (lambda folder: linear(opset=99), {}, r"opset is newer than onnxruntime's \d+; .*opset_version="),
    "IR version too new": (lambda folder: linear(ir=99), {}, r"IR version is newer .* set ir_version=\d+"),
    "two inputs": (
        lambda folder: file(
            [node("Flatten", "x", "f"), node("Flatten", "z", "h"), node("Add", "f h", "y")],
            [value("x", ["B", 2, SAMPLES]), value("z", ["B", 2, SAMPLES])],
            [value("y", ["B", 64])],
        ),
        {},
        r"inputs x \[B, 2, 32\], z \[B, 2, 32\]: expected one; write the constant ones .* factory",
    ),
    "no input": (
        lambda folder: file([node("Identity", "W", "y")], [], [value("y", MATRIX.shape)], {"W": MATRIX}),
        {},
        "inputs none: expected one",
    ),
    "int8 input": (
        lambda folder: file(
            [node("Cast", "x", "f", to=FLOAT), node("Flatten", "f", "y")],
            [value("x", ["B", 2, SAMPLES], TensorProto.INT8)],
            [value("y", ["B", 64])],
        ),
        {},
        "input x .*: expected floating numbers, found int8; export .* float32",
    ),
    "int64 answer": (
        lambda folder: linear(more=[node("ArgMax", "y", "z")], answer=[value("z", [1, WIDTH], TensorProto.INT64)]),
        {},
        "output z: expected floating numbers, found",
    ),
    "rank 2": (lambda folder: linear(("B", 2 * SAMPLES)), {}, r"input x \[B, 64\]: expected three or four axes"),
    "rank 4 without a layout": (
        lambda folder: linear(REAL["column"]),
        {},
        r"input x \[B, 2, 1, 32\]: layout: expected column, as its axes say, found no layout",
    ),
    "NHWC without a layout": (lambda folder: linear(REAL["pairs"]), {}, "layout: expected pairs"),
    "samples before channels": (lambda folder: linear(REAL["channels_last"]), {}, "layout: expected channels_last"),
    "another layout than its own": (
        lambda folder: linear(REAL["image"]),
        {"layout": "column"},
        "layout: expected image, as its axes say, found layout column",
    ),
    "axes of no layout": (lambda folder: linear(("B", SAMPLES, 1, 2)), {}, "layout: none has such axes; wrap by"),
    "fixed samples": (
        lambda folder: linear(("B", 2, 16), matrix=MATRIX[:32]),
        {},
        r"input x \[B, 2, 16\], given \[B, 2, 32\]: set samples: 16, fit: tile",
    ),
    "fixed antennas": (
        lambda folder: linear(("B", 16, SAMPLES), matrix=np.ones((512, 4), np.float32)),
        {},
        r"set antennas: 8, missing_antennas: repeat",
    ),
    "a batch of 1 fixed within": (fixed_within, {}, "set batch_size: 1"),
    "a sequence without pooling": (
        lambda folder: file([node("Identity", "x", "y")], [value("x", ["B", 2, "T"])], [value("y", ["B", 2, "T"])]),
        {"samples": SAMPLES},
        r"output y \[.*, 2, 32\]: expected \[B, D\]; a sequence of tokens is read by pooling",
    ),
    "an image as answer": (
        lambda folder: linear(
            ("B", 4, SAMPLES, 2),
            more=[node("Identity", "x", "z")],
            answer=[value("z", ["B", 4, SAMPLES, 2])],
            matrix=np.ones((256, 4), np.float32),
        ),
        {"layout": "pairs"},
        r"output z .*: expected \[B, D\]; name another tensor by output",
    ),
    "one number for all scenes": (
        lambda folder: linear(more=[node("ReduceMean", "y", "z", keepdims=0)], answer=[value("z", [])]),
        {},
        r"output z \[\]: expected \[B, D\], a row for each scene",
    ),
    "a batch that comes last": (
        lambda folder: linear(more=[node("Transpose", "y", "z")], answer=[value("z", [WIDTH, "B"])]),
        {},
        "a row for each scene; name another tensor by output",
    ),
    "a width that follows the samples": (
        lambda folder: file([node("Flatten", "x", "y")], [value("x", ["B", 2, "T"])], [value("y", ["B", "D"])]),
        {},
        "with D fixed; set samples",
    ),
    "several outputs": (
        lambda folder: linear(more=[node("Relu", "y", "z")], answer=[value(name, ["B", WIDTH]) for name in "yz"]),
        {},
        r"outputs y \[B, 5\], z \[B, 5\]: expected one; name it by output",
    ),
    "an output that is not there": (
        lambda folder: linear(),
        {"output": "Y"},
        "output: no tensor 'Y' in the file; expected one such as y",
    ),
    "an operator of another domain": (
        lambda folder: file(
            [node("Spectrum", "x", "f", domain="my.ops"), node("Flatten", "f", "y")],
            [value("x", ["B", 2, SAMPLES])],
            [value("y", ["B", 64])],
            domains=["my.ops"],
        ),
        {},
        r"node 'the_spectrum' \(Spectrum\): an operator of the domain 'my\.ops', .* export with standard",
    ),
    "an operator that there is not": (
        lambda folder: linear(more=[node("Spectrum", "y", "z")], answer=[value("z", ["B", WIDTH])]),
        {},
        "onnxruntime has no operator Spectrum in this opset",
    ),
    "NaN among the weights": (
        lambda folder: linear(matrix=np.where(MATRIX > 2, np.nan, MATRIX).astype(np.float32)),
        {},
        "weights 'W': NaN, expected finite numbers",
    ),
    "batch normalisation in training": (training_norm, {}, r"node 'bn' .*training mode.*model\.eval\(\)"),
    "dropout in training": (training_dropout, {}, r"node 'the_dropout' .*training mode"),
    "random numbers": (
        lambda folder: linear(more=[node("RandomNormalLike", "y", "z")], answer=[value("z", ["B", WIDTH])]),
        {},
        "random numbers, expected the same answer twice",
    ),
    "sparse weights, cut out": (
        sparse,
        {"output": "y"},
        "output: nothing is cut out .* sparse weights; export them dense",
    ),
    "more memory than there is": (
        lambda folder: file(
            [
                *[node("Flatten", "x", "f"), node("MatMul", "f W", "m"), node("ConstantOfShape", "n", "huge")],
                *[node("ReduceMax", "huge", "most", keepdims=0), node("Add", "m most", "y")],
            ],
            [value("x", ["B", 2, SAMPLES])],
            [value("y", ["B", WIDTH])],
            {"W": MATRIX, "n": np.array([10**5, 10**5, 10**3])},
        ),
        {},
        r"node 'the_constantofshape' \(ConstantOfShape\) takes more memory than there is, 37252.9 GiB",
    ),
    "types that do not go together": (
        lambda folder: linear(kind=DOUBLE),
        {},
        "expected an ONNX file that onnxruntime runs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_awkward_file_ends_in_one_line_that_says_what_to_do(name, tmp_path, capfd):
    make, contract, message = REFUSED[name]
    with pytest.raises(InputError, match=rf"m\.onnx: .*{message}") as caught:
        embed(make(tmp_path), **contract)
    text = str(caught.value)
    assert len(text) < 300
    assert "\n" not in text
    assert "[ONNXRuntimeError]" not in text
    assert capfd.readouterr() == ("", "")


def test_twenty_awkward_files_and_more_are_tried():
    assert len(LOADS) + len(REFUSED) > 40


# What other rooms ask of a graph.


def normed():
    """Two batch normalisations, the second with its statistics in constant nodes, before a linear layer and softmax."""
    rng = np.random.default_rng(4)
    stored = {f"{name}1": rng.uniform(0.5, 2, 2).astype(np.float32) for name in "sbmv"}
    stored |= {f"{name}2": rng.uniform(0.5, 2, 2).astype(np.float32) for name in "sb"}
    later = [
        node("Constant", "", f"{name}2", value=numpy_helper.from_array(rng.uniform(0.5, 2, 2).astype(np.float32)))
        for name in "mv"
    ]
    norms = [
        helper.make_node("BatchNormalization", ["x", "s1", "b1", "m1", "v1"], ["h"], name="first"),
        helper.make_node("BatchNormalization", ["h", "s2", "b2", "m2", "v2"], ["k"], name="second"),
    ]
    rest = [node("Flatten", "k", "f"), node("Gemm", "f W c", "y"), node("Softmax", "y", "p")]
    stored |= {"W": MATRIX, "c": np.zeros(WIDTH, np.float32)}
    return file([*later, *norms, *rest], [value("x", ["B", 2, SAMPLES])], [value("p", ["B", WIDTH])], stored)


def test_weights_and_statistics_are_found_by_name():
    data = normed().SerializeToString()
    found = floating_weights(data)
    assert sorted(found) == sorted(["W", "c", "s1", "b1", "m1", "v1", "s2", "b2", "m2", "v2"])
    np.testing.assert_array_equal(found["W"], MATRIX)
    assert batch_norms(data) == [BatchNorm("first", "x", "m1", "v1"), BatchNorm("second", "h", "m2", "v2")]


def test_sizes_are_no_weights():
    stored = {"scales": np.array([1, 1, 2], np.float32), "W": MATRIX, "n": np.array([1, 2])}
    nodes = [node("Resize", "x  scales", "r"), node("Flatten", "r", "f"), node("MatMul", "f W", "y")]
    nodes[0].input[:] = ["x", "", "scales"]
    data = file(nodes, [value("x", ["B", 2, 16])], [value("y", ["B", WIDTH])], stored).SerializeToString()
    assert list(floating_weights(data)) == ["W"]


def test_other_weights_take_the_place_of_the_files_own():
    data, iq = normed().SerializeToString(), scenes()
    backbone = OnnxBackbone("m", data, "m.onnx", output="k", weights={"m1": np.zeros(2), "m2": np.ones(2)}, **NORMS)
    found, kept = backbone.embed(iq, 1.0, 1.0).reshape(5, 2, SAMPLES), floating_weights(data)
    first = norm(lay_out(iq, "channels"), kept["s1"], kept["b1"], np.zeros(2), kept["v1"])
    np.testing.assert_allclose(found, norm(first, kept["s2"], kept["b2"], np.ones(2), kept["v2"]), rtol=1e-4, atol=1e-5)
    for name, values in (("m3", np.zeros(2)), ("m1", np.zeros(3))):
        with pytest.raises(InputError, match=rf"m\.onnx: weights '{name}': expected shape"):
            OnnxBackbone("m", data, "m.onnx", weights={name: values})


NORMS = {"contract": Contract(pooling="mean")}


def norm(x, scale, bias, mean, variance):
    column = [each[:, None] for each in (scale, bias, mean, variance)]
    return column[0] * (x - column[2]) / np.sqrt(column[3] + 1e-5) + column[1]


def test_an_inner_tensor_is_evaluated_with_the_weights_as_they_are():
    iq, data = scenes(), normed().SerializeToString()
    kept = floating_weights(data)
    for mean in (kept["m1"], np.array([3.0, -1.0])):
        backbone = OnnxBackbone("m", data, "m.onnx", weights={"m1": mean})
        want = norm(lay_out(iq, "channels"), kept["s1"], kept["b1"], mean, kept["v1"])
        np.testing.assert_allclose(backbone.run_tensor("h", iq), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match=r"m\.onnx: output: no tensor 'q'"):
        backbone.run_tensor("q", iq)


def test_the_layer_before_a_classifiers_head_is_found():
    model = with_shapes(read_graph(normed().SerializeToString(), "m.onnx"))
    head = find_head(model, "p")
    assert (head.kind, head.classes, head.hidden.name) == ("softmax", WIDTH, "f")
    head = find_head(model, "y")
    assert (head.kind, head.classes, head.hidden.name) == ("linear", WIDTH, "f")
    assert find_head(model, "f") is None
    assert [(tensor.name, width) for tensor, width in candidates(model)] == [("p", 5), ("y", 5), ("f", 64)]


def test_a_projection_that_does_not_narrow_is_no_classifiers():
    wide = np.ones((2 * SAMPLES, 128), np.float32)
    assert find_head(with_shapes(linear(matrix=wide)), "y") is None
