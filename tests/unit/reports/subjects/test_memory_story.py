import msgspec

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import Fragmentation, MemoryAccount
from perfkit.core import allocations
from perfkit.core.allocations import FailedRequest
from perfkit_reports.holders import Holder, list_device_holders
from perfkit_reports.subjects.memory import memory_sentences as memory_story
from tests.fixtures import sample_accounts
from tests.fixtures.figures import list_figures

MIB = 2**20


def held(free: int, largest: int | None) -> Fragmentation:
    return Fragmentation(
        reserved_bytes=100 * MIB + free, allocated_bytes=100 * MIB, free_bytes=free, largest_free_bytes=largest
    )


def failed(asked: int | None, free: int, largest: int | None) -> MemoryAccount:
    request = FailedRequest(bytes=asked, message="")
    return sample_accounts.step(412 * MIB, failed=request, fragmentation=held(free, largest))


def test_the_headline_tells_the_peak_when_it_was_and_what_fills_it() -> None:
    account = sample_accounts.step(412 * MIB)
    assert list_figures(memory_story.build_headline([Holder("cpu", account)])) == [
        "412 MiB",
        "3",
        "77 %",
        "10 %",
        "5 %",
    ]


def test_of_several_devices_the_headline_is_of_the_fullest() -> None:
    holders = list_device_holders((sample_accounts.step(412 * MIB), sample_accounts.every_category()))
    assert list_figures(memory_story.build_headline(holders))[:4] == ["1.37 GiB", "3", "0", "50 %"]


def test_what_is_not_known_is_left_out_of_the_headline() -> None:
    bare = MemoryAccount(peak_bytes=MIB, peak_phase="", source="", categories=())
    assert memory_story.build_headline([Holder("cpu", bare)]) == "Peak 1.00 MiB."
    assert "no allocation" in memory_story.build_headline([])


def test_running_out_of_memory_tells_the_request_and_what_was_alive() -> None:
    account = sample_accounts.out_of_memory()
    assert list_figures(memory_story.build_headline([Holder("cuda:0", account)]))[:3] == [
        "64.0 MiB",
        "1.88 GiB",
        "95 %",
    ]
    request, alive, missing, message = memory_story.describe_failure(account)
    assert list_figures(request)[:1] == ["64.0 MiB"]
    assert all(part in request for part in ("aten::mm", "h.1.mlp.up", "model.py:57", "backward"))
    assert list_figures(alive)[:2] == ["1.88 GiB", "95 %"]
    assert list_figures(missing) == ["118 MiB", "40.0 MiB"]
    assert list_figures(message)[:1] == ["64.00 MiB"]


def test_what_was_missing_follows_from_the_free_part() -> None:
    def told(asked: int | None, free: int, largest: int | None) -> list[str]:
        return memory_story.describe_failure(failed(asked, free, largest))[2:]

    assert [list_figures(line) for line in told(30 * MIB, 10 * MIB, 4 * MIB)] == [["10.0 MiB", "20.0 MiB"]]
    assert [list_figures(line) for line in told(MIB, 10 * MIB, 4 * MIB)] == [["4.00 MiB"]]
    assert [list_figures(line) for line in told(MIB, 10 * MIB, None)] == [["10.0 MiB"]]
    assert told(None, 10 * MIB, 4 * MIB) == []


def test_no_failure_tells_nothing() -> None:
    assert memory_story.describe_failure(sample_accounts.step(412 * MIB)) == []


def test_fragmentation_in_a_sentence_and_its_parts() -> None:
    account = sample_accounts.step(412 * MIB, fragmentation=held(20 * MIB, 5 * MIB))
    said = list_figures(memory_story.describe_fragmentation(account))
    assert said == ["100 MiB", "120 MiB", "5.00 MiB", "20.0 MiB"]
    assert [part[2] for part in memory_story.list_free_parts(held(20 * MIB, 5 * MIB))] == [100 * MIB, 5 * MIB, 15 * MIB]
    assert [part[2] for part in memory_story.list_free_parts(held(20 * MIB, None))] == [100 * MIB, 20 * MIB]
    assert [part[2] for part in memory_story.list_free_parts(held(0, 0))] == [100 * MIB]


def test_growth_adds_up_over_its_origins() -> None:
    assert list_figures(memory_story.describe_growth(sample_accounts.every_category().growth)) == ["12.0 MiB", "2", "4"]
    assert memory_story.describe_growth(()) == ""


def test_step_peaks_need_two_steps() -> None:
    account = sample_accounts.step(100 * MIB, fixed={allocations.PARAMETER: MIB})
    assert list_figures(memory_story.describe_step_peaks(account)) == ["90.0 MiB", "100 MiB", "4", "90.0 MiB"]
    assert list_figures(
        memory_story.describe_step_peaks(msgspec.structs.replace(account, step_peaks=(7 * MIB, 7 * MIB)))
    ) == ["2", "7.00 MiB"]
    assert memory_story.describe_step_peaks(msgspec.structs.replace(account, step_peaks=(7,))) == ""


def advice(finding_id: str, action: str, saved: int | None = None, severity: str = "gain", device: str = "") -> Finding:
    title = f"{finding_id.partition('.')[2].capitalize()}: 40 % of peak"
    return Finding(
        id=finding_id,
        severity=severity,
        title=title,
        variant=device,
        evidence="",
        action=action,
        gain_bytes=saved,
    )


def test_the_headline_says_what_to_do_first() -> None:
    account = sample_accounts.step(412 * 2**20)
    holders = [Holder("cuda:0", account)]
    small = advice("memory.gradients", "update each parameter in backward", 3 * 2**20)
    large = advice("memory.parameters", "Shard them over ranks with fully_shard; offload them", 90 * 2**20)
    elsewhere = advice("memory.logits", "compute the loss in chunks", 2**40, device="cuda:1")
    headline = memory_story.build_headline(holders, [small, large, elsewhere])
    assert headline.endswith("; shard parameters over ranks to save up to 90.0 MiB.")
    leak = advice("memory.growth", "find what keeps tensors: append loss.item()", severity="warning")
    assert memory_story.build_headline(holders, [large, leak]).endswith("; find what keeps tensors.")
    failed = advice("memory.request_failed", "reduce activation first", severity="warning")
    assert memory_story.build_headline(holders, [failed]) == memory_story.build_headline(holders)
