"""The secret that the machines of a bench share."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.measure.launch import join_secret
from perfkit.measure.launch.join_secret import load_join_secret, make_secret


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("PERFKIT_SECRET", raising=False)
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_it_is_made_once_for_this_user_alone(cache: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        loaded = list(threads.map(lambda _: load_join_secret(), range(16)))
    [file] = cache.iterdir()
    assert set(loaded) == {(file.read_text().strip().encode(), str(file))}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(bytes.fromhex(loaded[0].key.decode())) == 32


def test_the_variable_comes_first_and_makes_no_file(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = make_secret()
    monkeypatch.setenv("PERFKIT_SECRET", chosen)
    assert load_join_secret() == (chosen.encode(), "$PERFKIT_SECRET")
    assert not cache.exists()
    monkeypatch.setenv("PERFKIT_SECRET", "short")
    with pytest.raises(PerfkitError) as error:
        load_join_secret()
    assert error.value.id == "join.secret"


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(cache: Path, mode: int) -> None:
    load_join_secret()
    (cache / "join-secret").chmod(mode)
    with pytest.raises(PerfkitError, match=str(cache / "join-secret")) as error:
        load_join_secret()
    assert error.value.id == "join.secret"


def test_where_it_cannot_be_kept_the_variable_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").touch()
    with pytest.raises(PerfkitError, match="PERFKIT_SECRET") as error:
        load_join_secret()
    assert error.value.id == "join.secret"


def test_nothing_is_left_where_it_cannot_be_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(join_secret.os, "link", refuse)
    with pytest.raises(PerfkitError):
        load_join_secret()
    assert list(cache.iterdir()) == []
