# SPDX-License-Identifier: Apache-2.0
"""Commands of the documentation, run as a reader would run them."""

import doctest
import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_BLOCK = re.compile(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)")
_PROMPT = re.compile(r"^(?=[$#] )", re.MULTILINE)
_END = "-- the command has ended --"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page and its output there. ``root`` marks commands for root on the storage machine."""

    text: str
    root: bool
    shown: str

    def matches(self, output: str) -> bool:
        """Return whether the page shows this output. ``...`` matches anything, and any white space is equal."""
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        return doctest.OutputChecker().check_output(self.shown, output, flags)


def commands(page: str) -> Iterator[Command]:
    """Yield the commands of a page in order."""
    for block in _BLOCK.findall(page):
        for entry in _PROMPT.split(textwrap.dedent(block).strip() + "\n")[1:]:
            first, *lines = entry.rstrip("\n").split("\n")
            text = [first[2:]]
            while lines and lines[0].startswith("> "):
                text.append(lines.pop(0)[2:])
            yield Command("\n".join(text), first.startswith("#"), "".join(f"{line}\n" for line in lines))


class Shell:
    """One bash for a series of commands, which keeps variables and functions. A context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # a command may still run
            self._process.kill()
        self._process.communicate()

    def run(self, text: str) -> str:
        """Run a command, and return its output with its errors."""
        source, sink = self._process.stdout, self._process.stdin
        assert source is not None
        assert sink is not None
        sink.write(f"{text}\necho\necho '{_END}'\n")
        sink.flush()
        lines: list[str] = []
        while (line := source.readline()) != f"{_END}\n":
            assert line, f"the shell has ended: {''.join(lines)}"
            lines.append(line)
        return "".join(lines).removesuffix("\n")

    def expand(self, text: str) -> str:
        """Return a text with the variables of this shell replaced by their values."""
        return self.run(f'echo "{text}"').strip()
