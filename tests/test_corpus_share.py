"""The share of a run that benchmarks/corpus_share.py gives ConvTranspose, on made-up times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import parser

from convt_onnx.tuning.ort import ort_runtime
from convt_onnx.verify.session import RunError, Runner, Source

HEAD = '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>\n'
X = "float[N,4,5,7] x"
ALONE = f"{HEAD} up ({X}, float[4,3,3,2] w) => (y) {{ y = ConvTranspose <strides=[2,3]> (x, w) }}"
# Exp is read by the node alone; the Shape of what it gives is not known before the run.
MIDDLE = f"""{HEAD} up ({X}, float[4,3,3,2] w) => (y, s)
{{ e = Exp(x)  c = ConvTranspose <group=2, strides=[2,1]> (e, w)  y = Sigmoid(c)  s = Shape(c) }}
"""
# The first one is an output of the model, and the second one reads it, and so does Tanh.
TWO = f"""{HEAD} up ({X}, float[4,3,3,2] w, float[3,2,2,5] v) => (c, y, t)
{{ r = Relu(x)  c = ConvTranspose <strides=[2,3]> (r, w)  t = Tanh(c)
   d = ConvTranspose <strides=[1,2], dilations=[2,1]> (c, v)  y = Neg(d) }}
"""
NORMALISED = f"""{HEAD} up ({X}) => (y)
<float[4,1,1,1] w = {{2,-3,5,1}}, float[1] a = {{3}}, float[1] b = {{-1}}, float[1] v = {{4}}>
{{ c = ConvTranspose (x, w)  n = BatchNormalization (c, a, b, b, v)  y = Abs(n) }}
"""
CALLED = f"""{HEAD} up ({X}, float[4,3,3,2] w) => (y) {{ c = local.Up(x, w)  y = Sin(c) }}
<domain: "local", opset_import: ["" : 17]>
Up (a, b) => (o) {{ i = Relu(a)  o = ConvTranspose <strides=[2,1]> (i, b) }}
"""
NESTED = f"""{HEAD} up ({X}, float[4,3,3,2] w, bool b) => (y)
{{ y = If (b) <then_branch = t () => (p) {{ p = ConvTranspose (x, w) }},
                else_branch = e () => (q) {{ q = ConvTranspose <strides=[2,2]> (x, w) }}> }}
"""
MODELS = {"alone": ALONE, "middle": MIDDLE, "two": TWO, "normalised": NORMALISED, "called": CALLED}


@pytest.fixture
def share(load):
    return load("corpus_share")


@pytest.fixture
def runtime():
    return ort_runtime("CPUExecutionProvider", 1)


def saved(text, folder):
    path = folder / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def feeds_of(text):
    rng = np.random.default_rng(3)
    sizes = {"x": (2, 4, 5, 7), "w": (4, 3, 3, 2), "v": (3, 2, 2, 5)}
    names = [i.name for i in parser.parse_model(text).graph.input]
    return {n: rng.standard_normal(sizes[n]).astype(np.float32) for n in names if n in sizes}


def ablated(share, runtime, text, folder):
    """The basic graph of a model, and what `ablation` makes of it."""
    basic = share.basic(saved(text, folder), folder)
    return basic, share.ablation(basic, runtime, feeds_of(text))


@pytest.mark.parametrize("name", MODELS)
def test_given_results_lead_to_the_same_outputs(share, runtime, tmp_path, name):
    text = MODELS[name]
    feeds = feeds_of(text)
    _, (without, more) = ablated(share, runtime, text, tmp_path)
    given = set(more) - set(feeds)
    assert len(given) == text.count("ConvTranspose")
    assert "ConvTranspose" not in {n.op_type for n in without.proto.graph.node}
    wanted = Runner(Source(parser.parse_model(text), tmp_path)).run(feeds)
    runner = Runner(without)
    found = runner.run(more)
    assert list(found) == list(wanted)
    for key, array in wanted.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-6)
    # The outputs are made of what is given, and nothing is computed ahead.
    other = runner.run({n: a + (n in given) for n, a in more.items()})
    assert not np.allclose(other["y"], wanted["y"])


def test_sizes_that_were_open_stay_open(share, runtime, tmp_path):
    _, (without, _) = ablated(share, runtime, MIDDLE, tmp_path)
    (given,) = [i for i in without.proto.graph.input if i.name == "c"]
    assert [d.dim_value for d in given.type.tensor_type.shape.dim] == [0, 6, 11, 8]


def kernels(corpus, source, feeds, folder):
    """How often each operator runs, by ONNX Runtime's profile."""
    path = folder / "profiled.onnx"
    onnx.save(source.proto, path)
    runs = corpus.kernel_times(path, feeds, 1, folder)
    return Counter(name for run in runs for name, _ in run)


def test_what_fed_the_node_alone_still_runs(share, runtime, tmp_path, load):
    basic, (without, more) = ablated(share, runtime, MIDDLE, tmp_path)
    corpus = load("corpus")
    before = kernels(corpus, basic, feeds_of(MIDDLE), tmp_path)
    after = kernels(corpus, without, more, tmp_path)
    assert after["Exp"] == corpus.PROFILED_RUNS
    assert before - after == Counter(ConvTranspose=corpus.PROFILED_RUNS)


def test_what_a_session_folds_into_the_node_does_not_come_back(share, runtime, tmp_path):
    _, (without, _) = ablated(share, runtime, NORMALISED, tmp_path)
    assert [n.op_type for n in without.proto.graph.node] == ["Abs"]


@dataclass(frozen=True)
class Timed:
    """A session that takes the time that it is told."""

    session: object
    takes: float

    def seconds(self, runs):
        return self.takes


@dataclass(frozen=True)
class Runtime:
    """Models take 8 s with a ConvTranspose, and 3 s without one, or do not load."""

    real: object
    fails: bool = False

    def load(self, source, feeds):
        timed = self.real.load(source, feeds)
        mine = any(n.op_type == "ConvTranspose" for n in source.proto.graph.node)
        if self.fails and not mine:
            raise RunError("it does not load", where="here", help="none")
        return Timed(timed.session, 8.0 if mine else 3.0)


def test_the_share_is_what_goes_away(share, runtime, tmp_path):
    path = saved(TWO, tmp_path)
    assert share.run_share(path, Runtime(runtime), feeds_of(TWO), 0.0, tmp_path) == 5 / 8


@pytest.mark.parametrize("name", ["nested", "not a model", "does not load"])
def test_a_share_may_be_unknown(share, runtime, tmp_path, name):
    path = saved(NESTED if name == "nested" else ALONE, tmp_path)
    feeds = {**feeds_of(ALONE), **({"b": np.array(True)} if name == "nested" else {})}
    if name == "not a model":
        path.write_bytes(b"no")
    fake = Runtime(runtime, fails=name == "does not load")
    assert share.run_share(path, fake, feeds, 0.0, tmp_path) is None


@pytest.mark.parametrize(
    ("with_it", "without", "wanted"),
    [
        ([4.0, 4.0, 8.0], [1.0, 2.0, 5.0], 0.5),
        ([4.0, 5.0, 4.0], [4.0, 5.5, 4.1], 0.0),
        ([10.0], [9.0], 0.1),
    ],
)
def test_the_share_is_of_the_median_ratio_and_not_below_0(share, with_it, without, wanted):
    samples = {share.WITH: with_it, share.WITHOUT: without}
    assert share.share_of(samples) == pytest.approx(wanted)
