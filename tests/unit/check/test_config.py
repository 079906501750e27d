"""Configurations as people write them, and what is said of those that are wrong."""

from pathlib import Path

import pytest

from perfkit.check.config import CheckConfig, load_config
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import Verdict
from perfkit.core.errors import UsageError

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def loaded(folder: Path, text: str, name: str = "pyproject.toml") -> CheckConfig:
    (folder / name).write_text(text)
    return load_config(folder)


def test_without_a_file_there_are_no_cases(tmp_path: Path) -> None:
    config = load_config(tmp_path)
    assert config.cases == ()
    assert (config.root, config.budget_s, config.exit_inconclusive) == (str(tmp_path), 180.0, 3)


FULL = """
[project]
name = "theirs"

[tool.perfkit.check]
baseline = "perf/baseline.json"
budget = "90s"
inconclusive = 0
python-path = ["src"]
threads = 1

[tool.perfkit.check.thresholds]
step_time = "4%"
peak_allocated = "+1MiB"
flops = "off"

[[tool.perfkit.check.cases]]
workload = "train.py:build"
technique = "baseline,amp"
batch-size = 2

[[tool.perfkit.check.cases]]
workload = "gpt:size=nano"
thresholds = { step_time = "10%", data-wait = "<=5ms" }
"""


def test_a_whole_configuration(tmp_path: Path) -> None:
    config = loaded(tmp_path, FULL)
    assert (config.baseline, config.budget_s, config.exit_inconclusive) == ("perf/baseline.json", 90.0, 0)
    assert (config.python_path, config.threads) == (("src",), 1)
    train, gpt = config.cases
    assert (train.workload, train.technique, train.batch_size) == ("train.py:build", "baseline,amp", 2)
    assert (gpt.technique, gpt.batch_size) == ("baseline", None)


def test_what_is_a_failure(tmp_path: Path) -> None:
    assert loaded(tmp_path, FULL).fail_on is Verdict.FAIL
    assert loaded(tmp_path, '[tool.perfkit.check]\nfail-on = "worse"').fail_on is Verdict.WORSE
    with pytest.raises(UsageError, match="fail_on"):
        loaded(tmp_path, '[tool.perfkit.check]\nfail-on = "pass"')


def told(config: CheckConfig, case: int, quantity: str) -> str | None:
    threshold = config.cases[case].resolve_thresholds()[quantity]
    return None if threshold is None else threshold.text


def test_a_cases_threshold_goes_before_all_cases_and_that_before_the_default(tmp_path: Path) -> None:
    config = loaded(tmp_path, FULL)
    assert [told(config, case, "step_time") for case in (0, 1)] == ["4%", "10%"]
    assert [told(config, case, "peak_allocated") for case in (0, 1)] == ["+1MiB", "+1MiB"]
    assert told(config, 0, "cpu_time") == BY_NAME["cpu_time"].default


def test_what_is_off_or_has_no_default_is_reported_only(tmp_path: Path) -> None:
    config = loaded(tmp_path, FULL)
    assert told(config, 0, "flops") is None
    assert [told(config, case, "data_wait") for case in (0, 1)] == [None, "<=5ms"]


def test_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.perfkit.check]\nbudget = "1min"')
    assert loaded(tmp_path, '[check]\nbudget = "2min"', "perfkit.toml").budget_s == 120.0


def test_the_nearest_file_above(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]")
    loaded(tmp_path, '[tool.perfkit.check]\nbudget = "2min"')
    config = load_config(below)
    assert (config.budget_s, config.root) == (120.0, str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.perfkit.check\n", "invalid TOML"),
        ('[tool.perfkit.check]\nbugdet = "3min"', "'budget'"),
        ('[tool.perfkit.check]\nbudget = "soon"', "budget"),
        ('[tool.perfkit.check]\nbudget = "0s"', "no time"),
        ('[tool.perfkit.check.thresholds]\nsteptime = "3%"', "'step_time'"),
        ('[tool.perfkit.check.thresholds]\nstep_time = "fast"', "step_time"),
        ('[[tool.perfkit.check.cases]]\ntechnique = "amp"', "case 1"),
        ('[[tool.perfkit.check.cases]]\nworkload = "gpt"\nbatch_size = "two"', "case 1"),
        ('[[tool.perfkit.check.cases]]\nworkload = "gpt"\nbatchsize = 2', "'batch_size'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        loaded(tmp_path, text)
    assert str(tmp_path / "pyproject.toml") in str(error.value)
    assert said in str(error.value)
