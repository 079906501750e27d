"""How the other environment is called, and what differs."""

from perfkit.check.environment_check import compare_variables, compare_versions, format_label
from perfkit.check.environments.named_environment import NamedEnvironment


def test_a_label_names_everything_but_secrets():
    named = NamedEnvironment("torch==2.14.1")
    variables = {"OMP_NUM_THREADS": "1", "HF_TOKEN": "hf_abcdefghij1234567890", "MKL_NUM_THREADS": None}
    label = format_label(named, variables)
    assert label.startswith("torch==2.14.1, OMP_NUM_THREADS=1, HF_TOKEN=")
    assert "hf_abc" not in label
    assert label.endswith("without MKL_NUM_THREADS")


def test_versions_differ_in_three_ways():
    found = list(compare_versions({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "3"}))
    assert found == [("b", "1", "2"), ("c", "1", "not installed"), ("d", "not installed", "3")]


def test_variables_differ_from_this_process(monkeypatch):
    monkeypatch.setenv("A", "1")
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghij1234567890")
    monkeypatch.delenv("B", raising=False)
    found = list(compare_variables({"A": "1", "B": "2", "HF_TOKEN": None}))
    assert found[0] == "B: 2 -> not set"
    assert found[1].startswith("HF_TOKEN: not set -> ")
    assert len(found) == 2
    assert "hf_abc" not in found[1]
