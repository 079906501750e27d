"""Records live memory when a run runs out of memory: the failed step is run again under the recorder."""

import gc
from dataclasses import replace

from perfkit.core.allocations import FailedRequest
from perfkit.core.record.rank_record import RunStatus
from perfkit.instruments.failure_status import classify_error
from perfkit.instruments.memory.failed_request import parse_failed_request
from perfkit.instruments.memory.memory_recording import record_failing_step
from perfkit.instruments.sensors.process_memory import measure_peak_rss
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.measure.rank.session import TrainingSession, keep_peak
from perfkit.store.layout import MEMORY_FILE
from perfkit.store.memory_file import write_allocations


def record_failure(session: TrainingSession, request: FailedRequest) -> None:
    """Write the live memory when `request` failed in the step that `session` was in.

    Call it once the exception and everything its frames held are gone. With several ranks, where no step can be run
    alone, only the training state is recorded.
    """
    state = session.state
    state.zero_grad()
    gc.collect()
    index = session.next_step

    def again() -> None:
        if state.world.size > 1:
            return
        session.step(index)

    with measure_peak_rss() as resident:
        recorded = record_failing_step(
            again,
            get_trained_models(state),
            blocks=lambda: list_known_blocks(state),
            failure=_parse_failure,
            harness=session.data.addresses(),
        )
    if recorded.failed is None:
        recorded = replace(recorded, failed=request)
    write_allocations(session.recorder.folder / MEMORY_FILE, recorded)
    keep_peak(session, resident)


def _parse_failure(error: BaseException) -> FailedRequest | None:
    return parse_failed_request(error) if classify_error(error) == RunStatus.OUT_OF_MEMORY else None
