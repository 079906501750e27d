"""What a process takes beside tensors, where its memory or its addresses are limited."""

import psutil

from perfkit.plan.gpu_memory.host_process import estimate_process_bytes


def test_a_thread_takes_a_stack_and_an_arena_of_addresses() -> None:
    resident = estimate_process_bytes(1, addresses=False)
    one, two = (estimate_process_bytes(threads, addresses=True) for threads in (1, 2))
    assert 0 < resident < one
    assert resident <= psutil.Process().memory_full_info().rss * 2
    assert two - one == (8 + 64) * 2**20
