from __future__ import annotations

import numpy as np
import onnx

from convt_onnx import model_io
from convt_onnx.dumps import Dumps

from .graph.building import array, model


def loaded_with_external_data(folder):
    text = "g (float[1,3,7,5] x) => (float[A,B,C,D] y) { y = ConvTranspose (x, w) }"
    proto = model(text, w=array(3, 4, 4, 3))
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return model_io.load(path)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_what_is_discarded_leaves_with_its_data(tmp_path):
    loaded, folder = loaded_with_external_data(tmp_path), tmp_path / "a" / "dump"
    dumps = Dumps(folder)
    dumps.save(loaded, "00-first")
    dumps.save(loaded, "01-second")
    (folder / "00-first.onnx.txt").write_text("mine")
    assert len(names(folder)) == 5
    dumps.discard()
    assert names(folder) == ["00-first.onnx.txt"]
    dumps.save(loaded, "00-first")
    (w,) = onnx.load(folder / "00-first.onnx").graph.initializer
    assert np.array_equal(onnx.numpy_helper.to_array(w), array(3, 4, 4, 3))
    assert names(tmp_path) == ["a", "model.onnx", "w.bin"]


def test_without_a_folder_nothing_is_written(tmp_path):
    loaded = loaded_with_external_data(tmp_path)
    before = names(tmp_path)
    Dumps(None).save(loaded, "00-first")
    assert names(tmp_path) == before
