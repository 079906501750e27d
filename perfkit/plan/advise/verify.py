"""Verifies advice: runs the first options and the best combination, and attaches the measurements."""

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.errors import UsageError
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.advice import Advice, AdviceOption, MeasuredOption
from perfkit.store.request import BenchRequest


def make_verify_request(advice: Advice, request: BenchRequest, count: int) -> BenchRequest:
    """The bench that runs the first `count` options, the best combination and their baseline, otherwise as `request`.

    Raises:
        UsageError: there are no options.
    """
    best = () if advice.best is None else (advice.best,)
    names = dict.fromkeys(option.name for option in (*advice.options[:count], *best))
    if not names:
        raise UsageError("--verify has nothing to run: every technique was rejected")
    return replace(request, variants=tuple(parse_variants(",".join(names))))


def attach_measured(advice: Advice, analysis: Analysis) -> Advice:
    """The advice with the measurements of a suite's variants."""
    by_name = {variant.name.partition("@")[0]: variant for variant in analysis.variants}

    def beside(option: AdviceOption) -> AdviceOption:
        variant = by_name.get(option.name)
        return option if variant is None else replace(option, measured=_make_measured(variant))

    best = advice.best
    return replace(advice, options=tuple(map(beside, advice.options)), best=None if best is None else beside(best))


def _make_measured(variant: Variant) -> MeasuredOption:
    difference = variant.difference
    return MeasuredOption(
        time_ratio=None if difference is None else difference.ratio,
        low=None if difference is None else difference.low,
        high=None if difference is None else difference.high,
        peak_bytes=None if variant.memory is None else variant.memory.peak_bytes,
        active=variant.active,
        active_in_part=variant.active_in_part,
        reason=variant.reason,
    )
