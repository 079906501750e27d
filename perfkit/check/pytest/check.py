"""`perfkit_check` of one test."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from perfkit.check.judge.check_thresholds import get_default_thresholds
from perfkit.check.pytest.measure import Models, Optimizers, find_trained, measure_step
from perfkit.check.pytest.pytest_judge import Given, Judgement, parse_gate, parse_gates
from perfkit.check.pytest.quantities import BY_NAME, CALLS, FIGURES, KERNELS
from perfkit.check.pytest.step_figures import CheckedStep
from perfkit.check.pytest.stored_figures import (
    Calls,
    get_stored_calls,
    list_differences,
    read_current_environment,
    read_stored,
)
from perfkit.core.errors import UsageError
from perfkit.core.record.environment import Environment


class TestFigures:
    """Measured and stored figures of the `perfkit_check` calls in one test.

    Attributes:
        shown: of every call its name and its figures, in words.
        kept: what is to be stored, by the names of the calls; `environment` where it was found.
        improvements: what is better than stored, in words.
        worsenings: what is worse than stored by no more than is allowed, in words.
    """

    __test__ = False  # pytest takes what is called so for a test

    def __init__(self, test: str, file: Path, *, updating: bool, fails_on_worse: bool = False) -> None:
        self.test = test
        self.file = file
        self.updating = updating
        self.fails_on_worse = fails_on_worse
        self.shown: list[tuple[str, str]] = []
        self.kept: Calls = {}
        self.environment: Environment | None = None
        self.improvements: list[str] = []
        self.worsenings: list[str] = []
        self._names: set[str] = set()

    def make_name_distinct(self, name: str) -> str:
        """A name that no call before has."""
        free, number = name, 2
        while free in self._names:
            free, number = f"{name} {number}", number + 1
        self._names.add(free)
        return free


class PerfkitCheck:
    """Measures steps and holds them against what the test allows: the fixture `perfkit_check`."""

    def __init__(self, test: TestFigures) -> None:
        self._test = test

    def __call__(
        self,
        step: Callable[[], object],
        *,
        model: Models = None,
        optimizer: Optimizers = None,
        device: torch.device | str | None = None,
        warmup: int = 2,
        name: str = "step",
        baseline: bool = False,
        calls: Mapping[str, Given] | None = None,
        kernels: Mapping[str, Given] | None = None,
        **thresholds: Given,
    ) -> CheckedStep:
        """Run `step` some eleven times, each under one instrument, and return its figures.

        Args:
            step: a whole training step (or a forward pass), without arguments; it must do the same every time:
                of calls that take turns with several kinds of work no figure is known, and the reason names the kinds.
            model: what it trains, or several in a list. Without it parameters, gradients and optimizer state are
                not in `peak_allocated`, and what is saved for backward is not known.
            optimizer: what updates it, or several.
            device: of the step; that of the parameters where it is not given.
            warmup: how often the step is run before it is measured, at least once.
            name: of the figures, where a test has several steps.
            baseline: whether all figures are held against the stored ones of this test.
            calls: the most calls of ops by a glob: `{"*attention*": 12}`.
            kernels: the most kernels by a glob.
            thresholds: by figure: `peak_allocated="<=2GiB"` or a number for the most that is allowed, `"1%"` or
                `"+0"` for a change against the stored figure, `"off"` for one that is not to be compared.

        Raises:
            FiguresError: an AssertionError that names every figure that is worse than allowed, and why.
            PerfkitError: the step cannot be measured here, or something else than expected was given.
        """
        __tracebackhide__ = True
        if not callable(step):
            raise UsageError(f"perfkit_check({step!r}): expected a function without arguments that runs a step")
        gates = {**(get_default_thresholds(FIGURES) if baseline else {}), **parse_gates(thresholds)}
        of_calls = {
            pattern: parse_gate(CALLS, given, f"calls[{pattern!r}]") for pattern, given in (calls or {}).items()
        }
        of_kernels = {
            pattern: parse_gate(KERNELS, given, f"kernels[{pattern!r}]") for pattern, given in (kernels or {}).items()
        }
        trained = find_trained(model, optimizer, device)
        stored = _StoredCall(
            self._test, self._test.make_name_distinct(f"{name} on {trained.device.type}"), trained.device
        )
        measured = CheckedStep(measure_step(step, trained, warmup), stored)
        name_text = [
            f"{BY_NAME[key].title} {figure!r}" for key, figure in measured.figures.items() if isinstance(figure, int)
        ]
        self._test.shown.append((stored.name, ", ".join(name_text)))
        measured.hold(gates, of_calls, of_kernels)
        return measured


class _StoredCall:
    """The stored figures of one call (`perfkit.check.pytest.step_figures.StoredFigures`)."""

    def __init__(self, test: TestFigures, name: str, device: torch.device) -> None:
        self._test = test
        self.name = name
        self._device = device
        self.updating = test.updating
        self.fails_on_worse = test.fails_on_worse
        self.missing = (
            f"{test.file} has no figures of {test.test} ({name}): run `pytest --perfkit-update` with this test, "
            "review the diff, and commit the file"
        )

    def get_before(self) -> Mapping[str, float] | None:
        return get_stored_calls(read_stored(self._test.file), self._test.test).get(self.name)

    def keep_figures(self, figures: Mapping[str, float]) -> None:
        self._test.kept[self.name] = {**self._test.kept.get(self.name, {}), **figures}
        self._test.environment = read_current_environment(self._device)

    def report_improvement(self, judgement: Judgement) -> None:
        self._test.improvements.append(f"{self.name}: {judgement}")

    def report_worsening(self, judgement: Judgement) -> None:
        self._test.worsenings.append(f"{self.name}: {judgement}")

    def list_differences(self) -> tuple[str, ...]:
        stored = read_stored(self._test.file)
        return () if stored is None else list_differences(stored.environment, read_current_environment(self._device))
