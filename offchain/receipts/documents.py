"""Files of receipts, as endpoints give them and people keep them."""

from pathlib import Path
from typing import Any

from moot.offchain import bounded_json
from moot.offchain.errors import ReceiptError, UsageError
from moot.offchain.receipts.packed import PACKED_BYTES, SignedReceipt

MOST_BYTES = 1 << 24
"""The longest file: a receipt, and the numbers of some hundred thousand tokens."""


def read_receipt(path: Path) -> SignedReceipt:
    """Return the receipt of a file: JSON that has one, the text of a header, or packed bytes.

    Raises:
        UsageError: the file can't be read.
        ReceiptError: it has no receipt, or one that is not signed by whom it names.
    """
    content = _read(path)
    if len(content) == PACKED_BYTES:
        return SignedReceipt.unpack(content)
    if content.lstrip().startswith(b"{"):
        return _find_receipt(path, _parse(path, content))
    return SignedReceipt.decode(content.decode("ascii", "replace").strip())


def read_document(path: Path) -> tuple[SignedReceipt, dict[str, Any]]:
    """Return the receipt of a JSON file, and all that the file has.

    Raises:
        UsageError: the file can't be read.
        ReceiptError: it is no JSON, has no receipt, or one that is not signed by whom it names.
    """
    document = read_json(path)
    return _find_receipt(path, document), document


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise ReceiptError(f"{path} is longer than any receipt, {MOST_BYTES:,} bytes")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file, or raise UsageError or ReceiptError."""
    return _parse(path, _read(path))


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        document = bounded_json.decode(content)
    except ValueError as error:
        raise ReceiptError(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ReceiptError(f"{path} is no JSON object")
    return document


def _find_receipt(path: Path, document: dict[str, Any]) -> SignedReceipt:
    text = document.get("receipt")
    if not isinstance(text, str):
        raise ReceiptError(f"{path} has no `receipt`; give what /v1/receipts/ID answers")
    return SignedReceipt.decode(text)
