# SPDX-License-Identifier: Apache-2.0
"""The preparation of requests: work that waits for other services, done before the decision thread gets a request."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tonnage.extension import Hook
from tonnage.scheduler.requests.placement_requests import Move, Retry

Message = TypeVar("Message")


class Preparation(Hook):
    """One step of the preparation. A scheduler has a list of them, which is empty for plain requests.

    The threads of requests call the methods, several at a time. Each has a default that does nothing.
    """

    def prepare(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages of requests that arrived together, with the additions of the preparation.

        It may wait for another service. Its exception is the answer to all of these requests.
        """
        return messages

    def prepare_later(self, work: Retry | Move, submit: Callable[[Retry | Move], object]) -> None:
        """Call ``submit`` with work that no client waits for, prepared, now or later from another thread.

        The decision thread calls this, so it does not wait.
        """
        submit(work)
