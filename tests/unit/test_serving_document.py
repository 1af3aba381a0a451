"""The code of the page about serving runs as it is written."""

import re
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.serving_checkpoints import Stamps, serving

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The checkpoint is made and asked, and the answer's document is there."""
    monkeypatch.chdir(tmp_path)
    make, ask = BLOCKS
    names: dict[str, Any] = {"__name__": "document"}
    exec(compile(make, str(DOCUMENT), "exec"), names)  # noqa: S102 - our own document
    with serving(Path("checkpoint"), Stamps()) as (url, *_):
        here = ask.replace("http://127.0.0.1:8000", url).replace(
            'model="checkpoint"', 'model="tiny"'
        )
        exec(compile(here, str(DOCUMENT), "exec"), names)  # noqa: S102 - likewise
        found = requests.get(f"{url}/v1/receipts/{names['said'].id}", timeout=9)
        names["client"].close()
    assert found.json()["receipt"] == names["said"].receipt
