"""What of a command line is recorded."""

import pytest

from perfkit.core.texts.redact import format_command, redact_arguments, redact_text

SECRET = "Zk3vQ9xLm2Rt7Wp5"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", SECRET],
        [f"--api_key={SECRET}"],
        ["--hub-token", SECRET],
        [f"--token={SECRET}"],
        ["--password", "12345"],
        ["-password", SECRET],
        ["--client-secret", SECRET],
        [f"trainer.logger.api_key={SECRET}"],
        [f"+wandb.key={SECRET}"],
        ["--wandb-key", SECRET],
        ["--auth", f"me:{SECRET}"],
        [f"HF_TOKEN={SECRET}"],
        [f"AWS_SECRET_ACCESS_KEY={SECRET}/ab+c"],
        [f"OPENAI_KEY={SECRET}"],
        [f"DB_PASS={SECRET}"],
        ["-H", f"Authorization: Bearer {SECRET}"],
        [f"--header=authorization: Basic {SECRET}=="],
        ["-H", f"X-Api-Key: {SECRET}"],
        [f"https://me:{SECRET}@host:8080/x"],
        [f"s3://bucket/x?X-Amz-Signature={SECRET}&X-Amz-Date=2024"],
        [f"https://blob/x?sp=r&sig={SECRET}"],
        ["sh", "-c", f"cd x; HF_TOKEN={SECRET} python train.py --lr 1e-3"],
        ["bash", "-c", f"python train.py --password '{SECRET} and more' --lr 1"],
        [f'--config={{"api_key": "{SECRET}"}}'],
        ["-w", f"mine.py:build:token={SECRET}"],
    ],
)
def test_a_secret_is_known_by_its_name(arguments: list[str]) -> None:
    shown = format_command(["train.py", *arguments, "--steps", "7"])
    assert not any(part in shown for part in (SECRET, "12345", "and more", "ab+c"))
    assert shown.startswith("train.py ")
    assert shown.endswith(" --steps 7")


@pytest.mark.parametrize(
    "key",
    [
        "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ",
        "hf_" + "a1b2c3d4e5f6",
        "sk-" + "proj-a1B2c3D4_e5F6-g7H8i9J0",
        "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "github_pat_" + "11ABCDEFG0abcdefghijklm_nopq",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "xoxb-" + "123456789012-abcdefghijkl",
        "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
        "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi",
        "nvapi-" + "a1B2c3D4e5F6g7H8i9J0",
    ],
)
def test_a_key_of_a_service_is_known_by_its_beginning(key: str) -> None:
    assert redact_arguments(["x.py", key, f"--name=run-{key}", f"https://{key}@host/x"]) == [
        "x.py",
        "REDACTED",
        "--name=run-REDACTED",
        "https://REDACTED@host/x",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tokenizer", "gpt2", "--max-tokens", "512", "--max_token=4096", "--use-auth-token", "True", "x.py"],
        ["--eos-token", "</s>", "--pad_token=[PAD]", "--num-key-value-heads", "8", "--key", "loss", "--sort-key=time"],
        ["--token", "$HF_TOKEN", "--secret-file", "/run/secrets/x", "--author", "me", "--passes", "trace"],
        ["https://host:8080/a@v1?size=3&page=2", "git@host:me/x.git", "s3://bucket/runs/x", "host1:29500"],
        ["-w", "mine.py:build:layers=2,token_dim=64", "-t", "ckpt,amp", "hf_tensor_parallel", "--keys=a,b"],
        ["task-1234567890abc", "runs/sk-learn", "disk-20240101-0001", "basic", "steps", "bearer", "model", "eyJson"],
        ["mine.py:get_token:batch=4", "--out", "Llama3_8B_Instruct_bf16_seq4096_batch8", "-p", "29500"],
    ],
)
def test_anything_else_stays(arguments: list[str]) -> None:
    assert redact_arguments(arguments) == arguments


def test_the_users_name_and_the_rest_of_an_address_stay() -> None:
    assert redact_text(f"postgres://me:{SECRET}@db:5432/runs") == "postgres://me:REDACTED@db:5432/runs"
    assert redact_text(f"https://host/x?token={SECRET}&size=3") == "https://host/x?token=REDACTED&size=3"


def test_a_private_key_is_removed_up_to_its_end() -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----"
    assert redact_text(f"{key} x") == "-----BEGIN RSA PRIVATE KEY-----REDACTED-----END RSA PRIVATE KEY----- x"
    assert SECRET not in redact_text(key[:60])
