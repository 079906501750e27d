"""Which commands a fork can stand in for."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

INTERPRETER = sys.executable  # tests change it
PERFKIT = os.fspath(Path(INTERPRETER).with_name("perfkit"))

SEARCHED = "PYTHONPATH"
HASH_SEED = "PYTHONHASHSEED"
_CHOSEN_SEED = "0"  # the forks have one seed: any is as good where none was asked for

# What the interpreter and libraries read while they are loaded: a fork of a process that was started with other values
# would be another process.
_LINKER = ("LD_", "MALLOC_")
_KERNELS = ("ATEN_", "DNNL_", "GOMP_", "KMP_", "MKL_", "OMP_", "ONEDNN_", "OPENBLAS_")
_TABLES_AND_FIGURES = ("ARROW_", "MPL")
_PYTHON = ("PYTHON", "PYTORCH_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_")
_READ_AT_IMPORT = (*_LINKER, *_KERNELS, *_TABLES_AND_FIGURES, *_PYTHON)
# By the fork, or when torch compiles, makes a group or looks for CUDA, or a debugger starts. Libraries that tests
# import set them.
_READ_LATER = frozenset(
    {
        "OMP_NUM_THREADS",
        "PYTHONBREAKPOINT",
        "PYTHONDONTWRITEBYTECODE",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
        SEARCHED,
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    }
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """`python [-u] [-P] [-m MODULE | -c CODE | SCRIPT] ARGUMENTS...`."""

    module: str | None
    script: str | None
    arguments: tuple[str, ...]
    code: str | None = None
    unbuffered: bool = False
    safe_path: bool = False

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self | None:
        """None where these words start something else, or in a way that a fork cannot."""
        program, *rest = words
        if program == PERFKIT:
            return cls(module=None, script=program, arguments=tuple(rest))
        if program != INTERPRETER:
            return None
        options = set()
        while rest and rest[0] in ("-u", "-P"):
            options.add(rest.pop(0))
        if rest and rest[0].startswith("-m") and len(rest[0]) > 2:
            rest[:1] = ["-m", rest[0][2:]]
        found = {"unbuffered": "-u" in options, "safe_path": "-P" in options}
        match rest:
            case ["-m", "torch.distributed.run", *_]:
                return None  # ranks of a launcher that was forked waited for each other without end
            case ["-m", module, *arguments]:
                return cls(module=module, script=None, arguments=tuple(arguments), **found)
            case ["-c", code, *arguments]:
                return cls(module=None, script=None, code=code, arguments=tuple(arguments), **found)
            case [script, *arguments] if not script.startswith("-") and Path(script).suffix == ".py":
                return cls(module=None, script=script, arguments=tuple(arguments), **found)
        return None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def zygote_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process that is forked: one thread, since a process with threads is not forked in peace."""
    kept = {name: value for name, value in environment.items() if name != SEARCHED}
    return {**kept, "OMP_NUM_THREADS": "1", HASH_SEED: _CHOSEN_SEED}


def fits(asked: Mapping[str, str], zygote: Mapping[str, str]) -> bool:
    """Whether a fork of a process with the variables `zygote` can pass for one that was started with `asked`."""
    return _loaded_with({HASH_SEED: _CHOSEN_SEED, **asked}) == _loaded_with(zygote)


def _loaded_with(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if value and name.startswith(_READ_AT_IMPORT) and name not in _READ_LATER
    }
