"""The measured examples of pages: what a suite came to, and no speeds of a machine that was busy."""

import re
from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.rank_record import RunStatus
from perfkit.techniques.precision.amp import Amp
from perfkit_cli.pages import technique_page
from perfkit_cli.pages.technique_examples import (
    MeasuredSuite,
    MeasuredVariant,
    Speed,
    build_example_table,
    describe_suite,
    load_measured_suites,
    summarize_suite,
)
from tests.fixtures.sample_analysis import realistic

QUIET = MachineLoad(seconds=60.0, cores=2, own_cores=1.9, other_cores=0.0)
BUSY = MachineLoad(seconds=60.0, cores=2, own_cores=0.4, other_cores=1.6)


def suite(**changes: object) -> MeasuredSuite:
    made = MeasuredSuite(
        workload="gpt:size=nano",
        machine="a CPU, 2 threads",
        date="2026-11-23",
        command="perfkit bench --technique all",
        disturbed="",
        variants=(
            MeasuredVariant(
                name="amp:dtype=fp16+ckpt",
                techniques=("amp", "ckpt"),
                speed=Speed(factor=1.5, low=1.25, high=2.0),
                memory_ratio=0.75,
                per="",
                active=True,
            ),
            MeasuredVariant(
                name="batch:size=8", techniques=("batch",), speed=None, memory_ratio=None, per="token", active=None
            ),
        ),
    )
    return msgspec.structs.replace(made, **changes)


def with_load(load: MachineLoad) -> Analysis:
    return msgspec.structs.replace(realistic(), load=load, command="perfkit bench --out 'runs/x y' -t amp")


def test_a_suite_gives_what_ran_against_its_baseline() -> None:
    analysis = with_load(QUIET)
    kept = summarize_suite(analysis)
    assert kept.command == "perfkit bench -t amp"
    ran = [each for each in analysis.variants if each.status == RunStatus.OK and not each.is_baseline]
    assert [each.name for each in kept.variants] == [each.name for each in ran]
    known = [(new, old) for new, old in zip(kept.variants, ran, strict=True) if new.speed is not None]
    assert known
    for new, old in known:
        assert old.difference is not None
        assert new.speed is not None
        assert new.speed.factor == pytest.approx(1 / old.difference.ratio)
        assert new.speed.low <= new.speed.factor <= new.speed.high


def test_speeds_of_a_busy_machine_are_left_out_and_that_is_said() -> None:
    kept = summarize_suite(with_load(BUSY))
    assert {each.speed for each in kept.variants} == {None}
    assert re.search(r"\b1\.6 of 2 cores", describe_suite(kept))


def test_the_rows_are_those_of_the_technique() -> None:
    failed = msgspec.structs.replace(suite().variants[0], active=False, memory_ratio=None, per="token")
    suites = (suite(), suite(workload="resnet", variants=(failed,)))
    assert build_example_table(suites, "ckpt") == [
        ("variant", "`gpt:size=nano`", "`resnet`"),
        (
            "`amp:dtype=fp16+ckpt`",
            "1.50× (1.25× to 2.00×), -25.0 %",
            "1.50× (1.25× to 2.00×), not active, per token",
        ),
    ]
    assert build_example_table(suites, "batch") == [("variant", "`gpt:size=nano`"), ("`batch:size=8`", "n/a")]
    assert build_example_table(suites, "zero1") == []


def test_a_suite_is_described_by_what_repeats_it() -> None:
    text = describe_suite(suite())
    for part in ("`gpt:size=nano`", "a CPU, 2 threads", "2026-11-23", "`perfkit bench --technique all`"):
        assert part in text


def test_a_page_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(technique_page, "load_measured_suites", lambda: (suite(), suite(workload="resnet")))
    page = technique_page.build_page(Amp)
    assert page.count("fp16+ckpt` | 1.50×") == 1
    assert page.index("perfkit bench --technique") < page.index("## Checks") < page.index("## Measured")
    assert "](index.md#measured)" in page
    index = technique_page.build_index([Amp])
    assert index.count("`perfkit bench --technique all`") == 2
    monkeypatch.setattr(technique_page, "load_measured_suites", lambda: ())
    assert "## Measured" not in technique_page.build_page(Amp)


def test_what_is_kept_in_the_package_names_techniques_that_there_are() -> None:
    docs = Path(__file__).parents[4] / "docs" / "techniques"
    pages = {path.stem for path in docs.glob("*.md")}
    assert {name for kept in load_measured_suites() for each in kept.variants for name in each.techniques} <= pages
