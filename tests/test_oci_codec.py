"""Compression: pinned, independent of chunking, and undone by what engines use."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import subprocess
import zlib
from collections.abc import Iterator

import pytest

from tests.support.images import unzstd
from trainyard.digest import sha256_hex
from trainyard.errors import InputError, TrainyardError, UsageError
from trainyard.oci.codec import LAYER, Codec, codec, decompressed, require_zstd

NAMES = ["zstd", "gzip"]


def sample(size: int) -> bytes:
    """The same bytes on every host and Python: half of them entropy, with repeats near and far."""
    blocks = [hashlib.shake_256(bytes([number])).hexdigest(1 << 15).encode() for number in range(97)]
    return b"".join(blocks[number * number % 97] for number in range(size // (1 << 16) + 1))[:size]


def compress(data: bytes, using: Codec, *, step: int = 1 << 20) -> bytes:
    compressor = using.compressor()
    parts = [compressor.compress(data[start : start + step]) for start in range(0, len(data), step)]
    return b"".join([*parts, compressor.flush()])


def expand(data: bytes, using: Codec) -> bytes:
    return b"".join(decompressed(io.BytesIO(data), using.media_type))


def random_cuts(data: bytes) -> Iterator[bytes]:
    source = random.Random(11)
    start = 0
    while start < len(data):
        size = source.choice([0, 1, 100, 5_000, 300_000, 2_000_000])
        yield data[start : start + size]
        start += size


# Larger than three jobs of the compressor's, so that cuts fall within and between them.
DATA = sample(13_000_001)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_compressed_comes_back(name: str) -> None:
    assert expand(compress(DATA, codec(name)), codec(name)) == DATA


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [0, 1, 600_000, 5_000_000])
def test_the_bytes_do_not_depend_on_how_the_input_is_cut(name: str, size: int) -> None:
    data = DATA[:size]
    using = codec(name)
    compressor = using.compressor()
    cut = b"".join([*(compressor.compress(piece) for piece in random_cuts(data)), compressor.flush()])

    assert cut == compress(data, using) == compress(data, using, step=10_000_000)


def test_the_bytes_of_a_large_stream_do_not_depend_on_how_it_is_cut() -> None:
    compressor = codec("zstd").compressor()
    cut = b"".join([*(compressor.compress(piece) for piece in random_cuts(DATA)), compressor.flush()])

    assert cut == compress(DATA, codec("zstd"), step=len(DATA))


def test_zstd_bytes_are_frozen_for_the_pinned_library() -> None:
    """A change here changes the digest of every layer that was ever recorded."""
    blob = compress(DATA, codec("zstd"))

    assert sha256_hex(blob) == "9f42102c969ec5a321516ef0c445d0e6161d1bedfee8c459449da531c5195022"


def test_a_zstd_frame_holds_no_size_no_checksum_and_no_dictionary() -> None:
    """RFC 8878, 3.1.1.1.1: the frame header descriptor's bits for them are all zero."""
    blob = compress(DATA, codec("zstd"))

    assert blob[:4] == b"\x28\xb5\x2f\xfd"
    assert blob[4] == 0


def test_the_zstd_program_reads_our_frames() -> None:
    blob = compress(DATA, codec("zstd"))

    assert subprocess.run(["zstd", "-dc"], input=blob, capture_output=True, check=True).stdout == DATA


def test_gzip_has_a_header_that_names_no_host_and_no_time() -> None:
    assert compress(b"x", codec("gzip"))[:10] == bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255])


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_the_gzip_program_and_python_read_our_stream(size: int) -> None:
    blob = compress(DATA[:size], codec("gzip"))

    assert subprocess.run(["gzip", "-dc"], input=blob, capture_output=True, check=True).stdout == DATA[:size]
    assert gzip.decompress(blob) == DATA[:size]
    assert zlib.decompress(blob, wbits=31) == DATA[:size]


@pytest.mark.parametrize("name", NAMES)
def test_two_compressors_of_one_codec_do_not_share_state(name: str) -> None:
    using = codec(name)
    one, other = using.compressor(), using.compressor()
    first, second = one.compress(b"a" * 1000), other.compress(b"b" * 1000)

    assert expand(first + one.flush(), using) == b"a" * 1000
    assert expand(second + other.flush(), using) == b"b" * 1000


def test_media_types_are_ocis_own() -> None:
    assert [codec(name).media_type for name in NAMES] == [
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.oci.image.layer.v1.tar+gzip",
    ]


def test_the_parameters_name_all_that_is_pinned() -> None:
    assert dict(codec("zstd").parameters) == {
        "libzstd": "1.5.7",
        "compression_level": 3,
        "threads": 1,
        "job_size": 4 << 20,
        "write_checksum": 0,
        "write_content_size": 0,
        "write_dict_id": 0,
    }


def test_an_unknown_compression_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown compression 'lz4'"):
        codec("lz4")


@pytest.mark.parametrize(("version", "library"), [("0.24.0", (1, 5, 7)), ("0.25.0", (1, 5, 6))])
def test_another_zstd_is_refused_with_both_versions_named(version: str, library: tuple[int, ...]) -> None:
    dotted = ".".join(map(str, library))

    with pytest.raises(
        TrainyardError, match=f"zstandard {version} with libzstd {dotted} is installed"
    ) as caught:
        require_zstd(version, library)

    assert "zstandard==0.25.0" in caught.value.hint


def test_the_pinned_zstd_is_accepted() -> None:
    require_zstd("0.25.0", (1, 5, 7))


def test_an_uncompressed_layer_is_read_as_it_is() -> None:
    assert b"".join(decompressed(io.BytesIO(DATA), LAYER)) == DATA


def test_chunks_of_a_decompressed_stream_are_at_most_1_mib() -> None:
    blob = compress(bytes(50 << 20), codec("zstd"))

    assert max(len(chunk) for chunk in decompressed(io.BytesIO(blob), f"{LAYER}+zstd")) <= 1 << 20


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_stream_is_an_input_error(name: str) -> None:
    blob = bytearray(compress(DATA[:100_000], codec(name)))
    blob[2:4] = b"\xff\xff"

    with pytest.raises(InputError, match=f"damaged {name.removeprefix('g')}|damaged {name}"):
        expand(bytes(blob), codec(name))


def test_a_frame_that_asks_for_a_huge_window_is_refused() -> None:
    """A window of 1 GiB: RFC 8878, window descriptor exponent 20."""
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([20 << 3]) + b"\x01\x00\x00"

    with pytest.raises(InputError, match="damaged zstd stream"):
        expand(frame, codec("zstd"))


def test_a_media_type_that_is_not_ocis_is_refused() -> None:
    with pytest.raises(InputError, match=r"vnd\.docker"):
        list(decompressed(io.BytesIO(), "application/vnd.docker.image.rootfs.diff.tar.gzip"))


def test_the_oracle_agrees_with_our_reader() -> None:
    blob = compress(DATA, codec("zstd"))

    assert unzstd(blob) == expand(blob, codec("zstd"))
