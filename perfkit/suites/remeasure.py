"""Re-measures ceilings that a suite's own work exceeded, and stores the new ones with the suite, so that its folder
alone gives the same report later."""

from collections.abc import Callable
from pathlib import Path

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.files import write_json
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.exceeded_ceilings import split_explanation
from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings
from perfkit.devices.machine.fingerprint import build_fingerprint
from perfkit.store.layout import CEILINGS_FILE
from perfkit.suites.rank_untested import rank_untested


def analyze_and_remeasure(
    folder: Path, *, calibrate: bool, progress: Callable[[str], None] = lambda _: None
) -> Analysis:
    """Analyze a suite that was just measured on this machine, and rank what to try next.

    A ceiling that it refutes is marked, so that the next command measures it; with `calibrate` it is measured at once,
    briefly, merged with earlier calibrations, and the result replaces the suite's. `progress` receives a line per
    measurement. A calibration that fails, or finds no more, leaves figures unknown, with the reason.
    """
    return rank_untested(folder, _remeasure_refuted(folder, calibrate=calibrate, progress=progress))


def _remeasure_refuted(folder: Path, *, calibrate: bool, progress: Callable[[str], None]) -> Analysis:
    analysis = analyze_suite(folder)
    known = analysis.ceilings
    beaten = () if known is None else tuple(ceiling for ceiling in known.ceilings if ceiling.exceeded_by)
    if known is None or not beaten or known.fingerprint != build_fingerprint(known.device, known.device_name):
        return analysis
    ceilings_cache.refute_ceilings(known.fingerprint, beaten)
    if not calibrate:
        return analysis
    progress(split_explanation(beaten[0].exceeded_by)[0] + ": measuring it again")
    threads = sorted({ceiling.threads for ceiling in beaten if ceiling.threads is not None})
    again = resolve_ceilings(known.device, known.device_name, threads, calibrate=True, progress=progress)
    write_json(folder / CEILINGS_FILE, again)
    return analyze_suite(folder)
