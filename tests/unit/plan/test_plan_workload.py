"""Plans asked for in Python: the GPUs, their numbers and prices, and mixed lengths, as on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import perfkit
from perfkit.analysis.model.plan import GpuOffer, Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import Target
from perfkit.plan.variants.verdict import judge_fit
from perfkit_cli.main import commands

GPT = "gpt:size=nano"


def plan_made_up(run: ScheduledRun, target: Target) -> PlannedVariant:
    """A card needs 60 GiB over the ranks; an l40s takes a millisecond for each token of a sequence, others half."""
    ranks = run.spec.launch.world_size
    length = int(run.spec.workload.params.get("seq_len", 64))
    seconds = length * (1e-3 if target.device == "l40s" else 5e-4)
    held = 60 * 2**30 // ranks
    return judge_fit(
        PlannedVariant(
            name=run.spec.variant,
            world_size=ranks,
            peak_allocated_bytes=PlannedPeak(value=held, low=held, high=held, phase="", categories={}),
            step_s=StepTime(total=Interval(value=seconds, low=seconds, high=seconds), parts={}, dominant="", source=""),
            unit="tokens",
            units_per_step=float(length * ranks),
            matrix_flops=1e9,
            compute_dtype="bf16",
        ),
        target,
    )


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.plan.plan_gpus.make_shared_planner", lambda _evaluation: plan_made_up)


def figures(offer: GpuOffer) -> tuple[str, int, float | None, bool | None]:
    return offer.device, offer.count, offer.cost, offer.fits


def test_gpus_numbers_and_prices_are_those_of_the_command_line(tmp_path: Path) -> None:
    prices = tmp_path / "dear.json"
    prices.write_text('{"l40s": 0.72}')
    plan = perfkit.plan(
        GPT, "zero3", gpu="l40s,h100-sxm", gpus="1..4", price=["h100-sxm=2.16/h"], prices=prices, tokens="2B",
        seq_lengths={32: 0.5, 64: 0.5},
    )  # fmt: skip
    command = [
        "plan", GPT, "-t", "zero3", "--gpu", "l40s,h100-sxm", "--gpus", "1..4", "--price", "h100-sxm=2.16/h",
        "--prices", str(prices), "--tokens", "2B", "--seq-lengths", "32:0.5,64:0.5", "--json",
    ]  # fmt: skip
    ended = CliRunner().invoke(commands, command)
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)["offers"]
    assert [figures(offer) for offer in plan.offers] == [
        (each["device"], each["count"], each["cost"], each["fits"]) for each in told
    ]
    assert plan.run_units == 2e9
    # A token takes a millisecond on one of n cards that share 48 of them: 0.72 / 3600 s x 1e-3 s x 1e6 tokens.
    costs = {offer.device: offer.cost for offer in plan.offers}
    assert costs == pytest.approx({"l40s": 0.2, "h100-sxm": 0.3})
    assert (plan.offers[0].device, plan.offers[0].fits) == ("l40s", True)


@pytest.mark.parametrize(("gpus", "counts"), [(2, {2}), ([2, 4], {2, 4}), ("2,4", {2, 4})])
def test_numbers_of_gpus_are_given_as_they_come(gpus: Any, counts: set[int]) -> None:
    plan = perfkit.plan(GPT, "zero3", gpu="l40s", gpus=gpus)
    assert {offer.count for offer in plan.offers} == counts


@pytest.mark.parametrize(
    ("asked", "id"),
    [
        ({"gpus": 2}, "usage.wrong"),
        ({"price": "h100=1/h"}, "usage.wrong"),
        ({"tokens": "2B"}, "usage.wrong"),
        ({"gpu": "l40s", "tokens": "many"}, "usage.wrong"),
        ({"gpu": "l40s", "gpus": 2, "world_size": 2}, "usage.conflict"),
        ({"gpu": "l40s,h100-sxm", "scaling": "strong"}, "usage.conflict"),
        ({"seq_lengths": "32:0.5,64:0.5", "seq_len": 64}, "usage.conflict"),
        ({"seq_lengths": {32: 0.5, 64: 0.25}}, "usage.wrong"),
        ({"seq_lengths": {0: 1.0}}, "usage.wrong"),
        ({"packing": 64}, "usage.missing_option"),
        ({"seq_lengths": {32: 0.5, 64: 0.5}, "packing": 48}, "usage.wrong"),
        ({"eval_batches": 4}, "usage.missing_option"),
    ],
)
def test_wrong_requests_are_refused(asked: dict[str, Any], id: str) -> None:
    with pytest.raises(UsageError) as raised:
        perfkit.plan(GPT, "zero3", **asked)
    assert raised.value.id == id
