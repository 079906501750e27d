from typing import Any

import msgspec
import pytest

from perfkit.analysis.compare.environments import (
    EFFECTS,
    ComparisonEffect,
    compare_environments,
    explain_incomparable_counts,
    explain_incomparable_times,
    select_count_changes,
)
from perfkit.core.record.environment import Environment
from tests.fixtures.suites import ENVIRONMENT

ELSEWHERE: dict[str, Any] = {
    "device": "cuda",
    "device_name": "Other CPU",
    "device_count": 2,
    "device_memory_bytes": 2**34,
    "compute_capability": "9.0",
    "driver": "570.1",
    "cuda": "12.8",
    "nccl": "2.28.3",
    "cudnn": "9.24.0",
    "torch": "2.14.0",
    "onednn": "3.12.0",
    "mkl": "2024.2",
    "python": "3.12",
    "matmul_precision": "high",
    "conv_precision": "tf32",
    "rnn_precision": "tf32",
    "cpu_model": "Other CPU",
    "cpu_capability": "AVX512",
    "cpu_cores": 64,
    "cpu_governor": "powersave",
    "cpu_max_hz": 2.4e9,
    "threads": 4,
    "affinity": (0, 1, 2),
    "container_cpu_limit": 2.0,
    "container_memory_limit_bytes": 2**30,
    "memory_total_bytes": 2**36,
    "platform": "Other",
}
# A difference of these needs both sides.
LATE: dict[str, Any] = {"nccl": "2.27.5", "cudnn": "9.1.0", "onednn": "3.7.1", "mkl": "2023.1", "cpu_max_hz": 3.0e9}
_IGNORED = {"hostname", "git_revision", "packages", "variables"}


def changed(**fields: Any) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, **fields)


def test_every_key_of_an_environment_is_compared_or_ignored_on_purpose() -> None:
    assert EFFECTS.keys() == ELSEWHERE.keys() == set(Environment.__struct_fields__) - _IGNORED


def test_equal_environments_differ_in_nothing() -> None:
    assert compare_environments(ENVIRONMENT, changed(hostname="other", git_revision="abc")) == ()
    assert (explain_incomparable_times(()), explain_incomparable_counts(())) == ("", "")


@pytest.mark.parametrize("key", ELSEWHERE)
def test_each_key_is_named_with_both_values(key: str) -> None:
    (found,) = compare_environments(changed(**LATE), changed(**{**LATE, key: ELSEWHERE[key]}))
    assert (found.key, found.effect) == (key, EFFECTS[key])
    assert str(found).startswith(f"{key}: ")
    assert bool(explain_incomparable_times([found])) == (found.effect is not ComparisonEffect.NOTED)
    assert bool(explain_incomparable_counts([found])) == (key == "device")
    assert str(found) in (explain_incomparable_times([found]) or str(found))


@pytest.mark.parametrize("key", LATE)
def test_what_older_records_lack_is_no_difference(key: str) -> None:
    assert compare_environments(changed(**{key: None}), changed(**{key: ELSEWHERE[key]})) == ()


def test_another_nccl_is_named_and_refuses_times() -> None:
    found = compare_environments(changed(nccl="2.27.5"), changed(nccl="2.28.3"))
    assert explain_incomparable_times(found).endswith("(nccl: 2.27.5 -> 2.28.3)")


def test_what_nccl_prints_changes_no_figure_and_what_it_uses_does() -> None:
    found = compare_environments(ENVIRONMENT, changed(variables={"NCCL_DEBUG": "INFO", "NCCL_NVLS_ENABLE": "0"}))
    assert {each.key: each.effect for each in found} == {
        "NCCL_DEBUG": ComparisonEffect.NOTED,
        "NCCL_NVLS_ENABLE": ComparisonEffect.COUNTS,
    }


def test_times_elsewhere_are_refused_with_the_keys_and_counts_are_not() -> None:
    found = compare_environments(
        ENVIRONMENT, changed(torch="2.14.0", cpu_governor="powersave", matmul_precision="high")
    )
    keys = "(torch: 2.13.0 -> 2.14.0; cpu_governor: unknown -> powersave)"
    assert explain_incomparable_times(found).endswith(keys)
    assert explain_incomparable_counts(found) == ""
    assert [each.key for each in select_count_changes(found)] == ["torch"]


def test_another_kind_of_device_has_nothing_in_common() -> None:
    found = compare_environments(ENVIRONMENT, changed(device="cuda", torch="2.14.0"))
    assert found[0].key == "device"
    assert explain_incomparable_counts(found).endswith("(device: cpu -> cuda)")


def test_which_processors_is_noted_and_how_many_decides() -> None:
    (moved,) = compare_environments(changed(affinity=(0, 1)), changed(affinity=(2, 3)))
    assert (str(moved), moved.effect) == ("affinity: processors 0, 1 -> processors 2, 3", ComparisonEffect.NOTED)
    (fewer,) = compare_environments(changed(affinity=(0, 1)), changed(affinity=(0,)))
    assert (str(fewer), fewer.effect) == ("affinity: 2 processors -> 1 processor", ComparisonEffect.TIMES)


def test_main_memory_differs_a_little_between_equal_machines() -> None:
    ours = changed(memory_total_bytes=25_276_514_304)
    assert compare_environments(ours, changed(memory_total_bytes=25_276_510_208)) == ()
    assert [each.key for each in compare_environments(ours, changed(memory_total_bytes=2**35))] == [
        "memory_total_bytes"
    ]


def test_variables_and_packages_are_told_by_name() -> None:
    before = changed(variables={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0"}, packages={"triton": "3.1"})
    after = changed(variables={"CUDA_VISIBLE_DEVICES": "1"}, packages={"triton": "3.2", "peft": "0.10"})
    found = compare_environments(before, after)
    assert [str(each) for each in found] == [
        "OMP_NUM_THREADS: 1 -> not set",
        "peft: not installed -> 0.10",
        "triton: 3.1 -> 3.2",
        "CUDA_VISIBLE_DEVICES: 0 -> 1",
    ]
    assert [each.effect for each in found] == [ComparisonEffect.COUNTS] * 3 + [ComparisonEffect.NOTED]
