"""Observations of a running process."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.stacks import ThreadStacks
from perfkit.core.spec import Struct
from perfkit.store.process import ProcessFacts

PROCESS_VERSION = 4


class WatchedThread(Struct):
    """A thread of a process: `main` is the one that the process began with, of the process that was asked for."""

    pid: int
    name: str
    main: bool
    stacks: ThreadStacks


class ProcessAnalysis(DisplayMixin, Struct):
    """A report on a running process. The main thread comes first, then those with most samples in the program."""

    subject: ClassVar[str] = "process"
    schema_version: int = PROCESS_VERSION
    created_at: str
    perfkit: str
    command: str
    process: ProcessFacts
    threads: tuple[WatchedThread, ...]
    findings: tuple[Finding, ...]
