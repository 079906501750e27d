"""The sizes of a workload whose largest value is searched, each with the technique that sets it."""

from collections.abc import Mapping
from typing import NamedTuple

from perfkit.core.spec import TechniqueSpec
from perfkit.techniques.data.batch import Batch
from perfkit.techniques.data.seq import Seq


class Size(NamedTuple):
    """A technique and its parameter, the fact that has a batch's own size, and the largest size to try by default."""

    technique: str
    parameter: str
    fact: str
    most: int

    def make_spec(self, value: int) -> TechniqueSpec:
        """The technique that sets this size."""
        return TechniqueSpec(name=self.technique, params={self.parameter: value})


SIZES: Mapping[str, Size] = {
    "batch_size": Size(Batch.name, "size", "batch_size", 1024),
    "seq_len": Size(Seq.name, "len", "sequence_length", 2**17),
}
