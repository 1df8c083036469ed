"""What each exporter writes: valid, equal to torch at every size, whole, and without traces."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from convt_onnx.errors import ModelError
from convt_onnx.models import build, export, get, names, writing

torch = pytest.importorskip("torch", reason="the decoders are torch modules")
pytest.importorskip("onnxscript", reason="torch exports with it")

OTHER_SIZES = {
    "codec": {"frames": 9},
    "dcgan": {},
    "fcn8s": {"height": 51, "width": 77},
    "fsrcnn": {"height": 7, "width": 16},
    "hifigan": {"frames": 21},
    "istft": {"frames": 7},
    "mask_decoder": {"height": 5, "width": 9},
    "unet": {"height": 50, "width": 31},
    "unet3d": {"depth": 3, "height": 2, "width": 4},
}
UPSAMPLERS = {
    "codec": [("4", 2, 16), ("8", 4, 1), ("6", 3, 1)],
    "dcgan": [("4x4", 1, 1), *[("4x4", 2, 1)] * 4],
    "fcn8s": [("4x4", 2, 21), ("4x4", 2, 21), ("16x16", 8, 21)],
    "fsrcnn": [("9x9", 3, 1)],
    "hifigan": [("16", 8, 1), ("4", 2, 1)],
    "istft": [("64", 16, 1), ("64", 16, 1)],
    "mask_decoder": [("2x2", 2, 1), ("2x2", 2, 1)],
    "stylegan2": [("3x3", 2, 2), ("4x4", 2, 3)],
    "unet": [("2x2", 2, 1)] * 3,
    "unet3d": [("2x2x2", 2, 1), ("3x3x3", 2, 1), ("2x2x2", 2, 1)],
}
DYNAMIC = [name for name in names() if get(name).dynamic]
BY_DYNAMO = [
    # Its symbolic sizes take the exporter long; the other exporter covers them.
    pytest.param(name, marks=pytest.mark.long) if name == "fcn8s" else name
    for name in DYNAMIC
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Exports once per set of arguments."""

    @cache
    def once(name, **options):
        return export(name, tmp_path_factory.mktemp(name) / f"{name}.onnx", **options)

    return once


def assert_equals_torch(path, name, size="tiny", *, tolerance=1e-4, **changes):
    """Runs the file and the module at the same inputs; `changes` resize them."""
    built = build(name, {**get(name).size(size), **changes})
    with torch.no_grad():
        expected = built.module(*built.inputs.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    types = {item.name: item.type for item in session.get_inputs()}
    half = "tensor(float16)" in types.values()
    feed = {
        key: tensor.numpy().astype(np.float16 if half else np.float32)
        for key, tensor in built.inputs.items()
    }
    assert list(types) == list(feed)
    for made, wanted in zip(session.run(list(built.outputs), feed), expected, strict=True):
        assert made.shape == tuple(wanted.shape)
        scale = float(wanted.std())
        np.testing.assert_allclose(made, wanted.numpy(), rtol=tolerance, atol=tolerance * scale)


def check(path):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("name", BY_DYNAMO)
def test_dynamo_leaves_sizes_open(exported, name):
    path = exported(name, dynamic=True)
    check(path)
    assert_equals_torch(path, name)
    assert_equals_torch(path, name, batch=2, **OTHER_SIZES[name])


@pytest.mark.parametrize("name", DYNAMIC)
def test_torchscript_leaves_sizes_open(exported, name):
    path = exported(name, dynamic=True, exporter="torchscript")
    check(path)
    assert_equals_torch(path, name)
    assert_equals_torch(path, name, batch=2, **OTHER_SIZES[name])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("name", names())
def test_torchscript_freezes_sizes(exported, name, opset):
    path = exported(name, exporter="torchscript", opset=opset)
    check(path)
    assert_equals_torch(path, name)
    assert {item.domain: item.version for item in onnx.load(path).opset_import}[""] == opset


@pytest.mark.parametrize("name", ["fcn8s", "stylegan2", "istft"])
def test_dynamo_freezes_sizes(exported, name):
    path = exported(name)
    check(path)
    assert_equals_torch(path, name)


@pytest.mark.parametrize("name", names())
def test_a_batch_of_two_can_be_frozen(tmp_path, name):
    size = {**get(name).size("tiny"), "batch": 2}
    path = export(name, tmp_path / "two.onnx", size, exporter="torchscript")
    assert_equals_torch(path, name, batch=2)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("codec", "tiny-encodec"),
        ("fcn8s", "tiny-32s"),
        ("fsrcnn", "tiny-x2"),
        ("fsrcnn", "tiny-x4"),
    ],
)
def test_variants_export_too(tmp_path, name, size):
    path = export(name, tmp_path / "x.onnx", size, True, exporter="torchscript")
    check(path)
    assert_equals_torch(path, name, size)
    assert_equals_torch(path, name, size, batch=2, **OTHER_SIZES[name])


@pytest.mark.parametrize("name", names())
def test_half_precision(exported, name):
    path = exported(name, exporter="torchscript", dtype="float16")
    check(path)
    model = onnx.load(path)
    types = {item.type.tensor_type.elem_type for item in (*model.graph.input, *model.graph.output)}
    assert types == {onnx.TensorProto.FLOAT16}
    assert_equals_torch(path, name, tolerance=0.03)


@pytest.mark.parametrize("name", names())
def test_the_upsamplers_of_the_paper_are_there(exported, name):
    found = []
    for node in onnx.load(exported(name, exporter="torchscript")).graph.node:
        if node.op_type == "ConvTranspose":
            values = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
            kernel = "x".join(str(k) for k in values["kernel_shape"])
            found.append((kernel, values["strides"][0], values["group"]))
    assert sorted(found) == sorted(UPSAMPLERS[name])


def test_output_padding_reaches_the_file(exported):
    for name, expected in (("fsrcnn", [2, 2]), ("unet3d", [1, 1, 1])):
        nodes = onnx.load(exported(name, exporter="torchscript")).graph.node
        paddings = [
            list(item.ints)
            for node in nodes
            for item in node.attribute
            if item.name == "output_padding"
        ]
        assert expected in paddings


def test_batch_norm_follows_where_the_exporter_leaves_it(exported):
    nodes = onnx.load(exported("dcgan", exporter="torchscript")).graph.node
    kinds = [node.op_type for node in nodes]
    assert kinds.count("BatchNormalization") == 4
    assert kinds[kinds.index("ConvTranspose") + 1] == "BatchNormalization"


def test_dynamo_refuses_an_opset_that_it_misses(tmp_path):
    with pytest.raises(ModelError, match="opset 17") as caught:
        export("codec", tmp_path / "x.onnx", opset=17)
    assert "torchscript" in caught.value.help
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_the_same_call_writes_the_same_bytes(exported, tmp_path, exporter):
    again = export("istft", tmp_path / "again.onnx", exporter=exporter)
    options = {} if exporter == "dynamo" else {"exporter": exporter}
    assert again.read_bytes() == exported("istft", **options).read_bytes()


def test_seeds_differ(exported, tmp_path):
    other = export("dcgan", tmp_path / "x.onnx", exporter="torchscript", seed=1)
    assert other.read_bytes() != exported("dcgan", exporter="torchscript").read_bytes()


def test_no_file_tells_of_the_machine(exported):
    here = str(Path(__file__).parent).encode()
    for options in ({}, {"exporter": "torchscript"}):
        path = exported("stylegan2", **options)
        model = onnx.load(path)
        values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
        for part in (model, model.graph, *model.graph.node, *values, *model.graph.initializer):
            assert not part.doc_string
            assert not part.metadata_props
        content = path.read_bytes()
        assert not any(word in content for word in (here, b".py", b"site-packages", b"stack_trace"))


def test_strip_reaches_branches_and_functions():
    x = ir.Value(name="x", doc_string="about x", metadata_props={"a": "b"})
    inner = ir.Node("", "Identity", [x], doc_string="inner", metadata_props={"a": "b"})
    branch = ir.Graph([], inner.outputs, nodes=[inner], name="branch", doc_string="branch")
    choice = ir.Node("", "If", [x], [ir.AttrGraph("then_branch", branch)], doc_string="choice")
    graph = ir.Graph([x], choice.outputs, nodes=[choice], opset_imports={"": 18})
    y = ir.Value(name="y")
    helper = ir.Node("", "Relu", [y], doc_string="helper")
    body = ir.Graph([y], helper.outputs, nodes=[helper], opset_imports={"": 18})
    function = ir.Function("home", "relu", "", graph=body, attributes=[])
    model = ir.Model(graph, ir_version=10, functions=[function], doc_string="model")
    writing.strip(model)
    for part in (model, x, inner, branch, choice, function, helper):
        assert not part.doc_string
        assert not part.metadata_props


def test_a_failed_write_keeps_the_old_file(monkeypatch, tmp_path):
    path = tmp_path / "x.onnx"
    path.write_bytes(b"old")

    def fail(_model, draft, **_):
        draft.write_bytes(b"half")
        raise OSError("no space")

    monkeypatch.setattr(writing.ir, "save", fail)
    with pytest.raises(OSError, match="no space"):
        export("istft", path, exporter="torchscript")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_large_weights_get_a_file_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(writing, "SINGLE_FILE_LIMIT", 10_000)
    path = export("dcgan", tmp_path / "x", exporter="torchscript")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["x", "x.data"]
    assert path.stat().st_size < 10_000
    assert_equals_torch(path, "dcgan")


@pytest.mark.long
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", names())
def test_the_full_size_exports(tmp_path, name, exporter):
    path = export(name, tmp_path / "full.onnx", "full", exporter=exporter)
    assert_equals_torch(path, name, "full", tolerance=1e-3)
