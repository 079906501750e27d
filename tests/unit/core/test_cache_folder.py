from pathlib import Path

import pytest

from perfkit.core.cache_folder import get_cache_folder


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    assert get_cache_folder() == tmp_path
    monkeypatch.delenv("PERFKIT_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert get_cache_folder() == Path("/x/perfkit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert get_cache_folder() == Path.home() / ".cache/perfkit"
