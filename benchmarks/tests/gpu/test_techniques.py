import msgspec
import pytest

from benchmarks.gpu.bench_results import describe_variant
from benchmarks.gpu.published import PUBLISHED, describe_published
from benchmarks.gpu.techniques import ROWS, check_gpu_figures
from perfkit.analysis.memory.process_memory import CONTEXT, RESIDUAL
from perfkit.analysis.model.memory_model import MemoryShare
from perfkit.analysis.model.suite import ClaimResult, Parity, Variant
from perfkit.core.record.rank_record import RunStatus
from tests.fixtures.sample_analysis import realistic


@pytest.fixture
def variant() -> Variant:
    found = next(each for each in realistic().variants if each.status == RunStatus.OK and each.memory is not None)
    parity = Parity(verdict="equal", max_relative=0.0, tolerance=0.0, basis="", steps=10)
    memory = msgspec.structs.replace(found.memory, outside_allocator=(), process_bytes=None)
    return msgspec.structs.replace(found, claims=(), parity=parity, memory=memory)


def test_what_nvml_counts_and_nothing_explains(variant: Variant) -> None:
    beyond = (MemoryShare(category=CONTEXT, bytes=460), MemoryShare(category=RESIDUAL, bytes=-40))
    memory = msgspec.structs.replace(variant.memory, outside_allocator=beyond, process_bytes=1000)
    figures, wrong = describe_variant(msgspec.structs.replace(variant, memory=memory))
    assert figures["unexplained_share"] == 0.04
    assert wrong == []


def test_a_process_that_nobody_counted_leaves_the_share_unknown(variant: Variant) -> None:
    assert describe_variant(variant)[0]["unexplained_share"] is None


def test_claims_that_do_not_hold_are_wrong(variant: Variant) -> None:
    claim = ClaimResult(
        technique="amp",
        statement="products in bf16",
        outcome="not active",
        holds=False,
        expected=1,
        measured=0,
        evidence="0 of 1",
        fact="matmul_flops_share:bf16",
    )
    (wrong,) = describe_variant(msgspec.structs.replace(variant, claims=(claim,)))[1]
    assert claim.statement in wrong
    assert claim.evidence in wrong


@pytest.mark.parametrize(
    ("parity", "unexplained", "wrong"),
    [
        ("equal", 0.03, []),
        ("within tolerance", None, []),
        ("differs", None, ["losses differ by 0.5"]),
        ("equal", 0.04, ["4.0% of what NVML counts for the process is not explained"]),
    ],
)
def test_losses_that_differ_and_memory_that_nothing_explains_are_wrong(
    parity: str, unexplained: float | None, wrong: list[str]
) -> None:
    assert check_gpu_figures({"parity": parity, "parity_relative": 0.5, "unexplained_share": unexplained}) == wrong


def test_published_step_times_as_utilization() -> None:
    """GPT-2 124M of 16 x 1024 tokens: 6 x 123.7M + 12 x 12 x 768 x 1024 FLOPs a token, on an A100 of 312 TFLOP/s."""
    (fp32,) = PUBLISHED["gpt.baseline"]
    fastest = PUBLISHED["gpt.amp+flash+compile"][0]
    step = (6 * 123.65e6 + 12 * 12 * 768 * 1024) * 16 * 1024
    assert describe_published(fp32, "baseline")["mfu"] == pytest.approx(step / 19.5e12, rel=0.01)
    assert describe_published(fastest, "amp+flash+compile")["mfu"] == pytest.approx(step / 0.096 / 312e12, rel=0.01)


def test_what_was_published_is_measured() -> None:
    assert set(PUBLISHED) <= {row.name for row in ROWS}
