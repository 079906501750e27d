"""How long work takes by the efficiency that such work was measured at."""

from dataclasses import replace
from math import exp, hypot, log, sqrt

import pytest
from msgspec.structs import replace as replace_sample

from perfkit.plan.target.work import UNALIGNED, Work
from perfkit.plan.timing.efficiencies import NINE_IN_TEN, Efficiencies, MeasuredDevice
from perfkit.plan.timing.efficiency_store import EfficiencySample, LearnedProgram
from tests.fixtures.plan_roofs import BANDWIDTH, PEAK, roofs, roofs_with


def _product(
    seconds: float, efficiency: float, *, calls: float = 1, op: str = "aten::mm", dtype: str = "fp32"
) -> EfficiencySample:
    """A product whose least time is `seconds`."""
    flops = seconds * PEAK
    return EfficiencySample(
        op_class="GEMM",
        op=op,
        dtype=dtype,
        matrix=True,
        flops=flops,
        bytes=1.0,
        calls=calls,
        seconds=seconds / efficiency,
    )


def _copy(seconds: float, efficiency: float) -> EfficiencySample:
    moved = seconds * BANDWIDTH
    return EfficiencySample(
        op_class="copy", dtype="fp32", matrix=False, flops=0.0, bytes=moved, calls=1, seconds=seconds / efficiency
    )


def _efficiencies(*programs: LearnedProgram) -> Efficiencies:
    return Efficiencies(roofs(), MeasuredDevice(roofs(), programs), "a test")


def _work(seconds: float, op_class: str = "GEMM", op: str = "", dtype: str = "fp32") -> Work:
    return Work(op_class, dtype, seconds * PEAK, 1.0, matrix=True, op=op)


def test_a_call_takes_its_least_time_over_the_efficiency_of_its_class() -> None:
    known = _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5), _copy(1e-3, 0.25))))
    interval = known.seconds(_work(1e-3))
    assert interval is not None
    assert interval.value == pytest.approx(2e-3)
    moving = known.seconds(Work("copy", "fp32", 0.0, 1e-3 * BANDWIDTH, matrix=False))
    assert moving is not None
    assert moving.value == pytest.approx(4e-3)


def test_an_op_that_was_measured_itself_does_not_take_the_time_of_its_class() -> None:
    known = _efficiencies(
        LearnedProgram(name="a", samples=(_product(1e-3, 0.5), _product(1e-3, 0.125, op="aten::bmm")))
    )
    own, other = known.seconds(_work(1e-3, op="aten::bmm")), known.seconds(_work(1e-3, op="aten::addmm"))
    assert own is not None
    assert own.value == pytest.approx(8e-3)
    assert other is not None
    # Both calls of the class by their time: (2 ms x log 2 + 8 ms x log 8) / 10 ms over the least time.
    assert other.value == pytest.approx(1e-3 * exp((2 * log(2) + 8 * log(8)) / 10))


def test_what_is_derived_tells_of_its_op_alone() -> None:
    measured = LearnedProgram(name="a", samples=(_product(1e-3, 0.5),))
    derived = LearnedProgram(name="b", samples=(_product(1e-3, 0.25, op="aten::bmm"),), derived=True)
    known = _efficiencies(measured, derived)
    times = [known.seconds(_work(1e-3, op=op)) for op in ("aten::bmm", "aten::mm", "aten::baddbmm")]
    assert [time.value for time in times if time is not None] == pytest.approx([4e-3, 2e-3, 2e-3])


def test_a_compiled_kernel_that_was_never_measured_takes_what_an_elementwise_op_takes_within_wider_bounds() -> None:
    samples = (replace_sample(_copy(1e-3, 0.5), op_class="elementwise"), _copy(1e-3, 0.125))
    known = _efficiencies(LearnedProgram(name="a", samples=samples))
    fused, pointwise = (known.seconds(Work(kind, "fp32", 0.0, 1e-3 * BANDWIDTH, False)) for kind in _FUSED)
    assert fused is not None
    assert pointwise is not None
    assert fused.value == pytest.approx(2e-3) == pytest.approx(pointwise.value)
    assert log(fused.high / fused.value) == pytest.approx(hypot(log(pointwise.high / pointwise.value), 1.645 * 0.38))


def test_a_compiled_kernel_that_was_measured_takes_what_such_kernels_take() -> None:
    kinds = zip(_FUSED, (0.25, 0.5), strict=True)
    samples = tuple(replace_sample(_copy(1e-3, efficiency), op_class=kind) for kind, efficiency in kinds)
    known = _efficiencies(LearnedProgram(name="a", samples=samples))
    fused = known.seconds(Work("compiled", "fp32", 0.0, 1e-3 * BANDWIDTH, False))
    assert fused is not None
    assert fused.value == pytest.approx(4e-3)


_FUSED = ("compiled", "elementwise")


def _moving(seconds: float, efficiency: float, op: str, dtype: str) -> EfficiencySample:
    return replace_sample(_copy(seconds, efficiency), op_class="other", op=op, dtype=dtype)


def test_an_op_that_moves_bytes_is_as_efficient_as_in_another_dtype_where_it_was_measured() -> None:
    """Of its class in its own dtype only an op was measured that is far slower."""
    samples = (_moving(1e-3, 0.5, "aten::pool", "fp32"), _moving(1e-3, 0.01, "aten::ones_like", "bf16"))
    known = _efficiencies(LearnedProgram(name="a", samples=samples))
    moved = 2e-3 * BANDWIDTH
    interval = known.seconds(Work("other", "bf16", 0.0, moved, matrix=False, op="aten::pool"))
    assert interval is not None
    assert interval.value == pytest.approx(4e-3)


def test_a_product_is_as_its_class_in_its_own_dtype() -> None:
    samples = (_product(1e-3, 0.5), _product(1e-3, 0.125, op="aten::bmm", dtype="bf16"))
    peaks = roofs_with(bf16=2 * PEAK)
    known = Efficiencies(peaks, MeasuredDevice(peaks, (LearnedProgram(name="a", samples=samples),)), "a test")
    interval = known.seconds(_work(1e-3, op="aten::mm", dtype="bf16"))
    assert interval is not None
    assert interval.value == pytest.approx(8e-3)  # as long as what has as many FLOPs in bf16


@pytest.mark.parametrize(("peak", "faster"), [(8 * PEAK, 8), (PEAK / 2, 0.5)])
def test_a_convolution_in_16_bits_gains_what_the_processor_gains(peak: float, faster: float) -> None:
    """The efficiencies are from a processor with four times the peak in bf16, the peaks are those of this one."""
    there, here = roofs_with(bf16=4 * PEAK), roofs_with(bf16=peak)
    samples = tuple(
        EfficiencySample(
            op_class="convolution", op="aten::convolution", dtype=dtype, matrix=True, flops=1e-3 * most, bytes=1.0,
            calls=1, seconds=2e-3,
        )
        for dtype, most in (("fp32", PEAK), ("bf16", 4 * PEAK))
    )  # fmt: skip
    measured = MeasuredDevice(there, (LearnedProgram(name="a", samples=samples),))
    known = Efficiencies(here, measured, "a test")
    slow, fast = (
        known.seconds(Work("convolution", dtype, 1e10, 1.0, matrix=True, op="aten::convolution"))
        for dtype in ("fp32", "bf16")
    )
    assert slow is not None
    assert fast is not None
    assert slow.value / fast.value == pytest.approx(faster)


def test_programs_count_alike_however_long_they_are() -> None:
    short, long = (
        LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)),
        LearnedProgram(name="b", samples=(_product(1e-3, 0.125, calls=1000),)),
    )
    interval = _efficiencies(short, long).seconds(_work(1e-3))
    assert interval is not None
    assert interval.value == pytest.approx(1e-3 * sqrt(2 * 8))


def test_a_class_that_was_not_measured_takes_the_time_of_what_is_bound_by_the_same() -> None:
    known = _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5), _copy(1e-3, 0.25))))
    interval = known.seconds(_work(1e-3, "convolution"))
    assert interval is not None
    assert interval.value == pytest.approx(2e-3)


def test_a_product_that_is_not_aligned_is_one_where_no_such_was_measured() -> None:
    interval = _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5),))).seconds(_work(1e-3, UNALIGNED))
    assert interval is not None
    assert interval.value == pytest.approx(2e-3)


def test_a_class_that_was_measured_on_another_device_only_is_as_there_and_that_much_wider() -> None:
    there = MeasuredDevice(roofs(2 * PEAK), (LearnedProgram(name="b", samples=(_product(1e-3, 0.5),)),), off=0.3)
    here = MeasuredDevice(roofs(), (LearnedProgram(name="a", samples=(_copy(1e-3, 0.25),)),), like=there)
    # A product of 1 ms here is one of 0.5 ms there, which took 2 ms: a quarter of the peak.
    interval = Efficiencies(roofs(), here, "a test").seconds(_work(0.5e-3))
    assert interval is not None
    assert interval.value == pytest.approx(2e-3)
    assert log(interval.high / interval.value) == pytest.approx(NINE_IN_TEN * 0.3)
    assert log(interval.value / interval.low) == pytest.approx(NINE_IN_TEN * 0.3)


def test_a_dtype_without_a_peak_is_known_where_it_was_measured_alone() -> None:
    slow = LearnedProgram(name="a", samples=(_product(1e-3, 0.01, dtype="fp16"), _product(1e-3, 0.5)))
    interval = _efficiencies(slow).seconds(_work(1e-3, dtype="fp16"))
    assert interval is not None
    assert interval.value == pytest.approx(0.1)
    assert (
        _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5),))).seconds(_work(1e-3, dtype="fp16"))
        is None
    )


def test_what_does_nothing_takes_no_time() -> None:
    known = _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)))
    interval = known.seconds(Work("other", "fp32", 0.0, 0.0, matrix=False))
    assert interval is not None
    assert interval.high == 0
    assert known.together(0.0).high == 0


@pytest.mark.parametrize("op_class", ["GEMM", "copy", "convolution"])
@pytest.mark.parametrize("matrix", [True, False])
def test_a_larger_call_never_takes_less(op_class: str, matrix: bool) -> None:
    samples = (_product(1e-6, 0.1), _product(2e-5, 0.9), _product(3e-5, 0.2), _copy(1e-6, 0.01), _copy(1e-4, 0.9))
    known = _efficiencies(LearnedProgram(name="a", samples=samples), LearnedProgram(name="b", samples=samples[2:4]))
    times = []
    for power in range(-20, 20):
        interval = known.seconds(Work(op_class, "fp32", 1e6 * 2**power, 1e5 * 2**power, matrix))
        assert interval is not None
        assert interval.low <= interval.value <= interval.high
        times.append(interval.value)
    assert times == sorted(times)


def test_the_bounds_of_a_step_are_how_far_programs_are_off_that_are_predicted_from_the_others() -> None:
    known = _efficiencies(
        LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)),
        LearnedProgram(name="b", samples=(_product(1e-3, 0.25),)),
    )
    assert sorted(known.measured.left_out) == [pytest.approx(-log(2)), pytest.approx(log(2))]
    interval = known.together(3.0)
    assert interval.value == pytest.approx(3)
    assert log(interval.high / 3) == pytest.approx(NINE_IN_TEN * log(2))


def test_a_sweep_is_no_program_to_predict() -> None:
    known = _efficiencies(
        LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)),
        LearnedProgram(name="b", samples=(_product(1e-3, 0.25),), sweep=True),
    )
    assert known.measured.left_out == (pytest.approx(log(2)),)


def test_the_same_program_on_another_device_is_left_out_too() -> None:
    there = MeasuredDevice(roofs(), (LearnedProgram(name="a", samples=(_copy(1e-3, 0.5),)),))
    both = (
        LearnedProgram(name="a", samples=(_copy(1e-3, 0.5),)),
        LearnedProgram(name="b", samples=(_product(1e-3, 0.25),)),
    )
    # Of the copy of `a` nothing is known without it, so that it is as all work: four times its least time, not twice.
    assert MeasuredDevice(roofs(), both, like=there).left_out[0] == pytest.approx(log(2))


def test_where_no_program_was_measured_the_bounds_are_those_of_the_device_that_is_most_alike() -> None:
    there = MeasuredDevice(
        roofs(),
        (
            LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)),
            LearnedProgram(name="b", samples=(_product(1e-3, 0.25),)),
        ),
    )
    here = MeasuredDevice(roofs(), (LearnedProgram(name="c", samples=(_product(1e-3, 0.5),), sweep=True),), like=there)
    interval = Efficiencies(roofs(), here, "a test").together(3.0)
    assert log(interval.high / 3) == pytest.approx(NINE_IN_TEN * log(2))


def _host(*seconds: float) -> tuple[LearnedProgram, ...]:
    return tuple(LearnedProgram(name=str(host_s), samples=(_product(1e-3, 0.5),), host_s=host_s) for host_s in seconds)


def _host_of(known: Efficiencies) -> tuple[float, float, float]:
    interval = known.host_s(_work(1e-3))
    assert interval is not None
    return interval.low, interval.value, interval.high


def test_the_hosts_time_is_the_median_of_programs_here() -> None:
    known = replace(_efficiencies(*_host(9, 5, 7, 40)), here=_host(9, 5, 7), elsewhere=_host(1, 100))
    assert _host_of(known) == (5, 7, 9)


def test_that_of_one_program_here_may_be_half_or_twice_as_long_in_others() -> None:
    known = replace(_efficiencies(*_host(7)), here=_host(7), elsewhere=_host(1, 100))
    assert _host_of(known) == (3.5, 7, 14)


def test_that_of_other_hosts_may_be_anything_between_what_is_known_and_twice_as_far() -> None:
    # The device that is most alike tells 5, others 2 and 30.
    assert _host_of(replace(_efficiencies(*_host(5)), elsewhere=_host(2, 5, 30))) == (1, 5, 60)


def test_a_launchs_time_is_not_known_where_no_program_told() -> None:
    assert _efficiencies(LearnedProgram(name="a", samples=(_product(1e-3, 0.5),))).launch_s is None


def test_beyond_the_sizes_that_were_measured_a_class_goes_on_as_on_the_device_that_is_most_alike() -> None:
    there = MeasuredDevice(roofs(), (LearnedProgram(name="b", samples=(_product(1e-6, 0.1), _product(1e-3, 0.5))),))
    here = MeasuredDevice(roofs(), (LearnedProgram(name="a", samples=(_product(1e-3, 0.25),)),), like=there)
    # Here 1 ms takes 4 ms, twice what it takes there, and so does what is larger; 1 us takes 10 us there, and here too.
    known = Efficiencies(roofs(), here, "a test")
    large, small = known.seconds(_work(1e-2)), known.seconds(_work(1e-6))
    assert large is not None
    assert large.value == pytest.approx(40e-3)
    assert small is not None
    assert small.value == pytest.approx(10e-6)


def test_the_fit_is_as_far_off_as_calls_of_one_kind_lie_apart() -> None:
    first, second = (
        LearnedProgram(name="a", samples=(_product(1e-3, 0.5),)),
        LearnedProgram(name="b", samples=(_product(1e-3, 0.125),)),
    )
    assert MeasuredDevice(roofs(), (first, second)).compute_fit_error() == pytest.approx(2)
