"""Reports that are missing, drawn in processes of their own into a folder of our own: the runs are only read."""

import subprocess
import sys
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

AT_ONCE = 2  # analysing takes memory


_Key = tuple[tuple[str, ...], Hashable]  # the command, and the state of what it reads


@dataclass(frozen=True)
class Rendering:
    """How a report stands: `page` once it is there, `error` where it could not be drawn, neither while it is made."""

    page: Path | None = None
    error: str = ""


class Renderer:
    """Draws each report once, into a folder below `scratch`. `version` tells one state of a run from a later one."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(AT_ONCE)
        self._done: dict[_Key, Rendering] = {}
        self._processes: set[subprocess.Popen[str]] = set()
        self._closed = False

    def report(self, run: Path, version: Hashable) -> Rendering:
        """How the report of the run's folder stands; asking for the first time starts it."""
        return self._request_page(("report", str(run)), version)

    def request_comparison(self, runs: Sequence[str], version: Hashable, *, anyway: bool) -> Rendering:
        """The same of runs that are compared, each as `perfkit compare` takes it."""
        return self._request_page(("compare", *runs, *(["--anyway"] if anyway else [])), version)

    def _request_page(self, command: tuple[str, ...], version: Hashable) -> Rendering:
        key = (command, version)
        with self._lock:
            if key not in self._done:
                self._done[key] = Rendering()
                out = self._scratch / str(len(self._done))
                threading.Thread(target=self._draw_page, args=(key, out), daemon=True).start()
            return self._done[key]

    def close(self) -> None:
        """End what is still being drawn."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.terminate()
        for process in list(self._processes):
            process.wait()

    def _draw_page(self, key: _Key, out: Path) -> None:
        command = [sys.executable, "-m", "perfkit_cli", *key[0], "--out", str(out), "--quiet"]
        with self._slots:
            result = self._run_command(command)
        page = out / "report.html"
        with self._lock:
            self._done[key] = Rendering(page=page) if page.is_file() else Rendering(error=result)

    def _run_command(self, command: Sequence[str]) -> str:
        """Run to the end; the last lines of what it complained of."""
        if self._closed:
            return "perfkit view has ended"
        # Without the lock: starting a process can take seconds on a busy machine, and pages wait for it.
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
        return complaint.strip()[-2000:] or f"it ended with exit code {process.returncode} and wrote no report"
