"""Folders and variants in one name."""

from pathlib import Path

import pytest

from perfkit.store.named_variant import list_splits, split_variant


def test_each_way_to_split_a_name() -> None:
    assert list(list_splits("runs/a@b@2")) == [("runs/a@b", "2"), ("runs/a", "b@2")]
    assert list(list_splits("@zero3")) == []


@pytest.mark.parametrize("folder", ["gpt", "gpt@home"])
@pytest.mark.parametrize("variant", ["", "amp", "zero3@2"])
def test_the_folder_is_the_longest_that_exists(tmp_path: Path, folder: str, variant: str) -> None:
    (tmp_path / folder).mkdir()
    named = f"{tmp_path / folder}@{variant}" if variant else str(tmp_path / folder)
    assert split_variant(named) == (str(tmp_path / folder), variant)


def test_a_name_of_nothing_is_returned_as_it_is(tmp_path: Path) -> None:
    assert split_variant(f"{tmp_path}/none@amp") == (f"{tmp_path}/none@amp", "")
    assert split_variant("s3://bucket/runs@amp") == ("s3://bucket/runs@amp", "")
