"""What TensorRT refuses or gets wrong, before and after optimize --target tensorrt-rtx."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from convt_onnx import VerifyOptions
from convt_onnx.engine.network import parse
from convt_onnx.errors import ModelError
from convt_onnx.targets import get_target

from ..graph.building import array, model, op_types, with_function, write
from ..verify.judging import random_feeds, run
from .simulating import assert_means, builds, means, node_types, optimised, problems

X = "float[2,4,5,7] x"


def conv_transpose(attributes="", x=X, inputs="x, w", **arrays):
    arrays = {"w": array(4, 3, 3, 4)} | arrays
    body = f"y = ConvTranspose <{attributes}> ({inputs})" if attributes else ""
    return model(f"g ({x}) => (float[] y) {{ {body} }}", **arrays)


# Attributes, and what the checker finds in the network of the original.
WRONG = {
    "odd-output-shape": ("strides=[2,2], output_shape=[10,15]", "crops [0, 0] rows at the begin"),
    "same-upper-and-output-padding": (
        'strides=[2,3], auto_pad="SAME_UPPER", output_padding=[1,1]',
        "rows",
    ),
    "same-lower-and-output-shape": (
        'strides=[2,3], auto_pad="SAME_LOWER", output_shape=[9,20]',
        "rows",
    ),
    "valid-and-output-padding": (
        'strides=[2,2], auto_pad="VALID", output_padding=[1,1]',
        "makes [11, 16] rows, not [12, 17]",
    ),
}


@pytest.mark.parametrize("attributes, problem", WRONG.values(), ids=WRONG)
def test_silently_wrong_originals_are_flagged_and_put_right(rtx, tmp_path, attributes, problem):
    proto = conv_transpose(attributes)
    feeds = random_feeds(proto)
    source = write(proto, tmp_path)
    assert any(problem in found for found in problems(rtx, source))
    with pytest.raises(AssertionError):
        assert_means(rtx, source, proto, feeds)
    out, _ = optimised(proto, tmp_path)
    assert problems(rtx, out) == []
    assert_means(rtx, out, proto, feeds)
    assert builds(rtx, out)


def test_a_computed_bias_reaches_the_rows_of_output_padding(rtx, tmp_path):
    proto = conv_transpose(
        "strides=[2,3], output_padding=[1,2]", x=f"{X}, float[3] b", inputs="x, w, b"
    )
    feeds = random_feeds(proto)
    source = write(proto, tmp_path)
    assert problems(rtx, source) == ["leaves the bias out of the rows that output_padding adds"]
    wrong = np.abs(means(rtx, source, feeds)["y"] - run(proto, feeds)["y"])
    assert wrong[..., :-1, :-2].max() < 1e-5 < wrong.max()
    out, _ = optimised(proto, tmp_path)
    assert node_types(out) == ["ConvTranspose", "Reshape", "Add"]
    assert_means(rtx, out, proto, feeds)


def test_a_constant_bias_stays_in_the_node(rtx, tmp_path):
    proto = conv_transpose("strides=[2,3], output_padding=[1,2]", inputs="x, w, b", b=array(3))
    out, _ = optimised(proto, tmp_path)
    assert node_types(out) == ["ConvTranspose"]
    assert_means(rtx, out, proto, random_feeds(proto))


@pytest.mark.parametrize("weight", ["constant", "run time"])
@pytest.mark.parametrize("axes", [((2, 2), (2, 2)), ((1, 2), (2, 1))])
def test_a_stride_with_a_dilation_builds(rtx, tmp_path, axes, weight):
    strides, dilations = axes
    attributes = f"strides={list(strides)}, dilations={list(dilations)}, pads=[1,2,0,1]"
    if weight == "constant":
        proto = conv_transpose(attributes)
    else:
        text = f"""g ({X}, float[4,3,3,4] w) => (float[] y)
        {{ y = ConvTranspose <{attributes}> (x, w) }}"""
        proto = model(text)
    feeds = random_feeds(proto)
    assert not builds(rtx, write(proto, tmp_path))
    out, result = optimised(proto, tmp_path)
    assert result.decisions[0].reason.id == "CT203"
    assert_means(rtx, out, proto, feeds)
    assert builds(rtx, out)


def test_a_dilation_on_a_unit_axis_is_no_dilation(rtx, tmp_path):
    proto = conv_transpose("strides=[2,2], dilations=[2,1]", w=array(4, 3, 1, 3))
    assert not builds(rtx, write(proto, tmp_path))
    out, result = optimised(proto, tmp_path)
    assert (result.decisions[0].form, node_types(out)) == ("keep", ["ConvTranspose"])
    assert builds(rtx, out)


class TestBfloat16:
    def proto(self, group=1):
        w = array(4, 3, 3, 4).astype(ml_dtypes.bfloat16)
        text = f"""g (bfloat16[2,4,5,7] x) => (bfloat16[2,{3 * group},11,16] y)
        {{ y = ConvTranspose <strides=[2,2], group={group}> (x, w) }}"""
        return model(text, opset=22, w=w)

    @pytest.mark.parametrize("group", [1, 2, 4])
    def test_it_becomes_convolutions_that_build(self, rtx, tmp_path, group):
        proto = self.proto(group)
        assert not builds(rtx, write(proto, tmp_path))
        out, _ = optimised(proto, tmp_path)
        assert "ConvTranspose" not in node_types(out)
        assert "Cast" not in node_types(out)
        assert builds(rtx, out)

    def test_old_versions_compute_depthwise_ones_in_float32(self, rtx, tmp_path):
        out, _ = optimised(self.proto(4), tmp_path, "tensorrt-rtx-1.4")
        assert node_types(out).count("Cast") == 2
        assert builds(rtx, out)


class TestOpenSizes:
    @pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER"])
    def test_output_shape_becomes_a_computed_crop(self, rtx, tmp_path, auto_pad):
        proto = conv_transpose(
            f'strides=[2,2], auto_pad="{auto_pad}", output_shape=[10,15]', x="float[2,4,H,W] x"
        )
        out, _ = optimised(proto, tmp_path)
        for sizes in ((5, 7), (6, 8), (5, 8)):
            feeds = {"x": array(2, 4, *sizes)}
            assert_means(rtx, out, proto, feeds)
        assert builds(rtx, out, {"x": (2, 4, 5, 7)})

    def test_the_channel_count_comes_from_the_weight(self, rtx, tmp_path):
        proto = conv_transpose("strides=[2,2]", x="float[N,C,H,W] x")
        with pytest.raises(ModelError, match="refuses the model"):
            parse(rtx, write(proto, tmp_path))
        checks = VerifyOptions(input_shapes={"x": (2, 4, 5, 7)})
        out, _ = optimised(proto, tmp_path, checks=checks)
        assert onnx.load(out).graph.input == proto.graph.input
        assert_means(rtx, out, proto, {"x": array(2, 4, 5, 7)})
        assert builds(rtx, out, {"x": (2, 4, 5, 7)})


def test_output_shape_on_one_axis_is_read(rtx, tmp_path):
    text = "g (float[2,4,9] x) => (float[] y) { y = ConvTranspose <strides=[2], OS> (x, w) }"
    proto = model(text.replace("OS", "output_shape=[17]"), w=array(4, 3, 4))
    with pytest.raises(ModelError) as error:
        parse(rtx, write(proto, tmp_path))
    assert "ConvTranspose" in error.value.where
    out, _ = optimised(proto, tmp_path)
    assert_means(rtx, out, proto, random_feeds(proto))


def test_attributes_of_a_call_reach_the_body(rtx, tmp_path):
    proto = with_function(
        "g (float[2,4,5,7] x) => (float[] y) { y = f.up <step=[2,3]> (x, w) }",
        "up <step> (x, w) => (y) { y = ConvTranspose <strides: ints = @step> (x, w) }",
        w=array(4, 3, 3, 4),
    )
    feeds = random_feeds(proto)
    shape = means(rtx, write(proto, tmp_path), feeds)["y"].shape
    assert shape == (2, 3, 7, 10)  # strides of 1
    out, _ = optimised(proto, tmp_path)
    assert_means(rtx, out, proto, feeds)


def test_four_spatial_axes_are_left_alone(tmp_path):
    proto = model(
        "g (float[1,2,3,3,3,3] x) => (float[] y) { y = ConvTranspose (x, w) }",
        w=array(2, 3, 2, 2, 2, 2),
    )
    _, result = optimised(proto, tmp_path, verify=False)
    (decision,) = result.decisions
    assert (decision.form, decision.reason.id) == (None, "CT108")
    assert {c.refusal.id for c in decision.candidates} == {"CT512"}


def test_old_versions_get_no_grouped_3d_deconvolution(rtx, tmp_path):
    text = """g (float[1,4,3,4,3] x) => (float[] y)
    { y = ConvTranspose <strides=[2,2,2], group=2> (x, w) }"""
    proto = model(text, w=array(4, 3, 2, 3, 2))
    out, _ = optimised(proto, tmp_path, "tensorrt-rtx-1.4")
    assert "ConvTranspose" not in node_types(out)
    assert_means(rtx, out, proto, random_feeds(proto))
    kept, _ = optimised(proto, tmp_path, "tensorrt-rtx")
    assert node_types(kept) == ["ConvTranspose"]


def test_the_branches_of_an_if_are_computed(rtx, tmp_path):
    text = f"""g (bool c, {X}) => (float[] y) {{
        y = If (c) <
            then_branch = t () => (float[] a) {{ a = ConvTranspose <strides=[2,2]> (x, w) }},
            else_branch = e () => (float[] b)
            {{ b = ConvTranspose <strides=[2,2], dilations=[2,1], pads=[2,0,0,0]> (x, w) }}
        >
    }}"""
    proto = model(text, w=array(4, 3, 3, 4))
    out, _ = optimised(proto, tmp_path, verify=False)
    for value in (True, False):
        feeds = {"c": np.array(value), "x": array(2, 4, 5, 7)}
        assert_means(rtx, out, proto, feeds)
    assert builds(rtx, out)
    assert op_types(onnx.load(out)).count("If") == 1


def test_both_targets_know_the_same():
    rtx, full = get_target("tensorrt-rtx"), get_target("tensorrt")
    names = [f for f in rtx.__slots__ if f not in ("name", "summary")]
    assert [getattr(rtx, n) for n in names] == [getattr(full, n) for n in names]


def test_rows_of_output_padding_alone(rtx, tmp_path):
    attributes = "strides=[5], pads=[2,1], output_padding=[4]"
    arrays = {"w": array(4, 3, 1), "b": array(3)}
    proto = conv_transpose(attributes, "float[2,4,1] x", "x, w, b", **arrays)
    with pytest.raises(ModelError, match="refuses the model"):
        parse(rtx, write(proto, tmp_path))
    out, _ = optimised(proto, tmp_path)
    assert "ConvTranspose" not in op_types(onnx.load(out))
    assert_means(rtx, out, proto, random_feeds(proto))
    assert builds(rtx, out)
