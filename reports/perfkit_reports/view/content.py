"""The pages and what they load: rendered once from the templates, addressed by a digest so that browsers keep them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import perfkit
from perfkit_reports.render.page import embed, plotly_js, read_template, templates

_SOURCES = {
    "style.css": "text/css; charset=utf-8",
    "view/view.css": "text/css; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "view/frame.js": "text/javascript; charset=utf-8",
    "view/index.js": "text/javascript; charset=utf-8",
    "view/live.js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True)
class Asset:
    """What a page loads: `address` changes with the content."""

    address: str
    media: str
    data: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """By name."""
    found = {name.rpartition("/")[2]: (media, read_template(name).encode()) for name, media in _SOURCES.items()}
    found["plotly.min.js"] = ("text/javascript; charset=utf-8", plotly_js().encode())
    return {
        name: Asset(f"/assets/{hashlib.sha256(data).hexdigest()[:16]}/{name}", media, data)
        for name, (media, data) in found.items()
    }


def page(template: str, **content: object) -> bytes:
    """A page; everything in `content` that is not Markup is escaped."""
    made = templates().get_template(f"view/{template}")
    return made.render(assets=assets(), version=perfkit.__version__, **content).encode()


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def embedded(value: object) -> str:
    """JSON that is safe within a script element."""
    return embed(as_json(value).decode())
