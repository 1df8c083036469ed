"""The compiled kernels on a CUDA device, against the oracle; run alone: pytest tests/gpu."""

import os
import random

import pytest

torch = pytest.importorskip("torch", reason="the kernels need torch")
pytest.importorskip("triton", reason="the kernels need triton")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("Triton's interpreter is on; run tests/gpu alone", allow_module_level=True)

from convt_onnx.plugins import torch_op  # noqa: E402
from convt_onnx.plugins.conv_transpose import (  # noqa: E402
    autotune,
    groups,
    heuristics,
    op,
    router,
    tuned,
)
from convt_onnx.plugins.conv_transpose.arguments import spec_of  # noqa: E402

from ..plugins.drawing import (  # noqa: E402
    NARROW_GROUPS,
    THREE_PHASES,
    TOLERANCE,
    WHOLE_LINES,
    draw_resident,
    draw_schedule,
    draw_sizes,
    draw_spec,
    operands,
    wanted,
)


@pytest.mark.parametrize("seed", range(60))
def test_every_kind_of_schedule_equals_the_oracle_and_repeats_itself(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    spec, dtype = draw_spec(rng), rng.choice(sorted(TOLERANCE, key=str))
    x, w, b = operands(spec, 2, draw_sizes(rng, spec), dtype, rng.random() < 0.5)
    want = torch.from_numpy(wanted(x, w, b, spec))
    xd, wd, bd = x.cuda(), w.cuda(), b.cuda()
    problem = op.make_problem(xd, spec)
    device = op.device_of(xd)
    for schedule in (
        heuristics.choose(problem, device),
        draw_schedule(rng, problem),
        heuristics.direct_schedule(problem),
        draw_resident(rng, problem),
    ):
        if schedule is None:
            continue
        y = op.empty_result(xd, problem).fill_(float("nan"))
        op.conv_transpose(xd, wd, bd, spec, schedule=schedule, out=y)
        scale = max(1.0, float(want.abs().max()))
        assert float((y.double().cpu() - want).abs().max()) < TOLERANCE[dtype] * scale
        assert torch.equal(op.conv_transpose(xd, wd, bd, spec, schedule=schedule), y)


@pytest.mark.parametrize("dtype", sorted(TOLERANCE, key=str))
@pytest.mark.parametrize("spec", [*WHOLE_LINES, *NARROW_GROUPS, THREE_PHASES])
def test_lines_merged_groups_and_pairs_equal_the_oracle(spec, dtype, monkeypatch):
    monkeypatch.setattr(groups, "MERGED_FROM", 0)
    torch.manual_seed(0)
    sizes = (5, 3, 8)[-spec.ndim :]
    x, w, b = operands(spec, 2, sizes, dtype, last=spec in NARROW_GROUPS)
    xd, wd, bd = x.cuda(), w.cuda(), b.cuda()
    problem = op.make_problem(xd, spec)
    schedule = heuristics.choose(problem, op.device_of(xd))
    assert schedule.merge == (spec.group if spec in NARROW_GROUPS else 1)
    y = op.empty_result(xd, problem).fill_(float("nan"))
    residual = torch.randn_like(y)
    op.conv_transpose(xd, wd, bd, spec, schedule=schedule, residual=residual, out=y)
    want = torch.from_numpy(wanted(x, w, b, spec)) + residual.double().cpu()
    scale = max(1.0, float(want.abs().max()))
    assert float((y.double().cpu() - want).abs().max()) < TOLERANCE[dtype] * scale


def test_more_than_2_to_the_31_elements():
    if torch.cuda.get_device_properties(0).total_memory < 20 << 30:
        pytest.skip("needs 20 GiB of device memory")
    x = torch.randn(1, 16, 1 << 22, 4, device="cuda", dtype=torch.float16)
    w = torch.randn(16, 16, 4, 4, device="cuda", dtype=torch.float16)
    y = torch_op.conv_transpose2d(x, w, None, 4)
    part = torch.nn.functional.conv_transpose2d(x[:, :, -8:], w, None, 4)
    assert y.numel() > 2**31
    torch.testing.assert_close(y[:, :, -32:], part, rtol=1e-2, atol=2e-2)


def test_autotune_keeps_what_it_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVT_ONNX_CACHE", str(tmp_path))
    tuned.choose.cache_clear()
    spec = draw_spec(random.Random(3))
    x, w, b = operands(spec, 2, draw_sizes(random.Random(3), spec), torch.float16, last=True)
    x, w, b = x.cuda(), w.cuda(), b.cuda()
    schedule = autotune.autotune(x, w, b, spec, limit=4)
    assert tuned.choose(op.make_problem(x, spec), op.device_of(x)) == schedule


def test_the_operator_launches_the_kernel_and_its_gradients_are_atens():
    x = torch.randn(4, 32, 20, 20, device="cuda")
    w = torch.randn(32, 16, 3, 3, device="cuda")
    spec = spec_of(w, (2, 2), (1, 1), (1, 1), (0, 0), (1, 1), 1)
    assert router.worth(op.make_problem(x, spec), op.device_of(x))
    with torch.no_grad():
        ours = torch_op.conv_transpose2d(x, w, None, 2, 1)
    torch.testing.assert_close(
        ours, torch.nn.functional.conv_transpose2d(x, w, None, 2, 1), rtol=1e-2, atol=5e-2
    )
    grads = []
    # Two calls of ATen itself differ where cuDNN may add in any order, or times its ways anew.
    with torch.backends.cudnn.flags(deterministic=True, benchmark=False, allow_tf32=False):
        for function in (torch_op.conv_transpose2d, torch.nn.functional.conv_transpose2d):
            leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
            function(leaf, weight, None, 2, 1).square().sum().backward()
            grads.append((leaf.grad, weight.grad))
    for ours, atens in zip(*grads, strict=True):
        assert torch.equal(ours, atens)
