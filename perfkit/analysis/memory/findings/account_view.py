"""An account of memory with the enabled techniques, as rules read it, and how they report findings."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfkit.analysis.memory.findings.remedies import Remedy, is_technique_on
from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.finding import NO_FIGURES, Finding
from perfkit.analysis.model.memory_model import MemoryAccount, MemoryRow
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_bytes, format_percent
from perfkit.devices.accelerator import is_cpu


@dataclass(frozen=True)
class AccountView:
    """One account. `techniques` are the enabled ones, None where unknown (a file from elsewhere).

    `tried` has the outcomes of techniques tried in other variants. `own_loop` is set for an attached loop: advice names
    the change to the loop first, and the command that tries it second. `optimizers` are the classes of its optimizers,
    none where unknown. `trains` is False for a program that only infers, None where unknown.
    """

    account: MemoryAccount
    variant: str = ""
    techniques: tuple[str, ...] | None = None
    tried: Mapping[str, str] = field(default_factory=dict)
    own_loop: bool = False
    optimizers: frozenset[str] = frozenset()
    trains: bool | None = None

    def sum_bytes(self, category: str) -> int:
        return sum(share.bytes for share in self.account.categories if share.category == category)

    def get_share(self, size: int) -> float:
        """The share of the peak."""
        return size / self.account.peak_bytes if self.account.peak_bytes > 0 else 0.0

    def format_peak_share(self, size: int) -> str:
        """`1.20 GiB of the 3.43 GiB peak (35.0 %)`."""
        peak = format_bytes(self.account.peak_bytes)
        return f"{format_bytes(size)} of the {peak} peak ({format_percent(self.get_share(size))})"

    def get_savable_bytes(self, category: str) -> int:
        """Bytes by which the peak would fall without the category: at most its size at the peak, less where another
        point of the step is nearly as high."""
        series = self.account.timeline_categories
        if category not in series or not self.account.timeline_s:
            return self.sum_bytes(category)
        others = (values for name, values in series.items() if name != category)
        rest = max((sum(values) for values in zip(*others, strict=True)), default=0)
        return max(0, min(self.sum_bytes(category), self.account.peak_bytes - rest))

    def is_on(self, technique: str) -> bool:
        return self.techniques is not None and is_technique_on(technique, self.techniques)

    def advise(self, remedies: Iterable[Remedy]) -> str:
        """The remedies that still apply, each with its technique and the outcome where it was tried."""
        remaining = self._select_applicable(remedies)
        if self.own_loop:
            return self._advice_for_own_loop([remedy for remedy in remaining if remedy.api_on_cpu or not self.on_cpu])
        return "; ".join(f"{self._get_how(remedy)}{self._format_outcome(remedy.technique)}" for remedy in remaining)

    def list_techniques(self, remedies: Iterable[Remedy]) -> tuple[str, ...]:
        """The techniques of the remedies that still apply, as a bench takes them."""
        named = (self._name_technique(remedy.technique) for remedy in self._select_applicable(remedies))
        return tuple(dict.fromkeys(filter(None, named)))

    def _select_applicable(self, remedies: Iterable[Remedy]) -> list[Remedy]:
        return [
            remedy
            for remedy in remedies
            if remedy.trains in (None, self.trains is not False)
            if not any(map(self.is_on, (remedy.technique, *remedy.unless)))
        ]

    def _advice_for_own_loop(self, remedies: Sequence[Remedy]) -> str:
        changes = "; ".join(map(self._get_how, remedies))
        techniques = ",".join(self._name_technique(remedy.technique) for remedy in remedies if remedy.technique)
        return f"{changes} (perfkit bench --technique {techniques} tries it on a model)" if techniques else changes

    @property
    def on_cpu(self) -> bool:
        return is_cpu(self.account.device)

    def _get_how(self, remedy: Remedy) -> str:
        return remedy.on_cpu if remedy.on_cpu and self.on_cpu else remedy.how

    def _format_outcome(self, technique: str) -> str:
        if not technique:
            return ""
        tried = next((text for name, text in self.tried.items() if is_technique_on(technique, (name,))), "")
        if tried:
            return f" ({tried})"
        return f" (perfkit bench --technique {self._name_technique(technique)})"

    def _name_technique(self, technique: str) -> str:
        return f"{technique}:to=disk" if technique.startswith("offload:") and self.on_cpu else technique

    def build_gain(
        self,
        finding_id: str,
        title: str,
        evidence: str,
        action: str,
        gain_bytes: int | None,
        *,
        techniques: tuple[str, ...] = (),
        details: Iterable[str] = (),
        figures: Mapping[str, float] = NO_FIGURES,
    ) -> Finding:
        """A finding with a gain, the most that can be saved."""
        return Finding(
            id=finding_id,
            severity="gain",
            title=title,
            variant=self.variant,
            evidence=evidence,
            action=_make_sentence(action),
            gain_bytes=gain_bytes,
            techniques=techniques,
            details=tuple(details),
            figures=dict(figures),
        )

    def build_remark(
        self,
        finding_id: str,
        severity: str,
        title: str,
        evidence: str,
        action: str,
        *,
        details: Iterable[str] = (),
        figures: Mapping[str, float] = NO_FIGURES,
    ) -> Finding:
        """A finding without a gain: a `warning` or a `note`."""
        return Finding(
            id=finding_id,
            severity=severity,
            title=title,
            variant=self.variant,
            evidence=evidence,
            action=_make_sentence(action),
            details=tuple(details),
            figures=dict(figures),
        )


def _make_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def format_origin(op: str, module: str, line: str = "") -> str:
    """`aten::relu in blocks.*.mlp at train.py:12 train`; modules that differ only in numbers are one."""
    place = fold_layer_numbers(module)
    parts = [op, f"in {place}" if place else "", f"at {line}" if line else ""]
    return " ".join(filter(None, parts))


def format_origins(rows: Sequence[MemoryRow], most: int = 3) -> str:
    """The largest origins of rows: `aten::gelu in blocks.*.mlp 1.20 GiB, ...`; "" where none is known."""
    together: dict[str, int] = defaultdict(int)
    for row in rows:
        together[format_origin(row.op, row.module)] += row.bytes
    origins = sorted(((name, size) for name, size in together.items() if name and size > 0), key=lambda item: -item[1])
    return list_first([f"{name} {format_bytes(size)}" for name, size in origins], most)


def format_largest_categories(account: MemoryAccount) -> str:
    """The three largest categories: `activation 61.0 %, parameter 20.0 %, gradient 19.0 %`."""
    ranked = sorted(account.categories, key=lambda share: -share.bytes)[:3]
    whole = max(account.peak_bytes, 1)
    return ", ".join(f"{share.category} {format_percent(share.bytes / whole)}" for share in ranked if share.bytes)
