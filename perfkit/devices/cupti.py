"""Versions of CUPTI, through which torch's profiler records NVIDIA GPUs, with known recording faults.

- Records of kernels get zero or stale times from CUDA 12.6 update 2 until before 13.1, and Kineto drops those that seem
  to lie before the recording began: the head of a session is lost, the more the longer the process has lived
  (pytorch#192021), or records are written with `ts` 0 and `dur` 0 (pytorch#188481, CUDA 13.0). CUPTI's release notes of
  13.1: "Fixed an issue that could cause invalid (zero) kernel timestamps when using the function
  cuptiActivityRegisterTimestampCallback [...] introduced in the CUDA 12.6 Update 2 release". Kineto registers one.
- A CUDA graph launch and its kernels get wrong correlation ids in every session of a process but the first, until 13.1
  update 1 (release notes: "Fixed incorrect correlation IDs for cudaGraphLaunch API calls and their associated kernel
  launches in profiling sessions after the first session").

https://docs.nvidia.com/cupti/release-notes/release-notes.html
"""

from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

# CUPTI's API versions before CUDA 13.0; from then on they are 10000 * major + 100 * minor + ... (cupti_version.h).
_API_VERSIONS = {
    18: (11, 8), 19: (12, 0), 20: (12, 2), 21: (12, 3), 22: (12, 4), 23: (12, 5), 24: (12, 6), 26: (12, 8), 27: (12, 9),
    28: (12, 9),
}  # fmt: skip
_DISTRIBUTIONS = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu13", "nvidia-cuda-cupti-cu12")


class CuptiVersion(NamedTuple):
    """A version of CUPTI: `build` is the last number of its packages (12.6.80), None where only the API's is known."""

    major: int
    minor: int
    build: int | None = None

    def __str__(self) -> str:
        return f"CUPTI {'.'.join(str(part) for part in self if part is not None)}"

    @property
    def loses_records(self) -> bool:
        """True if this version may lose kernel records; with an unknown build, if any of its builds may."""
        # Packages: 12.6.68 is CUDA 12.6 update 1, 12.6.80 update 2.
        return (12, 6) <= (self.major, self.minor) < (13, 1) and not (
            (self.major, self.minor) == (12, 6) and self.build is not None and self.build < 80
        )

    @property
    def mixes_up_graphs(self) -> bool:
        """True if correlation ids of CUDA graphs are wrong after a process's first session; with an unknown build, if
        they may be."""
        # Packages: 13.1.75 is CUDA 13.1, 13.1.115 update 1.
        return (self.major, self.minor) < (13, 1) or (
            (self.major, self.minor) == (13, 1) and (self.build is None or self.build < 115)
        )


def read_trace_version(properties: dict[str, str]) -> CuptiVersion | None:
    """The version that Kineto wrote into a trace (`cupti_version`); None if missing or unknown."""
    number = int(text) if (text := properties.get("cupti_version", "")).isdecimal() else 0
    if number >= 130000:
        return CuptiVersion(number // 10000, number // 100 % 100)
    return CuptiVersion(*_API_VERSIONS[number]) if number in _API_VERSIONS else None


def derive_cuda_version(release: str) -> CuptiVersion | None:
    """The version that comes with a release of CUDA (`12.8`); None for other text."""
    numbers = release.split(".")[:2]
    return CuptiVersion(*map(int, numbers)) if len(numbers) == 2 and all(map(str.isdecimal, numbers)) else None


def find_installed_version() -> CuptiVersion | None:
    """The version of the package that torch loads its CUPTI from; None where it comes from elsewhere."""
    for name in _DISTRIBUTIONS:
        try:
            numbers = version(name).split(".")
        except PackageNotFoundError:
            continue
        if len(numbers) >= 3 and all(part.isdecimal() for part in numbers[:3]):
            return CuptiVersion(*map(int, numbers[:3]))
    return None
