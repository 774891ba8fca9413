"""A target's own index beside the default one: each package from where it belongs, by the real uv on loopback."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.locks import AMD64, ARM64, deb_lock, target
from tests.support.releases import UPLOADED, Release, cuda, rocm, xpu
from tests.support.web import Reply, Server, serve
from tests.support.wheelindex import served_index, served_pages
from tests.support.wheels import build_wheel, locked
from trainyard.errors import FetchError, InputError, LockError, VanishedError
from trainyard.fetch import DebOrigin, fetch_inputs, wheel_urls
from trainyard.lock.environment import wheel_inputs
from trainyard.lock.freshness import stale_reasons
from trainyard.lock.model import LockedWheel, WheelLock
from trainyard.lock.resolve import resolve_wheels
from trainyard.lock.routing import own_index
from trainyard.matrix.model import Index, Target
from trainyard.platforms import Platform
from trainyard.settings import Settings, settings_from
from trainyard.store import Store

UNTIL = "2026-12-01T00:00:00Z"
LATER = "2026-12-15T00:00:00Z"
NOWHERE = DebOrigin(mirror="", snapshot="")
CUDA = target(
    name="cuda13.4",
    toolkit="13.4",
    index_name="cu134",
    index=Index(url="https://wheels.example.com/whl/cu134", dated=False),
    companions=("torch", "torchvision", "triton"),
)
ROCM_LINE = "rocm[libraries,device-gfx942]==10.0.*"
ROCM = CUDA.model_copy(
    update={
        "name": "rocm10.0",
        "accelerator": "rocm",
        "toolkit": "10.0",
        "requirements": ("torch==2.15.0", ROCM_LINE),
        "overrides": (ROCM_LINE,),
        "companions": (
            *(
                "torch",
                "triton-rocm",
                "rocm",
                "rocm-sdk-core",
                "rocm-sdk-libraries",
                "rocm-sdk-device-gfx942",
            ),
        ),
    }
)
XPU = CUDA.model_copy(
    update={"name": "xpu", "accelerator": "xpu", "toolkit": "2026.1", "companions": ("torch", "triton-xpu")}
)


@dataclass
class World:
    """The two indexes of one release, and this host's settings for them."""

    folder: Path
    own: list[Path]
    default: dict[Path, str]
    settings: Settings
    server: Server

    def lock(self, wanted: Target = CUDA, platform: Platform = AMD64, **changes: object) -> WheelLock:
        return resolve_wheels(
            wanted,
            platform,
            until=UNTIL,
            settings=replace(self.settings, **changes),  # type: ignore[arg-type]
        )

    def wheel(self, name: str) -> LockedWheel:
        return locked(next(path for path in [*self.own, *self.default] if path.name.startswith(f"{name}-")))


@contextmanager
def world(
    folder: Path,
    release: Release,
    *,
    hashes: bool = True,
    wrong: Mapping[str, str] | None = None,
    yanked: Collection[str] = (),
    login: str = "",
    **environ: str,
) -> Iterator[World]:
    own, default = list(release.own), dict(release.default)
    served = served_pages(own, hashes=hashes, wrong=wrong, yanked=yanked, login=login)
    with served as server, served_index(default) as url:
        address = f"{server.url}/whl" if not login else f"{server.url.replace('//', f'//{login}@')}/whl"
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "uv"),
            "UV_DEFAULT_INDEX": url,
            "TRAINYARD_INDEX_CU134": address,
            **environ,
        }
        settings = settings_from(variables, home=folder, cores=2)
        yield World(folder, own, default, settings, server)


@pytest.fixture
def thirteen(tmp_path: Path) -> Iterator[World]:
    """CUDA 13.4 on an index with hashes and without upload times."""
    with world(tmp_path, cuda(tmp_path / "wheels")) as made:
        yield made


def names(lock: WheelLock) -> set[str]:
    return {wheel.requirement for wheel in lock.wheels}


# Where each package comes from


def test_torch_is_the_own_indexs_and_what_it_needs_the_default_ones(thirteen: World) -> None:
    lock = thirteen.lock()

    assert lock.wheel("torch") == thirteen.wheel("torch")
    assert lock.wheel("triton") == thirteen.wheel("triton")
    assert lock.wheel("nvidia-nccl-cu13") == thirteen.wheel("nvidia_nccl_cu13")


def test_the_lock_says_the_local_version_and_the_names_of_its_indexes(thirteen: World) -> None:
    lock = thirteen.lock()

    assert "torch==2.15.0+cu134" in names(lock)
    assert lock.index == "default, cu134"
    assert stale_reasons(CUDA, AMD64, lock) == ()


def test_a_companion_planted_on_the_default_index_does_not_win(thirteen: World) -> None:
    for name, version in (("torch", "2.15.0"), ("triton", "3.9.7")):
        thirteen.default[build_wheel(thirteen.folder / "planted", name=name, version=version)] = UPLOADED

    assert thirteen.lock().wheel("torch") == thirteen.wheel("torch")
    assert "triton==3.9.0" in names(thirteen.lock())


def test_another_package_planted_on_the_own_index_does_not_win(thirteen: World) -> None:
    for name in ("sympy", "nvidia-nccl-cu13"):
        thirteen.own.append(build_wheel(thirteen.folder / "planted", name=name, version="99.0"))

    assert {"sympy==4.20", "nvidia-nccl-cu13==2.31.2"} <= names(thirteen.lock())
    assert not [request for request in thirteen.server.requests if "sympy" in request.path]


def test_a_companion_that_the_own_index_lacks_is_not_taken_from_the_default_one(thirteen: World) -> None:
    planted = next(path for path in thirteen.own if path.name.startswith("triton"))
    thirteen.own.remove(planted)
    thirteen.default[planted] = UPLOADED

    with pytest.raises(LockError) as caught:
        thirteen.lock()

    address = f"{thirteen.server.url}/whl"
    assert f"triton comes from index cu134 alone, and {address} has none" in caught.value.message
    assert "torch" in caught.value.message


def test_a_companion_that_nobody_needs_is_no_error(thirteen: World) -> None:
    assert "torchvision" in CUDA.companions

    assert not [name for name in names(thirteen.lock()) if name.startswith("torchvision")]


def test_arm64_gets_the_wheels_of_arm64(tmp_path: Path) -> None:
    with world(tmp_path, cuda(tmp_path / "wheels", machine="aarch64")) as made:
        lock = made.lock(platform=ARM64)

    torch = lock.wheel("torch")
    assert torch is not None
    assert torch.filename == "torch-2.15.0+cu134-cp313-cp313-manylinux_2_28_aarch64.whl"


def test_the_gpu_families_of_the_target_choose_rocms_wheels(tmp_path: Path) -> None:
    with world(tmp_path, rocm(tmp_path / "wheels")) as made:
        lock = made.lock(ROCM)

    devices = {wheel.name for wheel in lock.wheels if wheel.name.startswith("rocm-sdk-device-")}
    assert devices == {"rocm-sdk-device-gfx942"}, "torch asks for every family"
    assert {"torch==2.15.0+rocm10.0", "triton-rocm==3.9.0", "rocm==10.0.0"} <= names(lock)


def test_the_runtime_of_xpu_is_the_default_indexs(tmp_path: Path) -> None:
    with world(tmp_path, xpu(tmp_path / "wheels")) as made:
        lock = made.lock(XPU)

    assert {"torch==2.15.0+xpu", "triton-xpu==3.9.0", "intel-sycl-rt==2026.1.1"} <= names(lock)


def test_an_index_that_says_upload_times_is_held_to_the_cut_off(thirteen: World) -> None:
    dated = CUDA.model_copy(update={"index": Index(url="https://wheels.example.com/whl/cu134")})

    with pytest.raises(LockError, match=r"torch.* is missing an upload date"):
        thirteen.lock(dated)


def test_the_cut_off_still_holds_the_default_index(thirteen: World) -> None:
    thirteen.default[build_wheel(thirteen.folder / "new", name="sympy", version="9")] = LATER

    assert "sympy==4.20" in names(thirteen.lock())


def test_the_digest_of_the_inputs_moves_with_the_index_and_the_companions() -> None:
    moved = [
        CUDA,
        CUDA.model_copy(update={"index_name": "other"}),
        CUDA.model_copy(update={"companions": ("torch",)}),
        CUDA.model_copy(update={"index": None, "index_name": None, "companions": ()}),
        ROCM,
        ROCM.model_copy(update={"overrides": ()}),
    ]

    assert len({wheel_inputs(one, AMD64) for one in moved}) == len(moved)


# Hashes, yanked and replaced files


def test_without_hashes_on_the_index_they_come_from_the_bytes(tmp_path: Path) -> None:
    with world(tmp_path, cuda(tmp_path / "wheels"), hashes=False) as made:
        assert made.lock().wheel("torch") == made.wheel("torch")


def test_a_wrong_hash_on_the_index_is_refused_by_name(tmp_path: Path) -> None:
    release = cuda(tmp_path / "wheels")
    torch = release.own[0]
    with (
        world(tmp_path, release, wrong={torch.name: "a" * 64}) as made,
        pytest.raises(LockError) as caught,
    ):
        made.lock()

    served = locked(torch).sha256
    assert caught.value.message == f"torch: the index says sha256 {'a' * 64} and serves {served}"


def test_a_yanked_file_is_not_chosen(tmp_path: Path) -> None:
    release = cuda(tmp_path / "wheels")
    newer = build_wheel(tmp_path / "new", name="triton", version="3.9.1", tag="cp313-cp313-linux_x86_64")
    release = replace(release, own=(*release.own, newer))

    with world(tmp_path, release, yanked={newer.name}) as made:
        assert "triton==3.9.0" in names(made.lock())
    with world(tmp_path / "sound", release) as made:
        assert "triton==3.9.1" in names(made.lock())


@pytest.mark.parametrize("hashes", [True, False], ids=["with hashes", "without hashes"])
def test_locked_wheels_are_fetched_from_the_index_that_each_came_from(tmp_path: Path, hashes: bool) -> None:
    with world(tmp_path, cuda(tmp_path / "wheels"), hashes=hashes) as made:
        lock = made.lock()
        planted = build_wheel(tmp_path / "planted", name="torch", version="2.15.0+cu134")
        made.default[planted] = UPLOADED
        store = Store(tmp_path / "store")
        fetch(made, lock, store)

    assert all(store.input(wheel.sha256).stat().st_size == wheel.size for wheel in lock.wheels)


def fetch(made: World, lock: WheelLock, store: Store) -> None:
    fetch_inputs(
        store,
        wheels=lock.wheels,
        debs=(),
        lock=lock,
        deb_lock=deb_lock(),
        origin=NOWHERE,
        settings=made.settings,
        index=own_index(CUDA, made.settings),
    )


def replace_torch(made: World) -> LockedWheel:
    """Another file under torch's name, as a rebuilt release would be."""
    path = made.own[0]
    name, version, tag = path.name.removesuffix(".whl").split("-", 2)
    return locked(
        build_wheel(path.parent, name=name, version=version, tag=tag, files={"torch/evil.py": "x = 1\n"})
    )


def test_a_wheel_replaced_under_its_name_is_refused_with_both_hashes(thirteen: World) -> None:
    lock = thirteen.lock()
    old, new = lock.wheel("torch"), replace_torch(thirteen)
    assert old is not None

    with pytest.raises(VanishedError) as caught:
        wheel_urls(lock, [old], thirteen.settings, own_index(CUDA, thirteen.settings))

    assert caught.value.message == (
        f"torch 2.15.0+cu134: replaced on the index; locked sha256 {old.sha256}, served {new.sha256}"
    )
    assert "invoke lock --upgrade" in caught.value.hint


def test_a_wheel_replaced_on_an_index_without_hashes_is_refused_too(tmp_path: Path) -> None:
    with world(tmp_path, cuda(tmp_path / "wheels"), hashes=False) as made:
        lock = made.lock()
        replace_torch(made)
        with pytest.raises((InputError, VanishedError), match=r"^torch 2\.15\.0\+cu134: "):
            fetch(made, lock, Store(tmp_path / "store"))


# Reaching an index


def test_an_index_that_cannot_be_reached_is_named_with_its_mirror_variable(thirteen: World) -> None:
    gone = {"TRAINYARD_INDEX_CU134": "http://127.0.0.1:9/whl"}
    with pytest.raises(FetchError) as caught:
        thirteen.lock(indexes=gone)

    assert caught.value.message.startswith(
        "index cu134 (http://127.0.0.1:9/whl) cannot be used: could not fetch "
    )
    assert "127.0.0.1 refused the connection" in caught.value.message
    assert caught.value.hint.startswith("a mirror of it: TRAINYARD_INDEX_CU134=URL invoke ...")


def test_without_a_mirror_the_index_of_the_matrix_is_asked(thirteen: World) -> None:
    wanted = CUDA.model_copy(update={"index": Index(url=f"{thirteen.server.url}/whl", dated=False)})

    assert "torch==2.15.0+cu134" in names(thirteen.lock(wanted, indexes={}))


def test_a_proxy_for_everything_does_not_stand_before_the_loopback_index(thirteen: World) -> None:
    proxied = {**thirteen.settings.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}

    assert "torch==2.15.0+cu134" in names(thirteen.lock(environ=proxied))


@pytest.mark.parametrize("where", ["url", "netrc"])
def test_a_password_opens_the_index_and_is_in_no_lock_no_file_and_no_error(
    tmp_path: Path, where: str
) -> None:
    release = cuda(tmp_path / "wheels")
    netrc = tmp_path / "my-netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    with world(tmp_path, release, login="me:hunter2", hashes=False) as made:
        if where == "netrc":
            bare = {"TRAINYARD_INDEX_CU134": f"{made.server.url}/whl"}
            made.settings = replace(
                made.settings, indexes=bare, environ={**made.settings.environ, "NETRC": str(netrc)}
            )
        lock = made.lock()
        store = Store(tmp_path / "store")
        fetch(made, lock, store)
        made.own.clear()
        with pytest.raises(LockError) as caught:
            made.lock()

    netrc.unlink()
    assert "hunter2" not in f"{lock!r} {caught.value.message} {caught.value.hint}"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()] == []


def test_a_refused_password_is_said_without_being_shown(tmp_path: Path) -> None:
    with world(tmp_path, cuda(tmp_path / "wheels"), login="me:hunter2") as made:
        wrong = {
            "TRAINYARD_INDEX_CU134": made.settings.indexes["TRAINYARD_INDEX_CU134"].replace("r2@", "r3@")
        }
        with pytest.raises(FetchError, match="the server refuses with HTTP 401") as caught:
            made.lock(indexes=wrong)

    assert "hunter" not in f"{caught.value.message} {caught.value.hint}"
    assert "netrc" in caught.value.hint


def test_the_password_of_one_index_does_not_go_to_the_other(tmp_path: Path) -> None:
    with (
        serve(lambda _request: Reply(status=404)) as other,
        world(tmp_path, cuda(tmp_path / "wheels"), login="me:hunter2") as made,
    ):
        environ = {**made.settings.environ, "UV_DEFAULT_INDEX": f"{other.url}/simple"}
        with pytest.raises(LockError):
            made.lock(environ=environ)

    assert other.requests
    assert not [request for request in other.requests if "authorization" in request.headers]


# What must not be mixed


def test_a_wheel_of_another_cuda_is_refused_with_who_asks_for_it(thirteen: World) -> None:
    old = build_wheel(thirteen.folder / "old", name="nvidia-nccl-cu12", version="2.27")
    tool = build_wheel(thirteen.folder / "old", name="tool", requires=["nvidia-nccl-cu12"])
    thirteen.default |= dict.fromkeys((old, tool), UPLOADED)
    wanted = CUDA.model_copy(update={"requirements": ("torch==2.15.0", "tool")})

    with pytest.raises(LockError) as caught:
        thirteen.lock(wanted)

    assert caught.value.message == (
        "cuda13.4 linux/amd64 would mix accelerators\n"
        "nvidia-nccl-cu12 2.27 is for CUDA 12, and the target has CUDA 13.4; tool asks for it"
    )
    assert "#a-lock-that-mixes-accelerators" in caught.value.hint


def test_a_torch_of_another_toolkit_is_refused(thirteen: World) -> None:
    wanted = CUDA.model_copy(update={"toolkit": "13.2"})

    with pytest.raises(LockError) as caught:
        thirteen.lock(wanted)

    assert (
        "torch 2.15.0+cu134 is built for cu134, and the target is CUDA 13.2; matrix.yaml asks for it"
        in caught.value.message
    )
