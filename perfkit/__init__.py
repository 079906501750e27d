"""perfkit: which training techniques pay, where a step's time and memory go, and what would make it faster.

The public API is imported on first use, so that `import perfkit` is fast.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_API = {
    "Workload": "perfkit.workloads.workload",
    "Training": "perfkit.workloads.training",
    "Technique": "perfkit.techniques.base.technique",
    "Claim": "perfkit.core.record.claim",
    "Relation": "perfkit.core.record.claim",
    "FACTS": "perfkit.core.facts",
    "RunSpec": "perfkit.core.spec",
    "PerfkitError": "perfkit.core.errors",
    "annotate": "perfkit.attach.annotate",
    "profile": "perfkit.attach.profile",
    "bench": "perfkit.suites.bench",
    "analyze": "perfkit.analysis.pipeline.analyze",
    "compare": "perfkit.analysis.pipeline.analyze",
    "read_trace": "perfkit.trace.readers.trace_reader",
    "what_if": "perfkit.analysis.replay.what_if",
    "audit_mfu": "perfkit.mfu.audit",
}

# Packages that can be called: `perfkit.core.callable_package` says why.
_CALLABLE = ("check", "plan", "tune")

__all__ = ["__version__", *_API, *_CALLABLE]


def __getattr__(name: str) -> Any:
    if name in _CALLABLE:
        return importlib.import_module(f"perfkit.{name}")
    if name not in _API:
        raise AttributeError(f"module 'perfkit' has no attribute {name!r}")
    from perfkit.core.optional_deps import explain_missing_torch  # not sooner: `import perfkit` imports nothing

    with explain_missing_torch(f"perfkit.{name}"):
        value = getattr(importlib.import_module(_API[name]), name)
    globals()[name] = value  # resolved once: loops use ranges by name
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
