"""`convt-onnx build` and `build_engine`: options, reports, refusals."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from convt_onnx import build_engine
from convt_onnx.cli import main
from convt_onnx.engine import BuildOptions
from convt_onnx.engine.build import BuildError
from convt_onnx.engine.config import Settings
from convt_onnx.engine.profiles import Range, read_profiles
from convt_onnx.errors import MissingPartError, ModelError, UsageError, VerificationError

from ..graph.building import array, model, write

STATIC = "g (float[2,4,5,7] x) => (float[] y) { y = ConvTranspose <A> (x, w) }"
OPEN = """g (float[N,4,L] x) => (float[] y)
{ y = ConvTranspose <strides=[2], output_padding=[1]> (x, w) }"""


def static(attributes="strides=[2,2], pads=[1,1,0,2]", **arrays):
    return model(STATIC.replace("A", attributes, 1), **({"w": array(4, 3, 3, 4)} | arrays))


def opened():
    return model(OPEN, w=array(4, 3, 5))


@pytest.fixture
def build(rtx, tmp_path):
    """Build a model with TensorRT-RTX."""

    def call(proto, **options):
        source = write(proto, tmp_path)
        return build_engine(source, options=BuildOptions(backend="tensorrt-rtx", **options))

    return call


@pytest.fixture
def convt(rtx, capsys):
    """Run a command; its exit code, stdout and stderr."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as done:
            main([str(a) for a in arguments])
        return done.value.code, *capsys.readouterr()

    return call


class TestResult:
    def test_tells_layers_checks_and_proof(self, build):
        result = build(static())
        assert result.engine.stat().st_size == result.bytes
        assert result.engine.name == "model.engine"
        assert result.kinds == {"DECONVOLUTION": 1}
        (layer,) = result.layers
        assert (layer.geometry.pre, layer.geometry.post) == ((1, 1), (0, 2))
        assert layer.outputs == ((2, 3, 10, 13),)
        assert [c.problems for c in result.checks] == [()]
        assert result.proof.ok
        assert 0 < result.proof.worst < 1e-5
        assert [d.form for d in result.decisions] == ["keep"]
        assert result.engine_layers is None  # no device here
        assert result.target == "tensorrt-rtx"

    def test_convolution_forms_show_as_convolutions(self, build):
        result = build(static("strides=[2,2], dilations=[2,2]"))
        assert result.kinds.get("CONVOLUTION", 0) + result.kinds.get("DECONVOLUTION", 0) == 1
        assert result.verification.ok
        assert result.proof.ok

    def test_external_data_is_found(self, rtx, tmp_path):
        path = tmp_path / "m.onnx"
        proto = static(w=array(4, 3, 20, 20))
        onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        for optimize in (True, False):
            options = BuildOptions(backend="tensorrt-rtx", optimize=optimize, force=True)
            assert build_engine(path, options=options).proof.ok


class TestWrongModels:
    def test_what_optimize_puts_right_is_refused_without_it(self, build, tmp_path):
        proto = static("strides=[2,2], output_shape=[10,15]")
        with pytest.raises(VerificationError, match="as something else") as error:
            build(proto, optimize=False)
        assert "crops [0, 0] rows at the begin" in error.value.where
        assert "--no-optimize" in error.value.help
        assert not (tmp_path / "model.engine").exists()
        assert build(proto).proof.ok

    def test_no_verify_builds_it_all_the_same(self, build):
        result = build(static("strides=[2,2], output_shape=[10,15]"), optimize=False, verify=False)
        assert [c.ok for c in result.checks] == [False]
        assert result.proof.ok is None

    def test_the_proof_finds_what_no_layer_check_can(self, build, monkeypatch):
        from convt_onnx.engine import simulate_layers

        wrong = dict(simulate_layers.RULES) | {"ELEMENTWISE": lambda call: call.array(0)}
        monkeypatch.setattr("convt_onnx.engine.simulate.ALL_RULES", wrong)
        text = "g (float[2,4,5,7] x) => (float[] y) { y = Add (x, x) }"
        with pytest.raises(VerificationError, match="does not compute what the model computes"):
            build(model(text))

    def test_a_build_that_fails_names_the_cause(self, build, tmp_path):
        with pytest.raises(BuildError) as error:
            build(static("strides=[2,2], dilations=[2,2]"), optimize=False)
        assert "Strided & Dilated Deconv" in error.value.where
        assert error.value.exit_code == 1
        assert not (tmp_path / "model.engine").exists()

    def test_a_type_that_there_is_none_of(self, build):
        text = "g (uint32[4] x) => (uint32[4] y) { y = Identity (x) }"
        with pytest.raises(ModelError, match="no inputs of type uint32"):
            build(model(text), verify=False)

    def test_an_operator_that_there_is_none_of(self, build):
        text = "g (float[2,4,5,7] x) => (float[2,4,5,7] y) { y = mine.Twist (x) }"
        with pytest.raises(ModelError, match="has no operator Twist"):
            build(model(text, domains='"mine" : 1'), verify=False)


class TestProfiles:
    def test_an_open_input_needs_a_range(self, build):
        with pytest.raises(UsageError, match="input 'x' has open sizes") as error:
            build(opened())
        assert error.value.where == "x:?,4,?"
        assert "--min x:1,4,1" in error.value.help

    def test_several(self, build):
        ranges = read_profiles(
            [("x", (1, 4, 2)), ("x", (1, 4, 50))],
            [("x", (1, 4, 9)), ("x", (2, 4, 60))],
            [("x", (4, 4, 20))],
        )
        result = build(opened(), profiles=ranges)
        assert result.profiles == (
            {"x": Range((1, 4, 2), (1, 4, 9), (4, 4, 20))},
            {"x": Range((1, 4, 50), (2, 4, 60), (2, 4, 60))},
        )
        assert result.proof.ok

    @pytest.mark.parametrize(
        "given, what, where",
        [
            ({"y": (1, 4, 9)}, "no input 'y'", "--min"),
            ({"x": (1, 5, 9)}, "does not fit", "the model has ?,4,?"),
            ({"x": (1, 4)}, "does not fit", "x:1,4"),
        ],
    )
    def test_that_do_not_fit(self, build, given, what, where):
        profiles = read_profiles([], list(given.items()), [])
        with pytest.raises(UsageError, match=what) as error:
            build(opened(), profiles=profiles)
        assert where in error.value.where

    @pytest.mark.parametrize(
        "low, usual, high", [((3,), (2,), (4,)), ((1,), (2,), (1,)), ((1,), (1, 2), (3,))]
    )
    def test_that_are_empty(self, low, usual, high):
        with pytest.raises(UsageError, match=r"empty|different ranks"):
            read_profiles([("x", low)], [("x", usual)], [("x", high)])

    @pytest.mark.parametrize(("option", "other"), [("min", "max"), ("max", "min")])
    def test_one_end_alone_is_no_range(self, option, other):
        ends = {"min": [], "max": [], option: [("x", (1, 4, 9))]}
        with pytest.raises(UsageError, match="one end alone") as error:
            read_profiles(ends["min"], [], ends["max"])
        assert error.value.where == f"--{option} x:1,4,9"
        assert error.value.help.startswith(f"--{other} x:…")

    def test_an_input_for_a_shape_takes_values(self, build):
        text = "g (float[2,12] x, int64[2] s) => (float[a,b] y) { y = Reshape (x, s) }"
        proto = model(text)
        with pytest.raises(UsageError, match="input 's' has open values"):
            build(proto, verify=False)
        values = read_profiles([("s", (1, 1))], [("s", (3, 8))], [("s", (24, 24))])
        assert build(proto, verify=False, profiles=values).profiles == values


class TestSettings:
    def test_that_the_builder_takes(self, build):
        small = build(static())
        settings = Settings(
            compute_capabilities=("8.9", "sm_120"), memory_mib=64, optimization_level=1
        )
        assert build(static(), settings=settings, force=True).bytes != small.bytes

    @pytest.mark.parametrize(
        "settings, what",
        [
            (Settings(compute_capabilities=("90",)), "has no ComputeCapability SM90"),
        ],
    )
    def test_that_it_does_not(self, build, settings, what):
        with pytest.raises(UsageError, match=what):
            build(static(), settings=settings)

    def test_a_version_compatible_engine_needs_the_lean_runtime(self, build):
        with pytest.raises(MissingPartError, match="needs a library") as error:
            build(static(), settings=Settings(version_compatible=True))
        assert "libnvinfer_lean" in error.value.where

    def test_a_timing_cache_is_of_no_use_to_rtx(self, build, tmp_path):
        with pytest.raises(UsageError, match="a timing cache has no effect"):
            build(static(), settings=Settings(timing_cache=tmp_path / "c"))


class TestCommand:
    def test_prints_the_path_and_a_report(self, convt, tmp_path):
        code, out, err = convt("build", write(static(), tmp_path), "--backend", "tensorrt-rtx")
        assert (code, out.strip()) == (0, str(tmp_path / "model.engine"))
        for words in ("1/1 deconvolutions equal their nodes", "1 deconvolution", "2×3×10×13"):
            assert words in err

    def test_shows_deconvolutions_and_counts_the_rest(self, convt, tmp_path):
        name = "/generator/upsampler/stages.0/block/ConvTranspose_of_a_long_name_without_a_space"
        text = """g (float[1,4,9] x) => (float[] y)
        { [down] h = Conv (x, v) [up] y = ConvTranspose <strides=[2]> (h, w) }"""
        proto = model(text, v=array(4, 4, 3), w=array(4, 3, 5))
        proto.graph.node[1].name = name
        source = write(proto, tmp_path)
        _, _, short = convt("build", source)
        assert f"\n  {name}" in short
        assert "\n  down" not in short
        assert "1 convolution" in short and "-v shows all" in short
        _, _, long = convt("build", source, "--force", "-v")
        assert "\n  down" in long

    def test_profiles_are_shown(self, convt, tmp_path):
        source = write(opened(), tmp_path)
        first, second = ("--opt", "x:2,4,9", "--max", "x:2,4,30"), ("--opt", "x:1,4,7")
        _, _, err = convt("build", source, *first, *second)
        assert "\n  profile 1: x 2×4×9 to 2×4×30, tuned for 2×4×9\n" in err
        assert "\n  profile 2: x 1×4×7 only\n" in err

    def test_json(self, convt, tmp_path):
        source = write(opened(), tmp_path)
        code, out, _ = convt("build", source, "--opt", "x:2,4,9", "--max", "x:2,4,30", "--json")
        result = json.loads(out)["result"]
        assert code == 0
        assert result["kinds"]["DECONVOLUTION"] == 1
        assert result["profiles"] == [
            {"x": {"min": [2, 4, 9], "opt": [2, 4, 9], "max": [2, 4, 30]}}
        ]
        assert result["proof"]["ok"] is True

    def test_does_not_write_over_things(self, convt, tmp_path):
        source = write(static(), tmp_path)
        for arguments, words in (
            (("-o", source), "is also read or written by this run"),
            (("-o", tmp_path / "no" / "e"), "does not exist"),
            (("-o", tmp_path), "is a folder"),
            (
                ("-o", tmp_path / "e", "--timing-cache", tmp_path / "e"),
                "is also read or written by this run",
            ),
        ):
            code, _, err = convt("build", source, *arguments)
            assert (code, words in err) == (2, True)
        (tmp_path / "model.engine").write_bytes(b"old")
        code, _, err = convt("build", source)
        assert (code, "--force" in err) == (2, True)
        assert (tmp_path / "model.engine").read_bytes() == b"old"
        assert convt("build", source, "--force")[0] == 0

    def test_bad_values_are_one_line_each(self, convt, tmp_path):
        source = write(opened(), tmp_path)
        for arguments, code, words in (
            (("--opt", "x"), 2, "cannot read the shape 'x'"),
            (("--backend", "rtx"), 2, "no backend 'rtx'"),
            (("--optimization-level", "7", "--opt", "x"), 2, "from 0 to 5"),
            (("--compute-capability", "ada", "--opt", "x"), 2, "compute capability 'ada'"),
            (("--hardware-compatibility", "ada_plus", "-o", source), 2, "no hardware compat"),
            (("--opt", "z:1,4,9"), 2, "no input 'z'"),
            ((), 2, "has open sizes"),
        ):
            got, _, err = convt("build", source, *arguments)
            assert (got, words in err) == (code, True), err
            assert "help:" in err

    def test_a_model_that_is_none(self, convt, tmp_path):
        path = tmp_path / "m.onnx"
        path.write_bytes(b"\x00" * 100)
        assert convt("build", path)[0] == 2


def test_inputs_are_used_for_the_proof(build, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=array(1, 4, 11))
    result = build(opened(), inputs=path, profiles=read_profiles([], [("x", (1, 4, 11))], []))
    assert result.proof.ok
