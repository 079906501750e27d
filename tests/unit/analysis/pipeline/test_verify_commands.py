"""Commands that verify findings run as written."""

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.pipeline.verify_commands import (
    WHAT_IFS,
    add_claim_commands,
    format_undo_command,
    make_suite_undoer,
    make_suite_verifier,
)
from perfkit.analysis.replay.what_if import what_if
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit_cli.analyze import command
from tests.fixtures import sample_analysis
from tests.fixtures.suites import spec

EXAMPLE = Path(__file__).parents[4] / "examples" / "h100_qwen1.5_forward.json.gz"


def test_changes_are_of_known_findings_and_parse() -> None:
    assert WHAT_IFS.keys() <= {kind.id for subject in SUBJECTS for kind in subject.kinds}
    for change in WHAT_IFS.values():
        parse_what_if(change)


def test_a_simulated_finding_of_a_trace_is_verified_by_a_what_if() -> None:
    analysis = analyze_traces([EXAMPLE], jobs=1)
    findings = analysis.findings
    changes = {shlex.split(finding.verify)[4] for finding in findings if finding.verify}
    assert changes == {"fuse=elementwise", "graphs"}
    assert all(change.gain_s for change in what_if(analysis, *sorted(changes)))
    (fusion,) = (finding for finding in findings if finding.id == "fusion.elementwise")
    words = shlex.split(fusion.verify)
    assert words[:2] == ["perfkit", "analyze"]
    options = command.make_context("analyze", words[2:]).params
    assert (options["traces"], options["what_ifs"], options["as_json"]) == (
        (str(EXAMPLE),),
        ("fuse=elementwise",),
        True,
    )
    assert fusion.techniques == ("compile",)
    assert all(finding.gains for finding in findings if finding.gain_s is not None)
    assert not any(finding.verify for finding in findings if finding.severity == "note")


def test_a_suite_benches_what_answers_a_finding() -> None:
    variants = [variant for variant in sample_analysis.realistic().variants if variant.name in ("baseline", "amp")]
    commands = {"baseline": "perfkit bench -w gpt -t baseline", "amp": "perfkit bench -w gpt -t amp"}
    variants = [replace(variant, verify=commands[variant.name]) for variant in variants]
    verify = make_suite_verifier(variants, {"baseline": spec("baseline"), "amp": spec("amp")})
    finding = sample_analysis.realistic().findings[0]
    advised = replace(finding, variant="baseline", techniques=("compile",))
    assert shlex.split(verify(advised))[4:6] == ["-t", "compile"]
    assert shlex.split(verify(replace(advised, variant="amp")))[4:6] == ["-t", "amp+compile"]
    assert verify(replace(advised, variant="amp", techniques=("amp",))) == commands["amp"]
    assert verify(replace(advised, techniques=())) == ""
    assert verify(replace(advised, variant="elsewhere")) == ""


def test_what_is_on_is_undone_by_a_bench_without_it() -> None:
    variants = [replace(variant, verify="perfkit bench") for variant in sample_analysis.realistic().variants]
    specs = {variant.name: spec(variant.name) for variant in variants}
    undo = make_suite_undoer(variants, specs)
    finding = replace(sample_analysis.realistic().findings[0], variant="amp", techniques=("amp",))
    assert shlex.split(undo(finding))[4:6] == ["-t", "baseline"]
    assert undo(replace(finding, techniques=("compile",))) == undo(replace(finding, variant="baseline")) == ""
    amp = next(variant for variant in variants if variant.name == "amp")
    joined = replace(amp, techniques=("amp", "flash:window=64"))
    assert shlex.split(format_undo_command(joined, specs["amp"], ("amp",)))[4:6] == ["-t", "flash:window=64"]
    assert format_undo_command(replace(joined, verify=""), specs["amp"], ("amp",)) == ""
    claims = add_claim_commands(joined, specs["amp"]).claims
    assert claims
    assert {shlex.split(claim.undo)[5] for claim in claims if claim.technique == "amp"} == {"flash:window=64"}


@pytest.mark.parametrize("id", ["gemm.fp32", "fusion.norm", "memory.activations"])
def test_what_cannot_be_simulated_has_no_command(id: str) -> None:
    assert id not in WHAT_IFS
