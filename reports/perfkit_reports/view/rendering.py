"""Renders missing reports in subprocesses, into a scratch folder: runs are only read."""

import subprocess
import sys
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

AT_ONCE = 2  # analysis takes memory


_Key = tuple[tuple[str, ...], Hashable]  # the command and the version of its input


@dataclass(frozen=True)
class Rendering:
    """State of a report: `page` if done, `error` if it failed, neither while in progress."""

    page: Path | None = None
    error: str = ""


class Renderer:
    """Renders each report once, into a folder below `scratch`. `version` identifies a state of a run."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(AT_ONCE)
        self._done: dict[_Key, Rendering] = {}
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False

    def report(self, run: Path, version: Hashable) -> Rendering:
        """State of a run's report; the first request starts rendering."""
        return self._request_page(("report", str(run)), version)

    def request_comparison(self, runs: Sequence[str], version: Hashable, *, anyway: bool) -> Rendering:
        """State of a comparison of runs, named as for `perfkit compare`."""
        return self._request_page(("compare", *runs, *(["--anyway"] if anyway else [])), version)

    def _request_page(self, command: tuple[str, ...], version: Hashable) -> Rendering:
        key = (command, version)
        with self._lock:
            if key not in self._done:
                self._done[key] = Rendering()
                folder = self._scratch / str(len(self._done))
                threading.Thread(target=self._draw_page, args=(key, folder), daemon=True).start()
            return self._done[key]

    def close(self) -> None:
        """Stop all rendering."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.terminate()
        for process in list(self._processes):
            process.wait()

    def _draw_page(self, key: _Key, folder: Path) -> None:
        command = [sys.executable, "-m", "perfkit_cli", *key[0], "--out", str(folder), "--quiet"]
        with self._slots:
            result = self._run_command(command)
        page = folder / "report.html"
        with self._lock:
            self._done[key] = Rendering(page=page) if page.is_file() else Rendering(error=result)

    def _run_command(self, command: Sequence[str]) -> str:
        """Run the command; return the last lines of its error output."""
        if self._closed:
            return "perfkit view has ended"
        # Outside the lock: starting a process can take seconds, and pages wait for the lock.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        with self._lock:
            self._processes.add(process)
            if self._closed:
                process.terminate()
        _, complaint = process.communicate()
        with self._lock:
            self._processes.discard(process)
        return complaint.strip()[-2000:] or f"exit code {process.returncode}, no report written"
