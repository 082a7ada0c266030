# SPDX-License-Identifier: Apache-2.0
"""Log records whose message is one line, whatever texts of users are in it.

A line feed in a reason or a name would begin a line of the log that looks as if the process had written it.
"""

import logging


class OneLineRecord(logging.LogRecord):
    """A record with escape sequences in the place of characters that cannot be printed."""

    def getMessage(self) -> str:  # noqa: N802  (overrides)
        """Return the message on one line."""
        message = super().getMessage()
        if message.isprintable():
            return message
        return "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in message
        )


def install() -> None:
    """Make all loggers of the process create such records."""
    logging.setLogRecordFactory(OneLineRecord)
