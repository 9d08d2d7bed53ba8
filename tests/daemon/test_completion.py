from __future__ import annotations

import shutil
import subprocess

import pytest

from daemon import completion, verbs
from daemon.verbs import UsageError

VERBS = verbs.load()


def test_the_completion_is_sound_bash() -> None:
    script = completion.script("bash", VERBS)
    checked = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("line", "offered", "withheld"),
    [
        ("dreamctl re", ["recall", "remember", "revert"], ["fading"]),
        ("dreamctl --socket recall fa", ["fading"], ["recall"]),
        ("dreamctl recall nuts --ex", ["--explain"], ["--no-explain"]),
        ("dreamctl recall nuts --no-", ["--no-learn", "--no-pinned"], ["--no-explain"]),
        ("dreamctl recall nuts --tier ", ["core", "long", "short"], ["--tier", "--explain"]),
        ("dreamctl run ", ["dream", "night", "--dry-run"], ["recall"]),
        ("dreamctl run-job d", ["dream", "decay"], ["night"]),
        ("dreamctl night ", ["--dry-run"], ["dream"]),
        ("dreamctl help fa", ["fading"], []),
        ("dreamctl completion ", ["bash", "zsh", "fish"], ["recall"]),
        ("dreamctl list --scope ", [], ["--scope"]),
    ],
)
def test_bash_offers_what_may_follow(line: str, offered: list[str], withheld: list[str]) -> None:
    script = completion.script("bash", VERBS)
    words = line.split(" ")
    asked = f'COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}; _dreamctl; printf "%s\\n" "${{COMPREPLY[@]}}"'
    replied = subprocess.run(["bash", "-c", script + asked, "bash", *words], capture_output=True, text=True, check=True)

    assert set(offered) <= set(replied.stdout.split())
    assert set(withheld).isdisjoint(replied.stdout.split())


def test_the_scripts_for_zsh_and_fish_name_every_verb() -> None:
    zsh, fish = completion.script("zsh", VERBS), completion.script("fish", VERBS)

    assert all(f"                {name}) words=" in zsh for name in VERBS)
    assert all(f"-a {name} -d '" in fish for name in VERBS)
    for shell, script in (("zsh", zsh), ("fish", fish)):
        if found := shutil.which(shell):
            checked = subprocess.run([found, "-n"], input=script.encode(), capture_output=True, check=False)
            assert (checked.returncode, checked.stderr) == (0, b"")


def test_another_shell_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught:
        completion.script("csh", VERBS)

    assert caught.value.hint == "Choose from bash, zsh, fish."
