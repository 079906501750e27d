"""Shared parts of HTML pages: templates, style, scripts and plotly.js."""

import base64
import gzip
import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

_TEMPLATES = Path(__file__).parent.parent / "templates"

# Pages are self-contained: the policy forbids them to load or send anything.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

# gzip level: the highest saves less than 1 % more and takes twice as long.
_LEVEL = 5

# The charts' markers as characters, for labels outside charts.
SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "cross": "✚",
    "triangle-down": "▼",
    "pentagon": "⬟",
    "star": "★",
    "hexagon": "⬢",
}
# Style sheet classes of plotly's pattern characters.
PATTERNS = {
    "": "plain",
    "/": "rising",
    "\\": "falling",
    ".": "dots",
    "x": "cross",
    "-": "lines",
    "|": "bars",
    "+": "grid",
}


@cache
def get_templates() -> jinja2.Environment:
    """The templates; every value that is not Markup is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = _make_breakable
    environment.filters["stepped"] = _make_path_breakable
    environment.filters["unbroken"] = _keep_units_together
    environment.filters["rounded"] = _round_number
    return environment


def embed_json(text: str) -> Markup:
    """JSON that is safe inside a script element: no tag can begin or end in it, and its value is unchanged."""
    return Markup(
        text.replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def read_template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def read_script(name: str) -> str:
    """One of perfkit's scripts without indentation and comments; none has multi-line strings."""
    lines = (line.strip() for line in read_template(name).splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


@cache
def read_plotly() -> str:
    """plotly.js in its basic bundle, npm's `plotly.js-basic-dist-min`."""
    return read_template("vendor/plotly-basic.min.js")


def compress_data(data: bytes) -> str:
    """Compressed and base64-encoded for `unfold` of templates/unfold.js: a third of JSON, under half of a script."""
    return base64.b64encode(gzip.compress(data, _LEVEL, mtime=0)).decode()


@cache
def compress_plotly() -> str:
    """plotly.js with a readable copyright notice, the rest compressed."""
    script = read_plotly()
    notice = script[: script.index("*/") + 2]
    return f"{notice}\n{compress_data(script.encode())}"


def _make_breakable(name: str) -> Markup:
    """A variant's name with break opportunities after its separators."""
    return Markup(re.sub(r"([:+=])", r"\1<wbr>", str(escape(name))))


def _make_path_breakable(name: str) -> Markup:
    """A module's or op's name with break opportunities at its separators: `GPT_0/Block_3`, `aten::_flash_attention`."""
    return Markup(re.sub(r"(?<=\w)/(?=\w)|(?<=[a-z0-9])_(?=[a-z])", r"\g<0><wbr>", str(escape(name))))


def _round_number(value: object) -> object:
    """A float with nine digits: more would only make the page larger."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _keep_units_together(sentence: str) -> str:
    """A sentence with non-breaking spaces between numbers and units, and no break inside `3.1e-03`."""
    kept = re.sub(
        r"(?<=\d) (?=(?:%|ns|us|ms|s|min|GB/s|[kMGTP]?FLOPs?|[KMGT]iB)\b|%)|(?<=[≤>]) (?=\d)", "\u00a0", sentence
    )
    return re.sub(r"(?<=\de-)(?=\d)", "\u2060", kept)
