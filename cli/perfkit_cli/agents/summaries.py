"""Summaries of results for an agent: what decides comes first, and ids lead to the rest."""

from collections.abc import Iterable, Mapping
from typing import Any

Content = Mapping[str, Any]

_BRIEF = ("id", "severity", "variant", "title", "evidence", "action", "gains", "confidence", "techniques", "verify")
_MOST_FINDINGS = 8


def summarize_finding(finding: Content) -> dict[str, Any]:
    """A finding without its details; fields without a value are left out."""
    return {name: finding[name] for name in _BRIEF if finding.get(name) not in ("", [], None)}


def summarize_analysis(content: Content) -> dict[str, Any]:
    """An analysis of traces: where the time went, the first findings, and how many rows there are."""
    return {
        "title": content["title"],
        "traces": [_summarize_trace(trace) for trace in content["traces"]],
        **_summarize_findings(content),
        "notes": _list_notes(content.get("warnings", ())),
    }


def summarize_suite(content: Content) -> dict[str, Any]:
    """A suite: each variant against its baseline, and the first findings."""
    return {
        "title": content["title"],
        "folder": content["folder"],
        "conclusion": content["conclusion"],
        "variants": [_summarize_variant(variant) for variant in content["variants"]],
        "pareto": content["pareto"],
        **_summarize_findings(content),
        "notes": _list_notes(content.get("warnings", ())),
    }


def summarize_search(content: Content) -> dict[str, Any]:
    """A search: the best variant with its proof and patch, and what became of each trial."""
    patch = content["patch"]
    return {
        "conclusion": content["conclusion"],
        "best": content["best"],
        "folder": content["folder"],
        "proof": content["proof"],
        "patch": patch and {name: patch[name] for name in ("path", "written", "by_hand", "holds", "reason", "proof")},
        "trials": [
            {name: trial[name] for name in ("variant", "outcome", "ratio", "low", "high", "reason")}
            for trial in content["trials"]
        ],
        "untried": len(content["untried"]),
        "end_reason": content["end_reason"],
    }


def summarize_check(content: Content, exit_code: int) -> dict[str, Any]:
    """A check: its verdict, and what did not pass."""
    return {
        "verdict": content["verdict"],
        "exit_code": exit_code,
        "variants": [
            {
                "workload": variant["workload"],
                "variant": variant["variant"],
                "suspects": (variant["explanation"] or {}).get("suspects", []),
                "not_passed": [_summarize_quantity(one) for one in variant["quantities"] if one["verdict"] != "pass"],
                "passed": [one["quantity"] for one in variant["quantities"] if one["verdict"] == "pass"],
            }
            for variant in content["variants"]
        ],
        "verify": content["command"],
        "notes": _list_notes(content["notes"]),
    }


def summarize_plan(content: Content) -> dict[str, Any]:
    """A plan: memory and step time of each variant."""
    return {
        "device": content["device_name"] or content["device"],
        "limit_bytes": content["limit_bytes"],
        "confidence": "modeled",
        "variants": [
            {
                "name": variant["name"],
                "fits": variant.get("fits"),
                "needed_bytes": variant["needed_bytes"],
                "step_s": (variant["step_s"] or {}).get("total"),
                "reason": variant["reason"],
            }
            for variant in content["variants"]
        ],
    }


def summarize_advice(content: Content) -> dict[str, Any]:
    """Advice: the best combination, and the techniques in their order."""
    return {
        "subject": content["subject"],
        "device": content["device"],
        "goal": content["goal"],
        "step_s": content["step_s"],
        "best": content["best"],
        "options": [_summarize_option(option) for option in content["options"]],
        "notes": _list_notes(content["notes"]),
    }


def _summarize_findings(content: Content) -> dict[str, Any]:
    findings = content["findings"]
    return {"findings": [*map(summarize_finding, findings[:_MOST_FINDINGS])], "finding_count": len(findings)}


def _summarize_trace(trace: Content) -> dict[str, Any]:
    parts = (part for part in trace["time_split"] if part["seconds"] > 0)
    memory = trace["memory"]
    return {
        "label": trace["label"],
        "device": trace["device_name"] or trace["device"],
        "steps": len(trace["steps"]),
        "step_s": trace["step_s"],
        "mfu": get_value(trace["mfu"]),
        "peak_bytes": None if memory is None else memory["peak_bytes"],
        "time_split_s": {part["category"]: part["seconds"] for part in parts},
        "rows": {name: len(value) for name, value in trace.items() if isinstance(value, list) and value},
    }


def _summarize_variant(variant: Content) -> dict[str, Any]:
    difference = variant["difference"] or {}
    step = variant["step_time"]
    summary = {
        "name": variant["name"],
        "status": variant["status"],
        "reason": variant["reason"],
        "reason_id": variant["reason_id"],
        "step_s": {name: step.get(name) for name in ("value", "low", "high")} if "value" in step else None,
        "peak_bytes": get_value(variant["peak_allocated"]),
        "difference": {name: difference[name] for name in ("verdict", "ratio", "low", "high") if name in difference},
        "losses": variant["parity"]["verdict"],
        "active": variant["active"],
        "claims": [
            {name: claim[name] for name in ("id", "outcome", "evidence")}
            for claim in variant["claims"]
            if claim["outcome"] != "active"
        ],
        "verify": variant["verify"],
    }
    return {name: value for name, value in summary.items() if value not in ("", [], {}, None)}


def _summarize_quantity(quantity: Content) -> dict[str, Any]:
    names = ("quantity", "unit", "verdict", "before", "after", "change", "low", "high", "reason")
    return {name: quantity[name] for name in names if quantity[name] not in ("", None)}


def _summarize_option(option: Content) -> dict[str, Any]:
    names = ("name", "saving_s", "saving_share", "saving_bytes", "fits", "reasons", "unknown_reasons", "risk", "verify")
    return {name: option[name] for name in names if option[name] not in ("", [], None)}


def _list_notes(notes: Iterable[Content]) -> list[dict[str, Any]]:
    return [{"id": note["id"], "text": note["text"]} for note in notes]


def get_value(quantity: Content) -> float | None:
    """The value of a quantity, None where it is unknown."""
    value: float | None = quantity.get("value")
    return value
