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
SHARED = Path(__file__).parent
"""Here lie styles and scripts that several pages have."""
TABLES = "tables"
"""Those of tables that one scrolls, which all pages have."""
SCREEN = "screen"
"""The base of pages that a server may show: their look, and how they ask it for news."""


def render(
    folder: Path,
    values: Mapping[str, Any],
    libraries: Sequence[str] = (),
    base: str = "",
    template: str = TEMPLATE,
) -> str:
    """Return a page.

    The template is given the style and the scripts as they are, and the digests by which the page's
    policy lets these run and no others. Every other text is escaped.

    Args:
        folder: where the page's template, style and script lie.
        values: what the template is about.
        libraries: scripts that come before the page's own.
        base: the name of the shared style and script that come before them, if there are such.
        template: its file in the folder.
    """
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    below = [base] if base else []
    styles = [*(SHARED / f"{it}.css" for it in (*below, TABLES)), folder / STYLE]
    own = [*(SHARED / f"{it}.js" for it in below), folder / SCRIPT, SHARED / f"{TABLES}.js"]
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


def make_policy(style_hash: str, script_hashes: Sequence[str], *, is_live: bool = False) -> str:
    """Return a page's policy: its own style and scripts; of the network, its own server at most."""
    scripts = " ".join(f"'{digest}'" for digest in script_hashes)
    source = "'self'" if is_live else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src '{style_hash}'; script-src {scripts}; "
        f"connect-src {source}; base-uri 'none'; form-action 'none'"
    )


def hash_source(source: str) -> str:
    """Return the digest by which a page's policy lets a script or a style be used."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
