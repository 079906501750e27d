import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.store.baseline import BASELINE_FILE, Baseline, StoredVariant, read_baseline, write_baseline
from tests.fixtures.suites import ENVIRONMENT

VARIANT = StoredVariant(
    exact={"peak_allocated": 85671252.0, "flops": 11475615744.0, "graph_breaks": 0.0},
    processes={"step_time": (0.0123456, 0.0123999), "cpu_time": (12.0,)},
    losses=(5.614901542663574, None, 4.3708720207214355),
)


def baseline(**variants: StoredVariant) -> Baseline:
    return Baseline(perfkit="0.1.0", environment=ENVIRONMENT, variants={"gpt:size=nano": variants})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / BASELINE_FILE


def test_a_baseline_reads_well_in_a_diff(path: Path) -> None:
    write_baseline(path, baseline(amp=VARIANT, baseline=StoredVariant(exact={"kernel_count": 722.5})))
    assert (
        path.read_text()
        == """\
{
  "environment": {
    "device": "cpu",
    "device_count": 1,
    "device_name": "Test CPU",
    "hostname": "",
    "platform": "Linux",
    "python": "3.11",
    "threads": 2,
    "torch": "2.13.0"
  },
  "perfkit": "0.1.0",
  "schema_version": 1,
  "variants": {
    "gpt:size=nano": {
      "amp": {
        "exact": {
          "flops": 11475615744,
          "graph_breaks": 0,
          "peak_allocated": 85671252
        },
        "losses": [5.6149, null, 4.37087],
        "processes": {
          "cpu_time": [12],
          "step_time": [0.01235, 0.0124]
        }
      },
      "baseline": {
        "exact": {
          "kernel_count": 722.5
        }
      }
    }
  }
}
"""
    )


def test_what_was_written_is_read_back_rounded_where_it_varies_and_else_whole(path: Path) -> None:
    write_baseline(path, baseline(amp=VARIANT))
    found = read_baseline(path)
    assert found.environment == msgspec.structs.replace(ENVIRONMENT, hostname="")
    variant = found.variants["gpt:size=nano"]["amp"]
    assert variant.exact == VARIANT.exact
    assert variant.processes["step_time"] == (0.01235, 0.0124)
    assert variant.losses == (5.6149, None, 4.37087)


def test_equal_figures_make_equal_files_whatever_their_order(path: Path) -> None:
    write_baseline(path, baseline(amp=VARIANT, ckpt=VARIANT))
    first = path.read_bytes()
    backwards = StoredVariant(
        exact=dict(reversed(VARIANT.exact.items())),
        processes=dict(reversed(VARIANT.processes.items())),
        losses=VARIANT.losses,
    )
    write_baseline(path, baseline(ckpt=VARIANT, amp=backwards))
    assert path.read_bytes() == first
    write_baseline(path, read_baseline(path))
    assert path.read_bytes() == first


def test_one_figure_that_changes_is_one_line_of_the_diff(path: Path) -> None:
    write_baseline(path, baseline(amp=VARIANT))
    before = path.read_text().splitlines()
    write_baseline(path, baseline(amp=msgspec.structs.replace(VARIANT, exact={**VARIANT.exact, "flops": 1e9})))
    after = path.read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [('          "flops": 11475615744,', '          "flops": 1000000000,')]


@given(
    exact=st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    times=st.lists(st.floats(1e-9, 1e9), max_size=4),
    losses=st.lists(st.none() | st.floats(-1e6, 1e6), max_size=4),
    name=st.text(max_size=10),
)
def test_any_baseline_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    exact: dict[str, float],
    times: list[float],
    losses: list[float | None],
    name: str,
) -> None:
    path = tmp_path_factory.mktemp("baseline") / BASELINE_FILE
    variant = StoredVariant(exact=exact, processes={"step_time": tuple(times)}, losses=tuple(losses))
    write_baseline(path, Baseline(perfkit="0", environment=ENVIRONMENT, variants={name: {name: variant}}))
    found = read_baseline(path).variants[name][name]
    assert found.exact == exact
    assert found.processes["step_time"] == pytest.approx(tuple(times), rel=5.1e-4)
    for ours, theirs in zip(losses, found.losses, strict=True):
        assert theirs == (None if ours is None else pytest.approx(ours, rel=5.1e-6))


def test_no_file_says_how_to_get_one(path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; `perfkit check --update` writes a baseline"):
        read_baseline(path)


def test_a_folder_is_no_baseline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .*; expected a baseline"):
        read_baseline(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a valid Baseline"),
        ("{", "not a valid Baseline"),
        ("\x80", "not a valid Baseline"),
        ('{"schema_version": 99}', "format 99, "),
        ('{"schema_version": 1, "perfkit": "0"}', "missing required field"),
    ],
)
def test_what_is_no_baseline_of_this_perfkit_is_refused_by_name(path: Path, text: str, words: str) -> None:
    path.write_text(text, encoding="latin-1")
    with pytest.raises(RunFormatError) as error:
        read_baseline(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_an_unknown_field_is_refused(path: Path) -> None:
    write_baseline(path, baseline(amp=VARIANT))
    content = json.loads(path.read_text())
    content["variants"]["gpt:size=nano"]["amp"]["exakt"] = {}
    path.write_text(json.dumps(content))
    with pytest.raises(RunFormatError, match="exakt"):
        read_baseline(path)


def test_where_nothing_can_be_written_the_file_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(PerfkitError, match="cannot be written"):
        write_baseline(path, baseline(amp=VARIANT))
    assert list(path.parent.iterdir()) == [path]
