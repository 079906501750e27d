"""Techniques written into source: what is recognized, what is left to the user, and that layout and comments stay."""

from textwrap import dedent

import pytest

from perfkit.core.spec import parse_variants
from perfkit.tune.patch.patch_table import PATCH_RULES
from perfkit.tune.patch.write_patch import SourcePatch, write_patch

LOOP = dedent(
    """
    import torch
    from torch import optim

    def train(model, loader, optimizer):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            # forward
            output = model(x)  # logits
            loss = criterion(output, y)

            loss.backward()
            optimizer.step()

    model = Net()
    optimizer = optim.AdamW(
        model.parameters(),
        lr=1e-3,
    )
    """
)


def patch(source: str, variant: str, device: str = "cpu") -> SourcePatch:
    return write_patch("train.py", source, parse_variants(variant)[0], device)


def list_changes(made: SourcePatch) -> list[str]:
    """The changed lines of the diff, without its head."""
    return [line for line in made.diff.splitlines()[2:] if line[:1] in "+-"]


def test_each_technique_changes_only_its_lines() -> None:
    assert list_changes(patch(LOOP, "optim:use=fused")) == ["+    fused=True,"]
    assert list_changes(patch(LOOP, "compile:mode=max-autotune")) == ["+model.compile(mode='max-autotune')"]
    assert list_changes(patch(LOOP, "channels_last")) == ["+model.to(memory_format=torch.channels_last)"]
    assert list_changes(patch(LOOP, "tf32")) == ["+", '+torch.set_float32_matmul_precision("high")']
    assert list_changes(patch(LOOP, "amp", "cuda")) == [
        "-        output = model(x)  # logits",
        "-        loss = criterion(output, y)",
        '+        with torch.autocast("cuda", dtype=torch.bfloat16):',
        "+            output = model(x)  # logits",
        "+            loss = criterion(output, y)",
    ]


def test_several_techniques_are_one_patch() -> None:
    made = patch(LOOP, "amp+compile+optim:use=fused+ckpt")
    assert made.written == ("amp", "compile", "optim:use=fused")
    assert [each.technique for each in made.by_hand] == ["ckpt"]
    assert {"model.compile()", "    fused=True,"} <= set(made.source.splitlines())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.optim.SGD(model.parameters(), **given)", "torch.optim.SGD(model.parameters(), fused=True, **given)"),
        ("torch.optim.Adam(groups, foreach=False, lr=1.0)", "torch.optim.Adam(groups, lr=1.0, fused=True)"),
        ("torch.optim.AdamW(groups, fused=False)", "torch.optim.AdamW(groups, fused=True)"),
        ("torch.optim.RMSprop(model.parameters())", None),  # has no such implementation
        ("mine.AdamW(model.parameters())", None),
    ],
)  # fmt: skip
def test_the_optimizers_of_torch_that_have_it_become_fused(call: str, expected: str | None) -> None:
    made = patch(f"import torch\nimport mine\noptimizer = {call}\n", "optim:use=fused")
    assert made.source.splitlines()[2] == f"optimizer = {expected or call}"
    assert made.written == (("optim:use=fused",) if expected else ())


def test_another_name_of_an_optimizer_is_recognized() -> None:
    made = patch("from torch.optim import AdamW as Best\nopt = Best(model.parameters())\n", "optim:use=foreach")
    assert made.source.splitlines()[1] == "opt = Best(model.parameters(), foreach=True)"


@pytest.mark.parametrize(
    "backward",
    ["(loss / 4).backward()", "accelerator.backward(loss)", "if x: loss.backward()"],
)
def test_a_backward_pass_is_recognized_however_it_is_called(backward: str) -> None:
    made = patch(LOOP.replace("loss.backward()", backward), "amp")
    assert made.written == ("amp",)


def test_the_loss_of_a_workload_is_put_under_autocast() -> None:
    source = "import torch\nimport perfkit\nw = perfkit.Workload(loss=lambda model, batch: model(batch), name='w')\n"
    made = patch(source, "amp")
    assert made.source.splitlines()[2] == (
        'w = perfkit.Workload(loss=torch.autocast("cpu", dtype=torch.bfloat16)(lambda model, batch: model(batch)), '
        "name='w')"
    )
    assert patch(made.source, "amp").written == ()


@pytest.mark.parametrize(
    "source",
    [
        LOOP.replace("output = model(x)", "with torch.autocast('cpu'): output = model(x)"),
        LOOP.replace("output = model(x)", "output = model(x); optimizer.step()"),
        LOOP.replace("loss.backward()", "pass"),
        # A scaler shows that the program has lower precision already, wherever its autocast is.
        f"{LOOP.replace('loss.backward()', 'scaler.scale(loss).backward()')}scaler = torch.amp.GradScaler()\n",
        f"{LOOP}from torch.cuda.amp import GradScaler\nscaler = GradScaler(enabled=args.fp16)\n",
        LOOP.replace("model.train()", "pass").replace("model.parameters()", "parameters"),
        LOOP.replace("import torch\n", "import torch as t\n"),
        "trainer.train()\n",
        "",
    ],
)  # fmt: skip
def test_a_forward_pass_that_is_not_certain_is_left_to_the_user(source: str) -> None:
    made = patch(source, "amp")
    assert (made.diff, made.source, made.written) == ("", source, ())
    assert made.by_hand[0].text == PATCH_RULES["amp"].by_hand


def test_a_model_in_two_functions_is_two_models() -> None:
    two = "".join(
        f"def make_{name}():\n    model = Net()\n    return torch.optim.SGD(model.parameters()), "
        "torch.optim.SGD(model.parameters())\n"
        for name in "ab"
    )
    assert list_changes(patch(f"import torch\n{two}", "compile")) == ["+    model.compile()"] * 2


def test_a_model_within_a_lambda_has_no_place_for_a_statement() -> None:
    source = "import torch\nbuild = lambda model: torch.optim.SGD(model.parameters())\n"
    assert patch(source, "compile").written == ()
    assert patch(source, "optim:use=fused").written == ("optim:use=fused",)


def test_fp16_needs_a_scaler_that_is_not_written() -> None:
    assert patch(LOOP, "amp:dtype=fp16").written == ()


def test_a_file_without_a_last_newline_keeps_its_end() -> None:
    made = patch("import torch\nopt = torch.optim.SGD(p)", "optim:use=fused")
    assert made.diff.count("\\ No newline at end of file") == 2


def test_what_is_not_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        patch("print 'hello'\n", "amp")
