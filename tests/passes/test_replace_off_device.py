from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx.passes.replace_off_device import ReplaceOffDevice

from ..graph.building import model, op_types, with_function
from ..verify.judging import run

DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64}


def hardmax(axis=None, dtype="float", opset=17, shape="2,3,4,5"):
    attributes = "" if axis is None else f"<axis={axis}>"
    sizes = ",".join("abcdef"[: len(shape.split(","))])
    text = f"g ({dtype}[{shape}] x) => ({dtype}[{sizes}] y) {{ y = Hardmax {attributes} (x) }}"
    return model(text, opset=opset)


def bit_shift(direction, dtype="uint32", opset=17, count=None, x="2,3", n="2,3"):
    inputs = f"{dtype}[{x}] x" + ("" if count is not None else f", {dtype}[{n}] n")
    text = f'g ({inputs}) => ({dtype}[a,b] y) {{ y = BitShift <direction="{direction}"> (x, n) }}'
    return model(text, opset=opset, **({} if count is None else {"n": count}))


def applied(apply, proto, **options):
    """The model on ort-cuda; no node is left that the CUDA provider lacks."""
    found = apply(proto, ReplaceOffDevice, target="ort-cuda", **options)
    assert len(found.changes) == 1, found.context.misses
    assert not {"Hardmax", "BitShift"} & set(op_types(found.after))
    onnx.checker.check_model(found.after, full_check=True)
    return found


def assert_equal(apply, proto, **feeds):
    """Bit by bit what ONNX Runtime makes of the original."""
    wanted = run(proto, feeds)["y"]
    got = run(applied(apply, proto).after, feeds)["y"]
    assert wanted.any()
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def ties(*shape, dtype=np.float32):
    """Few values, so that most rows have several maxima, and two infinite ones."""
    values = np.random.default_rng(shape).integers(-2, 3, shape).astype(dtype)
    values.flat[1], values.flat[-1] = np.inf, -np.inf
    return values


class TestHardmax:
    @pytest.mark.parametrize("opset", [13, 17, 18])
    @pytest.mark.parametrize("axis", [None, 0, 1, -2, 3])
    def test_along_an_axis(self, apply, axis, opset):
        assert_equal(apply, hardmax(axis, opset=opset), x=ties(2, 3, 4, 5))

    @pytest.mark.parametrize("opset", [11, 12])
    @pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
    def test_of_all_axes_from_one_on_in_old_opsets(self, apply, axis, opset):
        assert_equal(apply, hardmax(axis, opset=opset), x=ties(2, 3, 4, 5))

    def test_of_open_sizes(self, apply):
        assert_equal(apply, hardmax(1, opset=13, shape="N,M,K"), x=ties(3, 2, 7))

    @pytest.mark.parametrize("axis", [1, 2, -2])
    def test_of_an_open_batch_in_old_opsets(self, apply, axis):
        """Also of none: the Reshape copies a size for each 0."""
        proto = hardmax(axis, opset=12, shape="N,2,7,3")
        assert_equal(apply, proto, x=ties(3, 2, 7, 3))
        after = applied(apply, proto).after
        for done in (proto, after):
            y = run(done, {"x": np.zeros((0, 2, 7, 3), np.float32)})["y"]
            assert y.shape == (0, 2, 7, 3)

    @pytest.mark.parametrize("opset", [11, 13])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_in_every_type_that_the_provider_has(self, apply, dtype, opset):
        """The CPU provider has float32 alone, so the oracle is NumPy's argmax."""
        x = ties(3, 7, dtype=DTYPES[dtype])
        proto = hardmax(1, dtype, opset, shape="3,7")
        wanted = np.eye(7)[x.argmax(axis=1)]
        got = run(applied(apply, proto).after, {"x": x})["y"]
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, wanted)

    def test_in_bfloat16_through_float32(self, apply):
        after = applied(apply, hardmax(1, "bfloat16", 13, shape="3,7")).after
        kinds = [n.attribute[0].i for n in after.graph.node if n.op_type == "Cast"]
        assert kinds == [getattr(onnx.TensorProto, k) for k in ("FLOAT", "INT32", "BFLOAT16")]

    @pytest.mark.parametrize("where", [0, 1, 17, 39])
    def test_a_row_with_nan(self, apply, where):
        """What is compared with is ReduceMax, whose answer depends on where the NaN is."""
        x = ties(4, 40)
        x[1, where] = np.nan
        assert_equal(apply, hardmax(-1, opset=13, shape="4,40"), x=x)

    def test_of_rows_without_elements_or_no_rows(self, apply):
        after = applied(apply, hardmax(-1, opset=13, shape="N,M")).after
        for shape in ((0, 3), (3, 0)):
            assert run(after, {"x": np.zeros(shape, np.float32)})["y"].shape == shape

    def test_in_a_branch(self, apply):
        text = """g (bool c, float[3,7] x) => (float[a,b] y) { y = If (c) <
            then_branch = t () => (float[d,e] h) { h = Hardmax <axis=0> (x) },
            else_branch = e () => (float[f,g] n) { n = Neg (x) }
        > }"""
        # A branch reads x of the graph around it, whose type is known there.
        proto = model(text)
        for taken in (True, False):
            assert_equal(apply, proto, c=np.array(taken), x=ties(3, 7))

    def test_keeps_the_name_and_readers_of_its_output(self, apply):
        text = """g (float[3,7] x) => (float[3,7] y, float[3,7] h)
        { h = Hardmax (x) y = Mul (h, x) }"""
        after = applied(apply, model(text)).after
        assert [o.name for o in after.graph.output] == ["y", "h"]
        x = ties(3, 7)
        np.testing.assert_array_equal(run(after, {"x": x})["h"], run(model(text), {"x": x})["h"])

    def test_in_a_model_that_lists_initializers_as_inputs(self, apply):
        proto = hardmax(1, opset=11)
        proto.ir_version = 3
        assert_equal(apply, proto, x=ties(2, 3, 4, 5))


class TestBitShift:
    @pytest.mark.parametrize("opset", [11, 17])
    @pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
    @pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
    def test_by_every_count(self, apply, dtype, direction, opset):
        bits = np.iinfo(dtype).bits
        counts = np.array([*range(bits), bits, bits + 3, np.iinfo(dtype).max], dtype)[None]
        x = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, counts.shape, dtype, True)
        proto = bit_shift(direction, np.dtype(dtype).name, opset, x="1,N", n="1,N")
        wanted = [int(v) << min(int(c), bits) for v, c in zip(x[0], counts[0], strict=True)]
        if direction == "RIGHT":
            wanted = [int(v) >> min(int(c), bits) for v, c in zip(x[0], counts[0], strict=True)]
        got = run(applied(apply, proto).after, {"x": x, "n": counts})["y"]
        assert got.dtype == dtype
        assert got[0].tolist() == [w % 2**bits for w in wanted]
        inside = {"x": x[:, :bits], "n": counts[:, :bits]}
        np.testing.assert_array_equal(got[:, :bits], run(proto, inside)["y"])

    @pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
    def test_in_uint16_which_the_cpu_provider_lacks(self, apply, direction):
        x, n = np.array([[1, 3, 0xFFFF]], np.uint16), np.array([[15, 4, 16]], np.uint16)
        proto = bit_shift(direction, "uint16", x="1,3", n="1,3")
        wanted = {"LEFT": [0x8000, 48, 0], "RIGHT": [0, 0, 0]}[direction]
        assert run(applied(apply, proto).after, {"x": x, "n": n})["y"].tolist() == [wanted]

    def test_that_broadcasts_by_a_constant(self, apply):
        proto = bit_shift("LEFT", count=np.array([0, 5, 31], np.uint32))
        assert_equal(apply, proto, x=np.array([[1, 2, 3], [9, 8, 7]], np.uint32))


NOT = {
    "another domain": model(
        "g (float[3,7] x) => (float[3,7] y) { y = mine.Hardmax (x) }", domains='"mine" : 1'
    ),
    "another operator": model("g (float[3,7] x) => (float[a,b] y) { y = Softmax (x) }"),
}
TOLD = {
    "an opset without CumSum": (hardmax(1, opset=10), "opset 10, CumSum needs 11"),
    "a size behind the first that may be 0": (
        hardmax(1, opset=11, shape="2,3,N"),
        "opset 11, a size that may be 0",
    ),
    "a size that is 0": (hardmax(1, opset=12, shape="2,3,0"), "opset 12, a size that may be 0"),
    "a batch that is flattened away": (
        hardmax(-3, opset=12, shape="N,3,4"),
        "opset 12, a size that may be 0",
    ),
    "a shape that is not known": (
        model("g (float[] x) => (float[] y) { y = Hardmax <axis=1> (x) }", opset=11),
        "opset 11, a size that may be 0",
    ),
    "a type that is not known": (
        model("g (float[3,7] x) => (float[a,b] y) { h = Relu (x) y = Hardmax (h) }"),
        "its element type is not known",
    ),
    "a shift of a type that is not known": (
        model(
            'g (uint32[3] x) => (uint32[a] y){ h = Neg (x) y = BitShift <direction="LEFT"> (h, x) }'
        ),
        "its element type is not known",
    ),
    "a function": (
        with_function(
            "g (float[3,7] x) => (float[a,b] y) { y = f.hard (x) }",
            "hard (x) => (y) { y = Hardmax (x) }",
        ),
        "in function hard",
    ),
}


@pytest.mark.parametrize("target", ["ort-cpu", "portable", "tensorrt-rtx"])
@pytest.mark.parametrize("proto", [hardmax(), bit_shift("LEFT")], ids=["Hardmax", "BitShift"])
def test_targets_that_have_them_keep_them(apply, proto, target):
    assert apply(proto, ReplaceOffDevice, target=target).changes == ()


@pytest.mark.parametrize("proto", NOT.values(), ids=NOT)
def test_others_stay(apply, proto):
    found = apply(proto, ReplaceOffDevice, target="ort-cuda")
    assert (found.changes, found.context.misses) == ((), [])


@pytest.mark.parametrize(("proto", "why"), TOLD.values(), ids=TOLD)
def test_what_cannot_be_written_is_told(apply, proto, why):
    found = apply(proto, ReplaceOffDevice, target="ort-cuda", declare=False)
    assert found.changes == ()
    ((reason, detail),) = [(m.reason.id, m.reason.detail) for m in found.context.misses]
    assert reason == "CT576"
    assert detail.endswith(f": {why}")
