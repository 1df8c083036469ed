"""The table, the refusals and the tiny files: nothing here runs torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import convt_onnx.models
from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.models import ModelInfo, __main__, build, export, get, names

FOLDER = Path(convt_onnx.models.__file__).parent
TINY_FILES = ("fcn8s", "hifigan", "unet")


def python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)


def test_ten_decoders_in_alphabetical_order():
    assert len(names()) == 10
    assert list(names()) == sorted(names())


@pytest.mark.parametrize("name", names())
def test_a_row_is_complete(name):
    info = get(name)
    assert isinstance(info, ModelInfo)
    assert info.name == name
    assert (FOLDER / f"{info.module}.py").is_file()
    assert info.summary and "\n" not in info.summary
    assert {"tiny", "full"} <= set(info.sizes)
    keys = {frozenset(size) for size in info.sizes.values()}
    assert len(keys) == 1, "every size gives the same arguments"


def test_the_table_needs_no_heavy_package(tmp_path):
    code = (
        "import sys; from convt_onnx.models import names, get; get('unet').size('full');"
        "print({'torch', 'onnx', 'onnx_ir', 'onnxruntime'} & set(sys.modules))"
    )
    done = python(code, tmp_path)
    assert done.stdout.strip() == "set()", done.stderr


def test_the_folder_refuses_its_short_name(tmp_path):
    (tmp_path / "models").symlink_to(FOLDER)
    done = python("import models", tmp_path)
    assert "import convt_onnx.models" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: get("hifigna"), ["'hifigna'", "did you mean 'hifigan'?", "dcgan"]),
        (lambda: get("zzz"), ["known: codec"]),
        (lambda: get("unet").size("tinny"), ["size of unet", "did you mean 'tiny'?"]),
        (lambda: build("unet", "big"), ["size of unet", "full"]),
        (lambda: build("unet", dtype="int8"), ["dtype", "'float16'"]),
        (lambda: export("unet", "x.onnx", exporter="jit"), ["exporter", "'torchscript'"]),
        (lambda: export("unet", "x.onnx", opset=9), ["opset", "17 or 18"]),
        (lambda: export("stylegan2", "x.onnx", dynamic=True), ["stylegan2", "dynamic=False"]),
        (lambda: export("unet", "/no/such/folder/x.onnx"), ["folder", "/no/such/folder"]),
    ],
)
def test_what_does_not_fit_is_refused_with_help(call, words):
    with pytest.raises(UsageError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("package", ["torch", "onnxscript"])
def test_a_missing_package_is_named(monkeypatch, tmp_path, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPartError, match=package) as caught:
        export("unet", tmp_path / "x.onnx")
    assert caught.value.help == "pip install '.[models]' in a checkout of convt-onnx"
    assert not list(tmp_path.iterdir())


def test_the_script_writes_the_tiny_files_that_exist(monkeypatch, tmp_path, capsys):
    def pretend(name, path, **_):
        path.write_bytes(b"")
        return path

    monkeypatch.setattr(__main__, "export", pretend)
    monkeypatch.setattr(sys, "argv", ["models", str(tmp_path)])
    assert __main__.main() == 0
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(path.name for path in FOLDER.glob("*.onnx"))
    assert all(name in capsys.readouterr().out for name in written[:1])


def test_the_script_reports_a_missing_folder(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["models", str(tmp_path / "none")])
    assert __main__.main() == UsageError.exit_code
    assert "error: the folder" in capsys.readouterr().err


def tiny(name: str) -> Path:
    return FOLDER / f"{name}_tiny.onnx"


def run_tiny(name: str, **shapes: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    feed = {key: rng.standard_normal(shape, np.float32) for key, shape in shapes.items()}
    session = ort.InferenceSession(tiny(name), providers=["CPUExecutionProvider"])
    (output,) = session.run(None, feed)
    return output


def upsamplers(name: str) -> list[onnx.NodeProto]:
    return [node for node in onnx.load(tiny(name)).graph.node if node.op_type == "ConvTranspose"]


def attribute(node: onnx.NodeProto, name: str) -> object:
    found = [onnx.helper.get_attribute_value(item) for item in node.attribute if item.name == name]
    return found[0] if found else None


@pytest.mark.parametrize("name", TINY_FILES)
def test_a_tiny_file_is_small_valid_and_anonymous(name):
    assert tiny(name).stat().st_size < 150_000
    model = onnx.load(tiny(name))
    onnx.checker.check_model(model, full_check=True)
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info):
        assert not part.metadata_props
        assert not part.doc_string
    content = tiny(name).read_bytes()
    assert not any(word in content for word in (b".py", b"/home", b"/tmp", b"site-packages"))


def test_tiny_fcn_is_cropped_and_grouped_by_class():
    nodes = upsamplers("fcn8s")
    assert [attribute(node, "kernel_shape") for node in nodes] == [[4, 4], [4, 4], [16, 16]]
    assert {attribute(node, "group") for node in nodes} == {21}
    scores = run_tiny("fcn8s", image=(1, 3, 64, 80))
    assert scores.shape == (1, 21, 64, 80)
    assert 0.05 < scores.std() < 10


@pytest.mark.parametrize(("batch", "frames"), [(1, 1), (2, 5), (3, 40)])
def test_tiny_hifigan_runs_at_any_length(batch, frames):
    audio = run_tiny("hifigan", mel=(batch, 16, frames))
    assert audio.shape == (batch, 1, 16 * frames)
    assert 0.05 < audio.std() < 1


def test_tiny_hifigan_computes_its_weights():
    initializers = {item.name for item in onnx.load(tiny("hifigan")).graph.initializer}
    nodes = upsamplers("hifigan")
    assert [attribute(node, "strides") for node in nodes] == [[8], [2]]
    assert all(node.input[1] not in initializers for node in nodes)


@pytest.mark.parametrize(("batch", "height", "width"), [(1, 8, 8), (2, 37, 45), (1, 31, 64)])
def test_tiny_unet_keeps_any_size(batch, height, width):
    logits = run_tiny("unet", image=(batch, 3, height, width))
    assert logits.shape == (batch, 2, height, width)
    assert 0.05 < logits.std() < 10
