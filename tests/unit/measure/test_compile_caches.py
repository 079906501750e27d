"""Which caches of torch.compile a bench's variants get."""

import pytest
from torch._inductor.runtime.cache_dir_utils import cache_dir

from perfkit.measure.bench import open_compile_caches
from perfkit.measure.launch.rank_processes import COMPILE_CACHE


def test_they_have_a_folder_that_is_empty_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMPILE_CACHE, raising=False)
    with open_compile_caches() as folder:
        assert folder is not None
        assert not list(folder.iterdir())
    assert not folder.exists()


def test_the_folder_that_the_user_names_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv(COMPILE_CACHE, str(tmp_path))
    with open_compile_caches() as folder:
        assert folder is None


def test_the_one_that_torch_entered_by_itself_was_named_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILE_CACHE, "")  # put back after the test
    monkeypatch.delenv(COMPILE_CACHE)
    cache_dir()  # as bitsandbytes does when it is imported
    with open_compile_caches() as folder:
        assert folder is not None
