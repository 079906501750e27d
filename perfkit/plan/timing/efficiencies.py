"""Predicts the time of work on a device: its roofline time over the efficiency measured for such work.

The efficiency depends on the class of an op, on its dtype, and on its size: small calls do not fill a device, and cost
at least what every call costs. The size of a call is its least time. Of each op, and of each class, the measured
time is a curve over it. Where neither was measured on the device, its curve on the next most alike one stands in; where
it was nowhere, the curve of all work that is bound by the same. The intervals tell how far measured calls lie off.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, hypot, log, sqrt
from statistics import median

from perfkit.analysis.model.plan import Interval
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.cost.calls.op_call import OpClass
from perfkit.plan.target.work import LeastTime, Work, compute_least_time, get_op_class
from perfkit.plan.timing.curve import CurvePoint, EfficiencyCurve, average_by_size, fit_curve
from perfkit.plan.timing.efficiency_store import LearnedProgram

# The host's time for each op is one of a program, of a CPU and of its profiler rather than of the device: programs with
# and without a profiler differ by more than twice, and so do CPUs in what one thread does. Three programs are known,
# too few to tell how far hosts lie apart: until several told it here, the bounds reach this factor beyond them.
ANOTHER_HOST = 2.0

# A fused kernel of compiled code takes what an element-wise op of its bytes takes, where no such kernel was measured.
# Four that torch.compile made for an A100 (intel/intel-xpu-backend-for-triton, issue 2229; 40 GB taken) were slower by
# 1.05, 1.06, 1.28 and 2.04: this is the standard deviation of these logarithms around none.
_STANDS_IN = {OpClass.COMPILED: OpClass.POINTWISE}
_FUSED_OFF = 0.38

# Standard deviations on either side within which nine in ten lie.
NINE_IN_TEN = 1.645

Key = tuple[str, ...]


def _list_keys(op_class: str, op: str, dtype: str, matrix: bool) -> tuple[Key, ...]:
    """Under what work is looked up: the first that was measured, and those that its curve goes on as.

    An op that moves bytes is more like itself in another dtype than like other ops of its class; a matrix product runs
    on other units then.
    """
    of_op: tuple[Key, ...] = ((op_class, op, dtype),) if matrix else ((op_class, op, dtype), (op_class, op, ""))
    return (*of_op, (op_class, "", dtype), (op_class, "", ""))


def fit_curves(
    programs: Sequence[LearnedProgram], roofs: Roofs, like: Mapping[Key, EfficiencyCurve]
) -> dict[Key, EfficiencyCurve]:
    """The curves of all that was measured on a device with these roofs: of each op and of each class in each dtype, of
    each class, of what compute and memory bind, and of all, `()`. What has no least time is left out; what is held
    against the peak of another dtype tells of its own alone, and what is derived of its op.

    Within calls of one kind and size each program counts as much as any other. A class goes on, beyond the sizes that
    were measured, as on the device with the curves `like`, if that has measured it.
    """
    points: dict[Key, list[CurvePoint]] = {}
    wider: dict[Key, tuple[Key, ...]] = {(): ()}
    for program in programs:
        own: dict[Key, list[CurvePoint]] = {}
        for sample in program.samples:
            least = compute_least_time(sample.work, roofs)
            if least is None or not least.seconds:
                continue
            point = CurvePoint(log(least.seconds), log(sample.seconds), sample.spread, sample.calls * sample.seconds)
            keys = _list_keys(sample.op_class, sample.op, sample.dtype, sample.matrix)
            wider |= {key: (*keys[place + 1 :], ()) for place, key in enumerate(keys)} | {(least.bound,): ((),)}
            kept = [key for key in keys if key[2]] if least.stands_in else [*keys, (least.bound,), ()]
            if program.derived:
                kept = [key for key in kept if key[1:2] == (sample.op,)]
            for key in dict.fromkeys(kept):
                own.setdefault(key, []).append(point)
        for key, some in own.items():
            points.setdefault(key, []).extend(average_by_size(some))
    fitted: dict[Key, EfficiencyCurve] = {}
    for key in sorted(points, key=lambda key: (len(key), -key.count(""))):
        measured = (fitted[near] for near in wider[key] if near != key and near in fitted)
        there = like.get(key) if key == () or key[1:] == ("", "") else None
        fitted[key] = fit_curve(points[key], there or next(measured, None))
    return fitted


@dataclass(frozen=True)
class MeasuredDevice:
    """The `programs` measured on a device with these roofs.

    What they do not tell is as on the device that it is most `like`. `off` is the standard deviation of a logarithm by
    which times are off in addition where these stand in for another device.
    """

    roofs: Roofs
    programs: tuple[LearnedProgram, ...]
    like: "MeasuredDevice | None" = None
    off: float = 0.0

    @cached_property
    def curves(self) -> Mapping[Key, EfficiencyCurve]:
        return fit_curves(self.programs, self.roofs, {} if self.like is None else self.like.curves)

    def get_class_curve(self, work: Work, *, own_dtype: bool = False) -> EfficiencyCurve | None:
        """The curve of the class of some work, in its dtype if it must; None where that was not measured."""
        classes = dict.fromkeys((work.op_class, get_op_class(work)))
        return self._find_class_curve(classes, work, own_dtype=own_dtype)

    def get_stand_in_curve(self, work: Work) -> EfficiencyCurve | None:
        """The curve of the class that stands in for that of some work; None where none does or that is not measured."""
        stands_in = [_STANDS_IN[OpClass(work.op_class)]] if work.op_class in _STANDS_IN else []
        return self._find_class_curve(stands_in, work)

    def _find_class_curve(
        self, classes: Iterable[str], work: Work, *, own_dtype: bool = False
    ) -> EfficiencyCurve | None:
        keys = [key for kind in classes for key in _list_keys(kind, work.op, work.dtype, work.matrix)]
        return next((self.curves[key] for key in keys if key in self.curves and (key[2] or not own_dtype)), None)

    @cached_property
    def left_out(self) -> tuple[float, ...]:
        """Each program's prediction error from all others, without sweeps."""
        errors = []
        for program in self.programs:
            remaining = self.exclude_program(program.name)
            if remaining is not None and remaining.roofs is self.roofs and not program.sweep:
                errors.append(remaining.compute_error(program))
        return tuple(errors)

    def exclude_program(self, name: str) -> "MeasuredDevice | None":
        """The device without the programs of one name, on similar devices too; None if none remain.

        Itself where there is none of that name: its curves are fitted once.
        """
        like = None if self.like is None else self.like.exclude_program(name)
        programs = tuple(program for program in self.programs if program.name != name)
        if programs and like is self.like and len(programs) == len(self.programs):
            return self
        return replace(self, programs=programs, like=like) if programs else like

    def compute_error(self, program: LearnedProgram) -> float:
        """The logarithm of predicted over measured time of all calls of a program on this device."""
        predicted = measured = 0.0
        for sample in program.samples:
            least = compute_least_time(sample.work, self.roofs)
            estimate = None if least is None or not least.seconds else self.find_curve(sample.work, least)
            if least is not None and estimate is not None:
                predicted += sample.calls * exp(estimate[0].at(log(least.seconds)))
                measured += sample.calls * sample.seconds
        return log(predicted / measured)

    def compute_fit_error(self) -> float:
        """The factor by which calls that were measured are off their curves, the median over kinds of calls."""
        errors = [0.0]
        for sample in (sample for program in self.programs for sample in program.samples):
            least = compute_least_time(sample.work, self.roofs)
            factors = None if least is None or not least.seconds else self.find_curve(sample.work, least)
            if least is not None and factors is not None:
                errors.append(hypot(factors[0].at(log(least.seconds)) - log(sample.seconds), sample.spread))
        return exp(median(errors))

    def find_curve(self, work: Work, least: LeastTime) -> tuple[EfficiencyCurve, float] | None:
        """The curve for some work and its additional error: its class's on the first device that knows
        it. None where nothing is known that can be held against its least time.
        """
        device: MeasuredDevice | None = self
        while device is not None:
            curve = device.get_class_curve(work, own_dtype=least.stands_in)
            if curve is not None:
                return curve, device.off
            curve = device.get_stand_in_curve(work)
            if curve is not None:
                return curve, hypot(device.off, _FUSED_OFF)
            device = device.like
        if least.stands_in:
            return None
        return self.curves[(least.bound,) if (least.bound,) in self.curves else ()], self.off


@dataclass(frozen=True)
class Efficiencies:
    """The efficiencies of a device with `roofs`: `measured` on it, or on one that is like it.

    `source` says in words what they are from. Of the programs that tell of the host, `here` were learned of the device
    on this machine, `elsewhere` on other hosts and of any device.
    """

    roofs: Roofs
    measured: MeasuredDevice
    source: str
    here: tuple[LearnedProgram, ...] = ()
    elsewhere: tuple[LearnedProgram, ...] = ()

    def seconds(self, work: Work) -> Interval | None:
        """Time of a call on the device, with 90 % bounds; 0 for views.

        None if such work was never measured and its dtype's peak is unknown.
        """
        least = compute_least_time(work, self.roofs)
        if least is None:
            return None
        if not least.seconds:
            return _NOTHING
        known_curve = self.measured.find_curve(work, least)
        if known_curve is None:
            return None
        (curve, offset), size = known_curve, log(least.seconds)
        return _make_interval(curve.at(size), hypot(curve.get_spread(size), offset))

    def together(self, seconds: float) -> Interval:
        """The bounds of the time of all calls of a step, of which `seconds` is the sum.

        They are as far apart as the times of whole programs were off that were predicted from other programs, on this
        device or else on the first that is like it; where none was, as those of single calls.
        """
        if not seconds:
            return _NOTHING
        errors = next((device.left_out for device in self._walk_devices() if device.left_out), ())
        spread = sqrt(sum(error**2 for error in errors) / len(errors)) if errors else self._get_call_spread()
        return _make_interval(log(seconds), hypot(spread, self.measured.off))

    def host_s(self, work: Work) -> Interval | None:
        """CPU time to issue a call, one figure for all classes; None if never measured."""
        return self._estimate_figure(lambda program: program.host_s)

    @property
    def launch_s(self) -> Interval | None:
        """Launch latency on an idle device; None if never measured, as on a CPU."""
        return self._estimate_figure(lambda program: program.launch_s)

    @property
    def gap_s(self) -> Interval | None:
        """Gap between queued kernels; None if never measured, as on a CPU."""
        return self._estimate_figure(lambda program: program.gap_s)

    def _get_call_spread(self) -> float:
        return max(self.measured.curves[()].spread)

    def _walk_devices(self) -> Iterator[MeasuredDevice]:
        device: MeasuredDevice | None = self.measured
        while device is not None:
            yield device
            device = device.like

    def _estimate_figure(self, what: Callable[[LearnedProgram], float | None]) -> Interval | None:
        """The median of this machine's programs, else of the first device with measurements.

        Bounds are minimum and maximum of several programs here, else wider: `ANOTHER_HOST`.
        """

        def told(programs: Iterable[LearnedProgram]) -> list[float]:
            return [value for program in programs if (value := what(program)) is not None]

        own_figures = told(self.here)
        nearest = own_figures or next(filter(None, (told(device.programs) for device in self._walk_devices())), [])
        if not nearest:
            return None
        figures = own_figures or [*nearest, *told(self.elsewhere)]
        wider = 1.0 if len(own_figures) > 1 else ANOTHER_HOST
        return Interval(value=median(nearest), low=min(figures) / wider, high=max(figures) * wider)


_NOTHING = Interval(value=0.0, low=0.0, high=0.0)


def _make_interval(logarithm: float, spread: float) -> Interval:
    value, factor = exp(logarithm), exp(NINE_IN_TEN * spread)
    return Interval(value=value, low=value / factor, high=value * factor)
