"""The image's entrypoint script, run by this host's sh as whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "trainyard/rootfs/usr/local/bin/trainyard-entrypoint"


def run(tmp: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp)} | env
    return subprocess.run(
        ["sh", str(SCRIPT), *argv], env=variables, capture_output=True, text=True, check=False
    )


def environment(tmp: Path, **env: str) -> dict[str, str]:
    done = run(tmp, "env", **env)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / f"trainyard-{os.getuid()}"


def test_the_command_runs_with_its_arguments_and_exit_code(tmp_path: Path) -> None:
    done = run(tmp_path, "sh", "-c", 'echo "$1"; exit 7', "x", "two words")

    assert (done.stdout, done.returncode) == ("two words\n", 7)


def test_caches_are_in_a_folder_that_only_this_user_can_read(tmp_path: Path, private: Path) -> None:
    env = environment(tmp_path)

    assert private.stat().st_mode & 0o777 == 0o700
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        assert Path(env[name]).is_relative_to(private), name


def test_flight_recorder_dumps_go_to_a_folder_that_exists_and_is_private(
    tmp_path: Path, private: Path
) -> None:
    """torch does not create the folder, and writes 0644."""
    folder = Path(environment(tmp_path)["TORCH_FR_DUMP_TEMP_FILE"]).parent

    assert folder == private / "flight-recorder"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_the_user_set_is_kept(tmp_path: Path) -> None:
    env = environment(
        tmp_path, TRITON_CACHE_DIR="/mine", TORCH_FR_DUMP_TEMP_FILE="/dumps/rank_", HOME=str(tmp_path)
    )

    assert env["TRITON_CACHE_DIR"] == "/mine"
    assert env["TORCH_FR_DUMP_TEMP_FILE"] == "/dumps/rank_"
    assert env["HOME"] == str(tmp_path)


def test_without_a_home_there_is_one(tmp_path: Path, private: Path) -> None:
    assert environment(tmp_path)["HOME"] == str(private / "home")
    assert environment(tmp_path, HOME="/nonexistent")["HOME"] == str(private / "home")


def test_a_link_planted_in_tmp_is_not_followed(tmp_path: Path, private: Path) -> None:
    """The name in /tmp can be guessed, so another user may have been there first."""
    victim = tmp_path / "victim"
    victim.mkdir()
    private.symlink_to(victim)

    env = environment(tmp_path)

    assert not Path(env.get("TRITON_CACHE_DIR", "/")).is_relative_to(private)
    assert list(victim.iterdir()) == []


def test_a_folder_left_open_by_an_earlier_run_is_closed(tmp_path: Path, private: Path) -> None:
    private.mkdir()
    private.chmod(0o755)

    environment(tmp_path)

    assert private.stat().st_mode & 0o777 == 0o700


def test_a_second_start_in_the_same_container_works(tmp_path: Path) -> None:
    assert environment(tmp_path) == environment(tmp_path)


def test_the_umask_of_the_job_is_left_alone(tmp_path: Path) -> None:
    """Checkpoints are shared with a group; only dumps are private."""
    assert (
        run(tmp_path, "sh", "-c", "umask").stdout
        == subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, check=True).stdout
    )
