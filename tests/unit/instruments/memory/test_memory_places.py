from perfkit.instruments.memory.allocation_places import PlaceIndex
from perfkit.instruments.memory.profiler_events import MarkedRange

MAIN, WORKER = 1, 2


def test_a_process_groups_thread_is_where_the_waiting_thread_is() -> None:
    places = PlaceIndex([MarkedRange("FSDP::all_gather (blocks.0)", MAIN, 10, 20)])
    found = places.at([12, 15, 25], [WORKER, MAIN, WORKER])
    assert [place.sharding for place in found] == ["FSDP::all_gather (blocks.0)", "FSDP::all_gather (blocks.0)", ""]


def test_a_thread_with_ranges_of_its_own_is_in_those() -> None:
    ranges = [MarkedRange("FSDP::all_gather", MAIN, 10, 20), MarkedRange("FSDP::pre_backward", WORKER, 0, 5)]
    assert [place.sharding for place in PlaceIndex(ranges).at([15], [WORKER])] == [""]
