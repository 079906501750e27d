"""A suite's workload runs only if its user named it here, or trusts a file below the current folder."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import parse_workload
from perfkit.workloads.workload_table import require_trusted_workload, resolve_workload
from perfkit.workloads.workload_trust import remember_workload, trust_workload

SUITE = Path("runs/theirs")
BUILD = "import perfkit\n\n\ndef build(width=2):\n    return perfkit.Workload()\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "train.py").write_text(BUILD)
    (folder / "package" / "__init__.py").write_text("raise SystemError('was imported')\n")
    (folder / "package" / "models.py").write_text(BUILD + "from os import system\n")
    monkeypatch.chdir(folder)
    return folder


def is_trusted(text: str) -> bool:
    try:
        require_trusted_workload(parse_workload(text, ()), SUITE)
    except UsageError:
        return False
    return True


def test_what_perfkit_brings_needs_no_trust() -> None:
    assert is_trusted("gpt:size=nano")
    assert is_trusted("hf:config.json")


@pytest.mark.parametrize("text", ["os:system", "train.py:build", "/tmp/other.py:build", "package.models:build"])
def test_what_was_never_named_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_trusted_workload(parse_workload(text, ()), SUITE)
    assert refused.value.id == "usage.untrusted_workload"


def test_what_was_named_is_known_by_its_file_and_parameters(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = parse_workload("train.py:build:width=4", ())
    remember_workload(spec)
    assert is_trusted("train.py:build:width=4")
    assert not is_trusted("train.py:build:width=5")
    assert not is_trusted("train.py:clean:width=4")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "train.py").write_text(BUILD)
    monkeypatch.chdir(theirs)
    assert not is_trusted("train.py:build:width=4")


def test_a_module_of_the_same_name_elsewhere_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_workload(parse_workload("package.models:build", ()))
    assert is_trusted("package.models:build")
    theirs = tmp_path / "theirs" / "package"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text("")
    monkeypatch.chdir(theirs.parent)
    assert not is_trusted("package.models:build")


def test_a_request_of_the_user_remembers_its_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfkit.workloads import workload_table

    monkeypatch.setattr(workload_table, "load_workload", lambda *_, **__: None)
    monkeypatch.setattr(workload_table, "check_microbatches", lambda *_: None)
    resolved = resolve_workload("train.py:build", "cpu", 8, None)
    assert is_trusted(resolved.label)
    assert not is_trusted("train.py:build")


def test_trust_covers_the_files_below_the_current_folder_and_imports_none() -> None:
    for text in ("train.py:build", "package.models:build"):
        trust_workload(parse_workload(text, ()), SUITE)
        assert is_trusted(text)


@pytest.mark.parametrize(
    "text",
    [
        "os:system",
        "subprocess:run",
        "torch.hub:load",
        "package.models:system",  # of os, brought into the module
        "../theirs.py:build",
        "train.py:absent",
        "absent.py:build",
        "package.absent:build",
    ],
)
def test_trust_covers_nothing_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "theirs.py").write_text(BUILD)
    with pytest.raises(UsageError) as refused:
        trust_workload(parse_workload(text, ()), SUITE)
    assert refused.value.id == "usage.untrusted_workload"
    assert not is_trusted(text)


def test_a_link_out_of_the_folder_is_not_below_it(project: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(BUILD)
    (project / "link.py").symlink_to(tmp_path / "theirs.py")
    with pytest.raises(UsageError):
        trust_workload(parse_workload("link.py:build", ()), SUITE)


def test_a_cache_that_cannot_be_written_loses_no_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "file"))
    remember_workload(parse_workload("train.py:build", ()))
    assert not is_trusted("train.py:build")
