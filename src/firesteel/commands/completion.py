"""``firesteel completion bash|zsh|fish``: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from . import OK

if TYPE_CHECKING:
    from . import Commands

BASH = """\
_firesteel() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [[ "$current" == -* || "$COMP_CWORD" -eq 1 ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _firesteel firesteel
"""


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion", help="print a script that completes commands and options in a shell",
        description="Print a script that completes commands and options in a shell.",
        epilog='for example in ~/.bashrc: eval "$(firesteel completion bash)"')
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))

    def completion(arguments: argparse.Namespace) -> int:
        parsers: dict[str, argparse.ArgumentParser] = dict(commands.choices)
        print(fish(parsers) if arguments.shell == "fish" else bash(parsers, for_zsh=arguments.shell == "zsh"), end="")
        return OK

    parser.set_defaults(command=completion)


def words_of(parser: argparse.ArgumentParser) -> list[str]:
    """What can stand behind a command: its options, and words that an argument is one of."""
    words: list[str] = []
    for action in vars(parser)["_actions"]:
        words += action.option_strings or [str(choice) for choice in action.choices or ()]
    return words


def bash(parsers: dict[str, argparse.ArgumentParser], for_zsh: bool = False) -> str:
    """The script for bash, which zsh reads as well."""
    cases = "\n".join(f'            {name}) words="{" ".join(words_of(parser))}" ;;'
                      for name, parser in parsers.items())
    first = "autoload -U +X bashcompinit && bashcompinit\n" if for_zsh else ""
    return first + BASH.format(commands=" ".join(parsers), cases=cases)


def fish(parsers: dict[str, argparse.ArgumentParser]) -> str:
    """The script for fish."""
    lines = [f"complete -c firesteel -n __fish_use_subcommand -a '{' '.join(parsers)}'"]
    for name, parser in parsers.items():
        for word in words_of(parser):
            flag = "-l" if word.startswith("--") else "-s" if word.startswith("-") else "-a"
            lines.append(f"complete -c firesteel -n '__fish_seen_subcommand_from {name}' {flag} {word.lstrip('-')}")
    return "\n".join(lines) + "\n"
