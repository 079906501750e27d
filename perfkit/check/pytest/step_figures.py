"""Figures of a step as `perfkit_check` found them."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from perfkit.check.judge.quantities import GatedQuantity
from perfkit.check.judge.thresholds import Threshold, get_default_thresholds
from perfkit.check.pytest.figure import Figure, Meaning
from perfkit.check.pytest.figure_parts import format_changed_parts, format_largest_parts, list_parts
from perfkit.check.pytest.figures import StepFigures, build_figures
from perfkit.check.pytest.judge import Given, Judgement, parse_gates
from perfkit.check.pytest.measure import StepMeasurement
from perfkit.check.pytest.quantities import BY_NAME, CALLS, FIGURES, KERNELS
from perfkit.errors import UnavailableError
from perfkit.record import Unknown


class FiguresError(AssertionError):
    """A step takes more than its test allows."""


class StoredFigures(Protocol):
    """The stored figures of one step."""

    updating: bool
    fails_on_worse: bool  # what is worse by less than is allowed fails as well
    missing: str  # what to do where nothing is stored

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
        known = {name: value for name, value in self.figures.items() if isinstance(value, Figure)}
        return f"Found({', '.join(f'{name}={value!r}' for name, value in known.items())})"

    @property
    def peak_allocated(self) -> Figure:
        """Bytes: the most at once of the parameters, gradients, optimizer state and buffers of the given models and
        optimizers, and of what the step allocates. Other tests' tensors and a batch made before are not in it."""
        return self._get_known("peak_allocated")

    @property
    def peak_above_start(self) -> Figure:
        """Bytes: the most that the step has allocated at once above what there was when it began."""
        return self._get_known("peak_above_start")

    @property
    def saved_activations(self) -> Figure:
        """Bytes: what a forward pass leaves allocated for the backward pass, the most of several."""
        return self._get_known("saved_activations")

    @property
    def flops(self) -> Figure:
        """FLOPs of matrix products, convolutions and attention, as run (recomputation counts)."""
        return self._get_known("flops")

    @property
    def op_count(self) -> Figure:
        """Calls of ops that work on data: no views, and not what these ops call themselves."""
        return self._get_known("op_count")

    @property
    def kernel_count(self) -> Figure:
        """Kernels, copies and fills that ran on a device. Not known on a CPU."""
        return self._get_known("kernel_count")

    @property
    def graph_breaks(self) -> Figure:
        """Graph breaks while torch.compile compiled the step; 0 where nothing is compiled."""
        return self._get_known("graph_breaks")

    def calls(self, pattern: str, phase: str | None = None) -> Figure:
        """How often ops were called whose names match a glob, such as `aten::mm` or `*attention*`; case counts.

        Of matching ops within each other the outermost is counted. With `phase` (`forward`, `backward`, `optimizer`)
        only those in it.
        """
        by_name = self.measured.ops.count_calls(pattern, phase)
        title = f"calls of {pattern}" + (f" in {phase}" if phase else "")
        return Figure(by_name.total(), Meaning(title, made_by=_format_counts(by_name)))

    def kernels(self, pattern: str) -> Figure:
        """How many kernels ran whose names match a glob: those of a device, on a CPU those that torch.compile made."""
        by_name = {name: count for name, count in self.measured.ops.kernels.items() if fnmatchcase(name, pattern)}
        return Figure(sum(by_name.values()), Meaning(f"kernels {pattern}", made_by=_format_counts(by_name)))

    def against_baseline(self, **thresholds: Given) -> None:
        """Hold every figure against the stored ones of this test; see docs/pytest.md for the thresholds.

        Raises:
            FiguresError: one is worse by more than its threshold, or nothing is stored.
        """
        __tracebackhide__ = True
        self.hold({**get_default_thresholds(FIGURES), **parse_gates(thresholds)}, {}, {})

    def hold(
        self,
        gates: Mapping[str, Threshold | None],
        calls: Mapping[str, Threshold | None],
        kernels: Mapping[str, Threshold | None],
    ) -> None:
        """Hold figures against thresholds, by quantity and by pattern; all that fail are in one error."""
        __tracebackhide__ = True
        subjects = [(BY_NAME[name], name, self.figures[name], gate) for name, gate in gates.items()]
        subjects += [(CALLS, f"calls: {pattern}", self.calls(pattern), gate) for pattern, gate in calls.items()]
        subjects += [(KERNELS, f"kernels: {pattern}", self.kernels(pattern), gate) for pattern, gate in kernels.items()]
        gated = [(quantity, key, figure, gate) for quantity, key, figure, gate in subjects if gate is not None]
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
        """The stored figures where any are asked for; while updating, those found now are kept and held against."""
        __tracebackhide__ = True
        if not compared:
            return None
        if self._stored.updating:
            patterns = {key: figure for key, figure in compared.items() if key not in self.figures}
            known = {k: float(v) for k, v in {**self.figures, **patterns}.items() if isinstance(v, Figure)}
            self._stored.keep_figures({**known, **self._parts})
            return known
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
                return []  # not known on either side, and nobody asked for it alone
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
        why = "; any worsening fails" if judgement.worse else ""
        return [f"{judgement}{why}", *(f"    {line}" for line in self._list_reasons(key, figure, stored, before))]

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
