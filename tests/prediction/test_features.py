"""What is counted, against counts done by hand."""

from __future__ import annotations

import platform

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

from convt_onnx.decide import setting_for
from convt_onnx.graph.node import find_nodes, read_node
from convt_onnx.prediction.features import features, node_features
from convt_onnx.prediction.vectors import AVX2, AVX512, vectors_here
from convt_onnx.targets import get_target

from ..graph.building import array, model

CPU = get_target("ort-cpu")
X86 = platform.machine() in ("x86_64", "AMD64")


def counted(text, vectors=AVX2, **arrays):
    return features(ir.from_proto(model(text, **arrays)), vectors)


def test_a_transposed_convolution_is_a_product_and_columns():
    counts = counted(
        """g (float[2,6,5,7] x) => (float[A,B,C,D] y) {
          y = ConvTranspose <group=2, strides=[2,2]> (x, w) }""",
        w=array(6, 4, 3, 2),
    )
    rows, positions, depth, times = 4 * 3 * 2, 5 * 7, 3, 2 * 2
    padded = 48
    assert counts == {
        "runs": 1,
        "calls": 1,
        "streamed": 0,
        "gemm_macs": times * rows * padded * depth,
        "gemm_passes": times * 4 * padded * depth,
        "gemm_packed": times * depth * padded,
        "gemm_written": times * rows * padded,
        "gemm_calls": times,
        "spread": 0,
        "col2im_2d": times * rows * positions,
        "col2im_2d_rows": times * rows * 5,
        "col2im_2d_strided": times * rows * positions,
        "col2im_lines": times * rows * positions * 2 // 16,
    }


def test_a_convolution_that_stays_in_its_layout():
    counts = counted(
        "g (float[1,6,20] x) => (float[A,B,C] y) { y = Conv <group=2> (x, w) }", w=array(4, 3, 5)
    )
    assert counts["gemm_macs"] == 2 * 2 * 16 * 15
    assert counts["im2col_1d"] == 2 * 15 * 16
    assert "blocked_macs" not in counts


@pytest.mark.parametrize(
    ("text", "weight", "times"),
    [
        ("g (float[2,6,5,7] x) => (float[A,B,C,D] y) { y = Conv (x, w) }", (4, 6, 3, 3), 1),
        ("g (float[1,10,5,7] x) => (float[A,B,C,D] y) { y = Conv (x, w) }", (4, 10, 3, 3), 0),
        ("g (float[1,10,90,70] x) => (float[A,B,C,D] y) { y = Conv (x, w) }", (4, 10, 3, 3), 1),
        ("g (float[1,16,5,7] x) => (float[A,B,C,D] y) { y = Conv (x, w) }", (8, 16, 3, 3), 1),
        (
            "g (float[2,12,90,70] x) => (float[A,B,C,D] y) { y = ConvTranspose <group=3> (x, w) }",
            (12, 4, 3, 3),
            2 * 3,
        ),
        ("g (float[2,3,64] x) => (float[A,B,C] y) { y = MatMul (w, x) }", (2, 5, 3), 1),
    ],
)
def test_how_often_work_is_spread_over_threads(text, weight, times):
    assert counted(text, w=array(*weight))["spread"] == times


def test_a_product_needs_no_columns():
    text = "g (float[1,6,4,5] x) => (float[A,B,C,D] y) { y = Conv <group=2> (x, w) }"
    counts = counted(text, w=array(4, 3, 1, 1))
    assert not any(name.startswith("im2col") for name in counts)


def test_columns_without_a_stride_are_added_in_runs():
    text = """g (float[1,6,5,7] x) => (float[A,B,C,D] y) {
      y = ConvTranspose <strides=[2,1]> (x, w) }"""
    counts = counted(text, w=array(6, 4, 3, 2))
    assert counts["col2im_2d_rows"] == 4 * 3 * 2 * 5
    assert "col2im_2d_strided" not in counts


def conv_of(channels, group):
    return (
        f"g (float[1,{channels},9,8] x) => (float[A,B,C,D] y) {{ y = Conv <group={group}> (x, w) }}"
    )


BLOCKED = [
    # Input channels, groups, weight, and what is counted in blocks of 8 and of 16.
    (16, 1, (24, 16, 3, 3), "blocked_macs", "blocked_macs"),
    (3, 1, (24, 3, 3, 3), "blocked_macs", "blocked_macs"),
    (12, 1, (24, 12, 3, 3), "blocked_macs", "blocked_macs"),
    (13, 1, (12, 13, 3, 3), "gemm_macs", "blocked_macs"),
    (18, 1, (24, 18, 3, 3), "gemm_macs", "gemm_macs"),
    (32, 32, (32, 1, 3, 3), "blocked_depthwise_macs", "blocked_depthwise_macs"),
    (12, 12, (12, 1, 3, 3), "blocked_depthwise_macs", "blocked_depthwise_macs"),
    (21, 21, (21, 1, 3, 3), "gemm_macs", "gemm_macs"),
    (12, 12, (24, 1, 3, 3), "gemm_macs", "gemm_macs"),
    (16, 2, (16, 8, 3, 3), "blocked_macs", "gemm_macs"),
    (32, 2, (32, 16, 3, 3), "blocked_macs", "blocked_macs"),
    (32, 2, (40, 16, 3, 3), "gemm_macs", "gemm_macs"),
    (32, 4, (16, 8, 3, 3), "gemm_macs", "gemm_macs"),
]


@pytest.mark.parametrize(("channels", "group", "weight", "narrow", "wide"), BLOCKED)
def test_which_convolutions_take_the_blocked_layout(channels, group, weight, narrow, wide):
    for vectors, kind in ((AVX2, narrow), (AVX512, wide)):
        counts = counted(conv_of(channels, group), vectors, w=array(*weight))
        found = {n for n in counts if n in ("blocked_macs", "gemm_macs", "blocked_depthwise_macs")}
        assert found == {kind}


@pytest.mark.skipif(not X86, reason="the kinds of processors are those of x86")
@pytest.mark.parametrize(("channels", "group", "weight", "narrow", "wide"), BLOCKED)
def test_onnx_runtime_takes_the_same_convolutions(tmp_path, channels, group, weight, narrow, wide):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    made = model(conv_of(channels, group), w=array(*weight)).SerializeToString()
    ort.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    taken = onnx.load(options.optimized_model_filepath).graph.node
    blocked = any(n.op_type == "ReorderOutput" for n in taken)
    expected = {"avx2": narrow, "avx512": wide}[vectors_here().name]
    assert blocked == expected.startswith("blocked")


def test_a_weight_at_run_time_is_not_taken_to_the_blocked_layout():
    text = "g (float[1,16,9,8] x, float[24,16,3,3] w) => (float[A,B,C,D] y) { y = Conv (x, w) }"
    assert "gemm_macs" in counted(text)


def test_copies_and_their_runs():
    counts = counted("""g (float[1,8,6,5] x) => (float[A,B,C,D] y) {
      a = Transpose <perm=[0,2,1,3]> (x)
      y = DepthToSpace <blocksize=2> (a) }""".replace("[1,8,6,5]", "[1,6,8,5]"))  # fmt: skip
    assert counts["moved"] == 240
    assert counts["moved_runs"] == 48
    assert counts["depth_to_space"] == 240


@pytest.mark.parametrize(
    ("sizes", "attributes", "counts"),
    [
        ([6, 8], "strides=[3,2]", {"placed": 2 * 24 * 8, "placed_lines": 2 * 24 * 8 * 2 // 16}),
        ([4, 6], "strides=[3,2], pads=[1,1,1,1]", {"placed_by_index": 2 * 24 * 8}),
    ],
)
def test_padding_takes_col2im_from_its_loop(sizes, attributes, counts):
    text = "g (float[2,24,8] x) => (float[A,B,C,D] y) { y = Col2Im <...> (x, size, block) }"
    text = text.replace("...", attributes)
    found = counted(text, opset=18, size=np.array(sizes), block=np.array([3, 2]))
    assert {n: c for n, c in found.items() if n.startswith("placed")} == counts


def test_what_reads_constants_alone_is_free():
    text = """g (float[1,8,6] x) => (float[A,B,C] y) {
      v = Transpose <perm=[1,0,2]> (w)
      y = Conv (x, v) }"""
    counts = counted(text, w=array(8, 8, 1))
    assert "moved" not in counts


def transposed(shape, perm, kind="float"):
    sizes = ",".join(map(str, shape))
    counts = counted(
        f"g ({kind}[{sizes}] x) => ({kind}[A,B,C,D] y) {{ y = Transpose <perm={perm}> (x) }}"
    )
    return {n: c for n, c in counts.items() if c and n not in ("runs", "calls")}


@pytest.mark.parametrize(
    ("perm", "counts"),
    [
        ([0, 2, 1, 3], {"moved": 210, "moved_runs": 42}),
        ([1, 0, 2, 3], {"moved": 210, "moved_runs": 1}),
        ([0, 3, 2, 1], {"transposed": 210, "transposed_runs": 210}),
        ([0, 1, 3, 2], {"matrix_squares": 6 * 4 * 4, "matrix_rest": 6 * 19, "matrices": 6}),
        ([0, 3, 1, 2], {"matrix_squares": 40 * 4, "matrix_rest": 50, "matrices": 1}),
        ([0, 2, 3, 1], {"matrix_squares": 4 * 32, "matrix_rest": 82, "matrices": 1}),
        ([3, 0, 1, 2], {"matrix_squares": 40 * 4, "matrix_rest": 50, "matrices": 1}),
    ],
)
def test_orders_of_axes(perm, counts):
    assert transposed((1, 6, 7, 5), perm) == counts


def test_eight_bytes_are_moved_as_one_element():
    assert transposed((3, 6, 7, 2), [0, 2, 1, 3]) == {"moved_pairs": 252}
    doubles = transposed((3, 6, 7, 2), [0, 2, 1, 3], "double")
    assert doubles == {"moved": 252, "moved_runs": 126}


def test_rows_of_padding_are_not_multiplied():
    text = """g (float[1,16,1,20] x) => (float[A,B,C,D] y) {
      y = Conv <group=16, pads=[5,1,5,2], strides=[1,2]> (x, w) }"""
    counts = counted(text, w=array(16, 1, 6, 3))
    assert counts["blocked_depthwise_macs"] == 16 * 6 * 11 * 3


@pytest.mark.parametrize("height", [4, 9, 1 << 40])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_rows_of_the_kernel_inside_the_input_are_counted_at_any_height(stride, dilation, height):
    taps, low, high = 3, 4, 5
    attributes = f"pads=[{low},0,{high},0], strides=[{stride},1], dilations=[{dilation},1]"
    text = f"""g (float[1,16,{height},4] x) => (float[A,B,C,D] y) {{
      y = Conv <group=16, {attributes}> (x, w) }}"""
    rows = (height + low + high - dilation * (taps - 1) - 1) // stride + 1
    found = counted(text, w=array(16, 1, taps, 1))["blocked_depthwise_macs"]
    if height > 9:
        assert 0 <= 16 * 4 * taps * rows - found < 16 * 4 * taps * (low + high + 1)
        return
    reads = [stride * row - low + dilation * k for row in range(rows) for k in range(taps)]
    assert found == 16 * 4 * sum(0 <= at < height for at in reads)


def test_what_is_larger_than_a_cache_is_streamed():
    text = "g (float[1,4,300,{}] x) => (float[A,B,C,D] y) {{ y = Relu (x) }}"
    assert counted(text.format(109))["streamed"] == 0
    assert counted(text.format(110))["streamed"] == 2 * 4 * 300 * 110


def test_unknown_sizes_are_not_counted():
    assert counted("g (float[1,8,N] x) => (float[A,B,C] y) { y = Conv (x, w) }",
                   w=array(4, 8, 3)) is None  # fmt: skip


@pytest.mark.parametrize(("perm", "fused"), [([0, 3, 1, 2], 1), ([0, 3, 2, 1], 0)])
def test_a_blocked_convolution_reads_channels_from_the_end(perm, fused):
    text = """g (float[1,9,7,8] x) => (float[A,B,C,D] y) {
      t = Transpose <perm=PERM> (x)
      y = Conv <group=8> (t, w) }"""
    counts = counted(text.replace("PERM", str(perm)), w=array(8, 1, 3, 3))
    assert counts["calls"] == 2 - fused
    moves = {"matrices", "matrix_rest", "matrix_squares", "moved", "moved_runs", "transposed"}
    assert bool(moves & set(counts)) == (not fused)
    assert counts["blocked_reordered"] == 8 * 9 * 7 + 8 * 7 * 5


def test_what_other_operators_call_perm_is_not_read():
    counts = counted("g (float[1,8,9] x) => (float[A,B,C] y) { y = Relu <perm=1> (x) }")
    assert counts["calls"] == 1


def node_of(text, **arrays):
    made = ir.from_proto(model(text, **arrays))
    found = next(find_nodes(made))
    return read_node(found.node, found.path, made.ir_version, {}), found.opset


UP = "g (float[1,4,N,7] x) => (float[A,B,C,D] y) { y = ConvTranspose <strides=[2,2]> (x, w) }"


def test_every_form_of_a_node_has_counts():
    node, opset = node_of(UP, w=array(4, 8, 4, 4))
    setting = setting_for(opset, CPU, node.dtype)
    for form in ("keep", "phases", "phases-split", "overlap-add", "zero-insertion"):
        counts = node_features(node, form, setting, CPU, (1, 4, 6, 7), AVX2)
        assert counts["calls"] >= 1, form
        assert any(n.endswith("_macs") for n in counts), form


def test_half_precision_is_cast():
    node, opset = node_of(UP.replace("float", "float16"), w=array(4, 8, 4, 4).astype("float16"))
    setting = setting_for(opset, CPU, node.dtype)
    counts = node_features(node, "keep", setting, CPU, (1, 4, 6, 7), AVX2)
    assert counts["cast"] == 4 * 6 * 7 + 8 * 14 * 16


def test_quantised_nodes_are_not_predicted():
    text = """g (uint8[1,4,6,7] q) => (float[A,B,C,D] y) {
      x = DequantizeLinear (q, s, z)
      y = ConvTranspose <strides=[2,2]> (x, w) }"""
    node, opset = node_of(text, w=array(4, 8, 4, 4), s=np.float32(0.1), z=np.uint8(3))
    setting = setting_for(opset, CPU, node.dtype)
    assert node_features(node, "keep", setting, CPU, (1, 4, 6, 7), AVX2) is None
