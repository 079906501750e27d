"""What a checkpoint saves: of a split state a rank's part and all of it, of another the same."""

import subprocess
from pathlib import Path

import pytest

from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.rehearsal.saved_state import SavedState
from tests.fixtures.attached import TORCHRUN

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]  # real steps, rehearsed

TIED = 256 * 256 * 4  # bytes of the head, which is the token embedding
GPT = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16})


def saved(techniques: str, ranks: int) -> SavedState:
    (variant,) = parse_variants(techniques)
    return rehearse_step(RunSpec(workload=GPT, techniques=variant, launch=LaunchSpec(world_size=ranks))).saved


@pytest.mark.parametrize(
    ("techniques", "ranks", "share", "tied"),
    [("baseline", 1, 1.0, 0), ("zero3", 4, 1 / 4, TIED), ("zero1", 2, (1 + 2 / 2) / 3, 0)],
)
def test_all_of_it_is_the_same_however_it_is_split(techniques: str, ranks: int, share: float, tied: int) -> None:
    whole, split = saved("baseline", 1), saved(techniques, ranks)
    assert not whole.is_split
    assert split.whole == pytest.approx(whole.whole + tied, rel=1e-3)
    assert split.own / whole.whole == pytest.approx(share, rel=1e-3)  # parameters, and twice their bytes of AdamW's
    assert split.is_split == (share < 1)
    assert split.largest == whole.largest


def test_rank_0_gathers_what_a_real_one_gathers(tmp_path: Path) -> None:
    program = Path(__file__).parents[3] / "programs" / "fsdp_checkpoint.py"
    ended = subprocess.run(
        [*TORCHRUN, str(program), str(tmp_path / "full.pt")], capture_output=True, text=True, timeout=300, check=True
    )
    (line,) = (line for line in ended.stdout.splitlines() if line.startswith("peak "))
    planned = saved("zero3", 2)
    assert planned.whole + planned.largest == pytest.approx(int(line.split()[1]), rel=1e-3)
    assert (tmp_path / "full.pt").stat().st_size == pytest.approx(planned.whole, rel=0.01)
