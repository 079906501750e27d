"""Paths are limited to the root."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit_cli.agents.roots import Root


@pytest.fixture
def root(tmp_path: Path) -> Root:
    inside = tmp_path / "project"
    (inside / "runs").mkdir(parents=True)
    (inside / "train.py").touch()
    (tmp_path / "secret.json").touch()
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "out").symlink_to(tmp_path)
    return Root(inside)


@pytest.mark.parametrize("text", ["runs", "train.py", "runs/../train.py"])
def test_paths_inside_are_passed_as_they_are(root: Root, text: str) -> None:
    assert root.resolve_path(text) == text
    assert root.resolve_path(str(root.folder / text)) == str(root.folder / text)


@pytest.mark.parametrize(
    "text",
    ["..", "../secret.json", "link.json", "out/secret.json", "/etc/passwd", "~/x", "file:///etc/passwd", "-", "-x"],
)
def test_paths_outside_are_refused(root: Root, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        root.resolve_path(text)
    assert refused.value.id == "usage.outside_root"


def test_a_missing_file_is_named(root: Root) -> None:
    with pytest.raises(UsageError) as refused:
        root.resolve_path("trace.json")
    assert refused.value.id == "usage.no_file"


@pytest.mark.parametrize("text", ["gpt:size=nano", "train.py:build", "package.module:build", "amp+ckpt,compile:mode=x"])
def test_workloads_and_techniques_inside_pass(root: Root, text: str) -> None:
    assert root.check_words(text) == text


@pytest.mark.parametrize(
    "text", ["../train.py:build", "/tmp/train.py:build", "hf:../config.json", "gpt:data=/etc/passwd", "link.json:build"]
)
def test_workloads_outside_are_refused(root: Root, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        root.check_words(text)
    assert refused.value.id == "usage.outside_root"
