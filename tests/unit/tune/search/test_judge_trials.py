"""Which trials are improvements, and why others are not."""

import math
from typing import Any

import pytest

from perfkit.analysis.model.estimate import Difference
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import Measurement, QuantityOrigin
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.store.request import BenchRequest
from perfkit.tune.model.tune_request import TuneRequest
from perfkit.tune.model.tune_result import Trial
from perfkit.tune.search.judge_trials import compute_gain, judge_stage
from perfkit.tune.search.rank_candidates import RankedCandidate
from tests.fixtures.sample_analysis import realistic
from tests.fixtures.suites import changed

BY_NAME = {variant.name: variant for variant in realistic().variants}
MIB = 2.0**20


def make_request(**fields: Any) -> TuneRequest:
    bench = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=1, cores=2)
    given = {"technique": "all", "offered": (), "objective": "time", "allow": "tolerance", "budget_s": 60.0}
    return TuneRequest(bench=bench, **(given | fields))


def make_variant(name: str, ratio: float, half: float = 0.01, peak: float = 100.0, **fields: Any) -> Variant:
    """A variant that is `ratio` times as slow, within `half` (relative)."""
    verdict = "faster" if ratio * (1 + half) < 1 else "slower" if ratio * (1 - half) > 1 else "inconclusive"
    difference = Difference(
        baseline="baseline",
        ratio=ratio,
        low=ratio * (1 - half),
        high=ratio * (1 + half),
        verdict=verdict,
        detectable=half,
        pairs=5,
    )
    memory = Measurement(value=peak * MIB, unit="bytes", how=QuantityOrigin.MEASURED, source="the allocator's events")
    given = {"name": name, "techniques": tuple(name.split("+")), "difference": difference, "peak_allocated": memory}
    return changed(BY_NAME["amp"], **(given | fields))


def judge(*variants: Variant, base: str = "", **fields: Any) -> dict[str, Trial]:
    known = {"baseline": make_variant("baseline", 1.0, is_baseline=True, difference=None)}
    known |= {variant.name: variant for variant in variants}
    candidates = [RankedCandidate(parse_variants(name)[0]) for name in known if name not in ("baseline", base)]
    return {trial.variant: trial for trial in judge_stage(1, base, candidates, known, make_request(**fields))}


def test_the_fastest_proven_variant_is_accepted() -> None:
    trials = judge(
        make_variant("amp", 0.8), make_variant("ckpt", 1.3), make_variant("inplace", 0.7, half=0.5),
        make_variant("flash", 0.7), make_variant("compile", 0.995, half=0.002), make_variant("optim", 1.0, half=0.003),
    )  # fmt: skip
    assert {name: trial.outcome for name, trial in trials.items()} == {
        "amp": "improves", "ckpt": "slower", "inplace": "undecided", "flash": "accepted", "compile": "no gain",
        "optim": "no gain",
    }  # fmt: skip
    assert (trials["amp"].ratio, trials["amp"].gain_ratio, trials["amp"].pairs) == (0.8, 0.8, 5)


def test_a_variant_counts_only_if_it_acted_and_trains_the_same() -> None:
    parity = BY_NAME["amp"].parity
    trials = judge(
        make_variant("amp", 0.5, active=False),
        make_variant("bf16", 0.5, parity=changed(parity, verdict="differs")),
        make_variant("inplace", 0.5, parity=changed(parity, verdict="unknown")),
        make_variant("lora", 0.5, parity=changed(parity, verdict="not comparable")),
        make_variant("compile", 0.5, status=RunStatus.FAILED, reason="no compiler"),
        make_variant("flash", 0.5, status=RunStatus.SKIPPED, reason="no GPU"),
        make_variant("tf32", 0.5, emulation_reason="emulated"),
    )
    assert {name: trial.outcome for name, trial in trials.items()} == {
        "amp": "not applied", "bf16": "losses differ", "inplace": "losses differ", "lora": "losses differ",
        "compile": "failed", "flash": "skipped", "tf32": "not applied",
    }  # fmt: skip
    assert trials["compile"].reason == "no compiler"
    assert judge(make_variant("lora", 0.5, parity=changed(parity, verdict="not comparable")), allow="any")[
        "lora"
    ].outcome == "accepted"  # fmt: skip


def test_the_memory_limit_excludes_a_faster_variant() -> None:
    trials = judge(make_variant("amp", 0.5, peak=300.0), make_variant("flash", 0.9), limit_bytes=200 * MIB)
    assert (trials["amp"].outcome, trials["flash"].outcome) == ("over memory limit", "accepted")


def test_the_least_memory_is_accepted_whatever_its_speed() -> None:
    trials = judge(
        make_variant("ckpt", 1.4, peak=40.0),
        make_variant("amp", 0.5, peak=70.0),
        make_variant("flash", 0.5, peak=99.5),
        objective="memory",
    )
    assert [trials[name].outcome for name in ("ckpt", "amp", "flash")] == ["accepted", "improves", "no gain"]


def test_a_gain_over_another_variant_has_the_error_of_both() -> None:
    ours, base = make_variant("amp+flash", 0.6, half=0.03), make_variant("amp", 0.8, half=0.04)
    gain = compute_gain(ours, base)
    assert gain is not None
    assert gain.low is not None
    assert gain.high is not None
    assert gain.ratio == pytest.approx(0.75)
    assert math.log(gain.high / gain.ratio) == pytest.approx(math.hypot(math.log(1.03), math.log(1 / 0.96)))
    assert math.log(gain.ratio / gain.low) == pytest.approx(math.hypot(math.log(1 / 0.97), math.log(1.04)))
    assert judge(ours, base, base="amp")["amp+flash"].outcome == "accepted"
    near = judge(make_variant("amp+flash", 0.78, half=0.03), base, base="amp")
    assert near["amp+flash"].outcome == "undecided"


def test_a_variant_that_was_not_compared_is_undecided() -> None:
    trial = judge(make_variant("amp", 0.5, difference=None))["amp"]
    assert (trial.outcome, trial.ratio) == ("undecided", None)
