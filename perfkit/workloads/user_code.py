"""Refuses the user's code where a process must not run it."""

import os

from perfkit.core.errors import UsageError

# Set in the environment of a process that must not load workloads of the user's.
NO_USER_CODE = "PERFKIT_NO_USER_CODE"


def refuse_user_code(name: str) -> None:
    """Raise a `UsageError` for a workload of the user's where `NO_USER_CODE` is set."""
    if os.environ.get(NO_USER_CODE):
        raise UsageError(
            f"workload {name!r} is code that this tool does not run; name a workload of `perfkit workloads`, or "
            "measure it with bench",
            id="usage.user_code",
        )
