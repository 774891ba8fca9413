"""Inflating: the same bytes from either library, bounded chunks, and no half streams."""

from __future__ import annotations

import random
import zlib

import pytest
from isal import isal_zlib

from trainyard.digest import CHUNK
from trainyard.wheels import inflate as module
from trainyard.wheels.inflate import CorruptStreamError, inflate

ENGINES = pytest.mark.parametrize("engine", [zlib, isal_zlib], ids=["zlib", "isal"])


def deflate(data: bytes, level: int = 6) -> bytes:
    compressor = zlib.compressobj(level, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def sample(size: int) -> bytes:
    """Neither all random nor all alike."""
    words = [random.Random(seed).randbytes(9) for seed in range(200)]
    chooser = random.Random(1)
    return b"".join(chooser.choice(words) for _ in range(size // 9 + 1))[:size]


@ENGINES
@pytest.mark.parametrize("size", [0, 1, 70_000, CHUNK, CHUNK + 1, 3 * CHUNK + 12345])
@pytest.mark.parametrize("step", [1 << 12, CHUNK])
def test_content_comes_back_whole_in_bounded_chunks(
    engine: object, size: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "decompressobj", engine.decompressobj)  # type: ignore[attr-defined]
    data = sample(size)

    chunks = list(inflate(pieces(deflate(data), step)))

    assert b"".join(chunks) == data
    assert all(0 < len(chunk) <= CHUNK for chunk in chunks)


@ENGINES
def test_a_bomb_comes_out_one_chunk_at_a_time(engine: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MiB of zeros in 64 KiB: the first chunk is all that is ever in memory."""
    monkeypatch.setattr(module, "decompressobj", engine.decompressobj)  # type: ignore[attr-defined]
    bomb = deflate(bytes(64 << 20), level=9)
    assert len(bomb) < 80_000

    assert len(next(inflate([bomb]))) <= CHUNK


@ENGINES
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda good: good[:-5], "ends too early"),
        (lambda good: good + b"more", "more compressed data"),
        (lambda _: b"\xff" * 100, "invalid block type|Invalid deflate block"),
        (lambda _: b"", "ends too early"),
    ],
    ids=["cut", "longer", "garbage", "empty"],
)
def test_anything_but_one_whole_stream_is_refused(
    engine: object, damage: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "decompressobj", engine.decompressobj)  # type: ignore[attr-defined]
    assert callable(damage)

    with pytest.raises(CorruptStreamError, match=reason):
        list(inflate([damage(deflate(sample(50_000)))]))
