"""A form that writes the wrong nodes must not get past the verification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from convt_onnx import OptimizeOptions, optimize
from convt_onnx.cli import main
from convt_onnx.errors import ConvtError, ExitCode, UsageError, VerificationError
from convt_onnx.forms import FORMS
from convt_onnx.graph.operands import ConstantOperand
from convt_onnx.tuning.options import SizeSet, TuneOptions

from .folder import names
from .graph.building import array, model, write

FORM = "phases"
TEXT = """g (float[1,4,7] x) => (float[A,B,C] y) {
  h = Relu (x) [a] u = ConvTranspose <strides=[2], group=2, pads=[1,1]> (h, w, b)
  [c] v = ConvTranspose <strides=[2]> (u, k) y = Tanh (v) }"""
PARTS = {"w": array(4, 3, 5), "b": array(6), "k": array(6, 2, 3)}


def with_weight(node, change):
    tensor = ir.Tensor(np.ascontiguousarray(change(node.weight.array())))
    value = ir.Value(name="wrong", const_value=tensor)
    return replace(node, weight=ConstantOperand(value, tensor))


def with_pads(node, begin, end):
    return replace(node, spec=replace(node.spec, pads_begin=(begin,), pads_end=(end,)))


# Wrong in ways that keep every shape.
SUBTLE = {
    "flipped taps": lambda node: with_weight(node, lambda w: w[:, :, ::-1]),
    "one tap too few": lambda node: with_weight(node, lambda w: w * (np.arange(w.shape[2]) > 0)),
    "crop one row late": lambda node: with_pads(node, 2, 0),
    "crop one row early": lambda node: with_pads(node, 0, 2),
    "groups exchanged": lambda node: with_weight(node, lambda w: np.roll(w, 2, axis=0)),
    "inputs of a group exchanged": lambda node: with_weight(node, lambda w: w[[1, 0, 3, 2]]),
    "outputs of a group exchanged": lambda node: with_weight(node, lambda w: w[:, [1, 0, 2]]),
    "bias lost": lambda node: replace(node, bias=None),
    "rounded weights": lambda node: with_weight(
        node, lambda w: w.astype(np.float16).astype(np.float32)
    ),
}


def emit_identity(em, node, setting):
    return em.op("Identity", [node.x])


def emit_nonsense(em, node, setting):
    return em.op("Conv", [node.x])


def emit_reshaped(em, node, setting):
    return em.reshape(FORMS["overlap-add"].emit(em, node, setting), [1, 1, -1])


@pytest.fixture
def wrong_form(monkeypatch):
    """Let FORM emit what `emit` emits, for the node `a` alone."""
    right = FORMS[FORM]

    def install(emit):
        def choose(em, node, setting):
            return (emit if node.path == "a" else right.emit)(em, node, setting)

        monkeypatch.setitem(FORMS, FORM, replace(right, emit=choose))

    install.right = right
    return install


def attempt(folder, **options):
    source = write(model(TEXT, **PARTS), folder)
    forms = {"all": FORM}
    return optimize(source, options=OptimizeOptions(forms=forms, force=True, **options))


def test_the_right_form_passes(tmp_path):
    assert {d.form for d in attempt(tmp_path).decisions} == {FORM}


@pytest.mark.parametrize("name", SUBTLE)
def test_subtle_errors_are_found_and_named(tmp_path, wrong_form, name):
    wrong_form(lambda em, node, setting: wrong_form.right.emit(em, SUBTLE[name](node), setting))
    with pytest.raises(VerificationError) as caught:
        attempt(tmp_path)
    assert caught.value.where == "first difference: a"
    assert caught.value.exit_code == ExitCode.CHECK_FAILED
    assert "nothing was written" in caught.value.help
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("emit", [emit_identity, emit_nonsense, emit_reshaped])
def test_coarse_errors_write_nothing_either(tmp_path, wrong_form, emit):
    wrong_form(emit)
    with pytest.raises(VerificationError):
        attempt(tmp_path)
    assert names(tmp_path) == ["model.onnx"]


def test_an_old_output_survives_a_failure(tmp_path, wrong_form):
    (tmp_path / "model.convt.onnx").write_bytes(b"old")
    wrong_form(emit_identity)
    with pytest.raises(VerificationError):
        attempt(tmp_path)
    assert names(tmp_path) == ["model.convt.onnx", "model.onnx"]
    assert (tmp_path / "model.convt.onnx").read_bytes() == b"old"


def test_a_lost_output_is_found_without_running(tmp_path, wrong_form):
    def emit(em, node, setting):
        node.node.graph.outputs.pop()
        return wrong_form.right.emit(em, node, setting)

    wrong_form(emit)
    with pytest.raises(VerificationError, match="other inputs or outputs"):
        attempt(tmp_path, verify=False)


def test_the_command_exits_with_1_and_names_the_node(tmp_path, wrong_form, capsys):
    change = SUBTLE["crop one row late"]
    wrong_form(lambda em, node, setting: wrong_form.right.emit(em, change(node), setting))
    source = write(model(TEXT, **PARTS), tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["optimize", str(source), "--form", f"all={FORM}"])
    assert caught.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: verification failed" in err
    assert "first difference: a\n" in err
    assert "\nhelp:  nothing was written" in err


def test_a_wrong_node_in_a_subgraph_is_found_end_to_end(tmp_path, wrong_form):
    text = """g (float[1,4,7] x) => (float[A,B,C] y) { c = Constant <value = bool {1}> ()
      y = If (c) <then_branch = t () => (float[D,E,F] p) {
                    [a] p = ConvTranspose <strides=[2], group=2, pads=[1,1]> (x, w, b) },
                  else_branch = e () => (float[G,H,I] q) { q = Relu (x) }> }"""
    change = SUBTLE["groups exchanged"]
    wrong_form(lambda em, node, setting: wrong_form.right.emit(em, change(node), setting))
    source = write(model(text, w=PARTS["w"], b=PARTS["b"]), tmp_path)
    with pytest.raises(VerificationError, match="output 'y' differs"):
        optimize(source, options=OptimizeOptions(forms={"a": FORM}))
    assert names(tmp_path) == ["model.onnx"]


# Requests that cannot be met.


@pytest.mark.parametrize(
    ("options", "what", "help"),
    [
        ({"target": "ort-cup"}, "no target 'ort-cup'", "'ort-cpu'"),
        ({"forms": {"a": "phaces"}}, "no form 'phaces'", "'phases'"),
        ({"forms": {"aa": "phases"}}, "no ConvTranspose node 'aa'", "'a'"),
        ({"skip": frozenset({"cc"})}, "no ConvTranspose node 'cc'", "'c'"),
        ({"forms": {"a": "conv"}}, "form 'conv' does not apply", "explain CT301"),
        ({"forms": {"a": "undilate"}}, "form 'undilate' does not apply", "explain CT309"),
        ({"forms": {"a": "gemm"}}, "form 'gemm' does not apply", "explain CT303"),
        ({"passes": ("lowr",)}, "no pass 'lowr'", "'lower'"),
    ],
)
def test_wrong_usage(tmp_path, options, what, help):
    source = write(model(TEXT, **PARTS), tmp_path)
    with pytest.raises(UsageError) as caught:
        optimize(source, options=OptimizeOptions(**options))
    assert what in caught.value.what
    assert help in caught.value.help
    assert caught.value.where
    assert caught.value.exit_code == ExitCode.USAGE
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize("options", [{"forms": {"a": "keep"}}, {"skip": frozenset({"a"})}])
def test_a_node_of_a_model_without_any(tmp_path, options):
    source = write(model("g (float[3] x) => (float[3] y) { y = Relu (x) }"), tmp_path)
    with pytest.raises(UsageError, match="no ConvTranspose node 'a'"):
        optimize(source, options=OptimizeOptions(**options))
    assert names(tmp_path) == ["model.onnx"]


@pytest.mark.parametrize(
    "attributes", ["group=3", "pads=[1]", "strides=[0]", "output_shape=[999]", "kernel_shape=[4]"]
)
def test_an_invalid_node(tmp_path, attributes):
    text = f"g (float[1,4,7] x) => (float[] y) {{ [a] y = ConvTranspose <{attributes}> (x, w) }}"
    source = write(model(text, w=PARTS["w"]), tmp_path)
    with pytest.raises(ConvtError) as caught:
        optimize(source)
    assert caught.value.exit_code == ExitCode.USAGE
    assert "'a'" in caught.value.where
    assert names(tmp_path) == ["model.onnx"]


def emit_short(em, node, setting):
    """Right for as many columns as 7 make."""
    right = FORMS["overlap-add"].emit(em, node, setting)
    return em.op("Slice", [right, *(em.ints([n], "bound") for n in (0, 15, 2))])


@pytest.mark.parametrize("sizes", [(7,), (7, 9)])
def test_every_set_of_sizes_is_verified(tmp_path, wrong_form, sizes):
    wrong_form(emit_short)
    text = TEXT.replace("[1,4,7]", "[N,4,L]")
    source = write(model(text, **PARTS), tmp_path)
    sets = tuple(SizeSet({"x": (1, 4, n)}) for n in sizes)
    options = OptimizeOptions(forms={"all": FORM}, tune=TuneOptions(enabled=False, sizes=sets))
    if len(sizes) == 1:
        assert optimize(source, options=options).verification.ok
        return
    with pytest.raises(VerificationError) as caught:
        optimize(source, options=options)
    assert caught.value.where.endswith("with x:1,4,9")
    assert names(tmp_path) == ["model.onnx"]
