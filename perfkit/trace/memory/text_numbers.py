"""The text table that allocation columns refer to."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import TextNumbers


class TraceTextNumbers(TextNumbers):
    """Numbers for texts, and for whole tables of a trace."""

    def get_numbers(
        self, texts: Sequence[str], occurring: Iterable[int], worded: Callable[[str], str]
    ) -> NDArray[np.int32]:
        """The number of each text as it is to be worded; 0 for those that do not occur."""
        result = np.zeros(len(texts) + 1, np.int32)
        for index in occurring:
            result[index] = self.number(worded(texts[index]))
        return result
