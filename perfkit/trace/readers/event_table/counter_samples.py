"""Samples of counters of a trace, and the device that each is of."""

import re

import numpy as np

from perfkit.trace.model import NONE, CounterSamples
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.thread_info import ThreadInfo

# torch's process of a device's counters, and ROCm's and other writers' names of counters.
_DEVICE = re.compile(r"\b(?:GPU|XPU|device)[ _:]?(\d{1,4})\b", re.IGNORECASE)


def build_counter_samples(
    columns: Columns, names: list[str], threads: list[tuple[str, str]], where: ThreadInfo
) -> CounterSamples:
    """Samples in the order of time, of counters numbered anew; what is not a finite number is left out."""
    good = np.flatnonzero(np.isfinite(columns["value"]))
    order = good[np.argsort(columns["time_ns"][good], kind="stable")]
    distinct, counter = np.unique(columns["name"][order], return_inverse=True)
    chosen = tuple(names[number] for number in distinct.tolist())
    by_name = np.asarray([_parse_device(name) for name in chosen] or [NONE], np.int64)
    by_process = np.asarray([_parse_device(process) for process, _ in threads] or [NONE], np.int64)
    of_thread = np.where(where.device != NONE, where.device, by_process) if len(threads) else by_process
    thread = columns["thread"][order]
    device = np.where(of_thread[thread] != NONE, of_thread[thread], by_name[counter]) if len(order) else thread
    return CounterSamples(
        chosen,
        counter.astype(np.int32),
        device.astype(np.int64),
        columns["time_ns"][order],
        columns["value"][order],
    )


def _parse_device(text: str) -> int:
    match = _DEVICE.search(text)
    return int(match[1]) if match is not None else NONE
