"""An evaluation on fake tensors takes what a real one does, whether its loop keeps the logits or not."""

from itertools import accumulate

import pytest
import torch
from torch import nn
from transformers.trainer_pt_utils import EvalLoopContainer

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.record.quantity import Unknown
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, rehearse_step
from perfkit.plan.variants.kept_outputs import compute_kept_outputs
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import draw_batches
from perfkit.workloads.workload_table import load_workload

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]  # real steps, rehearsed

GPT = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16})
IMAGES = WorkloadSpec(name="resnet", params={"depth": 18, "image_size": 64, "batch_size": 8})
SAMPLES = 12


def rehearse(techniques: str = "baseline", ranks: int = 1, workload: WorkloadSpec = GPT) -> RehearsedStep:
    (variant,) = parse_variants(techniques)
    spec = RunSpec(workload=workload, techniques=variant, launch=LaunchSpec(world_size=ranks))
    return rehearse_step(spec, None, SAMPLES)


def forward_peak(step: RehearsedStep) -> tuple[RehearsedEvaluation, int]:
    """The evaluation, and its peak above what is held between steps."""
    assert isinstance(step.evaluation, RehearsedEvaluation)
    account = build_memory_account(step.evaluation.allocations)
    assert account is not None
    assert account.peak_phase == "forward"
    return step.evaluation, account.peak_bytes - step.held_bytes


def evaluate(batches: int, kept: bool, accumulation: int | None = None, spec: WorkloadSpec = GPT) -> int:
    """The peak of a real loop above its start, as recorded; it keeps what Transformers' Trainer keeps, as long."""
    workload = load_workload(spec.replace_params(batch_size=SAMPLES), device="cpu")
    model = workload.build_model()
    assert isinstance(model, nn.Module)
    model.eval()
    drawn = draw_batches(workload, torch.Generator())
    outputs: list[torch.Tensor] = []
    model.register_forward_hook(lambda _module, _args, output: outputs.append(output))
    made = [next(drawn) for _ in range(batches)]
    containers = (EvalLoopContainer(), EvalLoopContainer())
    logits = labels = batch = None
    with AllocationProfiler(ops=False) as profiler, torch.no_grad():
        for number, each in enumerate(made, 1):
            batch = {name: tensor.clone() for name, tensor in each.items()}
            call_loss(workload, model, batch)
            if kept:
                logits, labels = outputs.pop(), batch["targets"]
                containers[0].add(logits)
                containers[1].add(labels)
            outputs.clear()
            if not kept or (accumulation is not None and number % accumulation == 0):
                for container in containers:
                    if kept:
                        container.to_cpu_and_numpy()
                logits = labels = batch = None
    return max(accumulate(event.size for event in profiler.recorded.allocations))


def test_a_step_takes_what_a_real_one_takes() -> None:
    _, planned = forward_peak(rehearse())
    assert planned == pytest.approx(evaluate(batches=1, kept=False), rel=1e-3)


def test_training_batches_are_none_of_it() -> None:
    _, planned = forward_peak(rehearse(workload=IMAGES))
    assert planned == pytest.approx(evaluate(batches=1, kept=False, spec=IMAGES), rel=1e-3)


@pytest.mark.parametrize(
    ("batches", "accumulation"), [(1, None), (2, None), (3, None), (9, None), (9, 3), (4, 2), (3, 1)]
)
def test_what_is_kept_takes_what_it_takes_in_a_real_loop(batches: int, accumulation: int | None) -> None:
    evaluation, planned = forward_peak(rehearse())
    assert evaluation.logits_bytes == SAMPLES * 16 * 256 * 4
    assert (evaluation.labels_bytes, evaluation.inputs_bytes) == (SAMPLES * 16 * 8, 2 * SAMPLES * 16 * 8)
    more = compute_kept_outputs(evaluation, planned, batches, accumulation, on_cpu=True).device
    assert planned + more == pytest.approx(evaluate(batches, True, accumulation), rel=1e-3)


def test_without_gradients_no_layer_keeps_its_inputs() -> None:
    step = rehearse()
    training = build_memory_account(step.allocations)
    assert training is not None
    _, planned = forward_peak(step)
    per_sample = planned / SAMPLES
    assert per_sample < (training.peak_bytes - step.held_bytes) / 2 / 2  # of two samples, which keep activations


def test_ranks_gather_the_logits_of_all() -> None:
    evaluation, _ = forward_peak(rehearse("zero3", ranks=4))
    assert (evaluation.copies, evaluation.units) == (4, 4 * SAMPLES * 16)
    kept = compute_kept_outputs(evaluation, 0, 3, on_cpu=False)
    labels, inputs = 4 * evaluation.labels_bytes, evaluation.inputs_bytes
    assert kept.device == 2 * 3 * 4 * evaluation.logits_bytes + 2 * labels + inputs
    assert kept.host == 3 * (4 * evaluation.logits_bytes + labels)


def test_a_pipeline_is_not_evaluated() -> None:
    evaluation = rehearse("pp", ranks=2).evaluation
    assert isinstance(evaluation, Unknown)
    assert "pipeline" in evaluation.reason
