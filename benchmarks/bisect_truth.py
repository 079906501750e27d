"""How often `perfkit bisect` names the wrong change, with planted regressions.

    python -m benchmarks.bisect_truth [--simulated 1000]
    python -m benchmarks.bisect_truth --real 12      # real commands on commits and wheels: half an hour and more

Simulated bisections use perfkit's own search and verdicts; their step times are drawn from 100 recorded pairs of equal
code (`tests/fixtures/check_series.parquet`), the differences of a pair made up to three times as large. Real ones run
`perfkit bisect` on repositories and releases made for them. Real results are kept, and shown beside new simulations.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.bisect_planted import RealPlant, draw_real_plant, run_bisect
from benchmarks.bisect_simulation import KINDS, Plant, draw_plant, search_plant
from benchmarks.check_quality import SERIES
from benchmarks.check_series import read_series
from perfkit.check.bisect.result import Bisection
from perfkit.core.files import write_json
from perfkit.core.spec import Struct

RESULTS = Path(__file__).parent / "results"

TITLE = """# `perfkit bisect`: planted regressions

    python -m benchmarks.bisect_truth
    python -m benchmarks.bisect_truth --real 12

`n` candidates, of which one made a quantity worse for all after it. At most log2(n) + 1 may be checked: the ends, and
one for each halving. A false answer names another change as the only one left.
"""


class Answer(Struct):
    """One bisection: what was planted, and what was found. `checked` are candidates, the bad end included."""

    kind: str
    candidates: int
    planted: int
    size: float
    found: int | None
    checked: int
    measured_again: int = 0
    noise: float = 1.0
    command: str = ""
    seconds: float = 0.0
    causes: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """The candidates that may be checked."""
        return math.ceil(math.log2(self.candidates)) + 1


class Answers(Struct):
    """All bisections of a benchmark."""

    simulated: tuple[Answer, ...] = ()
    real: tuple[Answer, ...] = ()


def simulate_bisections(count: int, seed: int = 0) -> Iterator[Answer]:
    """Bisections at random."""
    recorded = read_series(SERIES).same
    rng = np.random.default_rng(seed)
    for _ in range(count):
        plant = draw_plant(rng)
        found = search_plant(plant, recorded, rng)
        yield msgspec.structs.replace(_make_answer(plant, found), noise=plant.noise)


def run_bisections(count: int, path: Path, answers: Answers, seed: int = 0) -> Answers:
    """Real bisections, each kept as it ends; those that `answers` has are not repeated."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        plant = draw_real_plant(rng, number)
        if number < len(answers.real):
            continue
        found, seconds = run_bisect(plant)
        answer = msgspec.structs.replace(
            _make_answer(plant, found), command=plant.name, seconds=seconds, causes=found.causes
        )
        answers = msgspec.structs.replace(answers, real=(*answers.real, answer))
        write_json(path, answers)
        print(f"{plant.name}: planted {answer.planted} of {answer.candidates}, found {answer.found}", flush=True)
    return answers


def _make_answer(plant: Plant | RealPlant, found: Bisection) -> Answer:
    return Answer(
        kind=plant.kind,
        candidates=plant.count,
        planted=plant.first_bad,
        size=plant.size,
        found=found.first_bad if found.is_found else None,
        checked=len(found.steps),
        measured_again=sum(step.folder.count("-") == 2 for step in found.steps),
    )


def format_answers(answers: Answers) -> Iterator[str]:
    """The results as Markdown."""
    yield "| bisections | of | found | false | undecided | most checked | beyond log2(n) + 1 | measured longer |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for kind in KINDS:
        yield _format_row("simulated", kind, [each for each in answers.simulated if each.kind == kind])
    yield _format_row("**simulated**", "all", answers.simulated)
    if answers.real:
        for name in dict.fromkeys(each.command for each in answers.real):
            yield _format_row("real", name, [each for each in answers.real if each.command == name])
        yield _format_row("**real**", "all", answers.real)


def _format_row(name: str, kind: str, rows: Sequence[Answer]) -> str:
    found = sum(each.found == each.planted for each in rows)
    undecided = sum(each.found is None for each in rows)
    cells = (
        f"{len(rows)} {name}",
        kind,
        found,
        len(rows) - found - undecided,
        undecided,
        max((each.checked for each in rows), default=0),
        sum(each.checked > each.most for each in rows),
        sum(each.measured_again > 0 for each in rows),
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", type=int, default=1000)
    parser.add_argument("--real", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    path = arguments.out / "bisect_truth.json"
    answers = msgspec.json.decode(path.read_bytes(), type=Answers) if path.is_file() else Answers()
    if arguments.real:
        answers = run_bisections(arguments.real, path, answers)
    answers = msgspec.structs.replace(answers, simulated=tuple(simulate_bisections(arguments.simulated)))
    # A thousand simulations repeat from their seed: only what was measured is kept.
    write_json(path, msgspec.structs.replace(answers, simulated=()))
    text = TITLE + "\n" + "\n".join(format_answers(answers)) + "\n"
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
