"""The order of candidates whose effect is not simulated, and what is offered beside what was named."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.core.spec import parse_variants
from perfkit.plan.advise.subject import AdviceSubject, RunPlace
from perfkit.tune.search import rank_candidates as module
from tests.unit.tune.search.test_judge_trials import make_request


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ranks variants on top of a base that was recorded without a trace."""
    subject = AdviceSubject("gpt", "run", "a CPU", RunPlace("cpu", "fp32", 1))
    monkeypatch.setattr(module, "make_run_subject", lambda *_, **__: subject)
    monkeypatch.setattr(module, "read_batch_size", lambda *_: 8)

    def run(offered: str, base: str = "", technique: str = "", **fields: Any) -> module.Ranking:
        specs = parse_variants(base)[0] if base else ()
        request = make_request(offered=tuple(parse_variants(offered)), technique=technique or offered, **fields)
        return module.rank_candidates(tmp_path, request, specs, base)

    return run


def test_settings_of_what_was_accepted_come_before_other_unknown_effects_and_memory_last(rank: Any) -> None:
    ranking = rank("ckpt,optim:use=fused", "bf16:update=nearest", "all")
    names = [each.name for each in ranking.candidates]
    assert names == [
        "bf16:update=kahan", "bf16:update=nearest+optim:use=fused", "bf16:update=nearest+ckpt",
    ]  # fmt: skip
    assert [each.is_setting for each in ranking.candidates] == [True, False, False]
    assert ranking.leading is None


def test_a_setting_that_its_user_chose_is_not_offered(rank: Any) -> None:
    assert [each.name for each in rank("bf16:update=kahan,inplace", "bf16:update=kahan").candidates] == [
        "bf16:update=kahan+inplace"
    ]


def test_larger_batches_are_offered_where_batches_are_compared(rank: Any) -> None:
    compared = rank("inplace", technique="all", objective="cost", allow="any")
    assert [each.name for each in compared.candidates] == ["batch:size=16", "batch:size=32", "inplace"]
    assert [each.variant for each in rank("inplace", technique="all", objective="cost").untried] == [
        "batch:size=16", "batch:size=32",
    ]  # fmt: skip
    assert [each.name for each in rank("inplace", objective="cost", allow="any").candidates] == ["inplace"]


def test_what_saves_memory_comes_last_beside_a_technique_that_saves_time_too(rank: Any) -> None:
    ranking = rank("ckpt+optim:use=fused,optim:use=foreach", technique="all")
    assert [each.name for each in ranking.candidates] == ["optim:use=foreach", "ckpt+optim:use=fused"]
    assert [each.saves_memory for each in ranking.candidates] == [False, True]
