"""matrix.yaml: what is wrong is told all at once, in the file's words, at the line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.errors import MatrixError
from trainyard.matrix.load import LARGEST, load_matrix
from trainyard.matrix.model import Matrix
from trainyard.platforms import Platform

ROOT = Path(__file__).parents[1]
GOOD = """\
format: 1
defaults:
  target: one
bases:
  trixie:
    suite: trixie
    python: "3.13"
    snapshot: https://snapshot.example.com/archive
    packages: [python3.13]
sets:
  torch: ["torch==2.15.0"]
  tools: [numpy]
targets:
  one:
    title: a target
    accelerator: cuda
    toolkit: "13.2"
    base: trixie
    platforms: [linux/amd64]
    sets: [torch, tools]
"""


def load(folder: Path, text: str | bytes) -> Matrix:
    path = folder / "matrix.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_matrix(path)


def problems(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(MatrixError) as caught:
        load(folder, text)
    return caught.value.message.splitlines()


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_sound_file_is_a_matrix(tmp_path: Path) -> None:
    target = load(tmp_path, GOOD).target("one")

    assert target.requirements == ("torch==2.15.0", "numpy")
    assert target.platforms == (Platform("linux", "amd64"),)
    assert target.python == "3.13"


def test_this_projects_own_matrix_loads() -> None:
    matrix = load_matrix(ROOT / "matrix.yaml")

    assert matrix.defaults.target == "cuda13.2"
    assert "torch==2.15.0" in matrix.target("cuda13.2").requirements


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "    title: a target",
            "    titel: a target",
            "15:5: targets.one.titel: there is no such key (did you mean 'title'?)",
        ),
        ("defaults:", "default:", "2:1: default: there is no such key (did you mean 'defaults'?)"),
        (
            'python: "3.13"',
            "python: 3.10",
            '7:13: bases.trixie.python: 3.10 is no string to YAML; write it in quotes: "3.10"',
        ),
        (
            'toolkit: "13.2"',
            "toolkit: 13.2",
            '17:14: targets.one.toolkit: 13.2 is no string to YAML; write it in quotes: "13.2"',
        ),
        (
            'toolkit: "13.2"',
            "toolkit: 13",
            '17:14: targets.one.toolkit: 13 is no string to YAML; write it in quotes: "13"',
        ),
        (
            'toolkit: "13.2"',
            "toolkit: 2026-12-01",
            '17:14: targets.one.toolkit: 2026-12-01 is no string to YAML; write it in quotes: "2026-12-01"',
        ),
        (
            "title: a target",
            "title: true",
            '15:12: targets.one.title: true is no string to YAML; write it in quotes: "true"',
        ),
        ("format: 1", "format: 2", "1:9: format: 2 is none of 1"),
        (
            "accelerator: cuda",
            "accelerator: cudaa",
            (
                "16:18: targets.one.accelerator: 'cudaa' is none of "
                "'cuda', 'rocm', 'xpu', 'mps' or 'cpu' (did you mean 'cuda'?)"
            ),
        ),
        (
            "platforms: [linux/amd64]",
            "platforms: [linux/arm]",
            (
                "19:17: targets.one.platforms[0]: unknown platform 'linux/arm'; "
                "known are linux/amd64, linux/arm64, darwin/arm64"
            ),
        ),
        ("platforms: [linux/amd64]", "platforms: []", "19:16: targets.one.platforms: is empty"),
        (
            "platforms: [linux/amd64]",
            "platforms: linux/amd64",
            "19:16: targets.one.platforms: must be a list",
        ),
        (
            "tools: [numpy]",
            "tools: ['numpy @ https://host/x.whl']",
            "12:11: sets.tools[0]: a direct URL cannot be locked; name a version",
        ),
        (
            "packages: [python3.13]",
            "packages: [Python]",
            "9:16: bases.trixie.packages[0]: 'Python' does not match ^[a-z0-9][a-z0-9.+-]+$",
        ),
        ("    base: trixie\n", "", "15:5: targets.one: linux/amd64 needs a base: name one of `bases`"),
        (
            "  target: one",
            "  target: won",
            "3:11: defaults.target: there is no target 'won' (did you mean 'one'?)",
        ),
        (
            "base: trixie",
            "base: trixy",
            "18:11: targets.one.base: there is no base 'trixy' (did you mean 'trixie'?)",
        ),
        (
            "sets: [torch, tools]",
            "sets: [torch, tool]",
            "20:19: targets.one.sets[1]: there is no set 'tool' (did you mean 'tools'?)",
        ),
        ("sets: [torch, tools]", "sets: [torch, torch]", "20:19: targets.one.sets[1]: 'torch' is here twice"),
        (
            "platforms: [linux/amd64]",
            "platforms: [linux/amd64, linux/amd64]",
            "19:30: targets.one.platforms[1]: 'linux/amd64' is here twice",
        ),
        (
            "platforms: [linux/amd64]",
            "platforms: [darwin/arm64]",
            "19:17: targets.one.platforms[0]: darwin is for mps targets only, and this one is for cuda",
        ),
        (
            "accelerator: cuda",
            "accelerator: mps",
            "19:17: targets.one.platforms[0]: Metal does not exist on Linux: an mps target has darwin/arm64 only",
        ),
        (
            "tools: [numpy]",
            "tools: [Torch<2.15]",
            "12:11: sets.tools[0]: 'Torch<2.15' contradicts 'torch==2.15.0' of set 'torch'; one wants both",
        ),
        (
            "tools: [numpy]",
            "tools: [torch==2.14.0]",
            "12:11: sets.tools[0]: 'torch==2.14.0' contradicts 'torch==2.15.0' of set 'torch'; one wants both",
        ),
        (
            "    sets: [torch, tools]",
            "    sets: [torch]\n    requires: {driver: nvidia}",
            "21:24: targets.one.requires.driver: 'nvidia' is no version specifier; write e.g. \">=580\"",
        ),
        ("  one:\n", "  13:\n", '14:3: targets.13: 13 is no string; write the key in quotes: "13"'),
        ("  tools: [numpy]", "  torch: [numpy]", "12:3: sets.torch: the key is here twice; first in line 11"),
        (
            "  tools: [numpy]",
            "  <<: {tools: [numpy]}",
            "12:3: sets.<<: merge keys (<<) hide where a value comes from; write the keys out",
        ),
        (
            "title: a target",
            "title: !!python/name:os.system x",
            "15:12: targets.one.title: the tag tag:yaml.org,2002:python/name:os.system means nothing here",
        ),
    ],
)
def test_a_problem_is_told_at_its_place_and_in_words(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert f"matrix.yaml:{line}" in problems(tmp_path, changed(old, new))


WITH_INDEX = GOOD.replace(
    "targets:\n",
    "indexes:\n  rocm: {url: 'https://wheels.example.com/rocm', dated: false}\ntargets:\n",
).replace(
    "    accelerator: cuda\n",
    "    accelerator: rocm\n    families: [gfx942]\n    index: rocm\n    companions: [torch]\n",
)


def test_a_target_has_its_own_index_for_its_companions_and_a_wheel_for_each_gpu_family(
    tmp_path: Path,
) -> None:
    target = load(tmp_path, WITH_INDEX).target("one")

    assert target.index is not None
    assert (target.index.url, target.index.dated) == ("https://wheels.example.com/rocm", False)
    assert target.companions == ("torch", "rocm-sdk-device-gfx942")
    assert target.requirements == ("torch==2.15.0", "numpy", "rocm[libraries,device-gfx942]==13.2.*")
    assert target.overrides == target.requirements[2:]


def test_a_target_on_macos_has_no_base_and_says_its_python(tmp_path: Path) -> None:
    text = GOOD.replace("cuda\n", "mps\n").replace("linux/amd64", "darwin/arm64")
    target = load(tmp_path, text.replace("    base: trixie\n", '    python: "3.13"\n')).target("one")

    assert (target.base, target.python) == (None, "3.13")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("index: rocm", "index: rocn", "targets.one.index: there is no index 'rocn' (did you mean 'rocm'?)"),
        ("    index: rocm\n", "", "targets.one.companions: from which index? name one of `indexes`"),
        (
            "    companions: [torch]\n",
            "",
            "targets.one.index: nothing comes from it: list `companions`, torch first",
        ),
        ("[torch]\n    toolkit", "[torch, torch]\n    toolkit", "companions[1]: 'torch' is here twice"),
        ("[gfx942]", "[gfx942, gfx942]", "targets.one.families[1]: 'gfx942' is here twice"),
        (
            "    families: [gfx942]\n",
            "",
            "targets.one: ROCm's libraries come by GPU family; write e.g. families: [gfx942]",
        ),
        ("accelerator: rocm", "accelerator: xpu", "targets.one.families: only ROCm has GPU families"),
        ("https://wheels", "http://wheels", "indexes.rocm.url: an index is an https:// URL"),
        ("//wheels", "//me:secret@wheels", "a password here would end in git; put it in netrc"),
        ("base: trixie", "base: trixie\n    python: '3.13'", "the base says which Python; remove this"),
        ("[linux/amd64]", "[darwin/arm64]", "targets.one.base: macOS has no Debian underneath; remove this"),
        (
            "    base: trixie\n    platforms: [linux/amd64]",
            "    platforms: [darwin/arm64]",
            'targets.one: without a base nothing says which Python; write e.g. python: "3.13"',
        ),
    ],
)
def test_what_index_base_and_families_say_must_fit_together(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    assert WITH_INDEX.count(old) == 1

    assert any(problem.endswith(line) for problem in problems(tmp_path, WITH_INDEX.replace(old, new)))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n\tb: 1\n", "2:1: a tab; YAML is indented with spaces"),
        ("a: [1\n", "2:1: expected ',' or ']', but got '<stream end>'"),
        ("a: *nowhere\n", "1:4: found undefined alias 'nowhere'"),
        ("a: b: c\n", "1:5: mapping values are not allowed here"),
        ("a: 1\n---\nb: 1\n", "2:1: but found another document"),
        ("a: &a [*a]\n", "1:1: nested too deeply"),
        ("[" * 600, "1:1: nested too deeply"),
        ("- one\n", "1:1: must be a mapping (`key: value` lines)"),
        ("a: \0\n", "1:1: unacceptable character #x0000: special characters are not allowed"),
    ],
)
def test_what_is_no_matrix_at_all_is_told_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert problems(tmp_path, text) == [f"matrix.yaml:{line}"]


def test_every_problem_is_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = changed("format: 1", "format: 3").replace('"3.13"', "3.10").replace("base: trixie", "base: sid")
    found = problems(
        tmp_path, text.replace("linux/amd64", "linux/s390x").replace("  target: one", "  target: two")
    )

    assert [line.split(": ")[1] for line in found] == [
        "format",
        "defaults.target",
        "bases.trixie.python",
        "targets.one.base",
        "targets.one.platforms[0]",
    ]


def test_a_problem_behind_an_alias_is_told_once_for_each_use(tmp_path: Path) -> None:
    text = changed("tools: [numpy]", "tools: &t ['((']\n  more: *t")

    assert [line.split(":")[1:4] for line in problems(tmp_path, text)] == [
        ["12", "14", " sets.tools[0]"],
        ["12", "14", " sets.more[0]"],
    ]


def test_aliases_of_aliases_do_not_fill_the_memory(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]

    assert "too many values (aliases of aliases?)" in problems(tmp_path, "\n".join(rows))[0]


def test_yes_and_no_are_strings_as_in_yaml_1_2(tmp_path: Path) -> None:
    matrix = load(tmp_path, changed("title: a target", "title: no"))

    assert matrix.targets["one"].title == "no"


def test_requirements_with_other_markers_do_not_contradict(tmp_path: Path) -> None:
    line = "tools: [\"torch==2.14.0; sys_platform == 'darwin'\"]"

    assert load(tmp_path, changed("tools: [numpy]", line))


def test_sets_that_no_target_takes_together_may_contradict(tmp_path: Path) -> None:
    text = changed("tools: [numpy]", "tools: [torch==2.14.0]").replace(
        "sets: [torch, tools]", "sets: [torch]"
    )

    assert load(tmp_path, text)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match=r"matrix\.yaml is missing in ") as caught:
        load_matrix(tmp_path / "matrix.yaml")

    assert "git checkout" in caught.value.hint


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == ["matrix.yaml is empty"]


def test_a_file_in_another_encoding_names_the_line(tmp_path: Path) -> None:
    assert problems(tmp_path, b"# one\n# caf\xe9\n") == ["matrix.yaml:2: not UTF-8"]


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    assert "larger than 1 MB" in problems(tmp_path, b"#" * (LARGEST + 1))[0]


def test_a_folder_of_that_name_is_a_clean_error(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="cannot be read"):
        load_matrix(tmp_path)
