"""Paths in a suite's folder.

<suite>/suite.json                  Suite: what was asked for, the variants and their runs, written after every run
<suite>/ceilings.json               DeviceCeilings used by the analysis
<suite>/plan.json                   what was predicted of its variants
<suite>/ranking.json                techniques to try next: `perfkit.store.technique_ranking`
<suite>/<variant>/<repeat>/         one run: one launch of one variant; a variant's first has the instrumented passes
    spec.json  run.json
    agent<n>.json  agent<n>.log     with torchrun: how ranks ended that failed on a machine, and what its agent said
    agent0.log  meeting.json        with slurm: what srun said, and where ranks on several nodes meet
    rank<k>/record.json  rank<k>/trace.json.gz  rank<k>/memory.parquet  rank<k>/output.log  rank0/counters.csv
    rank<k>/history.json.gz         on CUDA: the allocator's own history of the memory pass
    rank<k>/stacks.json             sampled Python stacks of a loop: `perfkit.store.stacks`
    rank<k>/live.jsonl              of a loop that is watched all the time: `perfkit.store.live`
    rank<k>/flight_recorder.json.gz the last collectives of a rank that did not end well: `perfkit.flight`
<suite>/<variant>/counters/         the launch under Nsight Compute, whose counts the first run's `counters.csv` holds
<suite>/ended/rank<k>/              stacks and last collectives of a rank under `perfkit run` that SIGTERM ended
<suite>/stalled/rank<k>/            the same of one that made no progress for long
<suite>/.lock                       held by the `perfkit bench` that writes the suite
<suite>/slurm/                      with --launcher slurm: what was submitted, and what the job printed
<suite>/report.html, report.json, ... what `perfkit report` renders; notebook.html where a notebook asked for it
"""

import re
from pathlib import Path, PurePosixPath

import msgspec

from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest

SUITE_VERSION = 4
SUITE_FILE = "suite.json"
LOCK_FILE = ".lock"
SLURM_FOLDER = "slurm"
CEILINGS_FILE = "ceilings.json"
SPEC_FILE = "spec.json"
RUN_FILE = "run.json"
RECORD_FILE = "record.json"
TRACE_FILE = "trace.json.gz"
HISTORY_FILE = "history.json.gz"
MEMORY_FILE = "memory.parquet"
OUTPUT_FILE = "output.log"
NOTEBOOK_FILE = "notebook.html"
REPORT_JSON = "report.json"
COUNTERS_FILE = "counters.csv"
FLIGHT_FILE = "flight_recorder.json.gz"
WATCHDOG_DUMP = "nccl_trace_rank_"  # and the rank, as NCCL adds it


class SuiteRun(Struct):
    """One launch within a suite: `path` is relative to the suite's folder. Runs of one `repeat` were made together."""

    variant: str
    repeat: int
    path: str


class SuiteSampling(Struct):
    """Sampling of a suite after each variant's first run.

    Rounds of processes, one of each variant, were run until the 95 % interval of every comparison was within
    `precision` (relative), or for `budget_s` seconds; both are None if a number of `rounds` was requested. `end_reason`
    says why they ended, "" for another cause; `seconds` is their duration.
    """

    precision: float | None = None
    budget_s: float | None = None
    rounds: int = 0
    seconds: float = 0.0
    end_reason: str = ""


class BatchTrial(Struct):
    """A few steps with a batch of `size`, in new processes.

    `fits` is None if unknown: they failed, or never started, for another reason than memory. `peak_bytes` is that of
    the fullest rank: reserved memory on a GPU, resident memory on a CPU. `reason` says why it does not fit, or why that
    is unknown. `seconds` is 0 if nothing was run.
    """

    size: int
    fits: bool | None
    peak_bytes: float | None = None
    seconds: float = 0.0
    reason: str = ""


class BatchSearch(Struct):
    """The search for the largest batch of the variant `requested_variant`, which became `selected_variant`; None where
    no size fits.

    A trial fits if it leaves the share `margin` of `limit_bytes` free, the memory that one rank may take. `max_size` is
    the size beyond which none was tried, `predicted_size` the one that a plan began with. The search ends at a trial of
    which it is not known whether it fits.
    """

    requested_variant: str
    selected_variant: str | None
    limit_bytes: float | None
    margin: float
    max_size: int
    trials: tuple[BatchTrial, ...]
    predicted_size: int | None = None


class RecomputationTrial(Struct):
    """A candidate for `ckpt:fit`: the peak of torch's allocator, as planned and as measured by a few steps.

    `planned_bytes` is the upper bound of the plan, None if it cannot be planned; `measured_bytes` is that of the
    fullest rank, None if nothing was run. `fits` is None if unknown; `reason` says why, or why it does not fit.
    `seconds` is 0 if nothing was run.
    """

    variant: str
    fits: bool | None
    planned_bytes: float | None = None
    measured_bytes: float | None = None
    seconds: float = 0.0
    reason: str = ""


class RecomputationSearch(Struct):
    """The search for the least recomputation of the variant `requested_variant`, which became `selected_variant`; None
    if nothing fits, or nothing could be planned: `reason`.

    A trial fits if its peak, measured or else planned, is within `limit_bytes`.
    """

    requested_variant: str
    selected_variant: str | None
    limit_bytes: float
    trials: tuple[RecomputationTrial, ...]
    reason: str = ""


class MeasurementSession(Struct):
    """One order to measure: the first made the suite, each other one added to it. An interrupted one is gone on with.

    `request` has the variants of this session; None where no more is known than that. Its runs are those with
    `first_repeat` or a later one, up to the next session's.
    """

    created_at: str
    command: str
    request: BenchRequest | None
    first_repeat: int = 0
    sampling: SuiteSampling | None = None


class Suite(Struct):
    """A set of runs to be compared. `baselines` maps a variant to the variant it is compared with.

    `sources` are the files of the user's own workload, by path from its folder, each with a digest of its contents.
    `sessions` is empty without a request of `perfkit bench` (a check, an attached loop) or in suites of an older
    perfkit. `price` is None if not given.
    """

    schema_version: int = SUITE_VERSION
    created_at: str
    perfkit: str
    command: str
    variants: tuple[str, ...]
    baselines: dict[str, str]
    runs: tuple[SuiteRun, ...] = ()
    sources: dict[str, str] = {}
    sessions: tuple[MeasurementSession, ...] = ()
    searches: tuple[BatchSearch, ...] = ()
    recomputations: tuple[RecomputationSearch, ...] = ()
    price: Price | None = None
    warnings: tuple[Note, ...] = ()

    @property
    def sampling(self) -> SuiteSampling | None:
        """That of all sessions as one, which ended as the last did; None where no rounds were measured."""
        parts = [session.sampling for session in self.sessions if session.sampling is not None]
        if not parts:
            return None
        return msgspec.structs.replace(
            parts[-1],
            # Intervals that were sampled until they are narrow keep something back for it, whoever else took part.
            precision=next((part.precision for part in reversed(parts) if part.precision is not None), None),
            rounds=sum(part.rounds for part in parts),
            seconds=sum(part.seconds for part in parts),
        )


def get_run_path(variant: str, repeat: int) -> str:
    """The run's folder relative to the suite, with characters that some file systems refuse replaced."""
    return f"{re.sub(r'[^A-Za-z0-9+@._-]', '_', variant)[:100]}/{repeat}"


def get_counters_path(variant: str) -> str:
    """The folder, relative to the suite, of the variant's launch under a counting profiler."""
    return f"{PurePosixPath(get_run_path(variant, 0)).parent}/counters"


def get_rank_folder(run: Path, rank: int) -> Path:
    return run / f"rank{rank}"


def find_flight_file(run: Path, rank: int) -> Path | None:
    """Find a rank's flight record: its own, else that of NCCL's watchdog; None if there is none."""
    files = (get_rank_folder(run, rank) / FLIGHT_FILE, run / f"{WATCHDOG_DUMP}{rank}")
    return next((file for file in files if file.is_file()), None)


def get_agent_file(run: Path, node: int) -> Path:
    return run / f"agent{node}.json"


def get_agent_log(run: Path, node: int) -> Path:
    return run / f"agent{node}.log"
