"""Counts the bytes that ranks exchanged in steps of an attached loop, by torch's flight recorder.

Gloo's threads start some collectives themselves, such as those of PowerSGD's factors. The profiler does not see these;
the recorder does.
"""

import pickle
from collections import Counter
from typing import Any

import torch._C._distributed_c10d as c10d

from perfkit.cost.calls.collective import classify_collective, make_message_of_size
from perfkit.flight.decode import decode_dump
from perfkit.flight.flight_record import DEFAULT_GROUP
from perfkit.instruments.trace_recording import TimeWindow

# torch's flight recorders of NCCL's and of Gloo's collectives. A build without NCCL lacks the first; that of Gloo's
# records since torch 2.10.
NCCL_RECORDER, GLOO_RECORDER = "_dump_nccl_trace", "_dump_fr_trace"


def load_recorder(name: str, *, collectives: bool, stacks: bool = False) -> dict[str, Any]:
    """Load what a flight recorder of torch holds; empty where this torch does not have it.

    Without `collectives` only the state of each group.
    """
    dump = getattr(c10d, name, None)
    # The pickle is this process's own, made by the call. The last argument leaves out those that have ended.
    return {} if dump is None else pickle.loads(dump(collectives, stacks, False))


def count_recorded_bytes(window: TimeWindow, world_size: int) -> dict[str, float]:
    """Count Gloo's collectives per step and their bytes: `recorded_collectives`, `collective_bytes:<kind>` and
    `collective_volume:<kind>`.

    Empty if nothing was recorded, and where it is unknown: the recorder has dropped some of them, or the size of a
    message or the ranks of its group are unknown.
    """
    dump = load_recorder(GLOO_RECORDER, collectives=True)
    entries = dump.get("entries", ())
    has_dropped = bool(entries) and entries[0]["record_id"] > 0 and entries[0]["time_created_ns"] > window.began_ns
    mine = [entry for entry in entries if window.began_ns <= entry["time_created_ns"] < window.ended_ns]
    if has_dropped or not mine or not window.steps:
        return {}
    record = decode_dump({**dump, "entries": mine}, "torch's flight recorder")
    facts: Counter[str] = Counter({"recorded_collectives": len(record.collectives)})
    for call in record.collectives:
        kind, sizes = classify_collective(call.op), (call.inputs.bytes, call.outputs.bytes)
        group = record.groups[call.group]
        ranks = len(group.ranks) or (world_size if group.description == DEFAULT_GROUP else 0)
        if kind is None or None in sizes or not ranks:
            return {}
        message = make_message_of_size(kind, max(size for size in sizes if size is not None), ranks)
        facts[f"collective_bytes:{kind}"] += round(message.bytes)
        facts[f"collective_volume:{kind}"] += round(message.bus_factor * message.bytes)
    return {name: value / window.steps for name, value in facts.items()}
