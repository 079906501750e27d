import re

import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel
from perfkit_reports.charts.roofs import build_roofs, compute_limits, is_placeable
from perfkit_reports.subjects.suite.chart_styles import build_plane
from tests.fixtures.figures import list_figures


def test_slopes_and_flats_meet_at_the_ridge(realistic: Analysis) -> None:
    measured = {roof.name: roof for roof in build_roofs(build_plane(realistic)) if roof.measured}
    memory, bf16 = measured["memory"], measured["bf16 matrix"]
    assert memory.x1 == pytest.approx(402e9 / 38e9)  # the ridge point of the highest peak
    assert memory.y1 == pytest.approx(402e9)
    assert memory.y0 / memory.x0 == pytest.approx(38e9)
    assert bf16.x0 == pytest.approx(402e9 / 150e9)  # where the widest bandwidth, L3, reaches it
    assert bf16.y0 == bf16.y1 == 402e9


def test_only_ceilings_of_the_threads_that_ran_are_drawn(realistic: Analysis) -> None:
    assert 104e9 not in [
        roof.ceiling.value for roof in build_roofs(build_plane(realistic))
    ]  # measured with one thread, two ran


def test_datasheet_roofs_meet_datasheet_roofs(realistic: Analysis) -> None:
    memory = next(
        roof
        for roof in build_roofs(build_plane(realistic))
        if roof.ceiling.kind == CeilingKind.DATASHEET and roof.name == "memory"
    )
    assert memory.x1 == pytest.approx(473e9 / 57e9)


def test_a_doubtful_ceiling_says_so(realistic: Analysis) -> None:
    memory = next(roof for roof in build_roofs(build_plane(realistic)) if roof.measured and roof.name == "memory")
    kind, confidence, _ = re.split(", |: ", memory.source)
    assert (kind, confidence) == ("measured", "low confidence")
    assert list_figures(memory.source) == ["5", "300"]


def test_a_disturbed_ceiling_says_so_and_a_refuted_one_is_not_drawn(realistic: Analysis) -> None:
    known = realistic.ceilings
    assert known is not None

    def drawn(**fields: str) -> list[str]:
        ceilings = tuple(
            msgspec.structs.replace(each, **fields)
            if (each.level, each.kind) == (CeilingLevel.MEMORY, CeilingKind.MEASURED)
            else each
            for each in known.ceilings
        )
        changed = msgspec.structs.replace(realistic, ceilings=msgspec.structs.replace(known, ceilings=ceilings))
        return [roof.source for roof in build_roofs(build_plane(changed)) if roof.measured and roof.name == "memory"]

    (source,) = drawn(disturbance="0 of 7 repeats undisturbed")
    assert "busy" in source
    assert list_figures(source) == ["5", "300"]
    assert drawn(exceeded_by="work ran faster") == []


def test_limits_hold_every_weighty_point(realistic: Analysis) -> None:
    frame = compute_limits(build_plane(realistic))
    assert frame is not None
    points = [point for variant in realistic.variants for point in variant.points if is_placeable(point)]
    assert all(frame.includes_point(point) for point in points if point.share >= 3e-3)


def test_a_point_many_decades_away_does_not_stretch_the_axes(realistic: Analysis) -> None:
    variant = realistic.variants[0]
    assert variant.trace is not None
    far = msgspec.structs.replace(variant.points[0], intensity=1e-9, flops_per_s=1.0, share=0.5)
    longer = msgspec.structs.replace(variant.trace, summary=(*variant.trace.summary, far))
    stretched = msgspec.structs.replace(variant, trace=longer)
    alone, wide = (
        compute_limits(build_plane(msgspec.structs.replace(realistic, variants=(some,))))
        for some in (variant, stretched)
    )
    assert wide == alone
    assert wide is not None
    assert not wide.includes_point(far)


def test_nothing_is_drawn_of_nothing(nothing_measured: Analysis) -> None:
    assert compute_limits(build_plane(nothing_measured)) is None
    assert build_roofs(build_plane(nothing_measured)) == []


def test_equal_peaks_are_one_line_with_both_names(realistic: Analysis) -> None:
    assert realistic.ceilings is not None
    bf16 = next(each for each in realistic.ceilings.ceilings if each.dtype == "bf16" and each.value == 402e9)
    vector = msgspec.structs.replace(bf16, level=CeilingLevel.VECTOR)
    doubled = msgspec.structs.replace(realistic.ceilings, ceilings=(*realistic.ceilings.ceilings, vector))
    drawn = build_roofs(build_plane(msgspec.structs.replace(realistic, ceilings=doubled)))
    (name,) = [roof.name for roof in drawn if roof.flat and roof.y0 == 402e9]
    assert name.startswith("bf16 matrix")
    assert name.endswith("vector")


def test_three_tf32_products_for_one_have_a_roof_of_their_own(realistic: Analysis) -> None:
    assert realistic.ceilings is not None
    bf16 = next(each for each in realistic.ceilings.ceilings if each.dtype == "bf16" and each.value == 402e9)
    tf32 = msgspec.structs.replace(bf16, dtype="tf32", value=300e9)
    known = msgspec.structs.replace(realistic.ceilings, ceilings=(*realistic.ceilings.ceilings, tf32))
    found = msgspec.structs.replace(realistic, ceilings=known)
    assert "3xtf32 matrix" not in [roof.name for roof in build_roofs(build_plane(found))]
    baseline, *others = found.variants
    assert baseline.trace is not None
    points = tuple(msgspec.structs.replace(each, dtype="3xtf32") for each in baseline.points)
    trace = msgspec.structs.replace(baseline.trace, summary=points, ops=())
    ran = msgspec.structs.replace(found, variants=(msgspec.structs.replace(baseline, trace=trace), *others))
    assert [roof.y0 for roof in build_roofs(build_plane(ran)) if roof.name == "3xtf32 matrix"] == [100e9]


def test_units_are_named_as_the_vendor_does(realistic: Analysis) -> None:
    assert realistic.ceilings is not None
    ceilings = msgspec.structs.replace(realistic.ceilings, device_name="NVIDIA H100 80GB HBM3")
    drawn = build_roofs(build_plane(msgspec.structs.replace(realistic, ceilings=ceilings)))
    assert "bf16 Tensor Core" in {roof.name for roof in drawn}


def test_an_outer_cache_that_was_measured_faster_than_an_inner_one_is_not_drawn(realistic: Analysis) -> None:
    assert realistic.ceilings is not None
    (slow,) = [each for each in realistic.ceilings.ceilings if each.level == CeilingLevel.MEMORY][:1]
    levels = ((CeilingLevel.L2, 3.0), (CeilingLevel.L3, 3.5))
    caches = tuple(msgspec.structs.replace(slow, level=level, value=times * slow.value) for level, times in levels)
    ceilings = msgspec.structs.replace(realistic.ceilings, ceilings=(*realistic.ceilings.ceilings, *caches))
    roofs = build_roofs(build_plane(msgspec.structs.replace(realistic, ceilings=ceilings)))
    drawn = {roof.ceiling.level for roof in roofs if not roof.flat}
    assert CeilingLevel.L2 in drawn
    assert CeilingLevel.L3 not in drawn
