"""Files, folders, patterns and URLs of traces."""

import gzip
import io
import os
import socket
import sys
import threading
from pathlib import Path

import fsspec
import pytest
import zstandard

from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import derive_trace_name, expand_sources

TRACE = b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {
        "rank10.json": TRACE,
        "rank2.json.gz": gzip.compress(TRACE),
        "rank1.json.zst": zstandard.compress(TRACE),
        "host_7.pt.trace.json": TRACE,
        "worker": gzip.compress(TRACE),
        "spec.json": b'{"steps": 3}',
        "notes.txt": TRACE,
        "README": b"no trace",
        ".hidden.json": TRACE,
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_a_folder_stands_for_its_traces_in_natural_order(folder: Path) -> None:
    names = [Path(each).name for each in expand_sources([str(folder)])]
    assert names == ["host_7.pt.trace.json", "rank1.json.zst", "rank2.json.gz", "rank10.json", "worker"]
    assert [len(read_trace(each)) for each in expand_sources([str(folder)])] == [1] * 5


def test_a_folder_of_folders(tmp_path: Path) -> None:
    for rank in (0, 2, 10):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}" / "trace.json").write_bytes(TRACE)
    found = expand_sources([str(tmp_path)])
    assert [Path(each).parent.name for each in found] == ["rank0", "rank2", "rank10"]
    assert expand_sources([str(tmp_path / "rank*")]) == found
    trace = read_trace(found[-1])
    assert trace.rank == 10
    assert [note.id for note in trace.notes] == ["reading.rank_from_name"]


def test_patterns_and_repeats(folder: Path) -> None:
    first = str(folder / "rank2.json.gz")
    assert [Path(each).name for each in expand_sources([first, str(folder / "rank*")])] == [
        "rank2.json.gz", "rank1.json.zst", "rank10.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("none.json", "no such file or folder"), ("*.xyz", "no trace matches"), ("empty", "no trace in this folder")],
)
def test_nothing_found(tmp_path: Path, pattern: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=words):
        expand_sources([str(tmp_path / pattern)])
    with pytest.raises(UsageError, match="trace"):
        expand_sources([])


def test_urls() -> None:
    system = fsspec.filesystem("memory")
    for name in ("rank10.json", "rank9.json", "readme.md"):
        system.pipe(f"/traces/{name}", TRACE)
    for pattern in ("memory://traces", "memory://traces/*"):
        found = expand_sources([pattern])
        assert [each.rsplit("/", 1)[1] for each in found] == ["rank9.json", "rank10.json"]
    trace = read_trace(found[0])
    assert (len(trace), trace.source, trace.rank, trace.file_bytes) == (1, found[0], 9, len(TRACE))
    with pytest.raises(RunFormatError, match="no such file"):
        read_trace("memory://traces/none.json")
    with pytest.raises(PerfkitError, match="Protocol not known"):
        read_trace("nowhere://x.json")


def test_secrets_of_an_address_are_no_part_of_a_traces_path() -> None:
    fsspec.filesystem("memory").pipe("/me:q7Zr2@host/rank3.json?sig=q7Zr2", TRACE)
    trace = read_trace("memory://me:q7Zr2@host/rank3.json?sig=q7Zr2")
    assert trace.source.count("q7Zr2") == 2  # where it is read again
    assert str(trace.path) == "memory:/me:REDACTED@host/rank3.json?sig=REDACTED"


def test_of_the_files_of_a_run_at_a_url_only_its_traces_are_traces() -> None:
    system = fsspec.filesystem("memory")
    for name in ("spec.json", "run.json", "rank1/trace.json.gz", "rank0/trace.json.gz", "rank0/record.json"):
        system.pipe(f"/suite/amp/0/{name}", TRACE)
    found = expand_sources(["memory://suite/amp/0"])
    assert [each.rsplit("/", 2)[1:] for each in found] == [["rank0", "trace.json.gz"], ["rank1", "trace.json.gz"]]


def test_of_the_files_of_a_bench_only_traces_of_steps_are_traces(tmp_path: Path) -> None:
    long = b'{"segments": [' + b"0, " * 100_000 + b"0]}"  # more than is looked at to tell what it is
    for rank in ("rank0", "rank1"):
        (tmp_path / rank).mkdir()
        (tmp_path / rank / "trace.json.gz").write_bytes(gzip.compress(TRACE))
        (tmp_path / rank / "record.json").write_bytes(long)
        (tmp_path / rank / "history.json.gz").write_bytes(gzip.compress(long))
    (tmp_path / "rank1/trace.json.gz").unlink()
    assert expand_sources([str(tmp_path)]) == (str(tmp_path / "rank0/trace.json.gz"),)
    (tmp_path / "rank0/record.json").unlink()
    assert len(expand_sources([str(tmp_path)])) == 2, "in a folder that is none of a bench, any name may be a trace's"


def test_a_suite_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text("{}")
    with pytest.raises(UsageError, match="`perfkit report "):
        expand_sources([str(tmp_path)])


@pytest.mark.parametrize("given", ["", "  "])
def test_names_of_no_file(given: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        expand_sources([given])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TRACE))))
    assert expand_sources("-") == ("-",)
    assert len(read_trace("-")) == 1
    assert derive_trace_name("-") == "stdin"


def test_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(TRACE)))
    writer.start()
    (source,) = expand_sources(pipe)
    assert len(read_trace(source)) == 1
    writer.join()


def test_a_server_that_does_not_answer_is_no_missing_file() -> None:
    pytest.importorskip("aiohttp")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/trace.json"
        with pytest.raises(RunFormatError, match=r"[Cc]onnect"):
            read_trace(url)


def test_a_single_file_may_be_named_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    assert expand_sources(str(path)) == expand_sources(path) == expand_sources([path]) == (str(path),)
