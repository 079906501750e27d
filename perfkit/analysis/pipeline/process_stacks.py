"""Analyzes the samples of a running process, and reads the analysis back."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import perfkit
from perfkit.analysis.model.stacks import ProcessAnalysis, WatchedThread
from perfkit.analysis.stacks.hot_lines import summarize_thread_stacks
from perfkit.analysis.stacks.main_thread import find_in_main_threads
from perfkit.core.files import read_json
from perfkit.store.process import ProcessFacts
from perfkit.store.stacks import SampledThread
from perfkit.store.summary import PROCESS_FILE

_MAIN = "MainThread"  # as Python calls it


def analyze_process(facts: ProcessFacts, threads: Sequence[SampledThread], *, command: str = "") -> ProcessAnalysis:
    """Analyze the sampled threads of a process; of a launcher's, those of its ranks."""
    kept = [thread for thread in threads if not facts.rank_pids or thread.pid in facts.ranks]
    mains = {thread.pid: thread for thread in reversed(kept) if _is_main(thread, facts)}
    watched = [
        WatchedThread(
            pid=thread.pid,
            name=thread.thread,
            main=mains.get(thread.pid) is thread,
            stacks=stacks,
            rank=facts.ranks.get(thread.pid),
        )
        for thread in kept
        if (stacks := summarize_thread_stacks([thread])) is not None
    ]
    places = {pid: place for place, pid in enumerate(_list_trained(facts))}
    watched.sort(
        key=lambda thread: (
            not thread.main,
            places[thread.pid] if thread.main else -1,
            -thread.stacks.samples * (1 - thread.stacks.unnamed_share),
        )
    )
    return ProcessAnalysis(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        process=facts,
        threads=tuple(watched),
        findings=find_in_main_threads(
            [(_name_worker(facts, pid), mains[pid]) for pid in _list_trained(facts) if pid in mains]
        ),
    )


def _list_trained(facts: ProcessFacts) -> tuple[int, ...]:
    """The processes that train."""
    return facts.rank_pids or (facts.pid,)


def _name_worker(facts: ProcessFacts, pid: int) -> str:
    """`rank 1`, by its process where the rank is unknown; "" for the only process that trains."""
    rank = facts.ranks.get(pid)
    if rank is not None:
        return f"rank {rank}"
    return f"process {pid}" if facts.rank_pids else ""


def _is_main(thread: SampledThread, facts: ProcessFacts) -> bool:
    return thread.pid in _list_trained(facts) and thread.thread == _MAIN


def read_process_analysis(folder: Path) -> ProcessAnalysis:
    """Read the analysis that `perfkit attach` wrote to a folder. A `RunFormatError` names any other file."""
    return read_json(folder / PROCESS_FILE, ProcessAnalysis, remedy="attach again")
