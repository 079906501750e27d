"""Collects the findings of an account of memory."""

from collections.abc import Collection, Mapping

from perfkit.analysis.findings.contract import complete_findings
from perfkit.analysis.findings.order import sort_findings
from perfkit.analysis.findings.rule import collect_findings
from perfkit.analysis.memory.findings.account_view import AccountView
from perfkit.analysis.memory.findings.memory_rules import RULES
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import MemoryAccount


def collect_memory_findings(
    account: MemoryAccount,
    *,
    variant: str = "",
    techniques: tuple[str, ...] | None = None,
    own_loop: bool = False,
    tried: Mapping[str, str] | None = None,
    optimizers: Collection[str] = (),
    trains: bool | None = None,
) -> tuple[Finding, ...]:
    """All rules' findings: warnings, then gains by bytes, then notes.

    Gains are upper bounds; those of tensors and of the categories that they are among do not add up.

    Args:
        account: of one device.
        variant: whose account it is, for the findings.
        techniques: those that are on, which are not advised; None where that is not known.
        own_loop: whether it is of a loop that is not perfkit's own.
        tried: what came of techniques that were tried elsewhere, by technique, as `tried as ckpt: ...`.
        optimizers: the classes of those that train, none where that is not known.
        trains: False for a program that only infers, None where that is not known.
    """
    view = AccountView(
        account, variant, techniques, {} if tried is None else tried, own_loop, frozenset(optimizers), trains
    )
    return complete_findings(sort_findings(collect_findings(RULES, view)), lambda _: "")
