"""Pages and their assets: rendered once from templates, addressed by digest for browser caching."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import perfkit
from perfkit_reports.render.page import embed_json, get_templates, read_plotly, read_template

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
    """A file that pages load; its `address` changes with the content."""

    address: str
    media: str
    data: bytes


@cache
def load_assets() -> Mapping[str, Asset]:
    """Assets by name."""
    assets = {name.rpartition("/")[2]: (media, read_template(name).encode()) for name, media in _SOURCES.items()}
    assets["plotly.min.js"] = ("text/javascript; charset=utf-8", read_plotly().encode())
    return {
        name: Asset(f"/assets/{hashlib.sha256(data).hexdigest()[:16]}/{name}", media, data)
        for name, (media, data) in assets.items()
    }


def render_page(template: str, **content: object) -> bytes:
    """A page; all `content` that is not Markup is escaped."""
    template_file = get_templates().get_template(f"view/{template}")
    return template_file.render(assets=load_assets(), version=perfkit.__version__, **content).encode()


def encode_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def encode_for_script(value: object) -> str:
    """JSON that is safe within a script element."""
    return embed_json(encode_json(value).decode())
