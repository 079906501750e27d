"""The figures of a step measured by `perfkit_check`."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from perfkit.check.judge.check_thresholds import Threshold, get_default_thresholds
from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.pytest.figure import Figure, Meaning
from perfkit.check.pytest.figure_parts import format_changed_parts, format_largest_parts, list_parts
from perfkit.check.pytest.measure import StepMeasurement
from perfkit.check.pytest.pytest_figures import StepFigures, build_figures, describe_kinds
from perfkit.check.pytest.pytest_judge import Given, Judgement, parse_gates
from perfkit.check.pytest.quantities import BY_NAME, CALLS, FIGURES, KERNELS
from perfkit.core.errors import UnavailableError
from perfkit.core.record.quantity import Unknown


class FiguresError(AssertionError):
    """A step exceeds its test's thresholds."""


class StoredFigures(Protocol):
    """The stored figures of one step."""

    updating: bool
    fails_on_worse: bool  # any worsening fails, even within the threshold
    missing: str  # what to do if nothing is stored

    def get_before(self) -> Mapping[str, float] | None: ...

    def keep_figures(self, figures: Mapping[str, float]) -> None: ...

    def report_improvement(self, judgement: Judgement) -> None: ...

    def report_worsening(self, judgement: Judgement) -> None: ...

    def list_differences(self) -> tuple[str, ...]: ...


class CheckedStep:
    """The figures of a step, the same in every process. Those that are not known raise `UnavailableError` with the
    reason.

    Attributes:
        measured: all that was found: the account of the memory at its peak, the ops, the FLOPs by op.
    """

    def __init__(self, measured: StepMeasurement, stored: StoredFigures) -> None:
        self.measured = measured
        self._stored = stored
        self._parts = list_parts(measured)
        self.figures: StepFigures = build_figures(measured, self._parts)

    def __repr__(self) -> str:
        figures = {name: value for name, value in self.figures.items() if isinstance(value, Figure)}
        return f"Found({', '.join(f'{name}={value!r}' for name, value in figures.items())})"

    @property
    def peak_allocated(self) -> Figure:
        """Peak bytes of the models and optimizers (parameters, gradients, optimizer state, buffers) and of the step.

        Excludes other tests' tensors and a batch made before."""
        return self._get_known("peak_allocated")

    @property
    def peak_above_start(self) -> Figure:
        """Peak bytes above the step's start."""
        return self._get_known("peak_above_start")

    @property
    def saved_activations(self) -> Figure:
        """Bytes that a forward pass keeps for the backward pass; the maximum of several."""
        return self._get_known("saved_activations")

    @property
    def flops(self) -> Figure:
        """Executed FLOPs of matrix products, convolutions and attention, including recomputation."""
        return self._get_known("flops")

    @property
    def op_count(self) -> Figure:
        """Calls of ops that work on data, without views and nested calls."""
        return self._get_known("op_count")

    @property
    def kernel_count(self) -> Figure:
        """Kernels, copies and fills on a device. Unknown on a CPU."""
        return self._get_known("kernel_count")

    @property
    def graph_breaks(self) -> Figure:
        """Graph breaks while torch.compile compiled the step; 0 if nothing is compiled."""
        return self._get_known("graph_breaks")

    def calls(self, pattern: str, phase: str | None = None) -> Figure:
        """Calls of ops whose names match a case-sensitive glob, such as `aten::mm` or `*attention*`.

        Of nested matches the outermost counts. `phase` (`forward`, `backward`, `optimizer`) restricts the count.
        """
        by_name = self.measured.ops.count_calls(pattern, phase)
        title = f"calls of {pattern}" + (f" in {phase}" if phase else "")
        return Figure(by_name.total(), Meaning(title, made_by=_format_counts(by_name)))

    def kernels(self, pattern: str) -> Figure:
        """Kernels whose names match a glob: of a device, or on a CPU those that torch.compile generated."""
        by_name = {name: count for name, count in self.measured.ops.kernels.items() if fnmatchcase(name, pattern)}
        return Figure(sum(by_name.values()), Meaning(f"kernels {pattern}", made_by=_format_counts(by_name)))

    def against_baseline(self, **thresholds: Given) -> None:
        """Compare every figure with the stored ones of this test; see docs/pytest.md for the thresholds.

        Raises:
            FiguresError: a figure is worse by more than its threshold, or nothing is stored.
        """
        __tracebackhide__ = True
        self.hold({**get_default_thresholds(FIGURES), **parse_gates(thresholds)}, {}, {})

    def hold(
        self,
        gates: Mapping[str, Threshold | None],
        calls: Mapping[str, Threshold | None],
        kernels: Mapping[str, Threshold | None],
    ) -> None:
        """Judge figures by quantity and by pattern; one error lists all failures.

        An `UnavailableError` where calls of the step take turns with kinds of work.
        """
        __tracebackhide__ = True
        subjects = [(BY_NAME[name], name, self.figures[name], gate) for name, gate in gates.items()]
        subjects += [(CALLS, f"calls: {pattern}", self.calls(pattern), gate) for pattern, gate in calls.items()]
        subjects += [(KERNELS, f"kernels: {pattern}", self.kernels(pattern), gate) for pattern, gate in kernels.items()]
        gated = [(quantity, key, figure, gate) for quantity, key, figure, gate in subjects if gate is not None]
        kinds = self.measured.ops.kinds
        if kinds and any(key != "graph_breaks" for _, key, _, _ in gated):
            raise UnavailableError(describe_kinds(kinds))
        before = self._get_before({key: figure for _, key, figure, gate in gated if gate.limit is None})
        failures: list[str] = []
        for quantity, key, figure, gate in gated:
            failures += self._list_failures(quantity, key, figure, gate, before)
        if failures:
            notes = (
                [f"the figures were stored elsewhere ({difference})" for difference in self._stored.list_differences()]
                if before
                else []
            )
            raise FiguresError("\n".join([*failures, *notes]))

    def _get_before(self, compared: Mapping[str, Figure | Unknown]) -> Mapping[str, float] | None:
        """The stored figures, if needed; when updating, the measured ones."""
        __tracebackhide__ = True
        if not compared:
            return None
        if self._stored.updating:
            patterns = {key: figure for key, figure in compared.items() if key not in self.figures}
            stored = {k: float(v) for k, v in {**self.figures, **patterns}.items() if isinstance(v, Figure)}
            self._stored.keep_figures({**stored, **self._parts})
            return stored
        before = self._stored.get_before()
        if before is None:
            raise FiguresError(self._stored.missing)
        return before

    def _list_failures(
        self,
        quantity: GatedQuantity,
        key: str,
        figure: Figure | Unknown,
        gate: Threshold,
        before: Mapping[str, float] | None,
    ) -> list[str]:
        stored = None if before is None or gate.limit is not None else before.get(key)
        if isinstance(figure, Unknown):
            if stored is None and gate.limit is None:
                return []  # unknown on both sides, and not requested individually
            raise UnavailableError(f"{quantity.title}: {figure.reason}")
        if stored is None and gate.limit is None:
            return [f"{figure.meaning.title}: {figure!r}; no stored figure. {self._stored.missing}"]
        judgement = Judgement(quantity, figure.meaning.title, gate, stored, figure)
        if judgement.improved:
            self._stored.report_improvement(judgement)
        if judgement.worse:
            self._stored.report_worsening(judgement)
        if not (judgement.failed or (judgement.worse and self._stored.fails_on_worse)):
            return []
        reason = "; any worsening fails" if judgement.worse else ""
        return [f"{judgement}{reason}", *(f"    {line}" for line in self._list_reasons(key, figure, stored, before))]

    def _list_reasons(
        self, key: str, figure: Figure, stored: float | None, before: Mapping[str, float] | None
    ) -> tuple[str, ...]:
        if key not in BY_NAME:
            return figure.meaning.made_by
        if stored is None or before is None:
            return format_largest_parts(self._parts, key)
        return format_changed_parts(before, self._parts, key)

    def _get_known(self, name: str) -> Figure:
        figure = self.figures[name]
        if isinstance(figure, Unknown):
            raise UnavailableError(f"{BY_NAME[name].title} unknown: {figure.reason}")
        return figure


def _format_counts(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{count:,}  {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))
