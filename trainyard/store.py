"""The content-addressed store on disk: verified inputs, finished layer blobs, and what a layer key gave.

inputs/<sha256>      wheels and debs, verified when they arrived, read-only
blobs/<sha256>       compressed layers, read-only; dist/ links to them
layers/<key>.json    layer key -> LayerRecord
facts/<name>.json    what was read out of an input, by the input's hash
trees/<key>/         unpacked trees (the compile Python, the native runner's root folders)
tmp/                 being written; emptied by whoever holds the lock
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from trainyard.errors import TrainyardError
from trainyard.files import write_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRecord:
    """What a layer key gave: diff id and digest as `sha256:<hex>`, compressed and uncompressed size in bytes.

    `content_size` is the sum of the files' sizes, `files` their number; a record with no files is a layer that
    the image leaves out.
    """

    key: str
    diff_id: str
    digest: str
    size: int
    content_size: int
    files: int
    media_type: str


class Store:
    """The cache folder; every write is a temporary file and a rename, so a kill at any moment leaves it whole."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def input(self, sha256: str) -> Path:
        """Where the verified input of that hash lives, present or not."""
        return self.root / "inputs" / sha256

    def blob(self, sha256: str) -> Path:
        """Where the layer blob of that hash lives, present or not."""
        return self.root / "blobs" / sha256

    def tree(self, key: str) -> Path:
        """Where the unpacked tree of that key lives, present or not."""
        return self.root / "trees" / key

    def layer(self, key: str) -> LayerRecord | None:
        """The record of a layer whose blob is here too; None means it must be built."""
        try:
            record = LayerRecord(**json.loads((self.root / "layers" / f"{key}.json").read_bytes()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        try:
            whole = self.blob(record.digest.removeprefix("sha256:")).stat().st_size == record.size
        except FileNotFoundError:
            return None
        return record if whole else None

    def keep_layer(self, record: LayerRecord, blob: Path) -> None:
        """Move a finished, fsynced blob in and remember what its key gave; the record comes last."""
        target = self.blob(record.digest.removeprefix("sha256:"))
        target.parent.mkdir(parents=True, exist_ok=True)
        blob.chmod(0o444)
        blob.replace(target)
        data = json.dumps(asdict(record), indent=1, sort_keys=True).encode()
        write_atomic(self.root / "layers" / f"{record.key}.json", data)

    def facts(self, name: str, compute: Callable[[], object]) -> object:
        """JSON that is a pure function of `name`, computed once; `name` must hold the inputs' hashes."""
        path = self.root / "facts" / f"{name}.json"
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads(path.read_bytes())
        value = compute()
        write_atomic(path, json.dumps(value, sort_keys=True).encode())
        return value

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder on the store's own disk, gone afterwards."""
        parent = self.root / "tmp"
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the store against a second build; the kernel drops the lock when we die, however we die."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("a") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TrainyardError(
                    f"another trainyard is using the cache {self.root}",
                    hint="wait for it to end, or give this one its own folder: TRAINYARD_CACHE=DIR invoke ...",
                ) from None
            shutil.rmtree(self.root / "tmp", ignore_errors=True)
            yield
