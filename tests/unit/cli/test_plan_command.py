"""What `perfkit plan` says, and what it refuses."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from perfkit.analysis.suite.prediction import read_plan
from perfkit.core.cache_folder import get_cache_folder
from perfkit.store.layout import SUITE_FILE
from perfkit.workloads.gpt import SIZES
from perfkit_cli.main import commands
from tests.fixtures.shared_rehearsals import share_rehearsals

pytestmark = pytest.mark.slow  # real steps


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """A model of one block in the place of nano, rehearsed once for each request: it is counted elsewhere."""
    with (
        patch.dict(SIZES, nano=replace(SIZES["nano"], layers=1)),
        patch("perfkit.plan.variants.plan.rehearse_step", share_rehearsals()),
    ):
        yield


RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded"
SMALL = ["plan", "-w", "gpt:size=nano:seq_len=16"]


def test_a_plan_is_shown_and_kept(tmp_path: Path) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "accum", "--out", str(tmp_path / "plan")])
    assert ended.exit_code == 0, ended.output
    assert re.search(r"^ baseline +\d.* MiB", ended.stdout, re.MULTILINE)
    assert f"report: {tmp_path}/plan/report.html" in ended.stdout
    plan = read_plan(tmp_path / "plan")
    assert (plan.workload.label, plan.dtype, plan.accumulation) == ("gpt:size=nano:seq_len=16", "fp32", 1)
    baseline, accum = plan.variants
    assert baseline.memory is not None
    assert baseline.peak_allocated_bytes is not None
    assert baseline.memory.peak_bytes == baseline.peak_allocated_bytes.value
    assert accum.name == "accum"
    assert baseline.step_s is not None or baseline.step_reason


def test_nothing_is_kept_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "baseline", "--no-report"])
    assert ended.exit_code == 0, ended.output
    assert "report:" not in ended.stdout
    assert not list(tmp_path.iterdir())


def test_what_cannot_act_is_not_known_with_the_reason() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "tf32", "--json"])
    (tf32,) = json.loads(ended.stdout)["variants"]
    assert tf32["peak_allocated_bytes"] is None
    assert "TF32" in tf32["reason"]


@pytest.mark.nightly
def test_what_is_planned_otherwise_than_it_runs_is_said_once() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "compile,amp+compile", "--no-report"])
    said = " ".join(ended.stdout.split())  # lines are broken where the terminal ends
    assert "- compile, amp+compile: compile: " in said
    assert said.count("without its kernels") == 1


@pytest.mark.parametrize(("technique", "message"), [("batch:auto", "batch:auto"), ("apm", "amp")])
def test_requests_that_are_wrong(technique: str, message: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", technique])
    assert ended.exit_code == 2
    assert message in ended.output


def test_several_numbers_of_ranks_are_planned_one_after_the_other() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "tf32", "--world-size", "2,4,2", "--json"])
    assert ended.exit_code == 0, ended.output
    found = [(each["name"], each["world_size"]) for each in json.loads(ended.stdout)["variants"]]
    assert found == [("baseline@2", 2), ("tf32@2", 2), ("baseline@4", 4), ("tf32@4", 4)]


@pytest.mark.parametrize("sizes", ["0", "two", "1,,2"])
def test_numbers_of_ranks_that_are_none(sizes: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "--world-size", sizes])
    assert ended.exit_code == 2
    assert "--world-size" in ended.output


def test_a_suite_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / SUITE_FILE).write_text("{}")
    ended = CliRunner().invoke(commands, [*SMALL, "--out", str(tmp_path)])
    assert ended.exit_code == 2
    assert f"--into {tmp_path}" in ended.output


def test_what_a_suite_was_asked_for_is_not_asked_again(tmp_path: Path) -> None:
    ended = CliRunner().invoke(commands, ["plan", "--into", str(tmp_path), "-t", "amp", "--json"])
    assert ended.exit_code == 2
    assert "omit --technique" in ended.output


def test_what_is_learned_is_said_and_kept_and_what_tells_nothing_is_named() -> None:
    names = ("mi250_toy_train.json.gz", "changed_programs/half_the_layers.before.json.gz")
    traces = [str(RECORDED / name) for name in names]
    ended = CliRunner().invoke(commands, ["plan", "--learn", *traces, "--gpu", "mi250"])
    assert ended.exit_code == 0, ended.output
    assert re.search(r"MI250 +mi250_toy_train +\d+ +\d+ +x1\.\d\d", ended.stdout, re.MULTILINE)
    assert f"left out: {traces[1]}" in ended.stderr.replace("\n", "")
    (kept,) = (get_cache_folder() / "efficiencies").iterdir()
    assert str(kept) in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learn"], "--learn runs/"),
        (["runs/gpt"], "--learn"),
        (["--learn", "--technique", "amp", "runs/gpt"], "omit --technique"),
        (["--learn", "runs/", "--into", "runs/gpt"], "omit --into"),
        (["--learn", "runs/", "--memory", "1GiB"], "omit --memory"),
    ],
)
def test_learning_that_is_asked_for_wrongly(arguments: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, ["plan", *arguments])
    assert ended.exit_code == 2
    assert message in ended.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--margin", "5%"], "--max seq_len; omit --margin"),
        (["--search", "--memory", "1GiB", "--cap", "8"], "--max seq_len; omit --cap"),
        (["--network", "50GB", "--gpus-per-node", "4"], "omit --network, --gpus-per-node"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, *options])
    assert ended.exit_code == 2
    assert message in ended.output


def test_a_gpu_has_a_verdict_and_rows_of_what_no_tensor_is() -> None:
    asked = [*SMALL, "-t", "tf32,accum,flash:backend=flex", "--gpu", "h100-80g", "--no-report"]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 0, ended.output
    headline = " ".join(ended.stdout.split())
    assert re.search(r"1 x h100-sxm.*0\.9\d to 2\.\d of 80 GiB", headline)
    assert re.search("flash .*flex_attention", headline)


def test_a_plan_holds_the_ops_of_its_steps_and_what_it_can_be_told_by(tmp_path: Path) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "amp", "--gpu", "h100-80g", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    plan = read_plan(tmp_path)
    assert plan.ceilings is not None
    assert plan.ceilings.device_name.startswith("NVIDIA H100")
    baseline, amp = plan.variants
    assert baseline.step_s is not None
    step, *ops = baseline.ops
    assert (step.kind, step.seconds, step.flops) == ("step", baseline.step_s.total.value, baseline.flops)
    assert step.flops == pytest.approx(sum(op.flops or 0 for op in ops))
    assert [op.seconds for op in ops] == sorted((op.seconds for op in ops), reverse=True)
    assert {op.dtype for op in amp.ops if op.name == "aten::mm"} == {"bf16"}
    parameters = sum(size for name, size in baseline.facts.items() if name.startswith("parameter_bytes:"))
    assert baseline.peak_allocated_bytes is not None
    assert parameters == baseline.peak_allocated_bytes.categories["parameter"]
    assert (baseline.facts["sequence_length"], baseline.optimizers) == (16, ("AdamW",))
    assert (baseline.compute_dtype, amp.compute_dtype) == ("fp32", "bf16")


def test_nothing_of_a_gpu_that_is_known_is_left_out_of_the_json() -> None:
    asked = [*SMALL, "-t", "baseline", "--gpu", "rtx-4090", "--memory", "500MiB", "--json"]
    (baseline,) = json.loads(CliRunner().invoke(commands, asked).stdout)["variants"]
    assert baseline["fits"] is None
    assert baseline["verdict"]
    assert [row["name"] for row in baseline["within_allocator"]] == ["cuBLAS workspaces"]
    assert [row["name"] for row in baseline["outside_allocator"]] == ["reserved and free", "context and modules"]
    beyond = sum(row["bytes"]["high"] for row in baseline["outside_allocator"])
    assert baseline["outside_allocator_bytes"]["high"] == beyond
    assert baseline["needed_bytes"]["high"] == baseline["peak_allocated_bytes"]["high"] + beyond


def test_a_limit_on_a_cpu_is_judged_by_the_peak_alone() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "accum", "--memory", "1GiB", "--json"])
    plan = json.loads(ended.stdout)
    assert (plan["device"], plan["limit_bytes"]) == ("cpu", 2**30)
    assert [variant["fits"] for variant in plan["variants"]] == [True, True]
    baseline, _ = plan["variants"]
    assert baseline["outside_allocator_bytes"]["high"] == 0
    assert baseline["needed_bytes"]["value"] == baseline["peak_allocated_bytes"]["value"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpu", "rtx-4091"], "did you mean 'rtx-4090"),
        (["--gpu", "h100-80g", "--memory", "96GiB"], "h100-sxm has 80.0 GiB"),
        (["--memory", "lots"], "such as 0.9"),
    ],
)
def test_devices_that_are_wrong(options: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, *options])
    assert ended.exit_code == 2
    assert message in ended.output


def test_the_largest_batch_that_fits() -> None:
    ended = CliRunner().invoke(
        commands, [*SMALL, "-t", "ckpt", "--max", "batch_size", "--memory", "90%", "--cap", "4", "--json"]
    )
    assert ended.exit_code == 0, ended.output
    baseline, ckpt = json.loads(ended.stdout)["largest"]
    assert (baseline["variant"], ckpt["variant"]) == ("baseline", "ckpt")
    assert ckpt["size"] == 4
    assert [each["size"] for each in ckpt["sizes"]] == [2, 4]


def test_phases_beside_training_steps() -> None:
    asked = [*SMALL, "-t", "baseline", "--eval-batch-size", "3", "--eval-batches", "2", "--disk", "1GB", "--json"]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 0, ended.output
    (baseline,) = json.loads(ended.stdout)["variants"]
    phases = {each["phase"]: each for each in baseline["phases"]}
    assert [*phases] == ["first_step", "step", "evaluation", "evaluation_kept", "checkpoint_full"]
    assert all(each["needed"]["value"] > 0 for each in phases.values())
    assert phases["checkpoint_full"]["seconds"]["value"] > 0
    assert phases["step"]["needed"]["value"] == baseline["peak_allocated_bytes"]["value"]
    assert sum(phases["evaluation"]["categories"].values()) == phases["evaluation"]["needed"]["value"]
    most = max(each["needed"]["high"] for each in phases.values())
    assert phases[baseline["deciding_phase"]]["needed"]["high"] == most


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eval-batches", "2"], "--eval-batch-size"),
        (["--eval-batch-size", "2", "--eval-accumulation-steps", "2"], "--eval-batches"),
        (["--packing", "64"], "--packing needs --seq-lengths"),
        (["--seq-lengths", "16:0.5,64:0.5", "--packing", "32"], "rows of 32 tokens would cut sequences of 64"),
        (["--max", "seq_len", "--memory", "1GiB", "--eval-batch-size", "2"], "omit --eval-batch-size"),
    ],
)
def test_phases_and_packing_that_are_asked_for_wrongly(options: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, ["plan", "gpt:size=nano", *options])
    assert ended.exit_code == 2
    assert message in ended.output


def test_the_least_recomputation_that_fits() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "-t", "ckpt:fit=1GiB,ckpt:fit=1MiB", "--json"])
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)
    assert [variant["name"] for variant in told["variants"]] == ["baseline", "ckpt:fit=1MiB"]
    assert re.search(r"\bckpt\b.*\b1\.00 MiB", told["variants"][1]["reason"])
    assert [search["selected_variant"] for search in told["recomputations"]] == ["baseline", None]
    tried = [trial["variant"] for trial in told["recomputations"][1]["trials"]]
    assert tried == ["baseline", "ckpt:mode=selective", "ckpt"]


@pytest.mark.nightly
def test_what_fits_at_all() -> None:
    ended = CliRunner().invoke(commands, [*SMALL, "--search", "--memory", "1MiB"])
    assert ended.exit_code == 0, ended.output
    assert "combinations planned" in ended.stdout
    assert "none fits" in ended.stdout


@pytest.mark.parametrize("search", [["--max", "batch_size"], ["--search"]])
def test_a_search_needs_a_limit(search: list[str]) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, *search])
    assert ended.exit_code == 2
    assert "--memory 6GiB or --gpu" in ended.output


def test_the_workload_may_be_named_without_an_option() -> None:
    named = CliRunner().invoke(commands, ["plan", "gpt:size=nano:seq_len=16", "-t", "baseline", "--json"])
    (baseline,) = json.loads(named.stdout)["variants"]
    option = CliRunner().invoke(commands, [*SMALL, "-t", "baseline", "--json"])
    (same,) = json.loads(option.stdout)["variants"]
    assert baseline["peak_allocated_bytes"] == same["peak_allocated_bytes"]


@pytest.mark.parametrize(
    ("arguments", "id", "message"),
    [
        (["gpt:size=nano", "--workload", "resnet"], "usage.conflict", "omit --workload"),
        (["llama-3-80b"], "usage.unknown_workload", "llama-3-8b"),
    ],
)
def test_workloads_that_are_named_wrongly(arguments: list[str], id: str, message: str) -> None:
    ended = CliRunner().invoke(commands, ["plan", *arguments])
    assert (ended.exit_code, message in ended.output) == (2, True), ended.output
    assert id in ended.output


def test_gpus_are_compared_by_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.json").write_text('{"rtx-3080": 0.2, "l40s": "0.9EUR/h"}')
    asked = [*SMALL, "-t", "ckpt", "--gpu", "l40s,rtx-3080", "--tokens", "2B", "--json"]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 0, ended.output
    offers = json.loads(ended.stdout)["offers"]
    assert {(offer["device"], offer["count"], offer["variant"]) for offer in offers} == {
        ("l40s", 1, "ckpt"),
        ("rtx-3080", 1, "ckpt"),
    }
    costs = [offer["price"]["per_hour"] / 3600 / offer["units_per_s"] * 1e6 for offer in offers]
    assert costs == sorted(costs) == pytest.approx([offer["cost"] for offer in offers])
    assert all(0 < offer["mfu"] < 1 for offer in offers)


def test_numbers_of_gpus_are_searched_and_the_page_answers(tmp_path: Path) -> None:
    asked = [*SMALL, "-t", "zero3", "--gpu", "rtx-3080", "--gpus", "1..4", "--out", str(tmp_path)]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 0, ended.output
    assert [offer.count for offer in read_plan(tmp_path).offers if offer.fits] != []
    assert "perfkit bench -w gpt:size=nano:seq_len=16" in " ".join(ended.stdout.split())


def test_lengths_of_sequences_are_mixed() -> None:
    asked = ["plan", "gpt:size=nano", "-t", "baseline", "--gpu", "rtx-3080", "--json"]
    mixed, long = (
        json.loads(CliRunner().invoke(commands, [*asked, *lengths]).stdout)["variants"][0]
        for lengths in (["--seq-lengths", "16:0.5,32:0.5"], ["--seq-len", "32"])
    )
    assert mixed["units_per_step"] == 0.75 * long["units_per_step"]
    assert mixed["needed_bytes"] == long["needed_bytes"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--price", "l40s=1/h"], "omit --price"),
        (["--gpu", "l40s", "--gpus", "2", "--world-size", "2"], "omit --world-size"),
        (["--gpu", "l40s", "--tokens", "many"], "--tokens"),
        (["--gpu", "l40s", "--search", "--gpus", "2"], "omit --gpus"),
        (["--seq-lengths", "16:0.5,32:0.5"], "--seq-lengths"),
    ],
)
def test_rental_options_that_are_wrong(options: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, [*SMALL, *options])
    assert (ended.exit_code, message in ended.output) == (2, True), ended.output
