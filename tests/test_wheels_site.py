"""Site: the folders of the image's virtual environment."""

from __future__ import annotations

import sysconfig

import pytest

from trainyard.wheels.site import Site


def test_the_default_site_is_the_image_s_environment() -> None:
    site = Site()

    assert site.site_packages == "opt/venv/lib/python3.13/site-packages"
    assert site.scripts == "opt/venv/bin"
    assert site.data == "opt/venv"
    assert site.headers("demo") == "opt/venv/include/site/python3.13/demo"
    assert site.interpreter == "/opt/venv/bin/python"


def test_the_folders_are_those_of_sysconfig_s_venv_scheme() -> None:
    """sysconfig, asked about this interpreter's own version, names the same folders."""
    site = Site("srv/env", sysconfig.get_python_version())
    paths = sysconfig.get_paths("venv", {"base": "/srv/env", "platbase": "/srv/env"})

    assert f"/{site.site_packages}" == paths["purelib"]
    assert f"/{site.scripts}" == paths["scripts"]
    assert f"/{site.data}" == paths["data"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("opt/venv/lib/python3.13/site-packages/demo/a.py", "demo/a.py"),
        ("opt/venv/bin/demo", "../../../bin/demo"),
        ("opt/venv/lib/python3.13/other", "../../../lib/python3.13/other"),
    ],
)
def test_record_paths_are_relative_to_site_packages(path: str, expected: str) -> None:
    assert Site().relative(path) == expected


@pytest.mark.parametrize("prefix", ["/opt/venv", "opt/venv/", "", "opt/../etc", "opt/my venv", "opt/vénv"])
def test_a_prefix_that_is_no_plain_relative_path_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="not a prefix"):
        Site(prefix)


@pytest.mark.parametrize("python", ["3", "3.13.1", "2.7", "3.x", "3.13\n"])
def test_only_a_minor_version_of_python_3_is_taken(python: str) -> None:
    with pytest.raises(ValueError, match="not a minor version"):
        Site(python=python)


def test_an_interpreter_too_long_for_the_kernel_s_shebang_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        Site("opt/" + "v" * 120)
