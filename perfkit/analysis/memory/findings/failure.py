"""Rules about failed requests for memory and growth from step to step."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from perfkit.analysis.findings.optimizer_steps import LBFGS
from perfkit.analysis.memory.findings.account_view import AccountView, format_largest_categories, format_origin
from perfkit.analysis.memory.findings.allocator import parse_message_bytes
from perfkit.analysis.memory.findings.remedies import REMEDIES, SHORTER_HISTORY, SMALLER_BATCH
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import MemoryGrowth, format_request_origin
from perfkit.core.allocations import ACTIVATION, OPTIMIZER_STATE, FailedRequest
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_bytes

_FREE_IN_MESSAGE = re.compile(r"([\d.]+) (bytes|[KMGT]iB) (?:is )?free")


def find_failed_request(view: AccountView) -> Iterator[Finding]:
    """The failed request, the live memory, and the category to reduce first."""
    failed = view.account.failed_request
    if failed is None:
        return
    where = f"requested {origin}; " if (origin := format_request_origin(failed)) else ""
    what = "" if failed.bytes is None else f": {format_bytes(failed.bytes)} requested"
    yield view.build_remark(
        "memory.request_failed",
        "warning",
        f"{view.variant + ' ran out' if view.variant else 'Out'} of memory{what}",
        f"{where}peak {format_bytes(view.account.peak_bytes)}: {format_largest_categories(view.account)}",
        _choose_first_remedy(view, failed),
        details=_describe_missing_bytes(failed),
        figures={"peak_bytes": view.account.peak_bytes}
        | ({} if failed.bytes is None else {"asked_bytes": failed.bytes}),
    )


def _describe_missing_bytes(failed: FailedRequest) -> tuple[str, ...]:
    free = parse_message_bytes(_FREE_IN_MESSAGE, failed.message)
    if failed.bytes is None or free is None or free >= failed.bytes:
        return ()
    return (f"about {format_bytes(failed.bytes - free)} short: the device had {format_bytes(free)} free",)


def _choose_first_remedy(view: AccountView, failed: FailedRequest) -> str:
    """The advice on the largest category that has a remedy."""
    check = ""
    if failed.bytes is not None and failed.bytes > view.account.peak_bytes:
        check = "check the shape first, since this request alone exceeds all live memory; "
    for share in sorted(view.account.categories, key=lambda share: -share.bytes):
        action = view.advise(REMEDIES.get(share.category, ()))
        if action and share.bytes > 0:
            return f"{check}reduce {share.category} first ({format_bytes(share.bytes)}): {action}"
    return check + SMALLER_BATCH.how


def find_growth(view: AccountView) -> Iterator[Finding]:
    """Memory that each step leaves behind, but for the history of L-BFGS."""
    leaks = view.account.growth
    if LBFGS in view.optimizers:
        history = sum(growth.bytes_per_step for growth in leaks if growth.category == OPTIMIZER_STATE)
        leaks = tuple(growth for growth in leaks if growth.category != OPTIMIZER_STATE)
        if history:
            yield _report_lbfgs_history(view, history)
    if not leaks:
        return
    each_step = sum(leak.bytes_per_step for leak in leaks)
    yield view.build_remark(
        "memory.growth",
        "warning",
        f"Memory grows by {format_bytes(each_step)} per step",
        f"live bytes grow over {max(leak.steps for leak in leaks)} steps: {_list_origins(leaks)}",
        _advise_against_growth(leaks),
        figures={"growth_bytes": each_step, "steps": max(leak.steps for leak in leaks)},
    )


def _report_lbfgs_history(view: AccountView, each_step: int) -> Finding:
    return view.build_remark(
        "memory.lbfgs_history",
        "note",
        f"L-BFGS history grows by {format_bytes(each_step)} per step",
        "the history fills up to history_size directions: the peak comes later",
        view.advise((SHORTER_HISTORY,)),
        figures={"growth_bytes": each_step},
    )


def _list_origins(leaks: Sequence[MemoryGrowth], most: int = 3) -> str:
    """`1.00 MiB of activation (aten::relu in blocks.* at train.py:12 train), ...`."""
    together: dict[tuple[str, str], int] = defaultdict(int)
    for leak in leaks:
        together[leak.category, format_origin(leak.op, leak.module, leak.line)] += leak.bytes_per_step
    ranked = sorted(together.items(), key=lambda item: -item[1])
    origins = [
        f"{format_bytes(size)} of {category}{f' ({origin})' if origin else ''}" for (category, origin), size in ranked
    ]
    return list_first(origins, most)


def _advise_against_growth(leaks: Sequence[MemoryGrowth]) -> str:
    if any(leak.category == ACTIVATION for leak in leaks):
        return (
            "find what keeps tensors and their graph alive across steps: add loss.item() or loss.detach(), not loss, "
            "to lists and sums, and keep no outputs, hooks' tensors or retain_graph=True"
        )
    return (
        "find what keeps these tensors alive across steps: growing lists, caches and attributes, or cycles that "
        "Python frees late (gc.collect())"
    )
