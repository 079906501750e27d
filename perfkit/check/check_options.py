"""How to measure what a check needs, and whom to tell."""

from collections.abc import Callable
from dataclasses import dataclass

from perfkit.check.cases import Machine, PlannedCase
from perfkit.check.events import CheckEvent, SideEvent
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.ceiling_lookup import resolve_ceilings
from perfkit.measure.events import RunEvent

# Runs of each side where something is gated of which each process gives one figure.
ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """`timed` False leaves out all that needs more than one process of each side."""

    machine: Machine
    command: str
    timed: bool
    progress: Callable[[CheckEvent], None]

    def load_ceilings(self, case: PlannedCase) -> DeviceCeilings:
        """What is known of the device: nothing is calibrated for a check."""
        threads = sorted({spec.launch.threads for spec in case.specs if spec.launch.threads is not None})
        return resolve_ceilings(self.machine.device, self.machine.name, threads, calibrate=False)

    def make_progress_reporter(self, case: PlannedCase, index: int, rounds: int) -> Callable[[str, RunEvent], None]:
        """Tells of the runs with instruments of round `index`, from 0."""

        def report(label: str, event: RunEvent) -> None:
            self.progress(SideEvent(case.workload, label, index, rounds, event))

        return report
