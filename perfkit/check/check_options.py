"""Measurement options of a check, and progress reporters."""

from collections.abc import Callable
from dataclasses import dataclass

from perfkit.check.cases import Machine, PlannedCase
from perfkit.check.check_events import CheckEvent, SideEvent
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings
from perfkit.measure.run_events import RunEvent

# Runs per side if a quantity with one figure per process is gated.
ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of a check; `timed` False omits everything that needs several processes per side."""

    machine: Machine
    command: str
    timed: bool
    progress: Callable[[CheckEvent], None]

    def load_ceilings(self, case: PlannedCase) -> DeviceCeilings:
        """Known ceilings of the device; a check calibrates none."""
        threads = sorted({spec.launch.threads for spec in case.specs if spec.launch.threads is not None})
        return resolve_ceilings(self.machine.device, self.machine.name, threads, calibrate=False)

    def make_progress_reporter(self, case: PlannedCase, index: int, rounds: int) -> Callable[[str, RunEvent], None]:
        """A reporter of the instrumented runs of round `index`, from 0."""

        def report(label: str, event: RunEvent) -> None:
            self.progress(SideEvent(case.workload, label, index, rounds, event))

        return report
