from __future__ import annotations

import os
import warnings

import numpy as np
import onnx_ir as ir
import pytest
from onnx import ModelProto, TensorProto

from convt_onnx.model_io import load

from .conftest import put_tensor


def test_external_files(external_model):
    loaded = load(external_model)
    folder = external_model.parent
    assert loaded.external_files == (folder / "w.bin", folder / "sub" / "m.bin")
    assert loaded.external_bytes == 88 + 40_000
    weight = loaded.model.graph.initializers["w"].const_value
    assert isinstance(weight, ir.ExternalTensor)
    np.testing.assert_array_equal(weight.numpy().ravel(), np.arange(18))


def test_relative_path(external_model, monkeypatch):
    monkeypatch.chdir(external_model.parent)
    loaded = load(external_model.relative_to(external_model.parent))
    assert loaded.model.graph.initializers["w"].const_value.numpy()[1, 2, 2] == 17


def entry(path, key, value):
    """Set one entry of the first external tensor of the model at `path`."""
    proto = ModelProto.FromString(path.read_bytes())
    entries = proto.graph.initializer[0].external_data
    kept = {item.key: item.value for item in entries} | {key: value}
    del entries[:]
    for name, text in kept.items():
        if text is not None:
            entries.add(key=name, value=text)
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("offset", "24", "88 bytes where 96"),
        ("offset", "999999999999", "1000000000071"),
        ("offset", "-8", "'-8'"),
        ("offset", "0x8", "'0x8'"),
        ("offset", "", "offset"),
        ("offset", "1_0", "offset"),
        ("offset", "9" * 5000, "offset"),
        ("length", "-72", "'-72'"),
        ("length", "many", "'many'"),
        ("length", "64", "length 64 where the dimensions need 72"),
        ("length", "0", "length 0"),
        ("location", "/etc/passwd", "outside"),
        ("location", "C:\\data.bin", "outside"),
        ("location", "../w.bin", "outside"),
        ("location", "sub/../w.bin", "outside"),
        ("location", "sub\\..\\..\\w.bin", "outside"),
        ("location", "", "location ''"),
        ("location", None, "location None"),
        ("location", "w.bin\0", "location"),
        ("location", "missing.bin", "does not exist"),
        ("location", "sub", "not a regular file"),
        ("location", "w.bin/x", "cannot read"),
        ("location", "a" * 300, "cannot read"),
    ],
)
def test_refused_entries(external_model, check_refused, key, value, words):
    check_refused(entry(external_model, key, value), words, "initializer 'w'")


def test_default_offset_and_length(external_model):
    for key in ("offset", "length"):
        entry(external_model, key, None)
    assert load(external_model).external_bytes == 88 + 40_000


def test_unknown_entries_are_ignored_quietly(external_model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(entry(external_model, "colour", "red")).external_bytes == 40_088


def test_missing_file_says_what_to_do(external_model, check_refused):
    external_model.with_name("w.bin").unlink()
    check_refused(external_model, "w.bin", "beside the model")


def test_lfs_pointer(external_model, check_refused):
    external_model.with_name("w.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    check_refused(external_model, "LFS pointer", "git lfs pull")


@pytest.mark.parametrize("name", ["w.bin", "sub/m.bin", "sub"])
def test_links_to_outside(external_model, check_refused, name, tmp_path_factory):
    inside = external_model.parent / name
    outside = tmp_path_factory.mktemp("outside") / "moved"
    inside.rename(outside)
    inside.symlink_to(outside)
    check_refused(external_model, "outside the model's folder", "cp -L")


def test_links_within_the_folder(external_model):
    inside = external_model.with_name("w.bin")
    inside.rename(external_model.with_name("real.bin"))
    inside.symlink_to("real.bin")
    assert load(external_model).model.graph.initializers["w"].const_value.numpy().sum() == 153


def test_link_loop(external_model, check_refused):
    inside = external_model.with_name("w.bin")
    inside.unlink()
    inside.symlink_to("w.bin")
    check_refused(external_model, "w.bin")


def test_hard_links(external_model, check_refused):
    os.link(external_model.with_name("w.bin"), external_model.with_name("again.bin"))
    check_refused(external_model, "hard links", "plain copy")


def test_huge_dimensions(proto, write, check_refused, external):
    write(b"1234", "w.bin")
    proto.graph.initializer.append(external("h", [2**40], location="w.bin"))
    check_refused(write(proto), "4 bytes where")
    proto.graph.initializer[-1].dims.extend([2**40])
    check_refused(write(proto), "more elements")
    del proto.graph.initializer[-1].dims[:]
    proto.graph.initializer[-1].dims.append(-4)
    check_refused(write(proto), "negative")


def test_external_strings(proto, write, check_refused, external):
    write(b"1234", "w.bin")
    proto.graph.initializer.append(external("s", [1], location="w.bin"))
    proto.graph.initializer[-1].data_type = TensorProto.STRING
    check_refused(write(proto), "strings")


@pytest.mark.parametrize("place", ["constant", "subgraph", "function", "default"])
def test_external_tensors_everywhere(proto, write, check_refused, external, place):
    bad = external("k", [1], location="none.bin")
    put_tensor(proto, bad, place)
    check_refused(write(proto), "none.bin")
