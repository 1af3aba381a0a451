"""Objects in a bucket of a server that speaks S3, whatever it is: its answers are a stranger's.

s3fs signs and asks, and finds endpoint and credentials as it does (the environment, AWS's files);
none of them is in an address. It reads whole answers into memory, however long they are: here the
answer is a stream, which is read as far as is wanted, no further, and no slower than a server of
HTTP may be (`web.py`).
"""

import errno
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from fsspec.asyn import sync

from moot.offchain.datastore.places import Elsewhere, Part, Stream, flatten
from moot.offchain.datastore.web import LEAST_BYTES_PER_S, PATIENCE_S, never
from moot.offchain.errors import NotInStore, StoreError, StoreUnavailable, WrongContent


class Bucket(Elsewhere):
    """A folder of objects in a bucket.

    Args:
        url: its address, `s3://bucket/folder`.
        patience_s: how long the server may keep us waiting.
        is_over: says whether it is given up by now, in the middle of an object, too.
    """

    def __init__(
        self, url: str, patience_s: float = PATIENCE_S, is_over: Callable[[], bool] = never
    ) -> None:
        config = {
            "connect_timeout": patience_s,
            "read_timeout": patience_s,
            "retries": {"total_max_attempts": 1},  # s3fs tries again, and so do we
        }
        super().__init__(url, config_kwargs=config)
        self.patience_s, self.is_over = patience_s, is_over

    def open(self, name: str, start: int = 0) -> Stream:
        """Open an object at a place."""
        bucket, key, _ = self._files.split_path(f"{self._root}/{name}")
        asked = {"Range": f"bytes={start}-"} if start else {}
        try:
            answer = self._files.call_s3("get_object", Bucket=bucket, Key=key, **asked)
        except FileNotFoundError as error:
            raise NotInStore(self.url, name, "there is none") from error
        except Exception as error:  # s3fs, botocore and aiohttp fail in many ways
            if start and isinstance(error, OSError) and error.errno == errno.EINVAL:
                problem = f"it ends before byte {start:,}"
                raise WrongContent(self.url, name, problem) from error
            raise StoreUnavailable(self.url, name, flatten(error)) from error
        if "ContentLength" not in answer:
            raise WrongContent(self.url, name, "the server does not say how long it is")
        stream = _Body(self, name, answer)
        place = str(answer.get("ContentRange", ""))
        if start and not place.startswith(f"bytes {start}-"):
            stream.close()
            problem = f"the server sends {place!r:.60}, not from {start:,} on"
            raise WrongContent(self.url, name, problem)
        return stream

    def put(self, name: str, parts: Iterable[Part]) -> None:
        """Keep an object, which appears when all of it has been sent."""
        try:
            file = self._files.open(f"{self._root}/{name}", "wb", autocommit=False)
            try:
                for part in parts:
                    file.write(part)
                file.close()
                file.commit()
            except BaseException:
                file.discard()
                file.closed = True  # or its end would send it once more
                raise
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(
                f"cannot write {name} at {self.url}: {flatten(error)}; make the bucket, "
                "and make it writable"
            ) from error

    def get_size(self, name: str) -> int | None:
        """Return an object's size in bytes, None when there is none."""
        bucket, key, _ = self._files.split_path(f"{self._root}/{name}")
        try:
            return int(self._files.call_s3("head_object", Bucket=bucket, Key=key)["ContentLength"])
        except FileNotFoundError:
            return None
        except Exception as error:
            raise StoreUnavailable(self.url, name, flatten(error)) from error

    def wait(self, function: Callable[..., Any], *args: object) -> Any:
        """Return what comes of a function of the client's loop, within the time of patience."""
        return sync(self._files.loop, function, *args, timeout=self.patience_s)


class _Body:
    """The bytes of an answer."""

    def __init__(self, bucket: Bucket, name: str, answer: Any) -> None:
        self._bucket, self._name, self._body = bucket, name, answer["Body"]
        self._began, self._count = time.monotonic(), 0
        self.left = int(answer["ContentLength"])

    def read_into(self, view: memoryview) -> int:
        """Fill some of a view; return how many bytes, 0 at the end."""
        if not self.left:
            return 0
        url, name = self._bucket.url, self._name
        if self._bucket.is_over():
            raise StoreUnavailable(url, name, "it was given up")
        try:
            data = self._bucket.wait(self._body.read, min(len(view), self.left))
        except Exception as error:
            raise StoreUnavailable(url, name, flatten(error)) from error
        view[: len(data)] = data
        self.left -= len(data)
        self._count += len(data)
        if not data:
            problem = f"the server stops {self.left:,} bytes before the end"
            raise StoreUnavailable(url, name, problem)
        waited_s = time.monotonic() - self._began
        if waited_s > self._bucket.patience_s + self._count / LEAST_BYTES_PER_S:
            problem = f"the server sends fewer than {LEAST_BYTES_PER_S:,} bytes a second"
            raise StoreUnavailable(url, name, problem)
        return len(data)

    def close(self) -> None:
        """End it; in the middle, if that is so."""
        with suppress(Exception):  # what is given up may fail as it likes
            self._bucket.wait(_close, self._body)


async def _close(body: Any) -> None:
    body.close()
