"""Reports as JSON are what the schema says, and the schema says everything."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import convt_onnx.report
from convt_onnx.report.gathering import report_of
from convt_onnx.report.writing import report_document

from ..graph.building import array, model
from .made_up import PEAKS, not_taken, untimed, with_times

SCHEMA = json.loads((Path(convt_onnx.report.__file__).parent / "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)


def valid(result, **arguments):
    """The document, as it is read back from its text, which the schema must accept."""
    document = json.loads(json.dumps(report_document(report_of(result, **arguments))))
    VALIDATOR.validate(document)
    return document


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def objects(schema):
    """Every schema of an object with named fields."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object":
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_the_schema_leaves_nothing_open():
    found = list(objects(SCHEMA))
    assert len(found) > 10
    for schema in found:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        assert schema["description"]


def test_with_times(tmp_path):
    result = with_times(untimed(tmp_path, forms={"up": "phases"}), reverted=("down",))
    document = valid(result, command=["convt-onnx", "optimize", "m.onnx"], peaks=PEAKS)
    up, down = document["nodes"]
    assert (up["number"], up["path"], up["form"]) == (1, "up", "phases")
    assert up["reason"]["id"] == "CT205"
    assert up["before"] == {"median_us": 1000, "low_us": 900, "high_us": 1200, "runs": 31}
    assert up["after"]["median_us"] == 500
    assert up["check"]["ok"] and up["check"]["error"] <= up["check"]["bound"]
    assert down["reverted"] and not up["reverted"]
    # 6 to 4 channels in 2 groups, k3x5 s2: 9x7 inputs.
    assert up["costs"]["sizes"] == [9, 7]
    assert up["costs"]["bytes"] == 4 * (6 * 9 * 7 + 6 * 2 * 3 * 5 + 4 * 18 * 16)
    assert document["measured"]["threads"] == 2
    assert document["peaks"]["flops_per_s"] == 8e10
    refusals = [c["refusal"] for n in document["nodes"] for c in n["candidates"]]
    mentioned = {r["id"] for r in refusals if r} | {n["reason"]["id"] for n in document["nodes"]}
    assert mentioned <= {r["id"] for r in document["reasons"]}


def test_a_rewrite_that_was_not_taken(tmp_path):
    document = valid(not_taken(with_times(untimed(tmp_path))))
    assert [m["runs"] for m in document["models"]] == [[], []]
    assert len([n for n in document["notes"] if "was not faster by enough" in n]) == 2
    (attempt,) = document["attempts"]
    assert (attempt["changed"], attempt["faster"]) == ("other forms of 2 nodes", False)
    assert [m["after"]["median_us"] for m in attempt["models"]] == [4000, 8000]
    assert [m["inputs"] for m in attempt["models"]] == ["x:1,6,9,7", "x:2,6,9,7"]


def test_without_times_checks_or_a_file(tmp_path):
    document = valid(untimed(tmp_path, dry_run=True, verify=False, target="portable"))
    assert document["measured"] is document["proof"] is document["command"] is None
    assert document["models"][1]["path"] is document["models"][1]["bytes"] is None
    assert all(n["before"] is n["after"] is None for n in document["nodes"])


def test_expected_times_where_nothing_was_timed(tmp_path):
    result = untimed(tmp_path)
    document = valid(result)
    for decision, node in zip(result.decisions, document["nodes"], strict=True):
        expected = {c.form: c.expected_us for c in decision.candidates}
        assert {c["form"]: c["expected_us"] for c in node["candidates"]} == expected
        assert expected["keep"] > 0


UNREAD = """g (float[1,3,5] x, float[3,2,4] w) => (float[A,B,C] y) {
  [n] y = ConvTranspose <strides=[2]> (x, w) }"""


@pytest.mark.parametrize(
    "proto",
    [
        model(UNREAD),
        model(
            "g (float[N,3,L] x) => (float[A,B,C] y) { [n] h = ConvTranspose (x, w) y = Relu (h) }",
            w=array(3, 4, 5),
        ),
        model("g (float[2] x) => (float[2] y) { y = Relu (x) }"),
    ],
    ids=["weight at run time", "open sizes", "nothing to do"],
)
def test_other_models(tmp_path, proto):
    document = valid(untimed(tmp_path, proto))
    assert len(document["nodes"]) == sum(n.op_type == "ConvTranspose" for n in proto.graph.node)


def test_a_wrong_document_is_refused(tmp_path):
    document = valid(untimed(tmp_path))
    document["nodes"][0]["form"] = 3
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(document)
