"""What this machine can tell: the working tree in pairs with itself."""

from pathlib import Path

from perfkit.check.cases import COUNTED, planned_cases
from perfkit.check.config import CheckConfig
from perfkit.check.events import SamplingEvent
from perfkit.check.judge.detectable import calibrate
from perfkit.check.judge.quantities import QUANTITIES, Judging
from perfkit.check.order import Order
from perfkit.check.result import Calibration
from perfkit.check.revisions import turns_on
from perfkit.check.sampling import MOST_PAIRS
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.revision import working_tree
from perfkit.check.sides.side import side_of


def calibrate_here(config: CheckConfig, out: Path, order: Order) -> Calibration:
    """Pairs of the first variant of the first case with itself, while the budget lasts, measured into `out`."""
    case = planned_cases(config, order.machine, COUNTED)[0]
    side = side_of(working_tree(Path(config.root)), config.python_path)
    spec = case.specs[0]
    pairs = measure_pairs(
        side,
        side,
        spec,
        turns=turns_on(order.machine.device),
        most=MOST_PAIRS,
        budget_s=config.budget_s,
        folder=out / "pairs",
        enough=lambda _: "",
        progress=lambda event: order.progress(SamplingEvent(case.workload, spec.variant, event)),
    )
    margins = {
        quantity.name: threshold.relative
        for quantity in QUANTITIES
        if quantity.judging is Judging.PAIRED
        and (threshold := case.thresholds[quantity.name]) is not None
        and threshold.relative is not None
    }
    return calibrate(pairs.pairs, pairs.turns, margins)
