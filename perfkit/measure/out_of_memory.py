"""What was alive when a run ran out of memory: the step that failed is run once more under the recorder."""

import gc
from dataclasses import replace

from perfkit.allocations import FailedRequest
from perfkit.instruments.failure import status_of
from perfkit.instruments.memory.failed import failed_request
from perfkit.instruments.memory.record import record_failing_step
from perfkit.instruments.process_memory import peak_rss_during
from perfkit.instruments.tensors import known_blocks
from perfkit.instruments.trained import trained_of
from perfkit.measure.session import Session, keep_peak
from perfkit.record import RunStatus
from perfkit.store.layout import MEMORY_FILE
from perfkit.store.memory_file import write_allocations


def record_failure(session: Session, request: FailedRequest) -> None:
    """Write what filled the memory when `request` failed in the step that `session` was in.

    To be called when the exception is gone and with it all that its frames held. With several ranks, where no step
    can be run alone, only the training state is told.
    """
    state = session.state
    state.zero_grad()
    gc.collect()
    index = session.next_step

    def again() -> None:
        if state.world.size > 1:
            return
        session.step(index)

    with peak_rss_during() as resident:
        recorded = record_failing_step(
            again,
            trained_of(state),
            blocks=lambda: known_blocks(state),
            failure=_failure,
            harness=session.data.addresses(),
        )
    if recorded.failed is None:
        recorded = replace(recorded, failed=request)
    write_allocations(session.recorder.folder / MEMORY_FILE, recorded)
    keep_peak(session, resident)


def _failure(error: BaseException) -> FailedRequest | None:
    return failed_request(error) if status_of(error) == RunStatus.OUT_OF_MEMORY else None
