import msgspec

from perfkit import allocations
from perfkit.allocations import FailedRequest
from perfkit.analysis.model.memory import Fragmentation, MemoryAccount
from perfkit_reports.holders import Holder, list_device_holders
from perfkit_reports.subjects.memory import sentences as memory_story
from tests.fixtures import sample_accounts

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
    assert memory_story.build_headline([Holder("cpu", account)]) == (
        "Peak 412 MiB in backward of step 3: 77 % activation, 10 % optimizer state, 5 % parameter."
    )


def test_of_several_devices_the_headline_is_of_the_fullest() -> None:
    holders = list_device_holders((sample_accounts.step(412 * MIB), sample_accounts.every_category()))
    assert memory_story.build_headline(holders).startswith(
        "Peak 1.37 GiB in backward of step 3 on cuda:0: 50 % activation"
    )


def test_what_is_not_known_is_left_out_of_the_headline() -> None:
    bare = MemoryAccount(peak_bytes=MIB, peak_phase="", source="", categories=())
    assert memory_story.build_headline([Holder("cpu", bare)]) == "Peak 1.00 MiB."
    assert memory_story.build_headline([]) == "The file holds no allocation events."


def test_running_out_of_memory_tells_the_request_and_what_was_alive() -> None:
    account = sample_accounts.out_of_memory()
    assert memory_story.build_headline([Holder("cuda:0", account)]).startswith(
        "Out of memory: 64.0 MiB asked for with 1.88 GiB alive at the peak: 95 % activation"
    )
    request, alive, missing, message = memory_story.describe_failure(account)
    assert request == (
        "An allocation of 64.0 MiB failed: by aten::mm, in h.1.mlp.up, at model.py:57 forward, backward of step 3."
    )
    assert alive.startswith("Alive at the peak of 1.88 GiB: 95 % activation")
    assert (
        missing == "118 MiB were reserved but free, in pieces of at most 40.0 MiB: fragmentation, not lack of memory."
    )
    assert message.startswith("The allocator said: CUDA out of memory. Tried to allocate 64.00 MiB")


def test_what_was_missing_follows_from_the_free_part() -> None:
    def told(asked: int | None, free: int, largest: int | None) -> list[str]:
        return memory_story.describe_failure(failed(asked, free, largest))[2:]

    assert told(30 * MIB, 10 * MIB, 4 * MIB) == ["10.0 MiB were reserved but free: at least 20.0 MiB were missing."]
    assert told(MIB, 10 * MIB, 4 * MIB) == [
        "The allocator held a free block of 4.00 MiB, which would have been enough."
    ]
    assert told(MIB, 10 * MIB, None) == ["10.0 MiB were reserved but free, in pieces of unknown size."]
    assert told(None, 10 * MIB, 4 * MIB) == []


def test_no_failure_tells_nothing() -> None:
    assert memory_story.describe_failure(sample_accounts.step(412 * MIB)) == []


def test_fragmentation_in_a_sentence_and_its_parts() -> None:
    account = sample_accounts.step(412 * MIB, fragmentation=held(20 * MIB, 5 * MIB))
    assert memory_story.describe_fragmentation(account) == (
        "100 MiB of 120 MiB reserved are allocated at the peak; of the 20.0 MiB that are free, "
        "5.00 MiB could serve one request."
    )
    assert [part[2] for part in memory_story.list_free_parts(held(20 * MIB, 5 * MIB))] == [100 * MIB, 5 * MIB, 15 * MIB]
    assert [part[2] for part in memory_story.list_free_parts(held(20 * MIB, None))] == [100 * MIB, 20 * MIB]
    assert [part[2] for part in memory_story.list_free_parts(held(0, 0))] == [100 * MIB]


def test_growth_adds_up_over_its_origins() -> None:
    assert memory_story.describe_growth(sample_accounts.every_category().growth) == (
        "12.0 MiB a step from 2 origins, over 4 steps in a row."
    )
    assert memory_story.describe_growth(()) == ""


def test_step_peaks_need_two_steps() -> None:
    account = sample_accounts.step(100 * MIB, fixed={allocations.PARAMETER: MIB})
    assert (
        memory_story.describe_step_peaks(account) == "The 4 steps peak at 90.0 MiB to 100 MiB; the first at 90.0 MiB."
    )
    assert memory_story.describe_step_peaks(msgspec.structs.replace(account, step_peaks=(7 * MIB, 7 * MIB))) == (
        "All 2 steps peak at 7.00 MiB."
    )
    assert memory_story.describe_step_peaks(msgspec.structs.replace(account, step_peaks=(7,))) == ""
