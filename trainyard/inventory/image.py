"""An image as it says itself: its config, and claims.json in it. From a layout, or from the engine; nothing is run."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from trainyard.errors import InputError, RunnerError
from trainyard.inventory.facts import ImageFacts, PythonEnvironment
from trainyard.inventory.host import nccl, telling
from trainyard.inventory.judge import Needs
from trainyard.inventory.parse import release
from trainyard.matrix.model import Requires
from trainyard.oci.document import Document, parse
from trainyard.oci.flatten import flatten
from trainyard.oci.layout import LayoutImage
from trainyard.platforms import Platform
from trainyard.runtime import CLAIMS

_MOST = 4 << 20
_OURS = ("dev.trainyard.", "org.opencontainers.image.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An image's facts, and what it asks of a host."""

    facts: ImageFacts
    needs: Needs


def layout_image(image: LayoutImage) -> Described:
    """The image in a layout, its layers read from the top until one has the claims; InputError if none has."""
    for layer in reversed(image.layers):
        tree = flatten(replace(image, layers=(layer,)), keep=lambda path: path == CLAIMS)
        if data := tree.contents.get(CLAIMS):
            return describe(data, parse(image.config, f"config {image.config_digest}"), digest=image.digest)
    raise _not_ours(image.digest)


def engine_image(client: Any, reference: str) -> Described:  # noqa: ANN401
    """The image that a Docker Engine knows by that name, looked at in a container that is never started.

    Errors: RunnerError when the engine has none of that name, InputError when it is not one of ours.
    """
    import requests
    from docker.errors import DockerException, ImageNotFound, NotFound

    try:
        inspected = client.api.inspect_image(reference)
        made = client.api.create_container(inspected["Id"], command=["true"], network_disabled=True)["Id"]
        try:
            chunks, _ = client.api.get_archive(made, f"/{CLAIMS}")
            data = _only_file(b"".join(_bounded(chunks)))
        finally:
            client.api.remove_container(made, force=True, v=True)
    except ImageNotFound:
        raise RunnerError(
            f"the engine has no image {reference!r}", hint="docker image ls, or the folder of an OCI layout"
        ) from None
    except NotFound:
        raise _not_ours(reference) from None
    except (DockerException, requests.RequestException) as error:
        raise RunnerError(f"the engine could not show {reference!r}: {error}", hint="docker info") from None
    config = {
        "os": inspected["Os"], "architecture": inspected["Architecture"], "config": inspected["Config"] or {}
    }  # fmt: skip
    return describe(data, Document(config, reference), digest=str(inspected["Id"]))


def describe(claims: bytes, config: Document, *, digest: str) -> Described:
    """Facts and needs from claims.json's bytes and an image config; InputError for claims that are not sound."""
    said = parse(claims, f"{CLAIMS} of {digest}")
    if said.fields.get("schema") != 1:
        raise InputError(f"{said.where} is not of schema 1", hint="use the trainyard that built the image")
    process = config.child("config").fields
    env = dict(item.partition("=")[::2] for item in _texts(process.get("Env")))
    labels = process.get("Labels")
    debs, wheels = _strings(said.fields.get("debs")), _strings(said.fields.get("wheels"))
    python = said.text("python")
    requires = {
        name: value for name, value in said.child("requires").fields.items() if name in Requires.model_fields
    }
    facts = ImageFacts(
        target=said.text("target"),
        platform=str(Platform.parse(f"{config.text('os')}/{config.text('architecture')}")),
        digest=digest,
        accelerator=said.text("accelerator"),
        toolkit=said.text("toolkit"),
        os=_debian(_strings(labels)),
        glibc=release(debs.get("libc6", "")),
        python=PythonEnvironment(
            whose="the image's",
            version=release(debs.get(f"python{python}", "")) or python,
            wheels=telling(wheels),
        ),
        nccl=nccl(env),
        labels={name: text for name, text in sorted(_strings(labels).items()) if name.startswith(_OURS)},
    )
    needs = Needs(
        target=facts.target,
        accelerator=facts.accelerator,
        platforms=(facts.platform,),
        python=python,
        requires=Requires.model_validate(requires),
    )
    return Described(facts=facts, needs=needs)


def _debian(labels: Mapping[str, str]) -> str:
    suite = labels.get("dev.trainyard.debian", "")
    return f"Debian {suite.partition(' ')[0]}" if suite else ""


def _only_file(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is not None:
                return stream.read(_MOST)
    return b""


def _bounded(chunks: Any) -> Any:  # noqa: ANN401
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > _MOST:
            raise InputError(f"{CLAIMS} is longer than {_MOST >> 20} MiB")
        yield chunk


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _strings(value: object) -> dict[str, str]:
    """The string values of an object, which may be missing."""
    fields = value.items() if isinstance(value, dict) else ()
    return {str(name): item for name, item in fields if isinstance(item, str)}


def _not_ours(name: str) -> InputError:
    return InputError(f"{name} is no image of trainyard: it has no /{CLAIMS}", hint="invoke list")
