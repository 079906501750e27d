"""What the rules look at: one account with the techniques that are on, and how they tell what they found."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfkit.analysis.findings.memory.remedies import Remedy, is_on
from perfkit.analysis.memory.layers import folded
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory import MemoryAccount, MemoryRow
from perfkit.units import nbytes, percent


@dataclass(frozen=True)
class AccountView:
    """One account. `techniques` are those that are on, None where that is not known (a file of somebody else's).

    `tried` says what came of techniques that were tried beside it. `own_loop` is set where the loop is not perfkit's:
    what to change in it comes first, and what would try that second. `optimizers` are the classes of its optimizers,
    none where they are not known.
    """

    account: MemoryAccount
    variant: str = ""
    techniques: tuple[str, ...] | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    own_loop: bool = False
    optimizers: frozenset[str] = frozenset()

    def bytes_of(self, category: str) -> int:
        return sum(share.bytes for share in self.account.categories if share.category == category)

    def share(self, size: int) -> float:
        """Of the peak."""
        return size / self.account.peak_bytes if self.account.peak_bytes > 0 else 0.0

    def of_peak(self, size: int) -> str:
        """`1.20 GiB (35.0 % of the peak)`."""
        return f"{nbytes(size)} ({percent(self.share(size))} of the peak of {nbytes(self.account.peak_bytes)})"

    def winnable(self, category: str) -> int:
        """Bytes by which the peak would fall if the category were gone: no more than it holds at the peak, and less
        where the rest reaches nearly as high at another moment of the step."""
        series = self.account.timeline_categories
        if category not in series or not self.account.timeline_s:
            return self.bytes_of(category)
        others = (values for name, values in series.items() if name != category)
        rest = max((sum(values) for values in zip(*others, strict=True)), default=0)
        return max(0, min(self.bytes_of(category), self.account.peak_bytes - rest))

    def is_on(self, technique: str) -> bool:
        return self.techniques is not None and is_on(technique, self.techniques)

    def advice(self, remedies: Iterable[Remedy]) -> str:
        """What is left to do, each with the technique that does it and what came of it where it was tried."""
        left = [remedy for remedy in remedies if not any(map(self.is_on, (remedy.technique, *remedy.unless)))]
        if self.own_loop:
            return self._advice_for_own_loop([remedy for remedy in left if remedy.api_on_cpu or not self.on_cpu])
        return "; ".join(f"{self._how(remedy)}{self._named(remedy.technique)}" for remedy in left)

    def _advice_for_own_loop(self, remedies: Sequence[Remedy]) -> str:
        told = "; ".join(map(self._how, remedies))
        techniques = ",".join(self._technique(remedy.technique) for remedy in remedies if remedy.technique)
        return f"{told} (perfkit bench --technique {techniques} tries it on a model)" if techniques else told

    @property
    def on_cpu(self) -> bool:
        return self.account.device.startswith("cpu")

    def _how(self, remedy: Remedy) -> str:
        return remedy.on_cpu if remedy.on_cpu and self.on_cpu else remedy.how

    def _named(self, technique: str) -> str:
        if not technique:
            return ""
        tried = next((text for name, text in self.tried.items() if is_on(technique, (name,))), "")
        if tried:
            return f" ({tried})"
        return f" (perfkit bench --technique {self._technique(technique)})"

    def _technique(self, technique: str) -> str:
        return f"{technique}:to=disk" if technique.startswith("offload:") and self.on_cpu else technique

    def gain(
        self, title: str, evidence: str, action: str, gain_bytes: int | None, *, details: Iterable[str] = ()
    ) -> Finding:
        """A finding of what could be saved at most."""
        return Finding(
            severity="gain",
            title=title,
            variant=self.variant,
            evidence=evidence,
            action=_sentence(action),
            gain_bytes=gain_bytes,
            details=tuple(details),
        )

    def remark(self, severity: str, title: str, evidence: str, action: str, *, details: Iterable[str] = ()) -> Finding:
        """A finding that wins nothing by itself: a `warning` or a `note`."""
        return Finding(
            severity=severity,
            title=title,
            variant=self.variant,
            evidence=evidence,
            action=_sentence(action),
            details=tuple(details),
        )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def origin(op: str, module: str, line: str = "") -> str:
    """`aten::relu in blocks.*.mlp at train.py:12 train`; modules that differ only in numbers are one."""
    place = folded(module)
    parts = [op, f"in {place}" if place else "", f"at {line}" if line else ""]
    return " ".join(filter(None, parts))


def origins(rows: Sequence[MemoryRow], most: int = 3) -> str:
    """What made most of the bytes of rows: `aten::gelu in blocks.*.mlp 1.20 GiB, ...`; "" where nothing tells."""
    together: dict[str, int] = defaultdict(int)
    for row in rows:
        together[origin(row.op, row.module)] += row.bytes
    told = sorted(((name, size) for name, size in together.items() if name and size > 0), key=lambda item: -item[1])
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join(f"{name} {nbytes(size)}" for name, size in told[:most]) + more


def biggest(account: MemoryAccount) -> str:
    """The three largest categories: `activation 61.0 %, parameter 20.0 %, gradient 19.0 %`."""
    ranked = sorted(account.categories, key=lambda share: -share.bytes)[:3]
    whole = max(account.peak_bytes, 1)
    return ", ".join(f"{share.category} {percent(share.bytes / whole)}" for share in ranked if share.bytes)
