"""Ranks what to try next after a bench, and stores it with the suite, so that its folder gives the same report."""

from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.fastest_variant import find_fastest
from perfkit.analysis.pipeline.untested_techniques import drop_tested
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.spec import ALL, parse_variants
from perfkit.store.suite_state import Conclusion
from perfkit.store.technique_ranking import RANKING_FILE
from perfkit.techniques.expand_all import expand_variants


def rank_untested(folder: Path, analysis: Analysis) -> Analysis:
    """The analysis with techniques to try beside those of the fastest variant, else beside the baseline.

    Unchanged where the suite was interrupted, or where no step of that variant can be simulated.
    """
    (folder / RANKING_FILE).unlink(missing_ok=True)
    baseline = next((variant for variant in analysis.variants if variant.is_baseline), None)
    best = find_fastest(analysis.variants) or baseline
    if best is None or best.traced_step is None or analysis.conclusion == Conclusion.INTERRUPTED:
        return replace(analysis, untested=None)
    # Not sooner: it takes long to import.
    from perfkit.plan.advise.rank_techniques import rank_techniques

    try:
        ranking = rank_techniques(folder, best.name, best.techniques, parse_variants(expand_variants(ALL)))
    except UsageError:  # its workload is code that the user has not named
        ranking = None
    if ranking is None:
        return replace(analysis, untested=None)
    write_json(folder / RANKING_FILE, ranking)
    return replace(analysis, untested=drop_tested(ranking, analysis.variants))
