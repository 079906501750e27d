"""What is run to verify advice, and what is put beside what was predicted."""

import msgspec
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, format_variant_label
from perfkit.plan.advise.advice import Advice
from perfkit.plan.advise.verify import attach_measured, make_verify_request
from perfkit.store.request import BenchRequest
from tests.fixtures import sample_analysis
from tests.fixtures.advised import option

REQUEST = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=1, cores=2)


def advice(*names: str, best: str = "") -> Advice:
    return Advice(
        created_at="2026-01-31T12:00:00+00:00",
        perfkit="1.0.0",
        command="perfkit advise gpt",
        name="gpt",
        kind="workload",
        device="cpu",
        goal="time",
        limit_bytes=None,
        step_s=None,
        peak_bytes=None,
        options=tuple(map(option, names)),
        best=option(best) if best else None,
    )


def run(asked: Advice, count: int) -> list[str]:
    return [format_variant_label(variant) for variant in make_verify_request(asked, REQUEST, count).variants]


def test_the_best_combination_is_run_beside_the_first() -> None:
    assert run(advice("lora", "amp", "flash", best="amp+flash"), 2) == ["lora", "amp", "amp+flash"]
    assert run(advice("lora", "amp", best="amp"), 1) == ["lora", "amp"]
    assert run(advice("amp", "lora", best="amp"), 1) == ["amp"]
    assert run(advice("amp"), 3) == ["amp"]
    with pytest.raises(UsageError, match=r"^--verify "):
        run(advice(), 1)


def test_what_was_measured_of_the_best_combination_stands_beside_it() -> None:
    analysis = sample_analysis.realistic()
    (amp,) = (variant for variant in analysis.variants if variant.name == "amp")
    both = msgspec.structs.replace(amp, name="amp+flash@2")
    found = attach_measured(
        advice("amp", "ckpt:every=2", best="amp+flash"), msgspec.structs.replace(analysis, variants=(amp, both))
    )
    first, second = found.options
    assert found.best is not None
    assert found.best.measured is not None
    assert amp.difference is not None
    assert found.best.measured == first.measured
    assert found.best.measured.time_ratio == amp.difference.ratio
    assert second.measured is None
