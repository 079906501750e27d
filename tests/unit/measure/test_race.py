"""When a race needs no more rounds of a variant."""

import pytest

from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.measure.race import find_race_bases, is_gain_known, is_margin_known, is_race_decided
from perfkit.store.request import BenchRequest


@pytest.mark.parametrize(
    ("logs", "decided"),
    [
        ([], False),
        ([-0.5], False),
        ([0.5], False),
        ([-0.5, -0.501], True),  # certainly faster
        ([0.5, 0.501], True),  # certainly slower
        ([0.1, -0.05], True),  # no gain so far
        ([0.02, -0.05], False),
        ([0.02, -0.05, 0.01, -0.04], False),
    ],
)
def test_a_variant_is_decided_by_its_ratios_to_the_one_that_it_extends(logs: list[float], decided: bool) -> None:
    assert is_race_decided(logs, logs, ()) == decided


def test_what_is_certainly_slower_than_the_fastest_is_measured_no_further() -> None:
    over_base, over_reference = [-0.04, -0.01], [-0.5, -0.499]
    assert not is_race_decided(over_base, over_reference, [[-0.6], []])
    assert is_race_decided(over_base, over_reference, [[-0.9, -0.901]])


def make_spec(text: str, size: int = 1) -> RunSpec:
    return RunSpec(workload=WorkloadSpec(name="gpt", params={"batch": size}), techniques=parse_variants(text)[0])


def test_variants_are_compared_with_the_one_that_they_extend_if_they_share_its_reference() -> None:
    specs = {name: make_spec(name) for name in ("baseline", "amp", "amp+flash", "zero1")}
    references = {"amp": "baseline", "amp+flash": "baseline", "zero1": "baseline@2"}

    def find(**fields: object) -> dict[str, str]:
        request = BenchRequest(
            workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=1, cores=2, **fields  # type: ignore[arg-type]
        )  # fmt: skip
        return find_race_bases(request, specs, references)

    (amp,) = parse_variants("amp")
    (other,) = parse_variants("inplace")
    assert find(race=True, race_base=amp) == references | {"amp+flash": "amp"}
    assert find(race_base=amp) == references | {"amp+flash": "amp"}
    assert find(race=True) == find(race=True, race_base=other) == references


def test_a_margin_is_known_once_its_interval_ends_halfway_to_none() -> None:
    logs = [-0.10, -0.12, -0.08, -0.11, -0.09, -0.10]
    assert is_margin_known(logs, 0.025)
    assert not is_gain_known(logs, 0.005)
    assert not is_margin_known([log + 0.08 for log in logs], 0.01)  # half of it is as wide as the interval
    assert is_margin_known([0.001, -0.001, 0.0, 0.001], 0.025)  # none of that size
