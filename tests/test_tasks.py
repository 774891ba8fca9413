"""The command line as a user meets it: exit codes, what is on stdout, what is on stderr."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import Invoke, copy_project

COMMANDS = (
    "bench",
    "build",
    "check",
    "clean",
    "list",
    "load",
    "lock",
    "parity",
    "plan",
    "render",
    "sbom",
    "smoke",
    "verify",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For tests that change nothing in it."""
    return copy_project(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture(scope="module")
def invoke(project: Path) -> Invoke:
    return Invoke(project)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """For tests that break it."""
    return copy_project(tmp_path / "own project")


def test_every_command_is_listed_with_a_sentence(invoke: Invoke) -> None:
    done = invoke("--list")
    found = dict(re.findall(r"^  ([\w.-]+) {2,}(\S.*)$", done.stdout, re.MULTILINE))

    assert done.returncode == 0
    assert set(COMMANDS) <= found.keys()
    assert not [name for name, sentence in found.items() if len(sentence.split()) < 3]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_of_a_command_is_explained(invoke: Invoke, command: str) -> None:
    """`--json` alone on a line, with nothing below it, is a flag that nobody described."""
    text = invoke("--help", command).stdout
    options = text.partition("Options:")[2]
    flags = re.split(r"^  (?=-)", options, flags=re.MULTILINE)[1:]

    assert not [flag for flag in flags if len(flag.split()) < 4], text


# Exit 2: a value that we reject


@pytest.mark.parametrize("command", ["plan", "build", "smoke", "load", "verify", "parity", "lock"])
def test_an_unknown_target_is_exit_2_with_a_near_miss_and_no_traceback(invoke: Invoke, command: str) -> None:
    done = invoke(command, "--target", "cuda13.22")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: unknown target 'cuda13.22' (did you mean 'cuda13.2'?)\nhint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("build", "--target"),
        ("build", "--target", "--json"),
        ("build", "--target="),
        ("build", "-t"),
        ("build", "-t", "--json"),
        ("lock", "--target"),
        ("plan", "--json", "--target"),
        ("verify", "--target", "cuda13.2", "--target"),
    ],
    ids=" ".join,
)
def test_a_target_flag_without_a_value_is_exit_2_and_never_means_the_default(
    invoke: Invoke, words: tuple[str, ...]
) -> None:
    """A script whose $TARGET is empty must not build the wrong image."""
    done = invoke(*words)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: --target needs a value\nhint: ")


def test_an_unknown_platform_is_exit_2_and_the_known_ones_are_named(invoke: Invoke) -> None:
    done = invoke("plan", "--platform", "linux/riscv64")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: cuda13.2 has no platform 'linux/riscv64'")
    assert "linux/amd64, linux/arm64" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("lock", "--until", "yesterday"), "--until 'yesterday' is no date"),
        (("lock", "--package", "nunpy"), "no locked wheel is called 'nunpy' (did you mean 'numpy'?)"),
        (("smoke", "--runner", "dokcer"), "unknown runner 'dokcer' (did you mean 'docker'?)"),
        (("smoke", "--profile", "hostil"), "unknown profile 'hostil' (did you mean 'hostile'?)"),
        (("smoke", "--engine", "kaniko"), "unknown engine 'kaniko'"),
        (("load", "--into", "pod"), "unknown engine 'pod' (did you mean 'podman'?)"),
        (("build", "--contexts", "there"), "--builder, --no-cache and --contexts are for Docker's build"),
        (("build", "--no-cache"), "--builder, --no-cache and --contexts are for Docker's build"),
        (("build", "--engine", "docker", "--record"), "the golden record is of the assembler's image"),
        (("build", "--engine", "docker", "--compression", "xz"), "unknown compression 'xz'"),
    ],
)
def test_a_value_that_cannot_be_is_exit_2(invoke: Invoke, words: tuple[str, ...], message: str) -> None:
    done = invoke(*words)

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}\nhint: ")


def test_a_number_of_threads_that_is_none_is_exit_2(project: Path) -> None:
    done = Invoke(project, {"TRAINYARD_WORKERS": "many"})("list")

    assert done.returncode == 2
    assert done.stderr.startswith("error: TRAINYARD_WORKERS is 'many'")


def test_a_word_that_is_no_command_fails_without_a_traceback(invoke: Invoke) -> None:
    done = invoke("nightley")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


# Exit 1: the answer is no


def test_a_broken_matrix_is_exit_1_with_every_place_on_stderr(own: Path) -> None:
    matrix = own / "matrix.yaml"
    text = matrix.read_text("utf-8")
    text = text.replace("format: 1\n", "format: 1\nfoo: bar\n").replace(
        "accelerator: cuda", "accelerator: abacus", 1
    )
    matrix.write_text(text, "utf-8")

    done = Invoke(own)("list", "--json")

    assert done.returncode == 1
    assert done.stdout == ""
    assert len(re.findall(r"matrix\.yaml:\d+:\d+: \S", done.stderr)) == 2
    assert "Traceback" not in done.stderr


def test_a_missing_lock_is_exit_1_with_the_command_that_makes_it(own: Path) -> None:
    (own / "lockfiles" / "cuda13.2" / "linux-amd64.txt").unlink()

    done = Invoke(own)("plan", "--platform", "linux/amd64")

    assert done.returncode == 1
    assert done.stdout == ""
    assert "lockfiles/cuda13.2/linux-amd64.txt is missing" in done.stderr
    assert done.stderr.rstrip().endswith("hint: invoke lock --target cuda13.2")


@pytest.mark.parametrize("words", [("render", "--check"), ("lock", "--check")])
def test_a_target_that_nobody_has_locked_yet_stops_no_other_unless_it_is_named(
    own: Path, words: tuple[str, ...]
) -> None:
    shutil.rmtree(own / "lockfiles/xpu", ignore_errors=True)

    every, named = Invoke(own)(*words), Invoke(own)(*words, "--target", "xpu")
    other = Invoke(own)(*words, "--target", "cuda13.2")

    # images/ may wait to be recorded; that is for another check to say.
    assert every.returncode == other.returncode, every.stderr
    assert "not locked yet (invoke lock --target xpu)" in every.stderr
    assert named.returncode == 1
    assert "lockfiles/xpu/linux-amd64.txt is missing" in named.stderr


@pytest.mark.parametrize("words", [("render", "--check"), ("lock", "--check")])
def test_a_recorded_image_without_its_lock_is_a_problem_named_or_not(
    own: Path, words: tuple[str, ...]
) -> None:
    (own / "lockfiles/cuda13.2/linux-amd64.txt").unlink()

    done = Invoke(own)(*words)

    assert done.returncode == 1
    assert "lockfiles/cuda13.2/linux-amd64.txt is missing" in done.stderr


def test_an_index_that_is_away_is_a_reason_and_a_hint_and_leaves_no_file_but_the_base_is_locked(
    own: Path,
) -> None:
    shutil.rmtree(own / "lockfiles/xpu", ignore_errors=True)

    done = Invoke(own, {"TRAINYARD_INDEX_PYTORCH_XPU": "http://127.0.0.1:9/whl"})("lock", "--target", "xpu")

    assert done.returncode == 1
    assert "lockfiles/base/forky.amd64.txt: fresh" in done.stderr
    assert "lockfiles/xpu/linux-amd64.txt: not locked" in done.stderr
    assert "index pytorch-xpu (http://127.0.0.1:9/whl) cannot be used" in done.stderr
    assert "hint: a mirror of it: TRAINYARD_INDEX_PYTORCH_XPU=URL" in done.stderr
    assert not (own / "lockfiles/xpu").exists()


def test_a_stale_lock_is_exit_1_with_its_reasons(own: Path) -> None:
    matrix = own / "matrix.yaml"
    matrix.write_text(matrix.read_text("utf-8").replace("torch==2.15.0", "torch==2.16.0"), "utf-8")

    done = Invoke(own)("build", "--platform", "linux/amd64", "--no-smoke")

    assert done.returncode == 1
    assert "it has torch 2.15.0, and matrix.yaml asks for torch==2.16.0" in done.stderr
    assert "hint: invoke lock --target cuda13.2" in done.stderr


def test_a_malformed_lock_says_what_to_do_and_it_is_not_the_same_command_again(own: Path) -> None:
    lock = own / "lockfiles" / "cuda13.2" / "linux-amd64.txt"
    lock.write_text(lock.read_text("utf-8") + "<<<<<<< HEAD\n", "utf-8")

    done = Invoke(own)("plan", "--platform", "linux/amd64")

    assert done.returncode == 1
    assert re.search(r"lockfiles/cuda13\.2/linux-amd64\.txt:\d+: not a locked wheel", done.stderr)
    assert "restore" in done.stderr


def test_list_goes_on_past_a_malformed_lock(own: Path) -> None:
    lock = own / "lockfiles" / "cuda13.2" / "linux-amd64.txt"
    lock.write_text("not a lock\n", "utf-8")

    cells = Invoke(own).json("list")["cells"]

    assert isinstance(cells, list)
    locked = {cell["platform"]: cell["locked"] for cell in cells if cell["target"] == "cuda13.2"}
    assert locked["linux/amd64"] is False
    assert locked["linux/arm64"] is True


def test_a_second_build_in_one_cache_is_refused_not_queued(project: Path) -> None:
    cache = project / "cache"
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        done = Invoke(project)("clean")

    assert done.returncode == 1
    assert "another trainyard is using the cache" in done.stderr
    assert "TRAINYARD_CACHE=" in done.stderr


# stdout is data, stderr is talk


@pytest.mark.parametrize(
    "words", [("list",), ("plan",), ("plan", "--platform", "all"), ("clean",)], ids=" ".join
)
def test_json_is_one_document_on_stdout_and_nothing_else(invoke: Invoke, words: tuple[str, ...]) -> None:
    document = invoke.json(*words)

    assert document["schema"] == 1


def test_plan_json_has_every_layer_with_its_key_and_the_config(invoke: Invoke) -> None:
    images = invoke.json("plan", "--platform", "all")["images"]

    assert isinstance(images, list)
    assert [image["platform"] for image in images] == ["linux/amd64", "linux/arm64"]
    for image in images:
        assert re.fullmatch(r"[0-9a-f]{64}", image["key"])
        assert all(re.fullmatch(r"[0-9a-f]{64}", layer["key"]) for layer in image["layers"])
        assert image["config"]["config"]["Labels"]["org.opencontainers.image.version"] == image["tag"]


def test_the_plan_of_the_committed_locks_is_the_same_from_another_folder_and_environment(
    invoke: Invoke, own: Path
) -> None:
    other = Invoke(own, {"TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "7", "PIP_NO_INDEX": "1"})

    assert other("plan", "--platform", "all").stdout == invoke("plan", "--platform", "all").stdout != ""


def test_list_for_a_person_is_a_table_on_stdout_that_is_not_cut(invoke: Invoke) -> None:
    done = invoke("list")

    assert done.returncode == 0
    assert "linux/amd64" in done.stdout
    assert "…" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "words", [("plan",), ("plan", "--json"), ("list",), ("list", "--json")], ids=" ".join
)
def test_a_reader_that_has_seen_enough_is_no_failure_of_ours(project: Path, words: tuple[str, ...]) -> None:
    """As in `invoke plan | head -1`, for output within Python's buffer and beyond it."""
    with subprocess.Popen(
        [sys.executable, "-m", "invoke", *words],
        cwd=project,
        env={**os.environ, "TRAINYARD_CACHE": str(project / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()

    assert said == ""
    assert process.returncode in (1, 141), "rich, which prints the table, ends with 1"


def test_clean_says_on_stderr_what_was_given_back(own: Path) -> None:
    blobs = own / "cache" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "x").write_bytes(bytes(1000))

    done = Invoke(own)("clean", "--layers", "--json")
    freed = json.loads(done.stdout)["freed"]

    assert [(item["what"], item["bytes"]) for item in freed] == [("blobs", 1000)]
    assert "blobs: 0.00 GB given back" in done.stderr
    assert not blobs.exists()


def test_a_smoke_test_of_what_was_not_built_names_the_build(invoke: Invoke) -> None:
    done = invoke("smoke", "--platform", "linux/amd64")

    assert done.returncode == 1
    assert "dist/cuda13.2/linux-amd64 is not there" in done.stderr
    assert "hint: invoke build --target cuda13.2 --platform linux/amd64" in done.stderr


def test_no_command_writes_into_the_project_by_looking(own: Path) -> None:
    before = {str(path.relative_to(own)) for path in own.rglob("*") if "__pycache__" not in path.parts}
    for command in ("list", "plan"):
        Invoke(own, {"PYTHONDONTWRITEBYTECODE": "1"})(command)

    after = {str(path.relative_to(own)) for path in own.rglob("*") if "__pycache__" not in path.parts}
    assert after == before
