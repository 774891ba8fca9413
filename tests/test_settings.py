"""The one reading of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.errors import UsageError
from trainyard.settings import Settings, index_variable, settings_from

HOME = Path("/home/somebody")


def settings(**environ: str) -> Settings:
    return settings_from(environ, home=HOME, cores=4)


@pytest.mark.parametrize(
    "name",
    [
        "PIP_CONSTRAINT",
        "PIP_INDEX_URL",
        "UV_CONSTRAINT",
        "UV_INDEX",
        "PYTHONPATH",
        "DOCKER_BUILDKIT",
        "SOURCE_DATE_EPOCH",
    ],
)
def test_what_could_change_a_result_does_not_reach_child_processes(name: str) -> None:
    assert name not in settings(**{name: "x"}).environ


@pytest.mark.parametrize("name", ["PATH", "SSL_CERT_FILE", "https_proxy", "UV_DEFAULT_INDEX", "DOCKER_HOST"])
def test_what_only_says_how_to_reach_a_network_or_an_engine_does(name: str) -> None:
    assert settings(**{name: "x"}).environ[name] == "x"


def test_the_cache_is_below_home_unless_told() -> None:
    assert settings().cache == HOME / ".cache" / "trainyard"
    assert settings(XDG_CACHE_HOME="/x").cache == Path("/x/trainyard")
    assert settings(XDG_CACHE_HOME="/x", TRAINYARD_CACHE="/y").cache == Path("/y")


def test_an_empty_variable_is_an_unset_one() -> None:
    assert settings(TRAINYARD_CACHE="", TRAINYARD_DEBIAN_MIRROR="") == settings()


@pytest.mark.parametrize(("value", "ci"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_ci_is_recognised(value: str, ci: bool) -> None:
    assert settings(CI=value).ci is ci


def test_workers_follow_the_cores_within_bounds_and_can_be_set() -> None:
    assert settings_from({}, home=HOME, cores=1).workers == 2
    assert settings_from({}, home=HOME, cores=64).workers == 8
    assert settings(TRAINYARD_WORKERS="3").workers == 3


@pytest.mark.parametrize("text", ["many", "0", "-1", "2.5", "²", " "])
def test_a_number_of_workers_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match="TRAINYARD_WORKERS"):
        settings(TRAINYARD_WORKERS=text)


def test_an_index_variable_is_kept_from_child_processes_and_from_what_is_printed() -> None:
    url = "https://me:hunter2@mirror.example.com/cu134"
    made = settings(TRAINYARD_INDEX_CU134=url)

    assert made.indexes == {"TRAINYARD_INDEX_CU134": url}
    assert "TRAINYARD_INDEX_CU134" not in made.environ
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(
    "value", ["mirror.example.com/x", "ftp://h/x", "file:///x", "https://", "https://h:x/"]
)
def test_an_index_that_is_no_url_is_refused_without_being_shown(value: str) -> None:
    with pytest.raises(UsageError, match=r"^TRAINYARD_INDEX_CU134 is no http:// or https:// URL$"):
        settings(TRAINYARD_INDEX_CU134=value)


def test_the_variable_of_an_index_has_its_name_in_capitals() -> None:
    assert index_variable("cu134") == "TRAINYARD_INDEX_CU134"
    assert index_variable("rocm10.0") == "TRAINYARD_INDEX_ROCM10_0"
