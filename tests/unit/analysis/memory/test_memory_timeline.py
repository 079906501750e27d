import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.memory.allocation_lifetimes import build_lifetimes
from perfkit.analysis.memory.memory_timeline import BANDS, MOMENTS, MemoryTimeline, build_timeline
from perfkit.analysis.memory.totals import compute_totals, find_peak_event
from perfkit.core.allocations import CATEGORIES, NONE, Allocations, InitialBlock, TimeBand, build_allocations


def recorded(
    *events: tuple[int, int, int, int],
    known: tuple[InitialBlock, ...] = (),
    bands: tuple[TimeBand, ...] = (),
) -> Allocations:
    """Events of (ns, step, address, size)."""
    time_ns, step, address, size = zip(*events, strict=True) if events else ((), (), (), ())
    return build_allocations(
        device="cpu",
        source="by hand",
        time_ns=time_ns,
        step=step,
        address=address,
        size=size,
        known=known,
        bands=bands,
    )


def drawn(recording: Allocations) -> MemoryTimeline:
    """Known blocks are parameters, others of the category whose number is that of their address."""
    lives = build_lifetimes(recording)
    made = np.append(recording.address, 0)[lives.born]
    categories = np.where(lives.known != NONE, 0, made % len(CATEGORIES)).astype(np.int8)
    totals = compute_totals(lives, len(recording))
    return build_timeline(recording, lives, categories, totals, find_peak_event(totals))


WEIGHT = InitialBlock(address=100, size_bytes=30, category="parameter", name="w")
MS = 1_000_000


def test_the_step_of_the_peak_by_hand() -> None:
    recording = recorded(
        (0 * MS, 0, 1, 10),
        (1 * MS, 0, 1, -10),
        (12 * MS, 1, 1, 5),
        (13 * MS, 1, 5, 20),  # the peak
        (14 * MS, 1, 5, -20),
        (15 * MS, NONE, 1, -5),
        known=(WEIGHT,),
        bands=(
            TimeBand(kind="step", name="0", start_ns=0, end_ns=10 * MS),
            TimeBand(kind="step", name="1", start_ns=10 * MS, end_ns=20 * MS),
            TimeBand(kind="module", name="layers.0", start_ns=13 * MS, end_ns=14 * MS),
            TimeBand(kind="phase", name="forward", start_ns=5 * MS, end_ns=16 * MS),
        ),
    )
    result = drawn(recording)
    assert result.seconds == pytest.approx((0, 0.002, 0.003, 0.004))
    assert result.categories == {
        "parameter": (30, 30, 30, 30),
        CATEGORIES[1]: (0, 5, 5, 5),
        CATEGORIES[5]: (0, 0, 20, 0),
    }
    assert result.peak_s == pytest.approx(0.003)
    assert [(band.kind, band.name, band.start_s, band.end_s) for band in result.bands] == [
        ("step", "1", 0, pytest.approx(0.01)),
        ("phase", "forward", 0, pytest.approx(0.006)),
        ("module", "layers.0", pytest.approx(0.003), pytest.approx(0.004)),
    ]


def test_without_steps_everything_is_drawn() -> None:
    result = drawn(recorded((5 * MS, NONE, 1, 10), (7 * MS, NONE, 1, -10)))
    assert result.seconds == pytest.approx((0, 0, 0.002))
    assert result.categories == {CATEGORIES[1]: (0, 10, 0)}
    assert result.peak_s == 0


def test_a_peak_at_the_start_is_in_no_step() -> None:
    result = drawn(recorded((0, 0, 100, -30), (MS, 0, 1, 10), (2 * MS, 1, 1, -10), known=(WEIGHT,)))
    assert result.categories == {"parameter": (30, 0, 0, 0), CATEGORIES[1]: (0, 0, 10, 0)}
    assert (result.peak_s, len(result.seconds)) == (0, 4)


def test_known_blocks_without_events_are_one_moment() -> None:
    result = drawn(recorded(known=(WEIGHT,), bands=(TimeBand(kind="step", name="0", start_ns=0, end_ns=1),)))
    assert result == MemoryTimeline(seconds=(0.0,), categories={"parameter": (30,)}, bands=(), peak_s=0.0)


def test_thinning_keeps_the_peak_and_what_lasts() -> None:
    rising = [(moment * MS, 0, 1 + moment, 1) for moment in range(1000)]
    spike = [(1000 * MS, 0, 5000, 777), (1000 * MS + 1, 0, 5000, -777)]
    pause = [(99_000 * MS, 0, 1, -1)]
    result = drawn(recorded(*rising, *spike, *pause))
    sums = np.sum(list(result.categories.values()), axis=0)
    assert len(result.seconds) <= MOMENTS
    assert sums.max() == 1777
    assert sums[np.searchsorted(result.seconds, result.peak_s)] == 1777
    assert (sums[0], sums[-2], sums[-1]) == (0, 1000, 999)  # over the pause what was there, not the spike


def test_the_outermost_bands_stay_and_of_these_the_longest() -> None:
    inner = [TimeBand(kind="module", name="inner", start_ns=0, end_ns=900, depth=1) for _ in range(BANDS)]
    outer = [TimeBand(kind="module", name=str(length), start_ns=0, end_ns=length) for length in range(1, BANDS + 1)]
    phase = [TimeBand(kind="phase", name="forward", start_ns=0, end_ns=1)]
    result = drawn(recorded((0, NONE, 1, 8), (1000, NONE, 2, 8), bands=(*inner, *outer, *phase)))
    assert len(result.bands) == BANDS
    assert result.bands[0].name == "forward"
    assert {band.name for band in result.bands[1:]} == {str(length) for length in range(2, BANDS + 1)}


@given(st.integers(0, 2**32), st.integers(0, 3000), st.integers(0, 30))
def test_no_maximum_is_lost(seed: int, count: int, known_bytes: int) -> None:
    random = np.random.default_rng(seed)
    time = np.cumsum(random.integers(0, 10, count) ** random.integers(1, 9, count))
    step = np.sort(random.integers(-1, 3, count))
    address, size = random.integers(0, 30, count), random.integers(-9, 10, count)
    block = InitialBlock(address=31, size_bytes=known_bytes, category="parameter", name="w")
    events = zip(*(column.tolist() for column in (time, step, address, size)), strict=True)
    recording = recorded(*events, known=(block,))
    lives = build_lifetimes(recording)
    if not len(lives):
        return
    result = drawn(recording)
    sums = np.sum(list(result.categories.values()), axis=0)
    assert len(result.seconds) == len(sums) <= MOMENTS
    assert sums.max() == compute_totals(lives, count).max()
    assert (np.diff(result.seconds) >= 0).all()
