"""The state layer has what the maintainer scripts would have made, from reviewed data alone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.debs import build_deb
from tests.support.elf import shared_object
from trainyard.debian.archive import DebArchive
from trainyard.debian.facts import DebFacts, deb_facts
from trainyard.debian.review import Reviewed, parse_reviewed
from trainyard.debian.state import state_entries
from trainyard.errors import InputError, LockError
from trainyard.oci.entry import Entry, Kind
from trainyard.platforms import Platform

AMD64 = Platform("linux", "amd64")
SCRIPT = "#!/bin/sh\nexit 0\n"
PASSWD = "root:*:0:0:root:/root:/bin/bash\n_apt:*:42:65534::/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:*:0:\nshadow:*:42:\n"


def package(folder: Path, name: str, *, version: str = "1.0-1", **options: object) -> DebFacts:
    path = build_deb(folder, name, version, **options)  # type: ignore[arg-type]
    return deb_facts(DebArchive(path, name=name, version=version))


def table(**rows: str) -> Reviewed:
    """A table in which the postinst SCRIPT of each package has these effects (TOML lines)."""
    digest = hashlib.sha256(SCRIPT.encode()).hexdigest()
    scripts = "".join(
        f'[scripts.{name}.postinst]\nsha256 = ["{digest}"]\n{row}\n' for name, row in rows.items()
    )
    return parse_reviewed(f'[triggers]\nldconfig = "x"\n[privileged]\n[scripts]\n{scripts}')


def state(*packages: DebFacts, **rows: str) -> dict[str, Entry]:
    entries = list(state_entries(packages, platform=AMD64, sources="Types: deb\n", table=table(**rows)))
    assert [entry.path for entry in entries] == sorted({entry.path for entry in entries})
    return {entry.path: entry for entry in entries}


def text(entries: Mapping[str, Entry], path: str) -> str:
    return b"".join(entries[path].content).decode()


def test_what_the_table_declares_is_made(tmp_path: Path) -> None:
    pkg = package(tmp_path, "pkg", files={"usr/share/base-files/motd": b"hi\n"}, scripts={"postinst": SCRIPT})
    entries = state(
        pkg,
        pkg="""
directories = ["srv", "var/mail"]
links = { "var/run" = "/run" }
copies = { "etc/motd" = "usr/share/base-files/motd" }
files = { "etc/hosts" = "localhost" }
touch = { "var/log/wtmp" = "0664 0:43" }
""",
    )

    assert (entries["srv"].kind, entries["srv"].mode) == (Kind.DIRECTORY, 0o755)
    assert (entries["var/mail"].mode, entries["var/mail"].gid) == (0o2775, 8)
    assert entries["var/run"].link == "/run"
    assert text(entries, "etc/motd") == "hi\n"
    assert text(entries, "etc/hosts") == "localhost"
    assert (entries["var/log/wtmp"].mode, entries["var/log/wtmp"].gid, entries["var/log/wtmp"].size) == (
        0o664,
        43,
        0,
    )


def test_an_unreviewed_script_stops_the_layer_with_a_command(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="pkg: its preinst script is new") as caught:
        state(package(tmp_path, "pkg", scripts={"preinst": SCRIPT}))
    assert "invoke lock" in caught.value.hint


def test_effects_of_packages_that_are_not_there_do_nothing(tmp_path: Path) -> None:
    assert "srv" not in state(package(tmp_path, "pkg"), other='directories = ["srv"]')


def test_a_file_to_copy_that_no_package_ships_is_named(tmp_path: Path) -> None:
    pkg = package(tmp_path, "pkg", scripts={"postinst": SCRIPT})

    with pytest.raises(InputError, match="no package of the base ships usr/share/base-files/motd"):
        state(pkg, pkg='copies = { "etc/motd" = "usr/share/base-files/motd" }')


def test_a_package_of_another_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pkg=1\.0-1 is for arm64, the image for linux/amd64"):
        state(package(tmp_path, "pkg", architecture="arm64"))


def test_the_image_has_its_user_and_every_account_of_debian(tmp_path: Path) -> None:
    files = {"usr/share/base-passwd/passwd.master": PASSWD, "usr/share/base-passwd/group.master": GROUP}
    base = package(tmp_path, "base", files=files, scripts={"postinst": SCRIPT})
    late = package(tmp_path, "late", scripts={"postinst": SCRIPT})
    early = package(tmp_path, "early", scripts={"postinst": SCRIPT})

    entries = state(
        base,
        late,
        early,
        base='effects = ["accounts"]',
        late="groups = { rdma = 102 }",
        early="groups = { ssh = 101 }",
    )

    assert text(entries, "etc/passwd").splitlines() == [
        "root:x:0:0:root:/root:/bin/bash",
        "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin",
        "trainyard:x:1000:0:trainyard:/home/trainyard:/bin/bash",
    ]
    assert text(entries, "etc/group").splitlines() == [
        "root:x:0:",
        "shadow:x:42:",
        "ssh:x:101:",
        "rdma:x:102:",
    ]
    assert text(entries, "etc/gshadow").splitlines() == ["root:*::", "shadow:*::", "ssh:!::", "rdma:!::"]
    assert text(entries, "etc/shadow").splitlines()[2] == "trainyard:*::0:99999:7:::"
    assert {(entries[path].mode, entries[path].gid) for path in ("etc/shadow", "etc/gshadow")} == {
        (0o640, 42)
    }
    assert (entries["home/trainyard"].mode, entries["home/trainyard"].uid) == (0o775, 1000)


def test_no_account_has_a_password(tmp_path: Path) -> None:
    files = {"usr/share/base-passwd/passwd.master": PASSWD, "usr/share/base-passwd/group.master": GROUP}
    entries = state(
        package(tmp_path, "base", files=files, scripts={"postinst": SCRIPT}), base='effects = ["accounts"]'
    )

    assert {line.split(":")[1] for line in text(entries, "etc/shadow").splitlines()} == {"*"}


def test_the_certificate_bundle_is_sorted_and_each_one_ends_its_line(tmp_path: Path) -> None:
    folder = "usr/share/ca-certificates/mozilla"
    certificates = {f"{folder}/b.crt": b"BBB", f"{folder}/Z.crt": b"ZZZ\n", f"{folder}/README": b"no"}
    pkg = package(tmp_path, "pkg", files=certificates, scripts={"postinst": SCRIPT})

    entries = state(pkg, pkg='effects = ["certificates"]')

    assert text(entries, "etc/ssl/certs/ca-certificates.crt") == "ZZZ\nBBB\n"
    assert text(entries, "etc/ca-certificates.conf") == "mozilla/Z.crt\nmozilla/b.crt\n"


def test_shells_of_the_packages_are_listed_with_their_names_below_usr(tmp_path: Path) -> None:
    folder = "usr/share/debianutils"
    files = {
        f"{folder}/shells": b"# comment\n/bin/sh\n",
        f"{folder}/shells.d/bash": b"/bin/bash\n/usr/bin/bash\n",
    }
    entries = state(
        package(tmp_path, "pkg", files=files, scripts={"postinst": SCRIPT}), pkg='effects = ["shells"]'
    )

    assert text(entries, "etc/shells").splitlines()[1:] == [
        "/bin/sh",
        "/usr/bin/sh",
        "/bin/bash",
        "/usr/bin/bash",
    ]
    assert text(entries, "var/lib/shells.state").splitlines() == text(entries, "etc/shells").splitlines()[1:]


ALTERNATIVES = {
    "more": '{ link = "/usr/bin/pager", name = "pager", path = "/bin/more", priority = 50, '
    'slaves = [["/usr/share/pager.1", "pager.1", "/usr/share/more.1"]] }',
    "less": '{ link = "/usr/bin/pager", name = "pager", path = "/usr/bin/less", priority = 77, '
    'slaves = [["/usr/share/pager.1", "pager.1", "/usr/share/less.1"]] }',
}


def pagers(folder: Path, *, less: Mapping[str, bytes]) -> dict[str, Entry]:
    files = {"more": {"bin/more": b""}, "less": less}
    packages = [package(folder, name, files=files[name], scripts={"postinst": SCRIPT}) for name in files]
    return state(*packages, **{name: f"alternatives = [{row}]" for name, row in ALTERNATIVES.items()})


def test_the_alternative_of_highest_priority_wins_and_missing_manuals_have_no_link(tmp_path: Path) -> None:
    entries = pagers(tmp_path, less={"usr/bin/less": b""})

    assert entries["usr/bin/pager"].link == "/etc/alternatives/pager"
    assert entries["etc/alternatives/pager"].link == "/usr/bin/less"
    assert "etc/alternatives/pager.1" not in entries


def test_a_slave_whose_file_is_there_gets_both_links(tmp_path: Path) -> None:
    entries = pagers(tmp_path, less={"usr/bin/less": b"", "usr/share/less.1": b""})

    assert entries["etc/alternatives/pager.1"].link == "/usr/share/less.1"
    assert entries["usr/share/pager.1"].link == "/etc/alternatives/pager.1"


@pytest.mark.skipif(shutil.which("update-alternatives") is None, reason="not a Debian host")
def test_update_alternatives_itself_reads_our_file_back(tmp_path: Path) -> None:
    entries = pagers(tmp_path, less={"usr/bin/less": b""})
    admin = tmp_path / "admin"
    admin.mkdir()
    (admin / "pager").write_text(text(entries, "var/lib/dpkg/alternatives/pager"))

    command = ["update-alternatives", "--admindir", str(admin), "--query", "pager"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert (
        "Link: /usr/bin/pager\nSlaves:\n pager.1 /usr/share/pager.1\nStatus: auto\nBest: /usr/bin/less\n"
        in answer
    )
    assert "Alternative: /bin/more\nPriority: 50\nSlaves:\n pager.1 /usr/share/more.1\n" in answer


UNIX = """Name: Unix
Default: yes
Priority: 256
Auth-Type: Primary
Auth-Initial:
\t[success=end default=ignore]\tpam_unix.so nullok
Account-Type: Primary
Account-Initial:
\t[success=end default=ignore]\tpam_unix.so
Password-Type: Primary
Password-Initial:
\t[success=end default=ignore]\tpam_unix.so yescrypt
Session-Type: Additional
Session-Initial:
\trequired\tpam_unix.so
"""


def pam_package(folder: Path, **profiles: str) -> DebFacts:
    files = {f"usr/share/pam-configs/{name}": profile for name, profile in profiles.items()}
    for stack, variable in (
        ("account", "account"),
        ("auth", "auth"),
        ("password", "password"),
        ("session", "session"),
        ("session-noninteractive", "session_nonint"),
    ):
        files[f"usr/share/pam/common-{stack}"] = f"${variable}_primary\ndeny\n${variable}_additional\n# end\n"
    return package(folder, "pam", files=files, scripts={"postinst": SCRIPT})


def test_pam_stacks_let_unix_accounts_in(tmp_path: Path) -> None:
    entries = state(pam_package(tmp_path, unix=UNIX), pam='effects = ["pam"]')

    assert text(entries, "etc/pam.d/common-auth") == (
        "auth\t[success=1 default=ignore]\tpam_unix.so nullok\ndeny\n# end\n"
    )
    assert text(entries, "etc/pam.d/common-session-noninteractive") == (
        "session\t[default=1]\t\t\tpam_permit.so\ndeny\nsession\trequired\tpam_unix.so \n# end\n"
    )


def test_a_second_pam_profile_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ldap, unix"):
        state(pam_package(tmp_path, unix=UNIX, ldap=UNIX), pam='effects = ["pam"]')


def test_the_database_says_that_every_package_is_installed(tmp_path: Path) -> None:
    pkg = package(
        tmp_path, "zz", files={"etc/z.conf": b"z"}, conffiles=["etc/z.conf"], fields={"Multi-Arch": "same"}
    )
    entries = state(pkg, package(tmp_path, "aa"))

    stanzas = text(entries, "var/lib/dpkg/status").split("\n\n")

    assert [stanza.splitlines()[0] for stanza in stanzas] == ["Package: aa", "Package: zz"]
    assert all(stanza.splitlines()[1] == "Status: install ok installed" for stanza in stanzas)
    assert f"Conffiles:\n /etc/z.conf {hashlib.md5(b'z').hexdigest()}" in stanzas[1]
    assert text(entries, "var/lib/dpkg/arch") == "amd64\n"
    assert text(entries, "var/lib/dpkg/info/format") == "1\n"
    assert "var/lib/dpkg/info/zz:amd64.list" in entries
    assert "var/lib/dpkg/info/aa.list" in entries


def test_maintainer_scripts_are_shipped_executable_for_a_child_image(tmp_path: Path) -> None:
    pkg = package(tmp_path, "pkg", scripts={"postinst": SCRIPT, "prerm": SCRIPT})
    entries = state(pkg, pkg='why = "nothing"')

    assert entries["var/lib/dpkg/info/pkg.postinst"].mode == 0o755
    assert text(entries, "var/lib/dpkg/info/pkg.prerm") == SCRIPT
    assert entries["var/lib/dpkg/info/pkg.list"].mode == 0o644


def test_left_out_documents_are_not_in_the_sums_either(tmp_path: Path) -> None:
    files = {"usr/bin/a": b"a", "usr/share/doc/pkg/NEWS": b"n", "usr/share/doc/pkg/copyright": b"c"}
    entries = state(package(tmp_path, "pkg", files=files))

    summed = [line.split("  ")[1] for line in text(entries, "var/lib/dpkg/info/pkg.md5sums").splitlines()]

    assert summed == ["usr/bin/a", "usr/share/doc/pkg/copyright"]


def test_a_package_that_may_be_there_twice_is_registered_with_its_architecture(tmp_path: Path) -> None:
    triggers = {"triggers": "interest-noawait /usr/lib/x\ninterest ldconfig\n"}
    entries = state(package(tmp_path, "pkg", control_files=triggers, fields={"Multi-Arch": "same"}))

    assert text(entries, "var/lib/dpkg/triggers/File") == "/usr/lib/x pkg:amd64/noawait\n"
    assert text(entries, "var/lib/dpkg/triggers/ldconfig") == "pkg:amd64\n"


def test_triggers_are_registered_by_path_and_by_name(tmp_path: Path) -> None:
    triggers = {"triggers": "interest-noawait /usr/lib/x\ninterest ldconfig\n"}
    entries = state(package(tmp_path, "pkg", control_files=triggers))

    assert text(entries, "var/lib/dpkg/triggers/File") == "/usr/lib/x pkg/noawait\n"
    assert text(entries, "var/lib/dpkg/triggers/ldconfig") == "pkg\n"


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian host")
def test_dpkg_itself_reads_the_database(tmp_path: Path) -> None:
    packages = [
        package(tmp_path, "one", files={"usr/bin/one": b"1", "etc/one": b"x"}, conffiles=["etc/one"]),
        package(tmp_path, "two", files={"usr/bin/two": b"2"}, fields={"Multi-Arch": "same"}),
    ]
    entries = state(*packages)
    for path, entry in entries.items():
        if path.startswith("var/lib/dpkg/"):
            target = tmp_path / "root" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.kind is Kind.FILE:
                target.write_bytes(b"".join(entry.content))
    admin = f"--admindir={tmp_path}/root/var/lib/dpkg"

    def query(*arguments: str) -> str:
        return subprocess.run(
            ["dpkg-query", admin, *arguments], capture_output=True, text=True, check=True
        ).stdout

    assert (
        query("-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n") == "one 1.0-1 ii \ntwo 1.0-1 ii \n"
    )
    assert query("-S", "/usr/bin/two") == "two:amd64: /usr/bin/two\n"
    assert query("-L", "one").splitlines() == ["/.", "/etc", "/etc/one", "/usr", "/usr/bin", "/usr/bin/one"]


def test_apts_sources_are_the_text_that_was_handed_in(tmp_path: Path) -> None:
    assert text(state(package(tmp_path, "pkg")), "etc/apt/sources.list.d/debian.sources") == "Types: deb\n"


def test_services_are_not_started_in_child_images(tmp_path: Path) -> None:
    policy = state(package(tmp_path, "pkg"))["usr/sbin/policy-rc.d"]

    script = tmp_path / "policy"
    script.write_bytes(b"".join(policy.content))

    assert policy.mode == 0o755
    assert subprocess.run(["sh", str(script), "ssh", "start"], check=False).returncode == 101


def test_the_layer_is_a_pure_function_of_its_packages_in_any_order(tmp_path: Path) -> None:
    packages = [package(tmp_path, name, files={f"usr/bin/{name}": b"x"}) for name in ("a", "b", "c")]

    def flat(entries: Mapping[str, Entry]) -> list[object]:
        return [
            (path, entry.kind, entry.mode, b"".join(entry.content), entry.mtime)
            for path, entry in entries.items()
        ]

    assert flat(state(*packages)) == flat(state(*reversed(packages)))
    assert {entry.mtime for entry in state(*packages).values()} == {None}


def test_the_loaders_cache_finds_libraries_across_packages_and_aliases(tmp_path: Path) -> None:
    libc = package(
        tmp_path,
        "libc-bin",
        version="2.41-12+deb13u5",
        files={"etc/ld.so.conf": b"/lib/arm\n", "usr/lib/arm/ld-linux.so.1": shared_object("ld-linux.so.1")},
        symlinks={"usr/lib/ld-linux.so.1": "arm/ld-linux.so.1"},
        scripts={"postinst": SCRIPT},
    )
    library = package(tmp_path, "libx1", files={"usr/lib/arm/libx.so.1.0": shared_object("libx.so.1")})
    link = package(tmp_path, "libx-dev", symlinks={"usr/lib/arm/libx.so": "/lib/arm/libx.so.1.0"}, files={})

    entry = state(libc, library, link, **{"libc-bin": 'effects = ["ldconfig"]'})["etc/ld.so.cache"]
    cache = b"".join(entry.content).decode("latin-1")

    for path in ("/lib/arm/libx.so.1", "/lib/arm/libx.so", "/lib/arm/ld-linux.so.1", "/lib/ld-linux.so.1"):
        assert f"{path}\0" in cache
    assert cache.endswith("ldconfig (Debian GLIBC 2.41-12+deb13u5) stable release version 2.41")
