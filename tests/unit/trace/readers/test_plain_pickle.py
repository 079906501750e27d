"""Hostile pickles: whatever is in them, nothing runs and one line says what is wrong."""

import contextlib
import copyreg
import gzip
import os
import pickle
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.trace.readers.plain_pickle import load_plain_pickle

P = pickle


def text(value: str) -> bytes:
    data = value.encode()
    return P.BINUNICODE + struct.pack("<I", len(data)) + data


def write(folder: Path, data: bytes) -> str:
    path = folder / "snapshot.pickle"
    path.write_bytes(data)
    return str(path)


class Touch:
    """Reduced to a shell command that leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.system, (f"touch {self.path}",)


def refusal(folder: Path, data: bytes) -> str:
    with pytest.raises(RunFormatError) as caught:
        load_plain_pickle(write(folder, data))
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    assert not (folder / "ran").exists()
    return message


PLAIN = {"a": [1, -2.5, True, None, 1 << 80], "b": (b"x", {1, 2}, frozenset((3,))), 7: "naïve"}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_is_read_as_it_was(tmp_path: Path, protocol: int) -> None:
    data = PLAIN if protocol > 3 else {"a": PLAIN["a"], 7: ("naïve",)}  # sets and bytes are globals before
    assert load_plain_pickle(write(tmp_path, pickle.dumps(data, protocol))) == data
    assert load_plain_pickle(write(tmp_path, gzip.compress(pickle.dumps(data, protocol)))) == data


@pytest.mark.parametrize("protocol", range(6))
def test_a_call_is_refused_and_not_made(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps([1, Touch(tmp_path / "ran")], protocol)
    assert "system" in refusal(tmp_path, data)
    assert "system" in refusal(tmp_path, gzip.compress(data))
    pickle.loads(data)
    assert (tmp_path / "ran").exists()  # the very same bytes do run elsewhere


def hostile(folder: Path) -> dict[str, bytes]:
    command = text(f"touch {folder / 'ran'}")
    system = P.GLOBAL + b"os\nsystem\n"
    stack_system = text("os") + text("system") + P.STACK_GLOBAL
    popen = P.GLOBAL + b"subprocess\nPopen\n"
    return {
        "GLOBAL": system + command + P.TUPLE1 + P.REDUCE + P.STOP,
        "STACK_GLOBAL": P.PROTO + b"\4" + stack_system + command + P.TUPLE1 + P.REDUCE + P.STOP,
        "INST": P.MARK + command + P.INST + b"os\nsystem\n" + P.STOP,
        "OBJ": P.MARK + system + command + P.OBJ + P.STOP,
        "NEWOBJ": P.PROTO + b"\2" + popen + command + P.TUPLE1 + P.NEWOBJ + P.STOP,
        "NEWOBJ_EX": P.PROTO + b"\4" + popen + command + P.TUPLE1 + P.EMPTY_DICT + P.NEWOBJ_EX + P.STOP,
        "BUILD": P.GLOBAL + b"builtins\nobject\n" + P.EMPTY_TUPLE + P.REDUCE + P.EMPTY_DICT + P.BUILD + P.STOP,
        "a global never used": P.GLOBAL + b"os\nsystem\n" + P.POP + P.NONE + P.STOP,
        "an attribute of a builtin": P.PROTO
        + b"\4"
        + text("builtins")
        + text("dict.fromkeys")
        + P.STACK_GLOBAL
        + P.STOP,
        "a name of several lines": P.PROTO
        + b"\4"
        + text("os\nline\r\n" * 50)
        + text("x\0\x1b[31m")
        + P.STACK_GLOBAL
        + P.STOP,
        "a persistent id": P.PERSID + b"id\n" + P.STOP,
        "a binary persistent id": P.PROTO + b"\2" + text("id") + P.BINPERSID + P.STOP,
        "a buffer from outside": P.PROTO + b"\5" + P.NEXT_BUFFER + P.STOP,
    }


@pytest.mark.parametrize("name", sorted(hostile(Path())))
def test_nothing_but_plain_data_is_admitted(tmp_path: Path, name: str) -> None:
    refusal(tmp_path, hostile(tmp_path)[name])


# What plain values do when they are called, built or added to as if they were objects.
WRONG = {
    "a string is called": text("os.system") + P.EMPTY_TUPLE + P.REDUCE + P.STOP,
    "a string is a class": P.PROTO + b"\2" + text("x") + P.EMPTY_TUPLE + P.NEWOBJ + P.STOP,
    "a dictionary is built": P.EMPTY_DICT + text("x") + P.BUILD + P.STOP,
    "a list is built": P.EMPTY_LIST + P.EMPTY_DICT + text("__class__") + P.NONE + P.SETITEM + P.BUILD + P.STOP,
    "a number is appended to": P.BININT1 + b"\1" + P.NONE + P.APPEND + P.STOP,
    "a list is a key": P.EMPTY_DICT + P.EMPTY_LIST + P.NONE + P.SETITEM + P.STOP,
    "garbage": bytes(range(256)),
    "nothing": b"",
    "a lone stop": P.STOP,
    "text": b"{'a': 1}",
    "an unknown protocol": P.PROTO + b"\xff" + P.NONE + P.STOP,
    "a memo that is empty": P.BINGET + b"\7" + P.STOP,
    "a number of too many digits": b"I" + b"9" * 100_000 + b"\n.",
    "a string that is no UTF-8": P.BINUNICODE + struct.pack("<I", 2) + b"\xff\xfe" + P.STOP,
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_no_pickle_of_anything_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    refusal(tmp_path, WRONG[name])


@contextlib.contextmanager
def extension(code: int) -> Iterator[None]:
    copyreg.add_extension("os", "system", code)
    try:
        yield
    finally:
        copyreg.remove_extension("os", "system", code)


@pytest.mark.parametrize(("opcode", "code"), [(P.EXT1, 0x70), (P.EXT2, 0x7000), (P.EXT4, 0x7000000)])
@pytest.mark.parametrize("warmed", [False, True])
def test_registered_extensions_are_refused(tmp_path: Path, opcode: bytes, code: int, warmed: bool) -> None:
    width = {P.EXT1: "<B", P.EXT2: "<H", P.EXT4: "<i"}[opcode]
    named = P.PROTO + b"\2" + opcode + struct.pack(width, code)
    data = named + text(f"touch {tmp_path / 'ran'}") + P.TUPLE1 + P.REDUCE + P.STOP
    refusal(tmp_path, data)  # not even registered
    with extension(code):
        if warmed:
            assert pickle.loads(named + P.STOP) is os.system  # now in the cache, which is not asked about names
        assert "system" in refusal(tmp_path, data)


def test_no_prefix_of_a_snapshot_is_taken_for_one(tmp_path: Path) -> None:
    data = pickle.dumps(PLAIN)
    for length in range(len(data)):
        refusal(tmp_path, data[:length])
    packed = gzip.compress(data)
    for length in range(len(packed) - 8):  # the checksum behind the data is not needed to read it
        with pytest.raises(PerfkitError, match=tmp_path.name):
            load_plain_pickle(write(tmp_path, packed[:length]))


@pytest.mark.parametrize(
    "declared",
    [
        P.BINUNICODE + struct.pack("<I", 0xFFFFFFFF),
        P.BINBYTES + struct.pack("<I", 0xFFFFFFFF),
        P.BINUNICODE8 + struct.pack("<Q", 1 << 40),
        P.BINBYTES8 + struct.pack("<Q", 1 << 62),
        P.BYTEARRAY8 + struct.pack("<Q", 1 << 38),
        P.LONG4 + struct.pack("<i", 0x7FFFFFFF),
        P.FRAME + struct.pack("<Q", 1 << 50),
        P.NONE + P.LONG_BINPUT + struct.pack("<I", 0xFFFFFFFF),
        P.NONE + P.LONG_BINPUT + struct.pack("<I", 174_940_517),  # 1.3 GiB: less than most machines have
        P.NONE + P.PUT + b"99999999999\n",
    ],
)
def test_what_a_file_declares_is_not_believed(tmp_path: Path, declared: bytes) -> None:
    refusal(tmp_path, P.PROTO + b"\5" + declared + P.NONE + P.STOP)
    refusal(tmp_path, gzip.compress(P.PROTO + b"\5" + declared + P.NONE + P.STOP))


def test_a_file_that_unpacks_to_far_more_than_it_is(tmp_path: Path) -> None:
    size = 600 << 20
    head = gzip.compress(P.PROTO + b"\4" + P.BINBYTES8 + struct.pack("<Q", size))
    bomb = head + gzip.compress(bytes(1 << 20)) * 600 + gzip.compress(P.STOP)
    refusal(tmp_path, bomb)


def test_nesting_has_no_limit_that_hurts(tmp_path: Path) -> None:
    depth = 1_000_000
    value = load_plain_pickle(write(tmp_path, P.EMPTY_LIST * depth + P.APPEND * (depth - 1) + P.STOP))
    assert isinstance(value, list)
    while value:  # all of it is there, and goes without recursion
        (value,) = value
        depth -= 1
    assert depth == 1


@pytest.mark.parametrize("between", [b"", P.MEMOIZE])
def test_a_key_may_be_nested_a_million_deep(tmp_path: Path, between: bytes) -> None:
    depth = 1_000_000
    key = P.EMPTY_TUPLE + (P.TUPLE1 + between) * depth
    value = load_plain_pickle(write(tmp_path, P.PROTO + b"\4" + P.EMPTY_DICT + key + P.NONE + P.SETITEM + P.STOP))
    assert isinstance(value, dict)
    (key_of_it,) = value
    while key_of_it:
        (key_of_it,) = key_of_it
        depth -= 1
    assert depth == 0


def test_the_limit_on_memory_is_lifted_again(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    refusal(tmp_path, b"garbage")
    load_plain_pickle(write(tmp_path, pickle.dumps([1])))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert subprocess.run(["true"], check=False).returncode == 0
