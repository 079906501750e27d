"""The largest size: the sentence, the tile and the rows agree."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, Interval, LargestSize, Plan, PlannedSize
from perfkit_reports.subjects.plan.plan_document import build_document
from perfkit_reports.subjects.plan.plan_largest import describe_largest, find_largest
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures

GIB = 2**30
NEEDED = Interval(value=41 * GIB, low=38 * GIB, high=44 * GIB)


def largest(variant: str, size: int | None, parameter: str = "batch_size") -> LargestSize:
    sizes = (
        PlannedSize(size=1, fits=size is not None, variant=f"{variant}:1", needed_bytes=NEEDED),
        PlannedSize(size=size or 2, fits=size is not None, variant=f"{variant}:{size}", needed_bytes=NEEDED),
    )
    return LargestSize(
        variant=variant, parameter=parameter, size=size, limit_bytes=48 * GIB, margin=0.1, most=64, sizes=sizes
    )


def offer(variant: str, seconds: float) -> GpuOffer:
    step = Interval(value=seconds, low=seconds, high=seconds)
    return GpuOffer(device="l40s", count=1, variant=variant, limit_bytes=48 * GIB, fits=True, needed=NEEDED,
                    step_s=step, unit="tokens", units_per_step=4000.0, mfu=0.36)  # fmt: skip


def plan(*found: LargestSize, offers: tuple[GpuOffer, ...] = ()) -> Plan:
    return replace(sample.alone(), largest=found, offers=offers)


def test_the_sentence_has_the_largest_size_and_its_offer() -> None:
    found = plan(largest("amp", 9), largest("ckpt", 20), offers=(offer("amp:9", 1.0), offer("ckpt:20", 1.45)))
    figures = ("20 samples", "1 x l40s, ckpt", "38 to 44 of 48 GiB", "1.45 s", "36 %")
    assert [figure for figure in figures if figure not in describe_largest(found)] == []
    document = build_document(found)
    assert document.tiles[0].cell.text == "20 samples"
    table = blocks(document)["largest"]
    assert column(table, "Largest") == ["9 samples", "20 samples"]
    assert column(table, "Needed") == ["41.0 GiB", "41.0 GiB"]


def test_of_equal_sizes_the_first_offer_is_named() -> None:
    found = plan(largest("amp", 9), largest("ckpt", 9), offers=(offer("ckpt:9", 1.0), offer("amp:9", 1.5)))
    assert find_largest(found) == found.largest[1]


def test_on_a_cpu_the_need_is_told() -> None:
    assert list_figures(describe_largest(plan(largest("amp", 2304, "seq_len"))))[1:] == ["44.0 GiB", "48.0 GiB"]
    assert "2,304 tokens" in describe_largest(plan(largest("amp", 2304, "seq_len")))


def test_where_none_fits_the_least_is_named() -> None:
    found = plan(largest("amp", None))
    assert find_largest(found) is None
    assert list_figures(describe_largest(found)) == ["2", "44.0 GiB", "48.0 GiB", "10 %"]
    unknown = replace(found.largest[0], sizes=(PlannedSize(size=1, fits=None, reason="no fake kernel"),))
    assert "no fake kernel" in describe_largest(plan(unknown))
