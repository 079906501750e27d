"""What `perfkit mfu --claimed` says of published figures of MFU, beside their values by hand.

    python -m benchmarks.mfu_published

`published/mfu.json` has a row for each figure: its source, what it is of (arguments of `perfkit.audit_mfu`), what was
printed, the convention and the mistake that are behind it, and the same by hand. Seconds; neither a GPU nor torch is
needed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfkit.mfu.audit import audit_mfu
from perfkit.mfu.audit_model import ClaimMatch, MfuClaim

PUBLISHED = Path(__file__).parent / "published" / "mfu.json"

Row = Mapping[str, Any]


def load_rows() -> list[Row]:
    """The published figures."""
    rows: list[Row] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return rows


def explain_row(row: Row) -> MfuClaim:
    """What reproduces the figure of a row."""
    claim = audit_mfu(**row["arguments"], claimed=row["printed"]).claim
    assert claim is not None
    return claim


def find_match(row: Row, claim: MfuClaim) -> ClaimMatch | None:
    """The match that the row names; None if it is not among them."""
    wanted = (row["convention"], row["mistake"])
    return next((match for match in claim.matches if _get_ids(match) == wanted), None)


def _get_ids(match: ClaimMatch) -> tuple[str, str]:
    return match.convention, match.mistake.id if match.mistake is not None else ""


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """A row for each figure."""
    yield "| figure | source | printed | explained | others | by chance | remark |"
    yield "|---|---|--:|---|--:|--:|---|"
    for row in rows:
        claim = explain_row(row)
        found = (
            "no" if find_match(row, claim) is None else " + ".join(filter(None, (row["convention"], row["mistake"])))
        )
        others = len(claim.matches) - (found != "no")
        cells = (row["id"], row["source"], row["printed"], found, others, f"{claim.by_chance:.2f}", row["note"])
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    rows = load_rows()
    print(*format_table(rows), sep="\n")
    found = sum(find_match(row, explain_row(row)) is not None for row in rows)
    print(f"{found} of {len(rows)} figures are explained by the convention and mistake behind them")


if __name__ == "__main__":
    main()
