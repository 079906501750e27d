"""A technique's page in Markdown, from the registry. `docs/techniques` holds these pages."""

import shlex
from collections.abc import Iterable, Sequence
from inspect import getdoc

import torch

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import BASELINE, WorkloadSpec
from perfkit.core.units import format_percent
from perfkit.techniques.base.rank_sharing import build_mesh, count_needed_ranks
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.technique import LOSSLESS, PlanMode, Technique, build_first_example
from perfkit.workloads.workload import make_model
from perfkit.workloads.workload_table import load_workload
from perfkit_cli.output.listing import ParameterInfo, list_parameters
from perfkit_cli.pages.technique_examples import build_example_table, describe_suite, load_measured_suites

_WORKLOAD = WorkloadSpec(name="gpt", params={"size": "nano"})
_RELATIONS = {Relation.AT_LEAST: "at least", Relation.AT_MOST: "at most", Relation.EQUAL: "exactly"}


def build_page(kind: type[Technique]) -> str:
    """A technique's page: effect, command, use, costs, parameters, explanation, claims, and measured results."""
    parts = [
        f"# {kind.name}",
        f"{_make_sentence(kind.summary)}",
        _build_command(kind),
        *_build_facts(kind),
        *_build_parameters(kind),
        *_build_explanation(kind),
    ]
    return "\n\n".join([*parts, *_build_claims(kind), *_build_measured(kind)]) + "\n"


def build_index(kinds: Iterable[type[Technique]]) -> str:
    """All techniques, a line each."""
    rows = [(f"[`{k.name}`]({k.name}.md)", k.summary, _state_condition(k)) for k in kinds]
    table = _format_table(("technique", "effect", "use when"), rows)
    suites = [f"- {describe_suite(suite)}" for suite in load_measured_suites()]
    measured = ["## Measured", "\n".join(suites)] if suites else []
    checks = "Each technique is [checked](../claims.md) by [facts](../facts.md) that were measured."
    return "\n\n".join(["# All techniques", checks, table, *measured]) + "\n"


def describe_parity(rule: ParityRule) -> str:
    """Describe a technique's allowed loss difference from the baseline."""
    if rule.relative is None:
        return f"not comparable: {rule.basis}"
    return "lossless" if rule == LOSSLESS else f"within a relative {rule.relative:.2g} ({rule.basis})"


def _build_command(kind: type[Technique]) -> str:
    variants = ",".join(kind.examples or (kind.name,))
    return f"    perfkit bench --technique {shlex.quote(variants)}"


def _state_condition(kind: type[Technique]) -> str:
    return kind.when.removeprefix("when ")


def _build_facts(kind: type[Technique]) -> list[str]:
    package = kind().package()
    known = {
        "Use when": _state_condition(kind),
        "Cost": kind.costs,
        "Losses": describe_parity(kind().parity()),
        "Needs": f"{kind.min_world_size} ranks" if kind.min_world_size > 1 else "",
        "Package": f"`{package.module}` (pip install {package.install})" if package else "",
        "In a plan": _describe_planning(kind),
        "Paper": kind.paper,
    }
    return ["\n".join(f"- **{name}**: {value}" for name, value in known.items() if value)]


def _describe_planning(kind: type[Technique]) -> str:
    """Describe how `perfkit plan` plans the technique, if that differs from a run."""
    plannable = kind().plannable()
    return plannable.reason if plannable.how is PlanMode.APPLIED else f"{plannable.how}: {plannable.reason}"


def _build_parameters(kind: type[Technique]) -> list[str]:
    lines = [_format_parameter(it) for it in list_parameters(kind)]
    return ["## Parameters", "\n".join(lines)] if lines else []


def _format_parameter(it: ParameterInfo) -> str:
    """`- `every` (integer, sqrt; default 1): blocks per segment`."""
    values = it.values.replace("|", ", ")
    has_default = it.default and (it.default != "none" or "none" in values.split(", "))
    default = f"; default {it.default}" if has_default else ""
    return f"- `{it.name}` ({values}{default}){f': {it.meaning}' if it.meaning else ''}"


def _build_explanation(kind: type[Technique]) -> list[str]:
    text = getdoc(kind)
    return ["## How it works", text] if text and text != getdoc(Technique) else []


def _build_claims(kind: type[Technique]) -> list[str]:
    """The claims of its first example, on the smallest workload."""
    workload = load_workload(_WORKLOAD)
    technique, device = build_first_example(kind), torch.device("cpu")
    world = World(size=count_needed_ranks((technique,)).least)
    state = TrainState(workload=workload, model=make_model(workload), device=device, world=world)
    state.mesh = build_mesh((technique,), world, device)
    state.build_optimizers()
    try:
        claims = technique.claims(state)
    except (KeyError, AttributeError):  # of what `apply` finds out
        return ["## Checks", "The checks depend on the model."]
    variant = (kind.examples or (kind.name,))[0]
    subject = f"`{variant}` on `{_WORKLOAD.label}`:"
    return ["## Checks", subject, "\n".join(f"- {claim.statement}: {_format_claim(claim)}" for claim in claims)]


def _format_claim(claim: Claim) -> str:
    of = {"": "", BASELINE: " of the baseline's"}.get(claim.relative_to, f" of `{claim.relative_to}`")
    return (
        f"`{claim.fact}` {_RELATIONS[claim.relation]} {format_percent(claim.value) if of else f'{claim.value:g}'}{of}"
    )


def _build_measured(kind: type[Technique]) -> list[str]:
    """Its results in the stored suites; nothing where it is in none of them."""
    suites = load_measured_suites()
    table = build_example_table(suites, kind.name)
    if not table:
        return []
    subject = "Speed-up and peak memory ([how](index.md#measured)):"
    return ["## Measured", subject, _format_table(table[0], table[1:])]


def _make_sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
