"""Settings of the documentation as a site: `make docs` builds it, without network."""

project = "Moot"
author = "the authors of Moot"
copyright = author  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["tools", "_build"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Moot"
html_show_sourcelink = False
