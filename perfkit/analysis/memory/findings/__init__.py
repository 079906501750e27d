"""What to do about memory: rules in a table, each with evidence from the account, an action and what it would win.

A rule takes a `View` and yields findings. Gains are upper bounds; those of tensors and of the categories that they are
among do not add up.
"""

from collections.abc import Callable, Iterator, Mapping

from perfkit.analysis.finding_order import ordered
from perfkit.analysis.memory.findings import allocator, categories, failure, tensors
from perfkit.analysis.memory.findings.view import View
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory import MemoryAccount

Rule = Callable[[View], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    failure.out_of_memory,
    allocator.failed_for_want_of_one_piece,
    failure.grows,
    tensors.attention_scores,
    tensors.logits,
    categories.activations,
    categories.recomputed,
    categories.optimizer_state,
    categories.gradients,
    categories.parameters,
    categories.autocast_copies,
    categories.unsharded_parameters,
    categories.communication_buffers,
    categories.temporaries,
    allocator.fragmented,
    allocator.kept,
    categories.unexplained,
)


def memory_findings(
    account: MemoryAccount,
    *,
    variant: str = "",
    techniques: tuple[str, ...] | None = None,
    own_loop: bool = False,
    tried: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """All rules' findings: warnings, then gains by bytes, then notes.

    Args:
        account: of one device.
        variant: whose account it is, for the findings.
        techniques: those that are on, which are not advised; None where that is not known.
        own_loop: whether it is of a loop that is not perfkit's own.
        tried: what came of techniques that were tried elsewhere, by technique, as `tried as ckpt: ...`.
    """
    view = View(account, variant, techniques, {} if tried is None else tried, own_loop)
    return ordered((0, finding) for rule in RULES for finding in rule(view))
