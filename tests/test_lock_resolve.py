"""Requirements to exact wheels, by the real uv against an index on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.locks import AMD64, ARM64, target, wheel
from tests.support.web import Reply, Request, file_reply, serve
from tests.support.wheelindex import served_index
from tests.support.wheels import build_wheel, locked
from trainyard.errors import FetchError, LockError
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.freshness import stale_reasons
from trainyard.lock.model import LockedWheel, WheelLock, parse_wheel_lock
from trainyard.lock.resolve import resolve_wheels
from trainyard.matrix.load import load_matrix
from trainyard.matrix.model import Requires
from trainyard.paths import Project
from trainyard.platforms import Platform
from trainyard.settings import Settings, settings_from

PROJECT = Project(Path(__file__).parents[1])
MAC = Platform("darwin", "arm64")
EARLY, LATE = "2026-06-01T00:00:00Z", "2026-11-01T00:00:00Z"
UNTIL = "2026-12-01T00:00:00Z"


def settings(url: str, folder: Path, **variables: str) -> Settings:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    made = settings_from({**environ, "UV_DEFAULT_INDEX": url}, home=folder, cores=2)
    return replace(made, environ={**made.environ, **variables})


def resolve(
    wheels: Mapping[Path, str],
    folder: Path,
    *requirements: str,
    platform: Platform = AMD64,
    until: str = UNTIL,
    keep: tuple[LockedWheel, ...] = (),
    prefer: tuple[LockedWheel, ...] = (),
    python: str = "3.13",
    **variables: str,
) -> WheelLock:
    base = target().debian[1].model_copy(update={"python": python})
    wanted = target(requirements=requirements, base=base)
    with served_index(wheels) as url:
        return resolve_wheels(
            wanted,
            platform,
            until=until,
            settings=settings(url, folder, **variables),
            keep=keep,
            prefer=prefer,
        )


def names(lock: WheelLock) -> list[str]:
    return [one.filename for one in lock.wheels]


def early(*paths: Path) -> dict[Path, str]:
    return dict.fromkeys(paths, EARLY)


def test_each_package_is_locked_with_the_hash_and_size_of_its_file(tmp_path: Path) -> None:
    torch = build_wheel(tmp_path / "w", name="torch", version="2.15.0", requires=["numpy>=2"])
    numpy = build_wheel(tmp_path / "w", name="numpy", version="2.5")

    lock = resolve(early(torch, numpy), tmp_path, "torch==2.15.0")

    assert lock.wheels == (locked(numpy), locked(torch))
    assert (lock.target, lock.platform, lock.python, lock.until) == ("cuda13.2", AMD64, "3.13", UNTIL)


def test_the_lock_is_fresh_and_its_index_is_no_url(tmp_path: Path) -> None:
    wanted = target(requirements=("demo",))
    lock = resolve(early(build_wheel(tmp_path / "w")), tmp_path, "demo")

    assert lock.index == "default"
    assert lock.inputs == wheel_inputs(wanted, AMD64)
    assert stale_reasons(wanted, AMD64, lock) == ()


@pytest.mark.parametrize(
    ("platform", "chosen"),
    [
        (AMD64, "demo-1.0-cp313-cp313-manylinux_2_28_x86_64.whl"),
        (ARM64, "demo-1.0-cp310-abi3-manylinux_2_17_aarch64.whl"),
        (MAC, "demo-1.0-cp313-cp313-macosx_15_0_arm64.whl"),
    ],
)
def test_of_several_wheels_that_fit_the_one_that_pip_prefers_is_locked(
    tmp_path: Path, platform: Platform, chosen: str
) -> None:
    tags = [
        "py3-none-any",
        "cp310-abi3-manylinux_2_17_x86_64",
        "cp313-cp313-manylinux_2_17_x86_64",
        "cp313-cp313-manylinux_2_28_x86_64",
        "cp313-cp313-manylinux_2_99_x86_64",
        "cp311-cp311-manylinux_2_28_x86_64",
        "cp310-abi3-manylinux_2_17_aarch64",
        "cp313-cp313-macosx_14_0_arm64",
        "cp313-cp313-macosx_15_0_arm64",
        "cp313-cp313-macosx_26_0_arm64",
    ]
    wheels = early(*(build_wheel(tmp_path / "w", tag=tag) for tag in tags))

    assert names(resolve(wheels, tmp_path, "demo", platform=platform)) == [chosen]


def test_a_mac_target_that_needs_a_newer_macos_gets_newer_wheels(tmp_path: Path) -> None:
    tags = ("cp313-cp313-macosx_14_0_arm64", "cp313-cp313-macosx_26_0_arm64")
    wheels = early(*(build_wheel(tmp_path / "w", tag=tag) for tag in tags))
    wanted = target(requirements=("demo",), requires=Requires(macos=">=26"), accelerator="mps")

    with served_index(wheels) as url:
        lock = resolve_wheels(wanted, MAC, until=UNTIL, settings=settings(url, tmp_path))

    assert names(lock) == ["demo-1.0-cp313-cp313-macosx_26_0_arm64.whl"]


def test_markers_are_read_for_the_image_and_not_for_this_host(tmp_path: Path) -> None:
    requires = [
        "arm; platform_machine == 'aarch64'",
        "mac; sys_platform == 'darwin'",
        "old; python_version < '3.13'",
        "new; python_version >= '3.13'",
    ]
    demo = build_wheel(tmp_path / "w", requires=requires)
    others = (build_wheel(tmp_path / "w", name=name) for name in ("arm", "mac", "old", "new"))
    wheels = early(demo, *others)

    found = {
        platform: [one.name for one in resolve(wheels, tmp_path, "demo", platform=platform).wheels]
        for platform in (AMD64, ARM64, MAC)
    }

    assert found == {AMD64: ["demo", "new"], ARM64: ["arm", "demo", "new"], MAC: ["demo", "mac", "new"]}


def test_nothing_newer_than_the_cut_off_is_chosen(tmp_path: Path) -> None:
    wheels = {
        build_wheel(tmp_path / "w", version="1.0"): EARLY,
        build_wheel(tmp_path / "w", version="2.0"): LATE,
    }

    assert names(resolve(wheels, tmp_path, "demo", until="2026-10-01T00:00:00Z")) == [
        "demo-1.0-py3-none-any.whl"
    ]
    assert names(resolve(wheels, tmp_path, "demo", until=UNTIL)) == ["demo-2.0-py3-none-any.whl"]


def test_kept_wheels_do_not_move_and_need_not_be_used(tmp_path: Path) -> None:
    wheels = early(
        *(build_wheel(tmp_path / "w", name=name, version=v) for name in ("a", "b") for v in ("1", "2"))
    )

    lock = resolve(wheels, tmp_path, "a", "b", keep=(wheel("a", "1"), wheel("unused", "9")))

    assert [one.requirement for one in lock.wheels] == ["a==1", "b==2"]


def test_preferred_wheels_move_only_when_a_requirement_makes_them(tmp_path: Path) -> None:
    wheels = early(
        *(build_wheel(tmp_path / "w", name=name, version=v) for name in ("a", "b") for v in ("1", "2"))
    )
    before = (wheel("a", "1"), wheel("b", "1"), wheel("unused", "9"))

    lock = resolve(wheels, tmp_path, "a", "b>1", prefer=before)

    assert [one.requirement for one in lock.wheels] == ["a==1", "b==2"]


def test_the_order_of_requirements_and_what_was_resolved_before_change_nothing(tmp_path: Path) -> None:
    a1, b = build_wheel(tmp_path / "w", name="a", version="1"), build_wheel(tmp_path / "w", name="b")
    first = resolve(early(a1, b), tmp_path, "a", "b")
    a2 = build_wheel(tmp_path / "w", name="a", version="2")

    assert resolve(early(a2, b, a1), tmp_path, "b", "a") == resolve(
        early(a1, a2, b), tmp_path / "new", "a", "b"
    )
    assert first.wheel("a") == locked(a1)


def test_a_developers_configuration_changes_nothing(tmp_path: Path) -> None:
    wheels = early(*(build_wheel(tmp_path / "w", version=version) for version in ("1.0", "2.0")))
    config = tmp_path / "cfg/uv/uv.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[pip]\nresolution = "lowest"\n')

    assert names(resolve(wheels, tmp_path, "demo", XDG_CONFIG_HOME=str(tmp_path / "cfg"))) == [
        "demo-2.0-py3-none-any.whl"
    ]


def test_what_cannot_be_resolved_ends_with_the_resolvers_own_reasons(tmp_path: Path) -> None:
    wheels = early(
        build_wheel(tmp_path / "w", name="torch", version="2.15.0", requires=["numpy>=2"]),
        build_wheel(tmp_path / "w", name="numpy", version="2.5"),
    )
    with pytest.raises(LockError) as caught:
        resolve(wheels, tmp_path, "torch", "numpy<2")

    assert caught.value.message.startswith(f"cuda13.2 linux/amd64 cannot be resolved up to {UNTIL}\n")
    assert "only numpy==2.5 is available" in caught.value.message
    assert "Resolved" not in caught.value.message
    assert "invoke lock --target cuda13.2" in caught.value.hint


@pytest.mark.parametrize(
    ("tag", "said"),
    [("cp312-cp312-manylinux_2_28_x86_64", "cp312"), ("cp313-cp313-win_amd64", "win_amd64")],
)
def test_a_package_without_a_wheel_for_the_image_is_named(tmp_path: Path, tag: str, said: str) -> None:
    with pytest.raises(LockError, match="demo") as caught:
        resolve(early(build_wheel(tmp_path / "w", tag=tag)), tmp_path, "demo")

    assert said in caught.value.message


def test_a_wheel_for_a_newer_glibc_than_the_bases_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="demo"):
        resolve(early(build_wheel(tmp_path / "w", tag="cp313-cp313-manylinux_2_42_x86_64")), tmp_path, "demo")


def from_silent_index(path: Path, folder: Path, **says: object) -> WheelLock:
    """A lock from an index that says of its one file only when it was uploaded, and `says` (PEP 691)."""
    file = {
        "filename": path.name,
        "url": f"/files/{path.name}",
        "hashes": {},
        "upload-time": EARLY,
        "core-metadata": True,
    }
    file |= says
    document = {"meta": {"api-version": "1.1"}, "name": "demo", "files": [file], "versions": ["1.0"]}

    def respond(request: Request) -> Reply:
        if request.path.endswith(".metadata"):
            return Reply(body=b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\n")
        if request.path.startswith("/files/"):
            return file_reply(path.read_bytes(), request)
        kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
        return Reply(body=json.dumps(document).encode(), headers=kind)

    with serve(respond) as server:
        chosen = settings(f"{server.url}/simple", folder)
        return resolve_wheels(target(requirements=("demo",)), AMD64, until=UNTIL, settings=chosen)


def test_hash_and_size_that_the_index_does_not_say_come_from_the_bytes(tmp_path: Path) -> None:
    path = build_wheel(tmp_path / "w")

    assert from_silent_index(path, tmp_path).wheels == (locked(path),)


def test_a_size_that_is_not_said_is_measured_and_the_hash_is_checked(tmp_path: Path) -> None:
    path = build_wheel(tmp_path / "w")

    assert from_silent_index(path, tmp_path, hashes={"sha256": locked(path).sha256}).wheels == (locked(path),)
    with pytest.raises(LockError, match=r"the index says sha256 a{64} and serves"):
        from_silent_index(path, tmp_path / "other", hashes={"sha256": "a" * 64})


def test_an_absurd_size_is_refused(tmp_path: Path) -> None:
    path = build_wheel(tmp_path / "w")

    with pytest.raises(LockError, match=r"demo 1\.0: demo-1\.0-py3-none-any\.whl has 1099511627776 bytes"):
        from_silent_index(path, tmp_path, hashes={"sha256": locked(path).sha256}, size=1 << 40)


def test_an_index_that_cannot_be_reached_is_said_to_be_so(tmp_path: Path) -> None:
    # uv retries a refused connection for seconds; being told to be offline takes the same way out.
    chosen = settings("http://127.0.0.1:9/simple", tmp_path, UV_HTTP_RETRIES="0")
    with pytest.raises(FetchError, match="the package index cannot be reached") as caught:
        resolve_wheels(target(requirements=("demo",)), AMD64, until=UNTIL, settings=chosen)

    assert "Connection refused" in caught.value.message
    assert "UV_DEFAULT_INDEX" in caught.value.hint


def test_credentials_of_an_index_are_not_shown(tmp_path: Path) -> None:
    chosen = settings("http://user:hunter2@127.0.0.1:9/simple", tmp_path, UV_HTTP_RETRIES="0")
    with pytest.raises(FetchError) as caught:
        resolve_wheels(target(requirements=("demo",)), AMD64, until=UNTIL, settings=chosen)

    assert "hunter2" not in caught.value.message


def test_the_committed_locks_are_fresh_and_hold_one_cuda() -> None:
    wanted = load_matrix(PROJECT.matrix).target("cuda13.2")
    for platform in wanted.platforms:
        path = PROJECT.wheel_lock(wanted.name, platform)
        lock = parse_wheel_lock(path.read_text("utf-8"), source=path.name)

        assert stale_reasons(wanted, platform, lock) == ()
        torch = lock.wheel("torch")
        assert torch is not None
        assert platform.machine in torch.filename
        assert not [one.name for one in lock.wheels if one.name.endswith("-cu12")]


@pytest.mark.network
def test_the_default_index_gives_the_committed_locks_again(tmp_path: Path) -> None:
    wanted = load_matrix(PROJECT.matrix).target("cuda13.2")
    environ = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE") if name in os.environ}
    own = settings_from({**environ, "HOME": str(tmp_path)}, home=tmp_path, cores=2)
    for platform in wanted.platforms:
        path = PROJECT.wheel_lock(wanted.name, platform)
        committed = parse_wheel_lock(path.read_text("utf-8"), source=path.name)

        assert (
            resolve_wheels(wanted, platform, until=committed.until, settings=own, prefer=committed.wheels)
            == committed
        )
