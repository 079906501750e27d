"""The stages of a search with a bench made of numbers and a clock that the trials advance."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.errors import UsageError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.tune.model.tune_request import Techniques, TuneRequest
from perfkit.tune.model.tune_result import Proof, TuneResult, UntriedVariant, read_tune_result
from perfkit.tune.search import tune_workload as module
from perfkit.tune.search.measure_trials import MeasuredStage
from perfkit.tune.search.rank_candidates import RankedCandidate, Ranking
from perfkit.tune.search.trial_cost import TrialCost
from tests.fixtures.sample_analysis import realistic
from tests.fixtures.suites import changed
from tests.unit.tune.search.test_judge_trials import make_request, make_variant

COST = TrialCost(first_s=10.0, round_s=5.0)

# Step times over the baseline's.
RATIOS = {"amp": 0.8, "optim:use=fused": 0.7, "ckpt": 1.3, "inplace": 0.9, "optim:use=fused+amp": 0.56,
          "optim:use=fused+inplace": 0.69, "optim:use=fused+amp+inplace": 0.559,
          "optim:use=fused+amp+ckpt": 0.8, "amp+inplace": 0.75}  # fmt: skip


class FakeBench:
    """A bench in which every first run takes 10 s and rounds of a session 20 s; `log` has what each session measured.

    `ratios` are the variants' step times, by default 1.3, known within `halves` of them, session by session. The proof
    finds `proven` times the ratio of the search.
    """

    def __init__(
        self,
        folder: Path,
        ratios: dict[str, float],
        proven: float = 1.0,
        interrupt: int = 0,
        halves: Sequence[float] = (),
    ) -> None:
        self.halves = list(halves)
        self.folder, self.ratios, self.proven, self.interrupt = folder, ratios, proven, interrupt
        self.now = 0.0
        self.log: list[tuple[str, ...]] = []
        self.variants = {"baseline": make_variant("baseline", 1.0, is_baseline=True, difference=None, techniques=())}

    def analyze(self, _: Path | None = None) -> Analysis:
        return changed(realistic(), variants=tuple(self.variants.values()))

    def measure_baseline(self) -> MeasuredStage:
        self.now += 10.0
        return MeasuredStage(self.analyze(), {}, COST)

    def measure_variants(
        self, variants: Sequence[Techniques], base: Techniques, budget_s: float, *, race: bool
    ) -> MeasuredStage:
        names = tuple(map(format_variant_label, (*variants, base) if base else variants))
        self.log.append(names)
        if len(self.log) == self.interrupt:
            raise KeyboardInterrupt
        self.now += 10.0 * len([name for name in names if name not in self.variants]) + 20.0
        half = self.halves.pop(0) if self.halves else 0.01
        self.variants |= {name: make_variant(name, self.ratios.get(name, 1.3), half=half) for name in names}
        return MeasuredStage(self.analyze(), {}, COST)

    def prove_variant(self, _: Path, techniques: Techniques, single: Techniques | None, budget_s: float) -> Proof:
        ratio = self.proven * self.ratios[format_variant_label(techniques)]
        return Proof(
            ratio=ratio, low=0.99 * ratio, high=1.01 * ratio, verdict="faster" if ratio < 0.99 else "no difference",
            pairs=5, step_s=ratio, baseline_step_s=1.0, peak_bytes=1.0, baseline_peak_bytes=1.0, parity="equal",
            largest_difference=0.0, tolerance=1e-5, active=True,
        )  # fmt: skip


def rank(_: Path, request: TuneRequest, base: Techniques, base_name: str) -> Ranking:
    """The offered techniques that the base lacks, in their order."""
    assert base_name == format_variant_label(base)
    names = {spec.name for spec in base}
    fresh = [specs for specs in request.offered if not names & {spec.name for spec in specs}]
    return Ranking(
        tuple(RankedCandidate((*base, *specs)) for specs in fresh), (UntriedVariant(variant="lora", reason="no"),)
    )


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "rank_candidates", rank)

    def run(bench: FakeBench, offered: str, budget_s: float = 1000.0, **fields: Any) -> TuneResult:
        monkeypatch.setattr(module, "analyze_suite", bench.analyze)
        request = make_request(offered=tuple(parse_variants(offered)), technique=offered, budget_s=budget_s, **fields)
        return module.tune_workload(request, tmp_path, bench, command="tune", clock=lambda: bench.now)  # type: ignore[arg-type]

    return run


def test_improvements_are_joined_stage_by_stage_until_none_is_left(tmp_path: Path, search: Any) -> None:
    bench = FakeBench(tmp_path / "trials", RATIOS)
    result = search(bench, "amp,optim:use=fused,ckpt,inplace")
    assert bench.log == [
        ("amp", "optim:use=fused", "ckpt", "inplace"),
        # What improved together, then each; ckpt is slower with anything.
        ("optim:use=fused+amp+inplace", "optim:use=fused+amp", "optim:use=fused+inplace", "optim:use=fused"),
    ]
    assert [trial.variant for trial in result.accepted] == ["optim:use=fused", "optim:use=fused+amp"]
    assert (result.best, result.best_single, result.conclusion) == ("optim:use=fused+amp", "optim:use=fused", "proven")
    assert result.proof is not None
    assert result.proof.ratio == 0.56
    assert [technique.label for technique in result.techniques] == ["optim:use=fused", "amp"]
    assert [each.variant for each in result.untried] == ["lora"]
    assert read_tune_result(tmp_path) == result


def test_the_gain_that_is_reported_is_that_of_the_proof(tmp_path: Path, search: Any) -> None:
    result = search(FakeBench(tmp_path / "trials", {"amp": 0.97}, proven=1.04), "amp")
    assert (result.best, result.conclusion) == ("amp", "not proven")
    assert result.proof is not None
    assert result.proof.ratio == pytest.approx(0.97 * 1.04)


def test_without_an_improvement_nothing_is_proven(tmp_path: Path, search: Any) -> None:
    result = search(FakeBench(tmp_path / "trials", RATIOS), "ckpt")
    assert (result.best, result.conclusion, result.proof) == ("", "no gain", None)


def test_a_stage_takes_as_many_candidates_as_its_share_of_the_budget_allows(tmp_path: Path, search: Any) -> None:
    bench = FakeBench(tmp_path / "trials", RATIOS)
    result = search(bench, "amp,optim:use=fused,ckpt,inplace", budget_s=190.0)
    # 120 s are left before the proof, 60 of them for the stage: 15 for the baseline, and 30 for each candidate, which
    # are less than two: it takes all that is left.
    assert bench.log[0] == ("amp", "optim:use=fused", "ckpt")
    assert next(trial.variant for trial in result.accepted) == "optim:use=fused"
    assert {"optim:use=fused+inplace"} <= {each.variant for each in result.untried}


def test_of_what_may_improve_more_is_measured_before_anything_else(tmp_path: Path, search: Any) -> None:
    bench = FakeBench(tmp_path / "trials", RATIOS, halves=[0.5, 0.01])
    result = search(bench, "amp,ckpt,inplace", budget_s=240.0)
    assert bench.log[:2] == [("amp", "ckpt"), ("amp", "inplace")]  # ckpt is not promising
    assert next((trial.variant, trial.stage) for trial in result.accepted) == ("amp", 2)
    assert [trial.variant for trial in result.trials if trial.variant == "amp"] == ["amp"]


def test_an_interrupted_search_continues_with_what_it_measured(tmp_path: Path, search: Any) -> None:
    first = FakeBench(tmp_path / "trials", RATIOS, interrupt=2)
    with pytest.raises(KeyboardInterrupt):
        search(first, "amp,optim:use=fused,inplace")
    kept = read_tune_result(tmp_path)
    assert (kept.conclusion, kept.best, kept.spent_s, len(kept.trials)) == ("interrupted", "optim:use=fused", 60.0, 3)
    again = FakeBench(tmp_path / "trials", RATIOS)
    again.variants |= first.variants
    result = search(again, "amp,optim:use=fused,inplace")
    assert again.log[0] == (
        "optim:use=fused+amp+inplace", "optim:use=fused+amp", "optim:use=fused+inplace", "optim:use=fused",
    )  # fmt: skip
    assert (result.conclusion, result.best) == ("proven", "optim:use=fused+amp")
    assert result.spent_s == 60.0 + again.now


def test_a_baseline_that_does_not_train_ends_the_search(tmp_path: Path, search: Any) -> None:
    bench = FakeBench(tmp_path / "trials", RATIOS)
    failed: Variant = changed(bench.variants["baseline"], status=RunStatus.FAILED, reason="ValueError: no data")
    bench.variants = {"baseline": failed}
    with pytest.raises(UsageError):
        search(bench, "amp")


def test_an_interrupt_of_the_patch_keeps_the_proof(
    tmp_path: Path, search: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "patch_workload", interrupt)
    with pytest.raises(KeyboardInterrupt):
        search(FakeBench(tmp_path / "trials", RATIOS), "amp")
    kept = read_tune_result(tmp_path)
    assert (kept.conclusion, kept.best) == ("proven", "amp")
    assert kept.proof is not None
