"""Completion of the `emma` command in bash: its commands, their options, and names of releases and models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType

from common.errors import OneLineParser
from emma.cli.project import PROGRAMS, Program

_SCRIPT = """\
# eval "$(emma --completion)"
_emma() {{
  local words
  case "${{COMP_WORDS[*]:1:COMP_CWORD-1}}" in
{cases}
  esac
  case "$3" in
    --release) words=$(grep -ls '^release:' config/releases/*.yaml | sed 's|.*/||; s|\\.yaml$||');;
    --models|check) words="$words $(cd config/models 2>/dev/null && ls | sed -n 's/\\.yaml$//p')";;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$2"))
}}
complete -o default -F _emma emma
"""


def script(commands: Mapping[str, ModuleType | Program]) -> str:
    """The lines that bash evaluates; where no word of these fits, it completes files."""
    firsts = sorted({name.partition(" ")[0] for name in commands})
    seconds: dict[str, list[str]] = {}
    for first, _, second in (name.partition(" ") for name in sorted(commands)):
        if second:
            seconds.setdefault(first, []).append(second)
    cases = {"": firsts, **seconds}
    lines = [f'    "{words}") words="{" ".join(known)}";;' for words, known in cases.items()]
    lines += [f'    "{name}"*) words="{" ".join(options(name, command))}";;' for name, command in commands.items()]
    return _SCRIPT.format(cases="\n".join(lines))


def options(name: str, command: ModuleType | Program) -> list[str]:
    """The options of a command, as its help or its program writes them."""
    if isinstance(command, Program):
        text = " ".join(re.findall(r'"(--[a-z-]+)"', (PROGRAMS / f"{command.name}.py").read_text(encoding="utf-8")))
    else:
        parser = OneLineParser(f"emma {name}")
        command.add_options(parser)
        text = parser.format_usage()
    return sorted({"--help", *re.findall(r"--[a-z][a-z-]*", text)})
