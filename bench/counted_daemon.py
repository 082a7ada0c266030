#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon of Tonnage that counts the statements and the transactions of each of its threads.

The process of the API, which a standalone forks, counts its own, and its counts are among those of the daemon.

The first argument is the name of an entry point in :mod:`tonnage.cli.start`; the others are the daemon's own::

    python bench/counted_daemon.py standalone --config-file tonnage.conf

For each line on standard input it prints one line of JSON with the counts so far. Counting costs time: a process that
counts is not measured.
"""

import collections
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import sqlalchemy as sa
from sqlalchemy import event

#: The thread that decides and books.
DECISIONS = "decisions"


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of statements by thread and text, and numbers of transactions by thread."""

    statements: Mapping[tuple[str, str], int]
    transactions: Mapping[str, int]

    @classmethod
    def of_text(cls, text: str) -> "Counts":
        """Return the counts from a line of the daemon."""
        data = json.loads(text)
        return cls({(thread, text): number for thread, text, number in data["statements"]}, data["transactions"])

    def of_decisions(self) -> tuple[int, int]:
        """Return the numbers of statements and transactions of the decision thread."""
        statements = sum(number for (thread, text), number in self.statements.items() if _counts(thread, text))
        return statements, self.transactions.get(DECISIONS, 0)

    def of_api(self) -> int:
        """Return the number of statements of the threads of requests."""
        return sum(number for (thread, _), number in self.statements.items() if thread.startswith("request"))


def _counts(thread: str, text: str) -> bool:
    """Return whether a statement is one of the decision thread; the begin of a transaction is none."""
    return thread == DECISIONS and not text.startswith("BEGIN")


class StatementCounter:
    """Counts the statements and the transactions of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statements: collections.Counter[tuple[str, str]] = collections.Counter()
        self._transactions: collections.Counter[str] = collections.Counter()

    def attach(self) -> None:
        """Count the statements of all engines from now on."""
        event.listen(sa.Engine, "before_cursor_execute", self._count_statement)
        event.listen(sa.Engine, "begin", self._count_transaction)

    def text(self) -> str:
        """Return the counts as JSON."""
        with self._lock:
            statements = [[thread, text, number] for (thread, text), number in self._statements.items()]
            return json.dumps({"statements": statements, "transactions": dict(self._transactions)})

    def _count_statement(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        with self._lock:
            self._statements[threading.current_thread().name, statement] += 1

    def _count_transaction(self, connection: Any) -> None:
        with self._lock:
            self._transactions[threading.current_thread().name] += 1


class ForkedCounter:
    """The counts of the process that this one forks, which answers on a socket."""

    def __init__(self, counter: StatementCounter) -> None:
        self._counter = counter
        self._near, self._far = (end.makefile("rw") for end in socket.socketpair())
        self._has_forked = False
        os.register_at_fork(after_in_parent=self._forked, after_in_child=self._serve)

    def text(self) -> str | None:
        """Return the counts of the forked process as JSON, None without one."""
        if not self._has_forked:
            return None
        print("count", file=self._near, flush=True)
        return self._near.readline()

    def _forked(self) -> None:
        self._has_forked = True

    def _serve(self) -> None:
        threading.Thread(target=_answer, args=(self._far, self._far, self._counter), daemon=True).start()


def _answer(questions: TextIO, answers: TextIO, counter: StatementCounter, forked: ForkedCounter | None = None) -> None:
    """Print the counts for each line of the questions."""
    for _ in questions:
        counts = json.loads(counter.text())
        text = None if forked is None else forked.text()
        if text is not None:
            more = json.loads(text)
            counts["statements"] += more["statements"]
            for thread, number in more["transactions"].items():
                counts["transactions"][thread] = counts["transactions"].get(thread, 0) + number
        print(json.dumps(counts), file=answers, flush=True)


def main() -> None:
    """Run the daemon."""
    from tonnage.cli import start  # after the command line of a benchmark that imports this module

    counter = StatementCounter()
    counter.attach()
    # What the daemon itself prints goes to its log.
    answers, sys.stdout = sys.stdout, sys.stderr
    forked = ForkedCounter(counter)
    # The forked process closes ``sys.stdin``, which a thread of this one must not be reading then.
    questions = os.fdopen(os.dup(sys.stdin.fileno()))
    threading.Thread(target=_answer, args=(questions, answers, counter, forked), daemon=True).start()
    name = sys.argv.pop(1)
    sys.exit(getattr(start, name)())


if __name__ == "__main__":
    main()
