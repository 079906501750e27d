"""Each rule about memory on an account made for it: when it speaks, with which numbers, and when it keeps silent."""

import re
from typing import Any

import msgspec
import pytest

from perfkit.analysis.memory.findings.account_view import format_origin
from perfkit.analysis.memory.findings.remedies import LOGITS, REMEDIES, SCORES, is_technique_on
from perfkit.analysis.memory.non_allocator_memory import RESERVED_FREE
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import (
    Fragmentation,
    LiveBlock,
    MemoryAccount,
    MemoryGrowth,
    MemoryRow,
    MemoryShare,
)
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.core.allocations import FailedRequest
from perfkit.techniques.base.table import TECHNIQUES

MIB = 2**20
STATE = "memory.optimizer_state"
REST = "input"  # fills up the peak: no rule speaks of it


def account(mib: dict[str, int], *, peak: int = 1000, **more: Any) -> MemoryAccount:
    """An account of `peak` MiB with these categories, the rest being inputs."""
    named = {**mib, REST: peak - sum(mib.values())}
    shares = tuple(MemoryShare(category=name, bytes=size * MIB) for name, size in named.items() if size)
    return MemoryAccount(
        **{
            "peak_bytes": peak * MIB,
            "peak_phase": "backward",
            "source": "test",
            "categories": shares,
            "device": "cuda:0",
            **more,
        }
    )


def row(category: str, module: str, op: str, mib: int) -> MemoryRow:
    return MemoryRow(category=category, module=module, op=op, bytes=mib * MIB, blocks=1)


def only(found: tuple[Finding, ...]) -> Finding:
    (finding,) = found
    return finding


@pytest.mark.parametrize("category", ["activation", "temporary", "parameter"])
def test_inference_is_advised_nothing_that_serves_backward(category: str) -> None:
    training, inference, unknown = (
        collect_memory_findings(account({category: 700}), trains=trains)[0] for trains in (True, False, None)
    )
    for word in ("checkpoint", "accumulate", "save_on_cpu", "stochastically"):
        assert word not in inference.action
    assert training.action == unknown.action != inference.action
    assert ("torch.inference_mode()" in inference.action) == (category == "activation")


def test_nothing_is_said_of_what_nothing_would_lower() -> None:
    assert collect_memory_findings(account({})) == ()


@pytest.mark.parametrize(
    ("category", "name", "techniques"),
    [
        ("activation", "activations", ("ckpt", "amp", "offload:what=activations")),
        ("recomputed activation", "recomputed_activations", ()),
        ("optimizer state", "optimizer_state", ("zero1", "offload:what=optimizer", "optim:use=adamw8bit")),
        ("gradient", "gradients", ("zero2", "optim_in_backward")),
        ("parameter", "parameters", ("zero3", "offload:what=parameters", "bf16")),
        ("autocast weight copy", "autocast_copies", ("zero3:param_dtype=bf16", "bf16")),
        ("unsharded parameter", "unsharded_parameters", ("zero3",)),
        ("communication buffer", "communication_buffers", ()),
        ("temporary", "temporaries", ("compile",)),
    ],
)
def test_a_large_category_is_told_with_what_lowers_it(category: str, name: str, techniques: tuple[str, ...]) -> None:
    finding = only(collect_memory_findings(account({category: 400})))
    assert (finding.severity, finding.id) == ("gain", f"memory.{name}")
    assert finding.figures == {"bytes": 400 * MIB, "share": 0.4, "peak_bytes": 1000 * MIB}
    assert finding.gain_bytes == 400 * MIB
    assert "backward" in finding.evidence
    named = [each.partition(")")[0] for each in finding.action.split("--technique ")[1:]]
    assert named == list(techniques)
    assert collect_memory_findings(account({category: 90})) == ()


def test_what_layers_keep_in_inference_is_told_as_something_to_know_and_not_as_temporaries() -> None:
    rows = (
        row("retained output", "layers.0.k", "aten::addmm", 200),
        row("retained output", "layers.1.k", "aten::addmm", 200),
    )
    finding = only(collect_memory_findings(account({"retained output": 400}, rows=rows)))
    assert (finding.severity, finding.gain_bytes) == ("note", None)
    assert (finding.id, finding.figures) == ("memory.retained_outputs", {"bytes": 400 * MIB, "share": 0.4})
    assert "aten::addmm in layers.*.k 400 MiB" in finding.evidence
    assert "use_cache=False" in finding.action
    assert collect_memory_findings(account({"retained output": 90})) == ()


def test_the_op_and_the_modules_that_made_most_are_named_with_numbered_modules_as_one() -> None:
    rows = (
        row("activation", "blocks.0.mlp", "aten::gelu", 100),
        row("activation", "blocks.1.mlp", "aten::gelu", 100),
        row("activation", "head", "aten::mm", 50),
        row("parameter", "blocks.0", "aten::empty", 90),
    )
    finding = only(collect_memory_findings(account({"activation": 250, "parameter": 90}, rows=rows)))
    assert "aten::gelu in blocks.*.mlp 200 MiB, aten::mm in head 50.0 MiB" in finding.evidence
    assert "aten::empty" not in finding.evidence


def test_what_can_be_won_ends_where_the_rest_peaks() -> None:
    series = {"activation": (0, 400 * MIB, 0), "parameter": (90 * MIB,) * 3, REST: (510 * MIB, 510 * MIB, 760 * MIB)}
    made = account({"activation": 400, "parameter": 90}, timeline_s=(0.0, 1.0, 2.0), timeline_categories=series)
    finding = only(collect_memory_findings(made))
    assert finding.gain_bytes == 150 * MIB  # 1000 at the peak, 850 at the end
    assert "850 MiB" in finding.details[0]


def test_a_category_without_which_the_peak_is_nearly_the_same_is_not_told() -> None:
    series = {"activation": (400 * MIB, 0), REST: (600 * MIB, 960 * MIB)}
    made = account({"activation": 400}, timeline_s=(0.0, 1.0), timeline_categories=series)
    assert collect_memory_findings(made) == ()


def test_a_technique_that_is_on_is_not_advised() -> None:
    on = only(collect_memory_findings(account({"activation": 400}), techniques=("ckpt:mode=selective",)))
    assert "--technique ckpt" not in on.action
    assert "--technique amp" in on.action
    state = only(collect_memory_findings(account({"optimizer state": 400}), techniques=("zero3",)))
    assert "zero1" not in state.action
    assert "8 bits" in state.action


def test_what_came_of_a_technique_that_was_tried_is_told_instead() -> None:
    outcome = "tried as ckpt: 0.62x the peak memory"
    tried = {"ckpt": outcome}
    finding = only(collect_memory_findings(account({"activation": 400}), techniques=(), tried=tried))
    assert f"({outcome})" in finding.action
    assert "--technique ckpt" not in finding.action


def test_offloading_from_a_cpu_goes_to_disk() -> None:
    finding = only(collect_memory_findings(account({"activation": 400}, device="cpu"), techniques=()))
    assert "saved_tensors_hooks" in finding.action
    assert "save_on_cpu" not in finding.action
    assert "offload:what=activations:to=disk" in finding.action


def test_gradients_alive_in_forward_could_have_been_freed() -> None:
    early = only(collect_memory_findings(account({"gradient": 300}, peak_phase="forward")))
    late = only(collect_memory_findings(account({"gradient": 300}, peak_phase="backward")))
    assert "set_to_none=True" in early.action
    assert "set_to_none=True" not in late.action


def test_temporaries_of_the_update_are_the_optimizers() -> None:
    finding = only(collect_memory_findings(account({"temporary": 300}, peak_phase="optimizer")))
    assert "AdamW(fused=True)" in finding.action


@pytest.mark.parametrize(
    ("optimizers", "advice"),
    [({"Adadelta"}, "foreach=False"), ({"SGD"}, "fused=True"), ({"LBFGS"}, None)],
)
def test_temporaries_of_an_update_depend_on_the_optimizer(optimizers: set[str], advice: str | None) -> None:
    found = collect_memory_findings(account({"temporary": 300}, peak_phase="optimizer"), optimizers=optimizers)
    assert len(found) == (advice is not None)
    assert all(advice is not None and advice in finding.action for finding in found)
    assert ("AdamW" in str(found)) == (optimizers == {"SGD"})


def test_state_of_lbfgs_is_its_history() -> None:
    finding = only(collect_memory_findings(account({"optimizer state": 980}), optimizers=["LBFGS"]))
    assert "history_size" in finding.action
    assert not any(word in finding.action for word in ("8 bits", "Zero", "zero1"))


def test_eight_bits_are_for_adam() -> None:
    held = account({"optimizer state": 400})
    assert "8 bits" in only(collect_memory_findings(held, optimizers=["AdamW"])).action
    assert "8 bits" in only(collect_memory_findings(held)).action
    assert "8 bits" not in only(collect_memory_findings(held, optimizers=["SGD"])).action


def test_a_little_state_on_a_cpu_is_no_finding() -> None:
    assert collect_memory_findings(account({"optimizer state": 9}, peak=18, device="cpu")) == ()
    assert len(collect_memory_findings(account({"optimizer state": 9}, peak=18))) == 1
    assert len(collect_memory_findings(account({"optimizer state": 90}, peak=180, device="cpu"))) == 1


@pytest.mark.parametrize("category", ["gradient", "parameter", "activation"])
def test_nobody_deals_a_few_mib_of_a_host_out_over_ranks(category: str) -> None:
    assert collect_memory_findings(account({category: 9}, peak=18, device="cpu")) == ()
    assert len(collect_memory_findings(account({category: 9}, peak=18))) == 1
    assert len(collect_memory_findings(account({category: 90}, peak=180, device="cpu"))) == 1


def test_less_than_an_allocator_reserves_at_a_time_is_not_told_as_kept() -> None:
    assert collect_memory_findings(account({}, peak=5, fragmentation=held(9, 4, None))) == ()


def scores(op: str, mib: int, shape: str) -> LiveBlock:
    return LiveBlock(bytes=mib * MIB, category="temporary", name=op, op=op, module="blocks.0.attn", shape=shape)


def test_attention_scores_are_those_of_softmax_and_what_has_their_size() -> None:
    rows = (row("temporary", "blocks.0.attn", "aten::_softmax", 40), row("temporary", "head", "aten::_log_softmax", 9))
    largest = (
        scores("aten::_softmax", 40, "[8, 12, 1024, 1024]"),
        scores("aten::bmm", 20, "[96, 1024, 1024]"),  # the same numbers, before softmax
        scores("aten::bmm", 10, "[96, 1024, 64]"),
        scores("aten::convolution", 10, "[32, 64, 56, 56]"),
    )
    finding = only(collect_memory_findings(account({"temporary": 80}, rows=rows, largest_blocks=largest)))
    assert finding.id == "memory.attention_scores"
    assert finding.figures == {"bytes": 60 * MIB, "share": 0.06}
    assert finding.gain_bytes == 60 * MIB
    assert "aten::_softmax in blocks.*.attn 40.0 MiB, aten::bmm in blocks.*.attn 20.0 MiB" in finding.evidence
    assert "--technique flash" in finding.action
    small = account({"temporary": 45}, rows=rows, largest_blocks=largest[:1])
    assert collect_memory_findings(small) == ()


def test_maps_of_a_convolution_are_no_scores() -> None:
    rows = (row("activation", "layer1", "aten::convolution", 90),)
    largest = (LiveBlock(bytes=90 * MIB, category="activation", name="x", op="aten::relu", shape="[32, 64, 56, 56]"),)
    assert collect_memory_findings(account({"activation": 90}, rows=rows, largest_blocks=largest)) == ()


def test_logits_are_told_with_the_layer_that_made_them() -> None:
    rows = (row("activation", "", "aten::_log_softmax", 50), row("temporary", "", "aten::nll_loss_backward", 5))
    largest = (
        LiveBlock(bytes=50 * MIB, category="activation", name="x", op="aten::_log_softmax", shape="[8192, 50257]"),
        LiveBlock(
            bytes=25 * MIB, category="activation", name="x", op="aten::mm", module="head", shape="[8, 1024, 50257]"
        ),
    )
    finding = only(
        collect_memory_findings(account({"activation": 75, "temporary": 5}, rows=rows, largest_blocks=largest))
    )
    assert (finding.id, finding.figures["share"]) == ("memory.logits", 0.08)
    assert finding.gain_bytes == 80 * MIB
    assert "aten::mm in head 25.0 MiB" in finding.evidence
    assert "in chunks" in finding.action


def test_logits_are_left_out_of_the_category_they_are_in() -> None:
    rows = (row("activation", "", "aten::_log_softmax", 200), row("activation", "blocks.0", "aten::gelu", 150))
    first, second = collect_memory_findings(account({"activation": 350}, rows=rows))
    assert (first.id, first.gain_bytes) == ("memory.logits", 200 * MIB)
    assert (second.id, second.gain_bytes) == ("memory.activations", 150 * MIB)
    assert (first.figures["share"], second.figures["share"]) == (0.2, 0.15)
    assert "aten::gelu in blocks.* 150 MiB" in second.evidence
    assert "log_softmax" not in second.evidence


def held(reserved: int, free: int, largest: int | None) -> Fragmentation:
    return Fragmentation(
        reserved_bytes=reserved * MIB,
        allocated_bytes=(reserved - free) * MIB,
        free_bytes=free * MIB,
        largest_free_bytes=None if largest is None else largest * MIB,
    )


def test_free_memory_in_small_pieces_is_fragmentation() -> None:
    finding = only(collect_memory_findings(account({}, fragmentation=held(1200, 200, 50))))
    assert finding.id == "memory.fragmentation"
    assert finding.gain_bytes == 200 * MIB
    assert finding.figures == {"free_bytes": 200 * MIB, "reserved_bytes": 1200 * MIB, "largest_bytes": 50 * MIB}
    assert "expandable_segments:True" in finding.action
    elsewhere = only(collect_memory_findings(account({}, fragmentation=held(1200, 200, 50), device="xpu:0")))
    assert "cuda" not in elsewhere.action.lower()
    assert "expandable" not in elsewhere.action


@pytest.mark.parametrize("fragmentation", [held(1050, 50, 10), held(1200, 200, 150), held(1200, 200, None)])
def test_little_that_is_free_or_free_in_one_piece_is_not(fragmentation: Fragmentation) -> None:
    assert collect_memory_findings(account({}, fragmentation=fragmentation)) == ()


@pytest.mark.parametrize(
    ("more", "piece"),
    [
        ({"fragmentation": held(2000, 1000, 900)}, "900 MiB"),
        ({"fragmentation": held(2000, 1000, None)}, ""),
        ({"outside_allocator": (MemoryShare(category=RESERVED_FREE, bytes=1000 * MIB),)}, ""),
    ],
)
def test_much_that_is_kept_and_not_used_is_a_note(more: dict[str, Any], piece: str) -> None:
    finding = only(collect_memory_findings(account({}, **more)))
    assert (finding.severity, finding.id) == ("note", "memory.unused_reserve")
    assert finding.figures == {"free_bytes": 1000 * MIB, "reserved_bytes": 2000 * MIB}
    assert re.findall(r"\b900 MiB", finding.evidence) == [piece] * bool(piece)


# As c10/cuda/CUDACachingAllocator.cpp writes it.
CUDA_MESSAGE = (
    "CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 36.00 MiB is "
    "free. Including non-PyTorch memory, this process has 79.10 GiB memory in use. Of the allocated memory 70.00 GiB "
    "is allocated by PyTorch, and {kept} is reserved by PyTorch but unallocated."
)


def failed(kept: str = "1.00 MiB", **more: Any) -> FailedRequest:
    return FailedRequest(**{"bytes": 100 * MIB, "message": CUDA_MESSAGE.format(kept=kept), **more})


def test_a_request_that_failed_tells_what_was_missing_and_what_to_attack() -> None:
    where = {"phase": "forward", "step": 2, "op": "aten::mm", "module": "blocks.3"}
    made = account({"activation": 95, "parameter": 50}, failed_request=failed(**where))
    finding = only(collect_memory_findings(made, variant="amp", techniques=("amp",)))
    assert finding.severity == "warning"
    assert (finding.id, finding.variant) == ("memory.request_failed", "amp")
    assert finding.figures == {"asked_bytes": 100 * MIB, "peak_bytes": 1000 * MIB}
    for place in ("aten::mm", "blocks.3", "forward of step 2"):
        assert place in finding.evidence
    assert "activation 9.5 %, parameter 5.0 %" in finding.evidence
    assert "activation first (95.0 MiB)" in finding.action
    assert "torch.utils.checkpoint" in finding.action
    assert "torch.autocast" not in finding.action
    (missing,) = finding.details
    assert "64.0 MiB" in missing
    assert "36.0 MiB" in missing


def test_nothing_is_said_to_be_missing_where_it_is_not_known() -> None:
    request = FailedRequest(bytes=None, message="can't allocate memory")
    finding = only(collect_memory_findings(account({"activation": 90}, failed_request=request)))
    assert (finding.id, finding.details) == ("memory.request_failed", ())
    assert finding.figures == {"peak_bytes": 1000 * MIB}


def test_a_request_larger_than_all_that_was_alive_is_looked_at_first() -> None:
    finding = only(collect_memory_findings(account({"activation": 90}, failed_request=failed(bytes=5000 * MIB))))
    usual = only(collect_memory_findings(account({"activation": 90}, failed_request=failed())))
    assert finding.figures["asked_bytes"] > finding.figures["peak_bytes"] > usual.figures["asked_bytes"]
    assert "shape" in finding.action
    assert "shape" not in usual.action


def test_a_request_that_fitted_the_free_total_failed_for_want_of_one_piece() -> None:
    out, pieces = collect_memory_findings(account({"activation": 90}, failed_request=failed(kept="2.00 GiB")))
    assert [out.id, pieces.id] == ["memory.request_failed", "memory.fragmented_request"]
    assert pieces.figures == {"asked_bytes": 100 * MIB, "free_bytes": 2048 * MIB}
    without_message = failed(message="")
    gaps = account({"activation": 90}, failed_request=without_message, fragmentation=held(1200, 110, 60))
    fragmented = collect_memory_findings(gaps)[1]
    assert (fragmented.id, fragmented.figures["free_bytes"]) == ("memory.fragmented_request", 110 * MIB)
    assert "60.0 MiB" in fragmented.evidence
    large = account({"activation": 90}, failed_request=without_message, fragmentation=held(1200, 110, 105))
    assert len(collect_memory_findings(large)) == 1


def test_what_each_step_leaves_behind_is_told_with_its_origins() -> None:
    leaks = tuple(
        MemoryGrowth(
            bytes_per_step=MIB,
            blocks_per_step=1.0,
            steps=5,
            category="activation",
            op="aten::relu",
            module=f"blocks.{number}",
            line="train.py:12 train",
        )
        for number in range(3)
    )
    finding = only(collect_memory_findings(account({}, growth=leaks)))
    assert (finding.severity, finding.id) == ("warning", "memory.growth")
    assert finding.figures == {"growth_bytes": 3 * MIB, "steps": 5}
    for part in ("3.00 MiB ", "activation", "aten::relu in blocks.*", "train.py:12"):
        assert part in finding.evidence
    assert "loss.item()" in finding.action
    other = tuple(msgspec.structs.replace(leak, category="input") for leak in leaks)
    assert "loss.item()" not in only(collect_memory_findings(account({}, growth=other))).action


def test_the_history_of_lbfgs_is_no_leak_but_what_else_grows_beside_it_is() -> None:
    history = MemoryGrowth(
        bytes_per_step=2 * MIB, blocks_per_step=8.0, steps=4, category="optimizer state", op="aten::sub"
    )
    leak = MemoryGrowth(bytes_per_step=MIB, blocks_per_step=1.0, steps=4, category="activation")
    told = only(collect_memory_findings(account({}, growth=(history,)), optimizers=frozenset({"LBFGS"})))
    assert (told.severity, told.id) == ("note", "memory.lbfgs_history")
    assert told.figures == {"growth_bytes": 2 * MIB}
    assert "history_size=10" in told.action
    both = collect_memory_findings(account({}, growth=(history, leak)), optimizers=frozenset({"LBFGS"}))
    assert [(each.id, each.figures["growth_bytes"]) for each in both] == [
        ("memory.growth", MIB),
        ("memory.lbfgs_history", 2 * MIB),
    ]
    adam = only(collect_memory_findings(account({}, growth=(history,)), optimizers=frozenset({"AdamW"})))
    assert (adam.id, adam.figures["growth_bytes"]) == ("memory.growth", 2 * MIB)


def test_what_has_no_category_is_a_note_above_one_percent() -> None:
    finding = only(collect_memory_findings(account({"unknown": 20}, rows=(row("unknown", "", "aten::sort", 20),))))
    assert (finding.severity, finding.id) == ("note", "memory.uncategorized")
    assert finding.figures == {"bytes": 20 * MIB, "share": 0.02}
    assert "aten::sort 20.0 MiB" in finding.evidence
    assert collect_memory_findings(account({"unknown": 10})) == ()


def test_warnings_come_first_then_gains_by_bytes_then_notes() -> None:
    leak = MemoryGrowth(bytes_per_step=MIB, blocks_per_step=1.0, steps=5, category="input")
    made = account({"parameter": 200, "activation": 300, "unknown": 100}, growth=(leak,))
    found = collect_memory_findings(made)
    assert [finding.severity for finding in found] == ["warning", "gain", "gain", "note"]
    assert [finding.gain_bytes for finding in found[1:3]] == [300 * MIB, 200 * MIB]


def test_techniques_are_told_apart_by_what_they_are_named_with() -> None:
    assert is_technique_on("offload:what=optimizer", ("amp", "offload:to=disk:what=optimizer"))
    assert not is_technique_on("offload:what=optimizer", ("offload",))
    assert is_technique_on("offload:what=activations", ("offload:to=disk",))
    assert not is_technique_on("zero2:offload=cpu", ("zero2",))
    assert not is_technique_on("", ("amp",))


def test_remedies_name_techniques_that_exist() -> None:
    names = {
        each.technique.partition(":")[0]
        for remedies in (*REMEDIES.values(), SCORES, LOGITS)
        for each in remedies
        if each.technique
    }
    assert names <= set(TECHNIQUES.list_names())


def test_only_counting_parts_of_a_modules_name_are_left_out() -> None:
    assert format_origin("aten::mm", "layer1.0.conv2") == "aten::mm in layer1.*.conv2"
    assert format_origin("aten::mm", "Gpt_0/Block_11/Linear_40") == "aten::mm in Gpt_*/Block_*/Linear_*"
    assert format_origin("", "fc_1", "a.py:1").split()[1::2] == ["fc_1", "a.py:1"]


def test_what_to_change_in_ones_own_loop_comes_before_what_would_try_it() -> None:
    held = account({"optimizer state": 900, "parameter": 100})
    action = only(
        [each for each in collect_memory_findings(held, techniques=(), own_loop=True) if each.id == STATE]
    ).action
    assert action.count("perfkit bench") == 1
    assert action.index("ZeroRedundancyOptimizer") < action.index("perfkit bench")
    on_cpu = msgspec.structs.replace(held, device="cpu")
    found = [each for each in collect_memory_findings(on_cpu, techniques=(), own_loop=True) if each.id == STATE]
    assert "disk" not in only(found).action  # which only a technique of perfkit's does


def test_little_that_is_named_does_not_explain_much_that_is_not() -> None:
    rows = (row("unknown", "", "aten::full", 2), row("unknown", "", "", 18))
    finding = only(collect_memory_findings(account({"unknown": 20}, rows=rows)))
    assert finding.id == "memory.uncategorized"
    assert "aten::full" not in finding.evidence
