"""An image's layers as one root folder, kept in the store and used again by every later run."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trainyard.digest import CHUNK, canonical_json, sha256_hex
from trainyard.errors import InputError, SpaceError
from trainyard.oci.codec import opened
from trainyard.oci.layout import LayoutLayer
from trainyard.oci.runnable import RunnableImage
from trainyard.oci.untar import Attributes, LayerWriter, TarStream
from trainyard.store import Store

_FORMAT = 1
# What a layer of Debian or of wheels unpacks to, at most, per compressed byte; used if nobody knows better.
_RATIO = 4
_SPARE = 256 << 20
# Engines make these where an image has none.
_MOUNT_POINTS = {"dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "tmp": 0o1777}
_MOUNT_FILES = ("etc/hosts",)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedImage:
    """An image's files: `root` is its /, `stage` an empty folder beside it to mount on."""

    root: Path
    stage: Path
    owners: bool


def unpack_image(
    image: RunnableImage, store: Store, *, owners: bool, workers: int = 2, content_size: int | None = None
) -> UnpackedImage:
    """The root folder of `image`, made if it is not in the store yet.

    `owners` keeps the tar's owners and needs root; `content_size` is the sum of the files' bytes, if known.
    Memory stays small: a few MiB for each of `workers` threads. Errors: SpaceError before or while unpacking;
    InputError for a blob that is not what the manifest says or a member that is refused.
    """
    diff_ids = [layer.diff_id for layer in image.layers]
    key = f"image-{sha256_hex(canonical_json([_FORMAT, diff_ids, owners]))}"
    folder = store.tree(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent / f".{key}.lock"):
        if not _stands(folder):
            _require_space(folder.parent, image, content_size)
            _make(folder, image, owners=owners, workers=workers)
    return UnpackedImage(root=folder / "root", stage=folder / "stage", owners=owners)


def _make(folder: Path, image: RunnableImage, *, owners: bool, workers: int) -> None:
    """Unpack beside `folder`, then rename; what an earlier, killed run left behind goes first."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    for old in (temporary, folder):
        if old.exists():
            shutil.rmtree(old)
    # Setuid files of the image are below: nobody else on this machine may reach them.
    temporary.mkdir(mode=0o700)
    try:
        root = temporary / "root"
        root.mkdir()
        (temporary / "stage").mkdir()
        attributes = _apply_all(root, image.layers, owners=owners, workers=workers)
        _mount_points(root, attributes)
        _settle(root, attributes, owners=owners)
        marker = {"format": _FORMAT, "boot": _boot_id(), "digest": image.digest}
        (temporary / "complete.json").write_text(json.dumps(marker), "utf-8")
        temporary.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise SpaceError(
            f"the disk of {folder.parent} filled up while {image.digest} was unpacked",
            hint="make room with `invoke clean --dist --layers`, or set TRAINYARD_CACHE to a larger disk",
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _apply_all(
    root: Path, layers: tuple[LayoutLayer, ...], *, owners: bool, workers: int
) -> dict[str, Attributes]:
    """Every layer, several at a time; the first failure stops all. Directories as the last layer says."""
    stop = threading.Event()
    writers = [LayerWriter(root=root, owners=owners, stop=stop.is_set) for _ in layers]
    pairs = sorted(zip(layers, writers, strict=True), key=lambda pair: pair[0].size, reverse=True)
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="unpack") as pool:
        futures = [pool.submit(_apply, layer, writer) for layer, writer in pairs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return {path: attributes for writer in writers for path, attributes in writer.directories.items()}


def _apply(layer: LayoutLayer, writer: LayerWriter) -> None:
    """One layer, with both of its digests computed on the way."""
    tar = hashlib.sha256()
    try:
        if (size := layer.path.stat().st_size) != layer.size:
            raise InputError(f"it has {size} bytes, not {layer.size}")
        with layer.path.open("rb", buffering=0) as stream:
            blob = _Hashed(stream)
            with opened(blob, layer.media_type) as content:
                writer.apply(TarStream(content, tar.update))
            blob.drain()
    except InputError as error:
        raise InputError(f"layer {layer.digest}: {error.message}", hint=_REBUILD) from None
    except FileNotFoundError as error:
        raise InputError(f"layer {layer.digest}: {error}", hint=_REBUILD) from None
    if writer.stop():
        return
    for name, got, want in (
        ("digest", blob.hasher.hexdigest(), layer.digest),
        ("diff id", tar.hexdigest(), layer.diff_id),
    ):
        if f"sha256:{got}" != want:
            raise InputError(f"layer {layer.digest}: its {name} is sha256:{got}, not {want}", hint=_REBUILD)


_REBUILD = "invoke build writes the layout again"


@dataclass(slots=True)
class _Hashed:
    """A file that is hashed as it is read."""

    stream: BinaryIO
    hasher: hashlib._Hash = field(default_factory=hashlib.sha256)

    def read(self, size: int = CHUNK) -> bytes:
        data = self.stream.read(min(size, CHUNK) if size >= 0 else CHUNK)
        self.hasher.update(data)
        return data

    def drain(self) -> None:
        """What a decompressor left unread belongs to the digest too."""
        while self.read():
            pass


def _mount_points(root: Path, attributes: dict[str, Attributes]) -> None:
    for path, mode in _MOUNT_POINTS.items():
        where = root / path
        if where.is_symlink() or where.is_file():
            raise InputError(f"/{path} of the image is not a directory")
        if not where.exists():
            where.mkdir()
            attributes[path] = Attributes(mode=mode, uid=0, gid=0, mtime=0)
    for path in _MOUNT_FILES:
        where = root / path
        folder = where.parent
        if not where.is_symlink() and not where.exists() and not folder.is_symlink():
            folder.mkdir(exist_ok=True)
            where.touch(mode=0o644)


def _settle(root: Path, attributes: Mapping[str, Attributes], *, owners: bool) -> None:
    """Directories get their attributes last: a read-only one would stop its own content. Deepest first."""
    for path in sorted(attributes, reverse=True):
        where, wanted = root / path, attributes[path]
        if owners:
            os.chown(where, wanted.uid, wanted.gid, follow_symlinks=False)
        where.chmod(wanted.mode | (0 if owners else 0o700))
        os.utime(where, (wanted.mtime, wanted.mtime))
    if "" not in attributes:
        root.chmod(0o755)


def _require_space(folder: Path, image: RunnableImage, content_size: int | None) -> None:
    packed = sum(layer.size for layer in image.layers)
    needed = (packed * _RATIO if content_size is None else content_size * 21 // 20) + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SpaceError(
            f"unpacking the image takes {needed / 1e9:.1f} GB in {folder}, {free / 1e9:.1f} GB are free",
            hint="make room with `invoke clean --dist --layers`, or set TRAINYARD_CACHE to a larger disk",
        )


def _stands(folder: Path) -> bool:
    """Whether a finished tree is there. Files are not synced one by one, so none outlives a restart."""
    try:
        marker = json.loads((folder / "complete.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(marker, dict) and marker.get("format") == _FORMAT and marker.get("boot") == _boot_id()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One unpacking of an image at a time; the kernel drops the lock when we die."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
