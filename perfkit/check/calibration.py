"""Measures the smallest change that this machine detects: the working tree in pairs with itself."""

from pathlib import Path

from perfkit.check.cases import COUNTED, plan_cases
from perfkit.check.check_events import SamplingEvent
from perfkit.check.check_options import CheckOptions
from perfkit.check.config import CheckConfig
from perfkit.check.judge.detectable_change import calibrate_from_pairs
from perfkit.check.judge.quantities import QUANTITIES, JudgingMethod
from perfkit.check.judge.result import CheckCalibration
from perfkit.check.revisions import choose_turns
from perfkit.check.sampling import MOST_PAIRS
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.revision import read_working_tree
from perfkit.check.sides.side import make_side


def calibrate_machine(config: CheckConfig, out: Path, order: CheckOptions) -> CheckCalibration:
    """Measure pairs of the first case's first variant with itself into `out`, until the budget ends."""
    case = plan_cases(config, order.machine, COUNTED)[0]
    side = make_side(read_working_tree(Path(config.root)), config.python_path)
    spec = case.specs[0]
    pairs = measure_pairs(
        side,
        side,
        spec,
        turns=choose_turns(order.machine.device),
        most=MOST_PAIRS,
        budget_s=config.budget_s,
        folder=out / "pairs",
        enough=lambda _: "",
        progress=lambda event: order.progress(SamplingEvent(case.workload, spec.variant, event)),
    )
    margins = {
        quantity.name: threshold.relative
        for quantity in QUANTITIES
        if quantity.judging is JudgingMethod.PAIRED
        and (threshold := case.thresholds[quantity.name]) is not None
        and threshold.relative is not None
    }
    return calibrate_from_pairs(pairs.pairs, pairs.pairing, margins)
