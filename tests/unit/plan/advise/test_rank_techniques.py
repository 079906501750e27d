"""Techniques ranked beside those of a measured variant."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.core.spec import parse_variants
from perfkit.plan.advise import rank_techniques as module
from perfkit.plan.advise.advice import TimeSaving
from perfkit.plan.advise.subject import AdviceSubject, RunPlace
from perfkit.plan.advise.time_saving import TimeEstimate

SAVED = {"compile": 0.3, "optim": 0.1, "tf32": 0.2, "flash": 0.009, "lora": 0.9, "bf16": 0.5}


@pytest.fixture
def step_of_a_second(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A recorded step of one second on a CPU; the names of the variants that were asked for."""
    asked: list[str] = []

    def make(_: Path, memory: str | None = None, variant: str = "") -> AdviceSubject:
        asked.append(variant)
        step: Any = SimpleNamespace(step_s=1.0)
        return AdviceSubject("gpt", "run", "a CPU", RunPlace("cpu", "fp32", 1), step)

    def estimate(_: object, techniques: Sequence[Any]) -> TimeEstimate:
        saved = sum(SAVED[each.name] + (0.05 if getattr(each, "use", "") == "fused" else 0.0) for each in techniques)
        return TimeEstimate(TimeSaving(value=saved, low=0.0, high=2 * saved, bound="at most", basis="simulated"))

    monkeypatch.setattr(module, "make_run_subject", make)
    monkeypatch.setattr(module, "estimate_time_saved", estimate)
    monkeypatch.setattr(module, "explain_inability", lambda technique, _: "no" if technique.name == "tf32" else None)
    return asked


def test_what_can_act_beside_the_winner_is_ranked_by_its_saving(tmp_path: Path, step_of_a_second: list[str]) -> None:
    offered = parse_variants("compile,optim:use=foreach,optim:use=fused,tf32,flash,lora,bf16,amp")
    found = module.rank_techniques(tmp_path, "amp", ("amp",), offered)
    assert found is not None
    assert step_of_a_second == ["amp"]
    assert (found.of, found.step_s) == ("amp", 1.0)
    # bf16 clashes with amp, flash saves too little, lora trains something else, and this device cannot do tf32.
    assert [(each.technique, each.variant, each.names) for each in found.techniques] == [
        ("compile", "amp+compile", ("compile",)),
        ("optim:use=fused", "amp+optim:use=fused", ("optim",)),
    ]
    assert [(each.saving_s, each.low_s, each.high_s) for each in found.techniques] == [
        (0.3, 0.0, 0.6), (pytest.approx(0.15), 0.0, pytest.approx(0.3)),
    ]  # fmt: skip


def test_a_step_that_was_not_recorded_is_not_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = RunPlace("cpu", "fp32", 1)
    monkeypatch.setattr(module, "make_run_subject", lambda *_, **__: AdviceSubject("gpt", "run", "a CPU", place))
    assert module.rank_techniques(tmp_path, "baseline", (), ()) is None
