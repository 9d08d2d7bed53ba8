"""Scripts that let a shell complete the command line, made of the verbs as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from daemon.verbs import ALIASES, LOCAL, UsageError, Verb

SHELLS: Final = ("bash", "zsh", "fish")

_OPTIONS: Final = ("--json", "--socket", "--timeout", "--help")
_BASH: Final = """\
# dreamctl's completion for bash: source <(dreamctl completion bash)
_dreamctl() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" verb="" words="" index
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${{COMP_WORDS[index]}}" in
            --socket | --timeout) ((index++)) ;;
            -*) ;;
            *) verb="${{COMP_WORDS[index]//-/_}}"; break ;;
        esac
    done
    case "$verb $before" in
        *" --socket" | *" --timeout") ;;
{values}
        *)
            case "$verb" in
{verbs}
            esac
            ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dreamctl dreamctl
"""
_ZSH: Final = """\
# dreamctl's completion for zsh, which reads that for bash: source <(dreamctl completion zsh)
autoload -Uz compinit bashcompinit
(( ${+functions[compdef]} )) || compinit
bashcompinit
"""


def script(shell: str, verbs: Mapping[str, Verb]) -> str:
    """The script for a shell. Raises UsageError where there is none."""
    if shell not in SHELLS:
        raise UsageError(f"There is no completion for {shell!r}.", f"Choose from {', '.join(SHELLS)}.")
    known = dict(verbs) | {alias: _shortened(verbs[words[0]], words[1:]) for alias, words in ALIASES.items()}
    if shell == "fish":
        return "\n".join(_fish(known)) + "\n"
    bash = _BASH.format(values="\n".join(_values(known)), verbs="\n".join(_words(known)))
    return bash if shell == "bash" else _ZSH + bash.partition("\n")[2]


def _shortened(verb: Verb, given: tuple[str, ...]) -> Verb:
    """A verb whose first words an alias gives."""
    rest = verb.positional[len(given) :]
    params = {name: param for name, param in verb.params.items() if name not in verb.positional or name in rest}
    return verb._replace(positional=rest, params=params)


def _offered(verb: Verb) -> Iterator[str]:
    """The words that may follow a verb: what its positional params allow, then flags."""
    for param in verb.params.values():
        yield from param.choices if param.name in verb.positional else param.offered


def _values(verbs: Mapping[str, Verb]) -> Iterator[str]:
    """The cases of bash where the word before is a flag that takes a value."""
    for name, verb in verbs.items():
        for param in verb.params.values():
            if param.kind != "switch":
                cases = " | ".join(f'"{name} {flag}"' for flag in param.flags)
                yield f'        {cases}) words="{" ".join(param.choices)}" ;;'


def _words(verbs: Mapping[str, Verb]) -> Iterator[str]:
    """The cases of bash for each verb."""
    every = [*verbs, *LOCAL]
    yield f'                "") words="{" ".join([*every, *_OPTIONS, "--version"])}" ;;'
    for name, verb in verbs.items():
        yield f'                {name}) words="{" ".join([*_offered(verb), *_OPTIONS])}" ;;'
    yield f'                completion) words="{" ".join(SHELLS)}" ;;'
    yield f'                help) words="{" ".join(every)}" ;;'


def _fish(verbs: Mapping[str, Verb]) -> Iterator[str]:
    yield "# dreamctl's completion for fish: dreamctl completion fish | source"
    for name, about in [*((name, verb.about) for name, verb in verbs.items()), *LOCAL.items()]:
        yield f"complete -c dreamctl -f -n __fish_use_subcommand -a {name} -d {_quoted(about)}"
    yield f"complete -c dreamctl -f -n '__fish_seen_subcommand_from completion' -a '{' '.join(SHELLS)}'"
    yield f"complete -c dreamctl -f -n '__fish_seen_subcommand_from help' -a '{' '.join([*verbs, *LOCAL])}'"
    yield "complete -c dreamctl -l json -d 'print the result as it is'"
    yield "complete -c dreamctl -l socket -r -d 'where the daemon listens'"
    yield "complete -c dreamctl -l timeout -x -d 'how long to wait, in seconds'"
    yield "complete -c dreamctl -s h -l help -f -d 'show what it takes'"
    for name, verb in verbs.items():
        condition = f"complete -c dreamctl -n '__fish_seen_subcommand_from {name}'"
        for param in verb.params.values():
            if param.name in verb.positional:
                if param.choices:
                    yield f"{condition} -f -a '{' '.join(param.choices)}'"
                continue
            value = "" if param.kind == "switch" else f" -x -a '{' '.join(param.choices)}'" if param.choices else " -r"
            for flag in param.offered:
                yield f"{condition} -l {flag.removeprefix('--')}{value} -d {_quoted(param.about)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
