"""Pages of techniques: all that the registry knows, and the ones in `docs/techniques` are those."""

from pathlib import Path
from typing import ClassVar

import pytest
import torch

from perfkit.core.record.claim import ParityRule
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Technique, explain_inability
from perfkit.techniques.precision.amp import Amp
from perfkit_cli.pages.technique_page import build_index, build_page, describe_parity

DOCS = Path(__file__).parents[4] / "docs" / "techniques"
WRITE = "write it anew: perfkit techniques --docs docs/techniques"


@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_the_page_in_the_docs_is_the_registrys(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text() == build_page(TECHNIQUES.load(name)), WRITE


def test_the_index_in_the_docs_is_the_registrys() -> None:
    assert (DOCS / "index.md").read_text() == build_index(TECHNIQUES.load(name) for name in TECHNIQUES.list_names()), (
        WRITE
    )
    assert {path.stem for path in DOCS.glob("*.md")} == {"index", *TECHNIQUES.list_names()}


class Absent(Amp):
    """Multiplies in no time."""

    name: ClassVar[str] = "absent"
    summary: ClassVar[str] = "needs what nobody has"
    when: ClassVar[str] = "on rainy days"
    costs: ClassVar[str] = "an umbrella"
    paper: ClassVar[str] = "Nobody, Nothing, 2026"
    examples: ClassVar[tuple[str, ...]] = ("absent:dtype=fp16",)

    def package(self) -> Package:
        return Package("no_such_module", "no-such-package")


def test_a_page_says_all_there_is_to_know() -> None:
    text = build_page(Absent)
    assert text.startswith("# absent\n\nNeeds what ")
    for said in (
        "on rainy days",
        "an umbrella",
        "Nobody, Nothing, 2026",
        "`no_such_module` (pip install no-such-package)",
        "- `dtype` (bf16, fp16; default bf16)",
        "Multiplies in no time.",
        ": `matmul_flops_share:fp16` at least 0.9",
        "    perfkit bench --technique absent:dtype=fp16",
        "0.062 (8 roundings of bf16)",
    ):
        assert said in text


def test_what_has_nothing_to_say_has_no_text() -> None:
    class Plain(Technique):
        name: ClassVar[str] = "plain"
        summary: ClassVar[str] = "does nothing"

        def claims(self, state):
            return ()

    assert "How it works" not in build_page(Plain)


def test_a_package_that_is_missing_is_the_reason() -> None:
    cpu = torch.device("cpu")
    missing = explain_inability(Absent(), cpu)
    assert missing is not None
    assert missing.split(": ") == ["needs the package no_such_module", "pip install no-such-package"]
    assert explain_inability(Amp(), cpu) is None


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (ParityRule(relative=None, basis="another trajectory"), "not comparable: another trajectory"),
        (ParityRule(relative=0.01, basis="one rounding"), "within a relative 0.01 (one rounding)"),
        (Amp.__base__().parity(), "lossless"),
    ],
)
def test_losses_in_words(rule: ParityRule, said: str) -> None:
    assert describe_parity(rule) == said


def test_one_page_is_printed_with_its_availability(perfkit_in_process) -> None:
    printed = perfkit_in_process("techniques", "zero1").stdout
    assert printed.startswith("# zero1\n")
    assert printed.endswith(": needs 2 ranks\n")


def test_an_unknown_name_names_the_nearest(perfkit_in_process) -> None:
    ended = perfkit_in_process("techniques", "zero9")
    assert ended.returncode == 2
    assert "'zero1'" in ended.stderr
    assert "[usage.unknown_technique]" in ended.stderr


def test_pages_are_written_as_files(perfkit_in_process, tmp_path: Path) -> None:
    assert perfkit_in_process("techniques", "--docs", str(tmp_path / "pages")).returncode == 0
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {path.name for path in DOCS.iterdir()}
    assert perfkit_in_process("techniques", "amp", "--docs", str(tmp_path)).returncode == 2
