"""Base of the built-in workloads: typed parameters, and their defaults on a GPU."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

import msgspec

from perfkit.core.errors import UsageError
from perfkit.core.spec import ParamValue, Struct, convert_params
from perfkit.core.texts.param_texts import read_param_value
from perfkit.workloads.workload import Workload

Count = Annotated[int, msgspec.Meta(ge=1)]


class Parameters(Struct):
    """Base of the built-in workloads. Fields are the parameters, with the defaults of a CPU.

    `on_gpu` holds the defaults that are different on any other device, where a step that is long enough for a
    CPU would measure little but kernel launches. `blocks_parameter` names the parameter that is the number of repeated
    blocks; "" where none is.
    """

    usage: ClassVar[str]  # how it is written on the command line
    summary: ClassVar[str]
    on_gpu: ClassVar[Mapping[str, ParamValue]] = {}
    blocks_parameter: ClassVar[str] = ""

    @classmethod
    def parse(cls, argument: str, params: Mapping[str, ParamValue]) -> Self:
        """Parse `params` and the `argument` after the name's colon ("" without one).

        An unknown parameter, a value out of range or a useless argument is a `UsageError`.
        """
        if argument:
            raise UsageError(f"workload {cls.usage!r}: expected parameters as key=value, got {argument!r}")
        typed: Self = convert_params(
            cls, "workload", cls.usage, {key: read_param_value(value) for key, value in params.items()}
        )
        return typed

    @classmethod
    def unavailable(cls) -> str | None:
        """The reason why the workload cannot be built on this machine; None if it can."""
        return None

    def count_blocks(self) -> int | None:
        """The number of repeated blocks, as `blocks_parameter` counts them; None where it is no parameter."""
        return None

    def build(self) -> Workload:
        """The workload; a parameter out of range is a `UsageError`."""
        raise NotImplementedError


def explain_misfit(_name: str, candidate: object) -> str:
    """Explain why a package's object is not a workload; empty if it is."""
    if not isinstance(candidate, type) or not issubclass(candidate, Parameters):
        return "it is not a subclass of perfkit.workloads.parameters.Parameters"
    lacking = [attribute for attribute in ("usage", "summary") if not hasattr(candidate, attribute)]
    return f"it lacks {' and '.join(lacking)}" if lacking else ""
