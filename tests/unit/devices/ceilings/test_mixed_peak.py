"""The peak of work in several dtypes, against hand calculations."""

import pytest

from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel
from perfkit.devices.ceilings.mixed_peak import MixedPeak, compute_mixed_peak, format_peak

PEAKS = {"tf32": 100.0, "fp32": 10.0, "3xtf32": 40.0, "bf16": 200.0}


def found(flops: dict[str, float]) -> MixedPeak[tuple[str, str]]:
    return compute_mixed_peak({("matrix", dtype): each for dtype, each in flops.items()}, find)


def find(computed: tuple[str, str]) -> Ceiling | None:
    dtype = computed[1]
    if dtype not in PEAKS:
        return None
    return Ceiling(
        level=CeilingLevel.MATRIX,
        dtype=dtype,
        value=PEAKS[dtype],
        unit="FLOP/s",
        kind=CeilingKind.DATASHEET,
        source="a test",
    )


def test_one_dtype_has_its_own_peak() -> None:
    assert found({"tf32": 3.0}).value == 100
    assert found({"bf16": 3.0}).value == 200


def test_parts_of_fp32_take_the_time_that_their_own_peaks_allow() -> None:
    # 900 / 100 s and 100 / 10 s: 1000 FLOP in 19 s.
    assert found({"fp32": 100.0, "tf32": 900.0}).value == pytest.approx(1000 / 19)
    assert found({"fp32": 100.0, "tf32": 900.0, "3xtf32": 400.0}).value == pytest.approx(1400 / 29)


def test_what_the_mix_is_made_of_comes_greatest_first() -> None:
    parts = found({"fp32": 100.0, "tf32": 900.0}).parts
    assert [(flops, ceiling.dtype) for flops, ceiling in parts] == [(900, "tf32"), (100, "fp32")]


def test_no_work_at_its_peaks_exceeds_the_peak_of_the_mix() -> None:
    flops = {"fp32": 500.0, "tf32": 300.0, "bf16": 200.0}
    least_s = sum(amount / PEAKS[dtype] for dtype, amount in flops.items())
    assert found(flops).value == pytest.approx(sum(flops.values()) / least_s)


def test_reduced_precision_is_held_against_its_peak_alone_by_convention() -> None:
    assert found({"bf16": 600.0, "fp32": 400.0}).value == 200


def test_a_part_without_a_peak_leaves_none_unless_it_is_slight() -> None:
    without = found({"tf32": 900.0, "fp64": 100.0})
    assert (without.value, without.parts, without.missing) == (None, (), ("matrix", "fp64"))
    assert format_peak(without) == ""
    assert found({"tf32": 999.0, "fp64": 1.0}).value == 100
    assert found({"fp8": 1.0}).missing == ("matrix", "fp8")


@pytest.mark.parametrize(
    ("flops", "ranks", "named"),
    [
        ({"bf16": 3.0}, 1, "200 FLOP/s (bf16)"),
        ({"bf16": 3.0}, 4, "4 x 200 FLOP/s (bf16)"),
        ({"bf16": 3.0, "fp8": 1.0}, 1, "200 FLOP/s (bf16, 25 % of FLOPs in fp8)"),
        ({"bf16": 3.0, "fp8": 0.01}, 1, "200 FLOP/s (bf16)"),
        ({"fp32": 250.0, "tf32": 750.0}, 1, "30.8 FLOP/s (75 % tf32, 25 % fp32)"),
    ],
)
def test_the_peak_names_its_rate_its_dtypes_and_what_it_leaves_out(
    flops: dict[str, float], ranks: int, named: str
) -> None:
    assert format_peak(found(flops), ranks) == named
