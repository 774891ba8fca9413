"""The judge: what we unpack agrees with what mmdebstrap installs of the same lock, scripts and all."""

from __future__ import annotations

import fnmatch
import os
import platform
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mirrors import BASES, committed_lock, locked_debs, mirror, why_gone
from tests.support.trees import Node, read_tree, write_tree
from trainyard.debian.control import fields_of
from trainyard.debian.facts import deb_facts
from trainyard.debian.filters import DPKG_OPTIONS, excluded
from trainyard.debian.release import suites_of
from trainyard.debian.review import problems, reviewed
from trainyard.debian.signature import DEBIAN_KEYS
from trainyard.debian.state import state_entries
from trainyard.oci.entry import Kind
from trainyard.platforms import Platform

pytestmark = [
    pytest.mark.real,
    pytest.mark.network,
    pytest.mark.skipif(os.geteuid() != 0, reason="owners and chroot need root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="no mmdebstrap on this host"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the judge runs amd64 programs"),
]
ROOT = Path(__file__).parents[1]
EXPLAINED: dict[str, dict[str, str | bool]] = tomllib.loads(
    (Path(__file__).parent / "explained_differences.toml").read_text()
)
_LOAD = "import ctypes; [ctypes.CDLL(name) for name in '{}'.split()]; print('loaded')"
_COMPILE = "#include <level_zero/ze_api.h>\\nint main() { return zeInit(0) == ZE_RESULT_SUCCESS; }"
# A command in the base, and what it says where there is no Intel GPU.
INTEL = {
    # ZE_RESULT_ERROR_UNINITIALIZED: the loader has found its driver, and that no GPU
    "level zero": (
        "python3.14 -c 'import ctypes; print(hex(ctypes.CDLL(\"libze_loader.so.1\").zeInit(0)))'",
        "0x78000001",
    ),
    "libraries": (
        f'python3.14 -c "{_LOAD.format("libze_intel_gpu.so.1 libigc.so.2 libigdfcl.so.2 libOpenCL.so.1")}"',
        "loaded",
    ),
    "header": (
        f"printf '{_COMPILE}' > /tmp/z.cc && c++ /tmp/z.cc -lze_loader -o /tmp/z && /tmp/z && echo compiled",
        "compiled",
    ),
    "compiler": ("ocloc ids bmg", "20.1."),
    "opencl": ("clinfo", "Number of platforms"),
}
# Where apt in the chroot finds packages: the tests' own mirror, not the image's snapshot.
MIRROR = mirror()


def sources(suite: str, keyring: str) -> str:
    """A sources.list of the mirror's present; a testing suite's Release may have expired."""
    return "".join(
        f"deb [signed-by={keyring} check-valid-until=no] {MIRROR}{archive} {name} main\n"
        for archive, name in suites_of(suite)
    )


@pytest.fixture(scope="module", params=sorted(BASES))
def base(request: pytest.FixtureRequest) -> str:
    """A base's name; one of a testing suite only while the mirror has what is locked."""
    name: str = request.param
    if reason := why_gone(name):
        pytest.skip(reason)
    return name


@pytest.fixture(scope="module")
def ours(base: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base as the layers would unpack it: debs in the lock's order, then the state layer."""
    root = tmp_path_factory.mktemp("ours")
    root.chmod(0o755)
    debs = locked_debs(base, "amd64")
    # The links of /bin, /lib and the like come first, as they do in the shared layer.
    for deb in sorted(debs, key=lambda deb: not deb.origin.startswith("base-files=")):
        write_tree(root, deb.entries())
    facts = [deb_facts(deb) for deb in debs]
    write_tree(
        root,
        state_entries(
            facts,
            platform=Platform("linux", "amd64"),
            sources="Types: deb\nEnabled: no\n",
            table=reviewed(BASES[base].suite),
        ),
    )
    return root


@pytest.fixture(scope="module")
def theirs(base: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same packages, installed with their scripts."""
    root = tmp_path_factory.mktemp("theirs") / "root"
    listing = root.parent / "sources.list"
    suite = BASES[base].suite
    listing.write_text(sources(suite, str(DEBIAN_KEYS.keyring)))
    include = ",".join(f"{deb.name}={deb.version}" for deb in committed_lock(base, "amd64").debs)
    options = [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    command = [
        "mmdebstrap",
        "--variant=custom",
        f"--include={include}",
        *options,
        suite,
        str(root),
        str(listing),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return root


@pytest.fixture(scope="module")
def trees(ours: Path, theirs: Path) -> tuple[dict[str, Node], dict[str, Node]]:
    """Both trees, read before anything runs in them."""
    return read_tree(ours), read_tree(theirs)


@pytest.fixture(scope="module")
def run(ours: Path, trees: object) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a shell command in our tree, with the two devices that programs open."""
    for name, minor in (("null", 3), ("urandom", 9)):
        os.mknod(ours / "dev" / name, 0o20666, os.makedev(1, minor))
        (ours / "dev" / name).chmod(0o666)

    def shell(command: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/sbin:/usr/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        arguments = ["chroot", str(ours), "sh", "-c", command]
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)

    return shell


def how(mine: Node | None, judge: Node | None) -> str:
    """In which way two nodes of one path differ, "" if they do not."""
    if mine is None or judge is None:
        return "missing" if mine is None else "extra"
    if mine == judge:
        return ""
    if (mine.kind, mine.mode, mine.uid, mine.gid) == (judge.kind, judge.mode, judge.uid, judge.gid):
        return "content"
    return "mode" if (mine.kind, mine.content) == (judge.kind, judge.content) else "other"


def test_every_difference_is_explained_and_every_explanation_is_needed(
    base: str, trees: tuple[dict[str, Node], dict[str, Node]]
) -> None:
    mine, judge = trees
    explained = {path: row for path, row in EXPLAINED.items() if row.get("base", base) == base}
    differences = {path: how(mine.get(path), judge.get(path)) for path in sorted(mine.keys() | judge.keys())}
    used: set[str] = set()
    unexplained = []
    for path, difference in differences.items():
        if not difference:
            continue
        rows = [pattern for pattern in explained if fnmatch.fnmatchcase(path, pattern)]
        matching = [pattern for pattern in rows if explained[pattern]["how"] == difference]
        used.update(matching)
        if not matching:
            unexplained.append(f"{path}: {difference}: {mine.get(path)} / {judge.get(path)}")

    assert not unexplained, "\n".join(unexplained)
    assert [row for row in explained if row not in used and not explained[row].get("may_be_unused")] == []
    assert len(mine) > 10_000


def test_every_account_of_the_judge_is_ours_and_debians_fixed_numbers_are_the_same(
    base: str, ours: Path, theirs: Path
) -> None:
    def accounts(root: Path, name: str) -> dict[str, int]:
        rows = [line.split(":") for line in (root / "etc" / name).read_text().splitlines()]
        return {row[0]: int(row[2]) for row in rows}

    for name, left_out in (("passwd", set()), ("group", {"lpadmin"} if base == "forky" else set())):
        mine, judge = accounts(ours, name), accounts(theirs, name)
        assert judge.keys() - mine.keys() == left_out
        assert {one: mine[one] for one in mine.keys() & judge.keys() if mine[one] < 100} == {
            one: number for one, number in judge.items() if number < 100
        }


def test_the_status_of_every_package_is_what_dpkg_wrote(ours: Path, theirs: Path) -> None:
    def packages(root: Path) -> dict[str, dict[str, object]]:
        stanzas = [
            fields_of(part)
            for part in (root / "var/lib/dpkg/status").read_text().split("\n\n")
            if part.strip()
        ]
        return {
            stanza["Package"]: {name: normal(name, value) for name, value in stanza.items()}
            for stanza in stanzas
        }

    def normal(name: str, value: str) -> object:
        """dpkg keeps the conffiles of a package in no fixed order, and drops spaces it does not need."""
        return (
            sorted(value.splitlines()) if name == "Conffiles" else " ".join(value.split()).replace(" ,", ",")
        )

    mine, judge = packages(ours), packages(theirs)

    assert mine.keys() == judge.keys()
    assert {name: mine[name] for name in mine if mine[name] != judge[name]} == {}


def test_lists_and_sums_are_dpkgs_own_without_what_is_left_out(ours: Path, theirs: Path) -> None:
    folder = "var/lib/dpkg/info"
    for path in sorted((theirs / folder).glob("*.list")):
        kept = []
        for line in path.read_text().splitlines():
            there = theirs / line.lstrip("/")
            kind = Kind.SYMLINK if there.is_symlink() else Kind.DIRECTORY if there.is_dir() else Kind.FILE
            if not excluded(line.lstrip("/"), kind):
                kept.append(line)

        assert (ours / folder / path.name).read_text().splitlines() == kept, path.name
    for path in sorted((theirs / folder).glob("*.md5sums")):
        lines = [line for line in path.read_text().splitlines() if not excluded(line[34:], Kind.FILE)]

        assert (ours / folder / path.name).read_text().splitlines() == lines, path.name


@pytest.mark.parametrize("command", ["dpkg --verify", "dpkg --audit"])
def test_dpkg_finds_nothing_to_complain_about(
    run: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    done = run(command)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "command",
    [
        "apt-get check",
        "PYTHON -c 'import sqlite3, ctypes'",
        "PYTHON -c 'import ssl; assert len(ssl.create_default_context().get_ca_certs()) > 100'",
        "printf '#include <iostream>\\nint main() { std::cout << 1; }' > /tmp/a.cc",
        "c++ /tmp/a.cc -o /tmp/a && /tmp/a",
        "git --version && curl --version && ssh -V",
        "awk 'BEGIN { print 1 }' && cc --version && cpp --version",
        "id trainyard && getent group rdma && getent passwd _apt",
        "perl -e 'use POSIX; use Encode;'",
        "update-alternatives --query pager && update-alternatives --query cc",
        "ldconfig -p | grep -q libibverbs.so.1",
        "test -e /etc/localtime && test -d /var/lock/. && test -d /var/run/.",
    ],
)
def test_what_people_use_works(
    base: str, run: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    done = run(command.replace("PYTHON", f"python{BASES[base].python}"))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("base", ["forky"], indirect=True)
@pytest.mark.parametrize(("command", "said"), INTEL.values(), ids=INTEL)
def test_intels_driver_is_found_and_says_that_there_is_no_gpu(
    base: str, run: Callable[[str], subprocess.CompletedProcess[str]], command: str, said: str
) -> None:
    done = run(command)

    assert said in done.stdout, (done.returncode, done.stdout, done.stderr)


def test_ldconfig_itself_changes_nothing(
    run: Callable[[str], subprocess.CompletedProcess[str]], ours: Path
) -> None:
    """The base's own ldconfig writes the very bytes that we wrote."""
    before = (ours / "etc/ld.so.cache").read_bytes()

    assert run("ldconfig").returncode == 0
    assert (ours / "etc/ld.so.cache").read_bytes() == before


def test_packages_can_be_added_and_those_of_the_base_reinstalled(
    base: str, run: Callable[[str], subprocess.CompletedProcess[str]], ours: Path
) -> None:
    """Last in this module, since it changes the tree."""
    shutil.copy("/etc/resolv.conf", ours / "etc/resolv.conf")
    shutil.copy("/etc/hosts", ours / "etc/hosts")
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (ours / "etc/apt/sources.list").write_text(sources(BASES[base].suite, keyring))
    python = f"python{BASES[base].python}-minimal"
    again = f"libc6 base-files base-passwd passwd ca-certificates {python} openssh-client tzdata dpkg"
    for command in (
        "apt-get update",
        "apt-get install -y --no-install-recommends gawk nano",
        f"apt-get install -y --reinstall {again}",
        "apt-get purge -y gawk && apt-get autoremove -y",
        "useradd -m someone && id someone",
    ):
        done = run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    audit = run("dpkg --audit; dpkg --verify")

    assert (audit.returncode, audit.stdout) == (0, "")


@pytest.mark.parametrize(
    ("base", "arch"),
    [path.stem.split(".") for path in sorted((ROOT / "lockfiles/base").glob("*.txt"))],
    indirect=["base"],
)
def test_every_script_of_the_committed_lock_is_reviewed(base: str, arch: str) -> None:
    table = reviewed(BASES[base].suite)

    assert [problem for deb in locked_debs(base, arch) for problem in problems(deb, table=table)] == []
