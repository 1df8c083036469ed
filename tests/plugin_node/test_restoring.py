"""From the plugin's nodes back to standard operators."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from convt_onnx import OptimizeOptions, optimize

from ..graph.building import array, op_types, write
from ..verify.judging import assert_same
from .plugging import UNTIMED, plugin_nodes, single, weights


@pytest.mark.parametrize("target", ["tensorrt-rtx", "ort-cuda"])
@pytest.mark.parametrize("back", ["portable", "ort-cpu", "tensorrt"])
def test_the_way_back(plugged, tmp_path, target, back):
    body = "c = {up} (x, w, b) r = {up} (x, w2) a = Add (c, r) y = Elu (a)"
    before = single(body, w2=array(6, 4, 3, 4, seed=2))
    after, _ = plugged(before, target)
    source = write(after, tmp_path, "plugged.onnx")
    forms = {} if back == "portable" else {"all": "keep"}
    options = OptimizeOptions(target=back, forms=forms, force=True, tune=UNTIMED)
    restored = onnx.load(optimize(source, options=options).output)
    assert not restored.functions and {o.domain for o in restored.opset_import} == {""}
    assert not plugin_nodes(restored)
    assert ("ConvTranspose" in op_types(restored)) == (back != "portable")
    assert op_types(restored)[-2:] == ["Add", "Elu"]
    assert_same(before, restored)


@pytest.mark.parametrize("target", ["tensorrt-rtx", "ort-cuda"])
def test_the_way_back_needs_no_stated_type(plugged, tmp_path, target):
    body = "a = Mul (x, x) c = {up} (a, w, b) y = Concat <axis = 0> (c, c)"
    before = single(body)
    after, _ = plugged(before, target)
    assert plugin_nodes(after)
    del after.graph.value_info[:]
    source = write(after, tmp_path, "plugged.onnx")
    result = optimize(source, options=OptimizeOptions("portable", force=True, tune=UNTIMED))
    restored = onnx.load(result.output)
    assert not plugin_nodes(restored)
    assert_same(before, restored)


def test_the_way_back_gives_the_weights_back(plugged, tmp_path):
    after, _ = plugged(single())
    source = write(after, tmp_path, "plugged.onnx")
    result = optimize(
        source, options=OptimizeOptions(forms={"all": "keep"}, force=True, tune=UNTIMED)
    )
    graph = onnx.load(result.output).graph
    (node,) = graph.node
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    assert np.array_equal(values[node.input[1]], weights()["w"])
    assert np.array_equal(values[node.input[2]], weights()["b"])


def test_once_written_it_stays(plugged, tmp_path):
    after, _ = plugged(single())
    source = write(after, tmp_path, "plugged.onnx")
    options = OptimizeOptions(target="tensorrt-rtx", plugin=True, force=True, tune=UNTIMED)
    again = optimize(source, options=options)
    assert not again.modified and again.output.read_bytes() == source.read_bytes()


def test_another_targets_names_are_replaced(plugged, tmp_path):
    after, _ = plugged(single(), "ort-cuda")
    renamed, _ = plugged(after)
    (node,) = plugin_nodes(renamed)
    assert node.op_type.startswith("ConvT_") and not node.overload
    assert [f.name for f in renamed.functions] == [node.op_type]


def test_attributes_that_do_not_fit_the_name_are_left_alone(plugged, tmp_path):
    after, _ = plugged(single())
    for attribute in after.graph.node[0].attribute:
        if attribute.name == "strides":
            attribute.ints[:] = [1, 1]
    source = write(after, tmp_path, "forged.onnx")
    result = optimize(source, options=OptimizeOptions(force=True, tune=UNTIMED))
    assert [m.reason.id for m in result.misses if m.pass_name == "restore-plugins"] == ["CT548"]
    assert any("did not write" in note for note in result.notes)
