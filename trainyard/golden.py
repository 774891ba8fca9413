"""The golden record: the digests that a plan must produce, reviewed in git like code. Pure.

`images/<target>/<os>-<arch>.json`. Two different things can differ: the inputs (a new lock: record again), or
the bytes made from the same inputs (a bug or a broken machine: never recorded over).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from trainyard.errors import ReproducibilityError
from trainyard.layers import FORMAT

NOT_REPRODUCIBLE_HINT = (
    "run `invoke verify` to see what differs, and read docs/troubleshooting.md#not-reproducible"
)


class OtherFormatError(ReproducibilityError):
    """A record of another format: nothing in it can be compared, only replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenLayer:
    """One layer: key (hex), diff id and digest (`sha256:<hex>`), compressed and content size in bytes."""

    key: str
    diff_id: str
    digest: str
    size: int
    content_size: int
    files: int
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRecord:
    """All that a build of one (target, platform) must produce with the default compression."""

    format: int
    target: str
    platform: str
    plan_key: str
    tag: str
    config_digest: str
    manifest_digest: str
    layers: tuple[GoldenLayer, ...]

    def to_json(self) -> str:
        """The record's text as committed."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, *, source: str) -> GoldenRecord:
        """A record from its text; ReproducibilityError when it cannot be read, OtherFormatError by its format."""
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise OtherFormatError(
                    f"{source} was recorded by format {document['format']}; this version makes format {FORMAT}",
                    hint="review what changed the format, then run `invoke build --record`",
                )
            layers = tuple(GoldenLayer(**layer) for layer in document.pop("layers"))
            return cls(**document, layers=layers)
        except (ValueError, TypeError, KeyError) as error:
            raise ReproducibilityError(
                f"{source} is not a golden record: {error}",
                hint="restore it from git: git checkout -- images/",
            ) from None

    def layer(self, key: str) -> GoldenLayer | None:
        """The recorded layer with that key, if any."""
        return next((layer for layer in self.layers if layer.key == key), None)


def compare(recorded: GoldenRecord, built: GoldenRecord, *, diff_ids_only: bool = False) -> None:
    """Raise ReproducibilityError unless `built` is what was recorded, naming the layer and what differs.

    With `diff_ids_only` (another compression) the compressed digests, config and manifest are not held.
    """
    refuse_other_bytes(recorded, built, diff_ids_only=diff_ids_only)
    name = f"{built.target} {built.platform}"
    if recorded.plan_key != built.plan_key:
        moved = _moved(recorded.layers, built.layers)
        raise ReproducibilityError(
            "\n  ".join([f"{name}: inputs moved since the golden record", *moved]),
            hint=f"if that is meant: `invoke build --target {built.target} --platform {built.platform} --record`",
        )
    if diff_ids_only:
        return
    for what, expected, actual in (
        ("config digest", recorded.config_digest, built.config_digest),
        ("manifest digest", recorded.manifest_digest, built.manifest_digest),
    ):
        if expected != actual:
            raise ReproducibilityError(
                f"{name}: NOT REPRODUCIBLE: {what} {actual}, recorded {expected}", hint=NOT_REPRODUCIBLE_HINT
            )


def refuse_other_bytes(recorded: GoldenRecord, built: GoldenRecord, *, diff_ids_only: bool = False) -> None:
    """Raise ReproducibilityError if a layer key that both have gave other bytes."""
    name = f"{built.target} {built.platform}"
    problems = []
    for layer in built.layers:
        expected = recorded.layer(layer.key)
        if expected is None:
            continue
        if expected.diff_id != layer.diff_id:
            problems.append(f"{layer.created_by}: diff id {layer.diff_id}, recorded {expected.diff_id}")
        elif not diff_ids_only and expected.digest != layer.digest:
            problems.append(
                f"{layer.created_by}: digest {layer.digest}, recorded {expected.digest} (same diff id)"
            )
    if problems:
        raise ReproducibilityError(
            "\n  ".join([f"{name}: NOT REPRODUCIBLE: {len(problems)} layers have other bytes", *problems]),
            hint=NOT_REPRODUCIBLE_HINT,
        )


def _moved(old: Sequence[GoldenLayer], new: Sequence[GoldenLayer]) -> list[str]:
    """Which layers came and went, one line each; empty when only the image config moved."""
    old_keys = {layer.key for layer in old}
    new_keys = {layer.key for layer in new}
    gone = [f"- {layer.created_by}" for layer in old if layer.key not in new_keys]
    came = [f"+ {layer.created_by}" for layer in new if layer.key not in old_keys]
    return [*gone, *came] or ["~ image config"]
