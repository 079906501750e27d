"""Ranked techniques that a suite has not tested."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.model.suite import Variant
from perfkit.core.files import read_json
from perfkit.store.technique_ranking import RANKING_FILE, TechniqueRanking


def read_untested(folder: Path, variants: Sequence[Variant]) -> TechniqueRanking | None:
    """The ranking in a suite's folder, without what its variants have tested; None without one."""
    path = folder / RANKING_FILE
    return drop_tested(read_json(path, TechniqueRanking), variants) if path.is_file() else None


def drop_tested(ranking: TechniqueRanking, variants: Sequence[Variant]) -> TechniqueRanking | None:
    """The ranking without techniques of any variant, however it ended; None where nothing is left."""
    tested = {label.partition(":")[0] for variant in variants for label in variant.techniques}
    left = tuple(each for each in ranking.techniques if not tested.intersection(each.names))
    return replace(ranking, techniques=left) if left else None
