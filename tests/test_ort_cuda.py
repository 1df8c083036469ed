"""The target ort-cuda: what leaves the GPU as it is, and what it becomes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from convt_onnx.inspection import inspect
from convt_onnx.targets import get_target
from convt_onnx.tuning.options import TuneOptions

from .graph.building import array, model, write


def transposed(attributes, x="float[2,3,7,5]", kernel=(3, 4), opset=17, dtype="float32"):
    text = f"g ({x} x) => ({x.split('[')[0]}[] y) {{ y = ConvTranspose <{attributes}> (x, w, b) }}"
    w, b = array(3, 4, *kernel).astype(dtype), array(4).astype(dtype)
    return model(text, opset=opset, w=w, b=b)


def away(proto, tmp_path, target="ort-cuda"):
    result = inspect(write(proto, tmp_path), [target])
    return [(o.reason.id, o.reason.detail) for o in result.off_device]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ("pads=[0,0,1,1]", ("CT570", "pads = [0, 0, 1, 1]")),
        ('strides=[2,2], auto_pad="SAME_UPPER"', ("CT571", "auto_pad = SAME_UPPER")),
        ('strides=[2,2], auto_pad="SAME_LOWER"', ("CT571", "auto_pad = SAME_LOWER")),
    ],
)
def test_names_what_leaves_the_gpu_and_keeps_it_there(optimized, tmp_path, attributes, reason):
    proto = transposed(attributes)
    assert away(proto, tmp_path) == [reason]
    assert away(proto, tmp_path, "ort-cpu") == []
    done = optimized(proto, "ort-cuda")
    assert away(done.after, tmp_path) == []
    assert any(f"({reason[1]}) in the original" in note for note in done.result.notes)
    assert set(done.ops) <= {"ConvTranspose", "Slice"}
    done.check()


def test_names_other_nodes_that_leave_the_gpu_and_keeps_them_there(optimized, tmp_path):
    text = """g (float[2,3,7] x, float[3,5] m, uint32[4] k) => (float[] y, float[] h, uint32[] n)
    { b = DequantizeLinear (q, s) y = ConvTranspose (x, w, b) h = Hardmax (m)
      [shift] n = BitShift <direction="LEFT"> (k, k) }"""
    q = np.array([3, -4, 500, 7], np.int32)
    proto = model(text, w=array(3, 4, 3), q=q, s=np.float32(0.01))
    result = inspect(write(proto, tmp_path), ["ort-cuda", "ort-cpu"])
    found = [(o.node, o.target, o.reason.id, o.reason.detail) for o in result.off_device]
    assert found == [
        ("b", "ort-cuda", "CT575", "q of type INT32"),
        ("h", "ort-cuda", "CT576", "Hardmax"),
        ("shift", "ort-cuda", "CT576", "BitShift"),
    ]
    done = optimized(proto, "ort-cuda")
    assert away(done.after, tmp_path) == []
    assert "h leaves the GPU: operator (Hardmax) in the original" in done.result.notes


def test_many_nodes_that_leave_the_gpu_are_counted(optimized):
    shifts = "".join(f'k{i + 1} = BitShift <direction="LEFT"> (k{i}, k0) ' for i in range(6))
    text = f"""g (float[2,3,7] x, uint32[4] k0) => (float[] y, uint32[] k6)
    {{ {shifts} y = ConvTranspose (x, w) }}"""
    proto = onnx.shape_inference.infer_shapes(model(text, w=array(3, 4, 3)))
    notes = [n for n in optimized(proto, "ort-cuda").result.notes if "leaves the GPU" in n]
    assert [n.split()[0] for n in notes] == ["k1", "k2", "k3", "k4", "2"]
    assert notes[-1] == "2 more: leaves the GPU: operator; `inspect` names them"


@pytest.mark.parametrize(
    "attributes",
    [
        "pads=[1,1,1,1]",
        'strides=[2,2], auto_pad="VALID"',
        "strides=[2,3], output_padding=[1,2]",
        "strides=[2,2], output_shape=[14,10]",
        "dilations=[2,1], strides=[1,2]",
    ],
)
def test_leaves_alone_what_stays_on_the_gpu(optimized, tmp_path, attributes):
    proto = transposed(attributes)
    assert away(proto, tmp_path) == []
    done = optimized(proto, "ort-cuda")
    assert away(done.after, tmp_path) == []
    done.check()


def test_a_crop_goes_behind_the_form_that_takes_no_such_pads_alone(optimized):
    proto = transposed("strides=[2,2], pads=[0,0,1,1]", x="float[N,3,H,W]")
    assert optimized(proto, "ort-cuda").ops == ["ConvTranspose", "Slice"]
    phases = optimized(proto, "ort-cuda", forms={"all": "phases"})
    assert phases.ops.count("Slice") == 1
    assert "ConvTranspose" not in phases.ops


@pytest.mark.parametrize(("opset", "own_type"), [(17, False), (22, True)])
def test_bfloat16_convolutions_need_opset_22(optimized, tmp_path, opset, own_type):
    text = "strides=[2,2], pads=[1,1,1,1]"
    proto = transposed(text, x="bfloat16[2,3,7,5]", opset=opset, dtype="bfloat16")
    assert away(proto, tmp_path)[0][0] == "CT572"
    kept = optimized(proto, "ort-cuda", forms={"all": "keep"})
    assert kept.ops == ["Cast", "ConvTranspose", "Cast"]
    phases = optimized(proto, "ort-cuda", forms={"all": "phases"})
    assert ("Cast" in phases.ops) != own_type
    # CUDA's DepthToSpace does not take the type.
    assert ("DepthToSpace" in phases.ops) != own_type
    assert phases.result.verification.arithmetic == "float32 twin"


def test_same_auto_pad_with_an_open_output_shape_leaves_the_operator(optimized):
    proto = transposed(
        'strides=[2,2], auto_pad="SAME_UPPER", output_shape=[14,9]', x="float[2,3,H,W]"
    )
    done = optimized(proto, "ort-cuda")
    assert "ConvTranspose" not in done.ops


def test_the_table_says_what_conv_takes_by_opset():
    target = get_target("ort-cuda")
    assert target.takes(ir.DataType.BFLOAT16, 22, native=False)
    assert not target.takes(ir.DataType.BFLOAT16, 21, native=False)
    assert not target.takes(ir.DataType.BFLOAT16, 22, native=True)
    assert target.takes(None, 1, native=True)


def test_a_weight_made_at_run_time_is_not_packed_for_the_plugin(optimized):
    text = "g (float[2,16,7,5] x, float[16,8,3,3] w) => (float[] y) { y = ConvTranspose (x, w) }"
    found = optimized(model(text), "ort-cuda", plugin=True, tune=TuneOptions(enabled=False))
    assert list(found.forms.values()) == ["keep"]
    assert list(found.reasons.values()) == ["CT547"]
