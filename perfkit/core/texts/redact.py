"""Removes what looks like a secret from command lines and addresses before they are recorded.

Reports are shared on purpose, and a command line holds what its user typed: `--api-key`, `HF_TOKEN=...`, an address
with a password. A secret is known by the name before it, or by how keys of well-known services begin.
"""

import re
import shlex
from collections.abc import Iterable

REDACTED = "REDACTED"

# How names of secrets end. `key` alone is too common: of sorting, of caches, of attention.
_ENDS = (
    r"(?:passw(?:or)?d|passphrase|sshpass|secret|credential|token|authorization|[-_.](?:pass|pwd|auth|pat)"
    r"|(?:api|access|private|secret|auth|account|storage|master|signing|encryption|license|service)[-_.]?key)s?"
)
_OWN_KEY = r"(?-i:[A-Z0-9]_KEY)"  # a variable of the environment
_NAME = re.compile(rf".*(?:{_ENDS}|{_OWN_KEY})|--?(?:auth|pass)", re.IGNORECASE)
_ANY_KEY = re.compile(r".*key", re.IGNORECASE)
_LONG_VALUE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+/=-]{16,}")
# What stands behind such a name and is none: `--use-auth-token True`, `--eos-token '</s>'`, `--max-token 512`.
_HARMLESS = re.compile(r"true|false|yes|no|none|null|auto|<.*>|\[.*\]|\$\w+|\$\{\w+\}|", re.IGNORECASE)
_COUNT = re.compile(r"\d{1,6}")
_RANDOM = r"(?:(?=[\w-]*\d)[\w-]{10,}|[\w-]{20,})"
_KEYS = re.compile(
    r"\bhf_(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{10,}|[A-Za-z]{14,})"
    r"|\b(?:sk-|[sr]k_(?:live|test)_|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|npm_|pypi-|nvapi-|gsk_|AIza|ya29\.)"
    rf"{_RANDOM}|\b(?:AKIA|ASIA)[A-Z0-9]{{12,}}|\beyJ[\w-]{{8,}}(?:\.[\w-]*)*"
)
# The text that stays, and what follows it.
_PATTERNS = tuple(
    re.compile(before + secret, re.IGNORECASE | re.DOTALL)
    for before, secret in (
        (r"(?P<kept>-----BEGIN [A-Z ]*PRIVATE KEY-----)", r".*?(?=-----END|\Z)"),
        (r"(?P<kept>:/{1,2}[^/\s@:]*:)", r"[^/\s@]*(?=@)"),  # the password of an address, also as a Path
        (rf"(?P<kept>[?&][\w.-]*(?:{_ENDS}|key|sig|signature)=)", r"[^&\s#\"']+"),  # a signed address
        (
            r"(?P<kept>\b(?:authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?"
            r"|(?:bearer|basic)\s+(?=\S{8})))",
            r"[^\s\"',;]+",
        ),
        (rf"(?P<kept>(?<![^\s\"'])[\w-]*(?:{_ENDS}|cookie)\s*:)", r"[^\"'\n]+"),  # a header
        (rf"(?P<kept>[\"'][\w.-]*(?:{_ENDS})[\"']\s*:\s*)", r"(?:\"[^\"]*\"|'[^']*')"),  # JSON
    )
)
# Within a longer text, such as a script of `sh -c`.
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![^\s\"'])--?[\w.-]*?{_ENDS}\s+(?!-)|(?:{_ENDS}|{_OWN_KEY})=)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
    re.IGNORECASE,
)


def redact_text(text: str) -> str:
    """`text` with `REDACTED` in place of each secret: an address, or a command as one text."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<kept>{REDACTED}", text)
    return _ASSIGNED.sub(_redact_assigned, _KEYS.sub(REDACTED, text))


def redact_arguments(arguments: Iterable[str]) -> list[str]:
    """The arguments of a command with `REDACTED` in place of each secret."""
    shown: list[str] = []
    option = ""  # the argument before, if it may have a value
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if option and not argument.startswith("--") and _is_secret(option, argument):
            shown.append(REDACTED)
        elif equals and _is_secret(name, value):
            shown.append(f"{name}={REDACTED}")
        else:
            shown.append(redact_text(argument))
        option = argument if argument.startswith("-") and not equals else ""
    return shown


def format_command(arguments: Iterable[str]) -> str:
    """A command line as a shell reads it, without its secrets."""
    return shlex.join(redact_arguments(arguments))


def _redact_assigned(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    return f"{name}{REDACTED}" if _is_secret(name.rstrip(" \t\n="), value.strip("\"'")) else match[0]


def _is_secret(name: str, value: str) -> bool:
    """True if a value with this name is not to be shown."""
    if _HARMLESS.fullmatch(value):
        return False
    if _NAME.fullmatch(name):
        return not (_COUNT.fullmatch(value) and name.lower().rstrip("s").endswith("token"))
    return bool(_ANY_KEY.fullmatch(name) and _LONG_VALUE.fullmatch(value))
