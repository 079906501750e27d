"""What the page says of a loop's utilization where its log has none."""

import pytest

from perfkit.core.record import Unknown, make_measurement
from perfkit.store.live import LiveStart
from perfkit_reports.view.live import explain_absent
from perfkit_reports.view.rows import _check_share


def start(flops: float | None, peak: float | None) -> LiveStart:
    return LiveStart(
        time_s=0.0, pid=1, hostname="h", name="n", device_name="cpu", flops_per_step=flops, peak_flops=peak
    )


@pytest.mark.parametrize(
    ("flops", "peak", "reason"),
    [
        (None, 1e12, "FLOPs per step unknown"),
        (4e9, None, "device peak unknown"),
        (
            4e9,
            1e12,
            "steps at 2.00 TFLOP/s exceed the peak of 1.00 TFLOP/s; if it was measured, remeasure with "
            "`perfkit calibrate --force`",
        ),
    ],
)
def test_why_there_is_no_utilization(flops: float | None, peak: float | None, reason: str) -> None:
    assert explain_absent(start(flops, peak), 0.002)["mfu"] == reason


def test_the_list_of_runs_has_no_share_above_one_of_older_reports() -> None:
    assert _check_share(make_measurement(0.5, "1", "x")) == make_measurement(0.5, "1", "x")
    assert isinstance(_check_share(make_measurement(2.118, "1", "x")), Unknown)
