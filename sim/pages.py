"""HTML pages of one file each: styles, scripts and data are inside, and data cannot add markup."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATE, STYLE, SCRIPT = "page.html", "page.css", "page.js"
"""The files of a page's folder."""
SHARED = Path(__file__)
"""Beside it lie the style and the script that all pages have, of tables that one scrolls."""


def render(
    folder: Path,
    values: Mapping[str, Any],
    libraries: Sequence[str] = (),
    template: str = TEMPLATE,
) -> str:
    """Return a page.

    The template is given the style and the scripts as they are, and the digests by which the page's
    policy lets these run and no others. Every other text is escaped.

    Args:
        folder: where the page's template, style and script lie.
        values: what the template is about.
        libraries: scripts that come before the page's own.
        template: its file in the folder.
    """
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    styles = [SHARED.with_suffix(".css"), folder / STYLE]
    own = [folder / SCRIPT, SHARED.with_suffix(".js")]
    style = Markup("".join(it.read_text("utf-8") for it in styles))  # noqa: S704 - ours
    scripts = [Markup(it) for it in (*libraries, *(it.read_text("utf-8") for it in own))]  # noqa: S704 - ours
    return environment.get_template(template).render(
        **values,
        style=style,
        style_hash=hash_source(style),
        scripts=scripts,
        hashes=[hash_source(script) for script in scripts],
    )


def embed(value: Any) -> Markup:
    """Return a value as JSON that no HTML parser sees the end of."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - there is nothing left in it that HTML knows


def hash_source(source: str) -> str:
    """Return the digest by which a page's policy lets a script or a style be used."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
