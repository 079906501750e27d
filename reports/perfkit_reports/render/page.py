"""The parts that every HTML page shares: its templates, and the style, the script and plotly.js that lie inside it."""

import base64
import gzip
import re
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

_TEMPLATES = Path(__file__).parent.parent / "templates"

# A page holds its scripts and needs nothing from anywhere: the browser is told to let it load and send nothing.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)

# Of gzip: the highest makes scripts smaller by less than a hundredth and takes twice as long.
_LEVEL = 5

# The figures' markers as characters, for labels outside them.
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
# plotly's pattern characters as names of the style sheet's classes.
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
    """Everything that a template is given and that is not Markup is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = _make_breakable
    made.filters["stepped"] = _make_path_breakable
    made.filters["unbroken"] = _keep_units_together
    return made


def embed_json(text: str) -> Markup:
    """JSON made safe inside a script element: no tag can begin or end within it, and it stays the same JSON."""
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
    """A script of ours without indentation and comments, none of which has a text of several lines."""
    lines = (line.strip() for line in read_template(name).splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//"))


@cache
def read_plotly() -> str:
    """plotly.js without what these figures do not draw: its basic bundle, of npm's `plotly.js-basic-dist-min`."""
    return read_template("vendor/plotly-basic.min.js")


def compress_data(data: bytes) -> str:
    """Compressed, in letters, for `unfold` of templates/unfold.js: a third of JSON, under half of a script."""
    return base64.b64encode(gzip.compress(data, _LEVEL, mtime=0)).decode()


@cache
def compress_plotly() -> str:
    """plotly.js with its notice of copyright to be read, the rest folded."""
    whole = read_plotly()
    notice = whole[: whole.index("*/") + 2]
    return f"{notice}\n{compress_data(whole.encode())}"


def _make_breakable(name: str) -> Markup:
    """A variant's name that may be broken after its separators."""
    return Markup(re.sub(r"([:+=])", r"\1<wbr>", str(escape(name))))


def _make_path_breakable(name: str) -> Markup:
    """A name of a module or an op, which may be broken at its steps: `GPT_0/Block_3/Linear_5`."""
    return Markup(re.sub(r"(?<=\w)/(?=\w)", "/<wbr>", str(escape(name))))


def _keep_units_together(sentence: str) -> str:
    """A sentence whose numbers stay on one line with their units."""
    return re.sub(r"(?<=\d) (?=(?:%|ns|us|ms|s|min|GB/s|[kMGTP]?FLOPs?|[KMGT]iB)\b|%)", "\u00a0", sentence)
