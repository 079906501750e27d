from pathlib import Path

import pytest

from perfkit_reports.view.paths import find_run_file, resolve_inside, split_path
from tests.fixtures.suites import record, write_suite


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Runs, with secrets beside them and among them."""
    (tmp_path / "secret.json").write_text("{}")
    runs = tmp_path / "runs"
    suite = write_suite(runs / "a", {"baseline": [record(0.1)]})
    (suite / "report.html").write_text("a report")
    (runs / "notes.json").write_text("{}")
    return runs


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("/", ()),
        ("/files/a/report.html", ("files", "a", "report.html")),
        ("/a%20b/amp+ckpt/zero1@2", ("a b", "amp+ckpt", "zero1@2")),
        ("/caf%C3%A9", ("café",)),
        ("/a/%252e%252e/b", ("a", "%2e%2e", "b")),  # decoded once: this is a name
    ],
)
def test_an_address_is_decoded_once(path: str, steps: tuple[str, ...]) -> None:
    assert split_path(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        "", "files/a", "http://host/files", "//etc/passwd", "/files//a", "/files/", "/files/a/", "/files/..",
        "/../etc/passwd", "/files/a/../../secret.json", "/files/%2e%2e/secret.json", "/files/%2E%2E%2Fsecret.json",
        "/files/.%2e/secret.json", "/files/./a", "/files/.ssh/id", "/files/%2Fetc/passwd", "/files/a%00.json",
        "/files/..%5csecret.json", "/files/a\\b", "/files/a%0d%0aX: y", "/files/%ff", "/files/%7f", "*",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(path: str) -> None:
    assert split_path(path) is None


def test_links_out_of_the_folder_lead_nowhere(folder: Path) -> None:
    (folder / "a" / "out.json").symlink_to(folder.parent / "secret.json")
    (folder / "a" / "up").symlink_to(folder.parent)
    (folder / "a" / "circle").symlink_to(folder / "a" / "circle")
    for steps in (("a", "out.json"), ("a", "up", "secret.json"), ("a", "up"), ("a", "circle"), ("a", "x" * 5000)):
        assert resolve_inside(folder, steps) is None
        assert find_run_file(folder, steps) is None


def test_links_within_the_folder_and_a_folder_that_is_a_link_work(folder: Path) -> None:
    (folder / "a" / "again.json").symlink_to(folder / "a" / "suite.json")
    (folder.parent / "link").symlink_to(folder)
    found = find_run_file(folder.parent / "link", ("a", "again.json"))
    assert found[0] == (folder / "a" / "suite.json").resolve()


def test_files_of_a_run_are_served_by_kind(folder: Path) -> None:
    for name in ("figures/roofline.png", "baseline/0/rank0/trace.json.gz", "tables/variants.parquet"):
        (folder / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "a" / name).touch()
    shown = {name: find_run_file(folder, ("a", *name.split("/"))) for name in (
        "report.html", "suite.json", "baseline/0/rank0/record.json", "figures/roofline.png",
        "baseline/0/rank0/trace.json.gz", "tables/variants.parquet",
    )}  # fmt: skip
    assert {name: found and found[1:] for name, found in shown.items()} == {
        "report.html": ("text/html; charset=utf-8", True),
        "suite.json": ("application/json", True),
        "baseline/0/rank0/record.json": ("application/json", True),
        "figures/roofline.png": ("image/png", True),
        "baseline/0/rank0/trace.json.gz": ("application/gzip", False),
        "tables/variants.parquet": ("application/vnd.apache.parquet", False),
    }


@pytest.mark.parametrize("name", ["other.html", "xreport.html", "train.py", "model.pt", "snapshot.pickle", "noending"])
def test_other_kinds_of_files_are_not_served(folder: Path, name: str) -> None:
    (folder / "a" / name).touch()
    assert find_run_file(folder, ("a", name)) is None


def test_what_is_in_no_run_is_not_served(folder: Path) -> None:
    assert find_run_file(folder, ("notes.json",)) is None
    assert find_run_file(folder, ("a",)) is None
    assert find_run_file(folder / "a", ("suite.json",)) is not None  # the folder itself may be a run
