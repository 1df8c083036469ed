"""Running engines. No GPU is here: TensorRT and CUDA are those of fake_runtime."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from convt_onnx.cli import main
from convt_onnx.engine import run as run_module
from convt_onnx.engine.backend import Backend
from convt_onnx.engine.files import run_file
from convt_onnx.engine.header import is_engine, read_header
from convt_onnx.engine.run import LoadedEngine, RunEngineError
from convt_onnx.errors import MissingPartError, UsageError
from convt_onnx.verify import VerifyOptions
from convt_onnx.verify.files import verify_files

from ..graph.building import model, write
from .fake_runtime import FakeCuda, FakeEngine, FakeModule, engine_bytes


@pytest.fixture
def cuda():
    return FakeCuda()


@pytest.fixture
def loaded(monkeypatch, tmp_path, cuda):
    """An engine file that TensorRT 10.13.2 loads as the given engine, or refuses."""

    def load(engine, **header):
        path = tmp_path / "model.engine"
        path.write_bytes(engine_bytes(**header))
        backend = Backend("tensorrt", FakeModule(engine))
        monkeypatch.setattr(run_module, "load_backend", lambda name: backend)
        monkeypatch.setattr(run_module, "cuda_runtime", lambda: cuda)
        monkeypatch.setattr(run_module, "_register_plugins", lambda backend: None)
        return path

    return load


def feeds(rows=3):
    x = np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)
    return {"x": x, "s": np.array([4, 5])}


class TestRunning:
    def test_outputs_are_read_after_the_stream(self, loaded, cuda):
        engine = FakeEngine(cuda)
        given = feeds()
        got = LoadedEngine(loaded(engine)).run(given)
        assert list(got) == ["y"]
        assert got["y"].dtype == np.float32
        assert np.array_equal(got["y"], 2 * given["x"] + 9)

    def test_everything_is_freed(self, loaded, cuda):
        LoadedEngine(loaded(FakeEngine(cuda))).run(feeds())
        assert (cuda.memory, cuda.streams) == ({}, set())

    def test_everything_is_freed_after_a_failure(self, loaded, cuda):
        with pytest.raises(RunEngineError, match="does not run the engine"):
            LoadedEngine(loaded(FakeEngine(cuda, fails=True))).run(feeds())
        assert (cuda.memory, cuda.streams) == ({}, set())

    @pytest.mark.parametrize("rows, profile", [(1, 0), (4, 0), (8, 1), (16, 1)])
    def test_the_profile_that_holds_the_sizes_is_taken(self, loaded, cuda, rows, profile):
        engine = FakeEngine(cuda)
        LoadedEngine(loaded(engine)).run(feeds(rows))
        assert engine.contexts[0].profile == profile

    def test_a_size_between_the_profiles_is_refused(self, loaded, cuda):
        with pytest.raises(UsageError, match="outside of the engine's profiles") as error:
            LoadedEngine(loaded(FakeEngine(cuda))).run(feeds(6))
        assert error.value.where == "x:6,3, the engine takes 1,3 to 4,3"

    def test_a_missing_input_is_named(self, loaded, cuda):
        with pytest.raises(UsageError, match="no array for input 's'"):
            LoadedEngine(loaded(FakeEngine(cuda))).run({"x": feeds()["x"]})

    def test_an_output_of_unknown_size_is_refused(self, loaded, cuda):
        with pytest.raises(RunEngineError, match="depends on the data"):
            LoadedEngine(loaded(FakeEngine(cuda, data_dependent=True))).run(feeds())


class TestLoading:
    def test_another_version_is_named(self, loaded):
        with pytest.raises(UsageError, match=r"version 10\.9\.0, and TensorRT 10\.13\.2") as error:
            LoadedEngine(loaded(None, version=(10, 9, 0)))
        assert "--version-compatible" in error.value.help

    def test_the_same_version_that_does_not_load(self, loaded):
        with pytest.raises(MissingPartError, match="does not load the engine") as error:
            LoadedEngine(loaded(None))
        assert "Version tag" in error.value.where

    def test_a_type_that_no_array_holds_is_named(self, loaded, cuda, monkeypatch):
        packed = SimpleNamespace(name="INT4")
        monkeypatch.setattr(FakeEngine, "get_tensor_dtype", lambda self, name: packed)
        with pytest.raises(UsageError, match="type INT4, which no array holds") as error:
            LoadedEngine(loaded(FakeEngine(cuda)))
        assert error.value.where == "tensor 'x'"

    @pytest.mark.parametrize("content", [b"", b"ftrt", b"\x08\x07" * 50, b"TRT engine"])
    def test_what_is_no_engine(self, tmp_path, content):
        path = tmp_path / "e"
        path.write_bytes(content)
        with pytest.raises(UsageError, match="this is no engine"):
            LoadedEngine(path)

    def test_no_file(self, tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            LoadedEngine(tmp_path / "absent")
        assert not is_engine(tmp_path / "absent")


def test_the_header_of_a_real_engine(rtx, tmp_path):
    from convt_onnx.engine import BuildOptions, build_engine

    text = "g (float[1,2,3] x) => (float[1,2,3] y) { y = Neg (x) }"
    options = BuildOptions(backend="tensorrt-rtx")
    result = build_engine(write(model(text), tmp_path), options=options)
    header = read_header(result.engine.read_bytes(), "")
    assert (header.backend, header.version) == ("tensorrt-rtx", rtx.version[:3])
    assert is_engine(result.engine)


class TestFiles:
    def test_npz_to_npz(self, loaded, cuda, tmp_path):
        given = feeds()
        np.savez(tmp_path / "in.npz", in_x=given["x"], s=given["s"])
        engine = loaded(FakeEngine(cuda))
        result = run_file(engine, tmp_path / "in.npz", None, force=False)
        assert result.output == tmp_path / "model.out.npz"
        assert result.shapes == {"y": [3, 3]}
        with np.load(result.output) as out:
            assert np.array_equal(out["y"], 2 * given["x"] + 9)
        with pytest.raises(UsageError, match="exists"):
            run_file(engine, tmp_path / "in.npz", None, force=False)

    def test_what_is_read_is_not_replaced(self, loaded, cuda, tmp_path):
        np.savez(tmp_path / "in.npz", **feeds())
        engine = loaded(FakeEngine(cuda))
        for read in (engine, tmp_path / "in.npz"):
            before = read.read_bytes()
            with pytest.raises(UsageError, match="also read or written"):
                run_file(engine, tmp_path / "in.npz", read, force=True)
            assert read.read_bytes() == before

    def test_outputs_may_have_any_name(self, loaded, cuda, tmp_path, monkeypatch):
        results = {
            name: np.arange(3.0) + i for i, name in enumerate(("file", "allow_pickle", "/y"))
        }
        monkeypatch.setattr(LoadedEngine, "run", lambda self, arrays: results)
        np.savez(tmp_path / "in.npz", **feeds())
        made = run_file(loaded(FakeEngine(cuda)), tmp_path / "in.npz", None, force=False)
        with np.load(made.output) as out:
            assert {n: list(out[n]) for n in out.files} == {n: list(a) for n, a in results.items()}

    def test_an_engine_is_verified_against_its_model(self, loaded, cuda, tmp_path):
        text = """g (float[N,3] x, int64[2] s) => (float[N,3] y) {
            two = Constant <value_float=2.0> () d = Mul (x, two)
            i = ReduceSum <keepdims=0> (s) f = Cast <to=1> (i) y = Add (d, f)
        }"""
        source = write(model(text), tmp_path, "m.onnx")
        engine = loaded(FakeEngine(cuda))
        options = VerifyOptions(input_shapes={"x": (3, 3)})
        result = verify_files(source, engine, options)
        assert result.ok
        assert result.arithmetic == "TensorRT 10.13.2.6"
        wrong = write(model(text.replace("2.0", "2.5")), tmp_path, "wrong.onnx")
        assert not verify_files(wrong, engine, options).ok


@pytest.mark.parametrize(
    ("options", "factor", "ok"),
    [({}, 2.01, True), ({"atol": 1e-6, "rtol": 1e-6}, 2.01, False), ({"rtol": 0.5}, 2.5, True)],
)
def test_tolerances_that_are_given_hold_for_float16_too(
    loaded, cuda, tmp_path, options, factor, ok
):
    text = f"""g (float16[N,3] x, int64[2] s) => (float16[N,3] y) {{
        f = Constant <value_float={factor}> () two = Cast <to=10> (f) d = Mul (x, two)
        i = ReduceSum <keepdims=0> (s) h = Cast <to=10> (i) y = Add (d, h) }}"""
    source = write(model(text), tmp_path, "m.onnx")
    checks = VerifyOptions(input_shapes={"x": (3, 3)}, **options)
    assert verify_files(source, loaded(FakeEngine(cuda)), checks).ok is ok


def test_without_a_device_the_command_says_what_is_missing(rtx, tmp_path, capsys):
    from convt_onnx.engine import BuildOptions, build_engine

    proto = model("g (float[1,2,3] x) => (float[1,2,3] y) { y = Neg (x) }")
    source = write(proto, tmp_path)
    engine = build_engine(source, options=BuildOptions(backend="tensorrt-rtx")).engine
    np.savez(tmp_path / "x.npz", x=np.ones((1, 2, 3), np.float32))
    for arguments in (("run", engine, "--inputs", tmp_path / "x.npz"), ("verify", source, engine)):
        with pytest.raises(SystemExit) as done:
            main([str(a) for a in arguments])
        if done.value.code == 0:
            pytest.skip("there is a device that runs it")
        error = capsys.readouterr().err
        assert done.value.code == 3
        assert "so no engine can be run" in error or "so the engine cannot be run" in error
        assert "help:" in error
