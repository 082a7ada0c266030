# SPDX-License-Identifier: Apache-2.0
"""When rounds of the publisher are due."""

from tonnage.extensions.kubernetes.publication.publisher_schedule import LEAST_PAUSE, RoundSchedule


class Clock:
    """A clock, and a schedule with an interval of 10 seconds that uses it."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.schedule = RoundSchedule(10.0, lambda: self.seconds)

    def run(self, seconds: float) -> bool:
        """Run a round that takes so long, and return whether it is a full one."""
        is_full = self.schedule.begin()
        self.seconds += seconds
        self.schedule.end()
        return is_full


def test_full_rounds_come_at_the_interval() -> None:
    clock = Clock()
    assert clock.schedule.wait_seconds(False) == 0
    assert clock.run(2.0)
    assert clock.schedule.wait_seconds(False) == 10.0
    clock.seconds += 10.0
    assert clock.schedule.wait_seconds(False) == 0
    assert clock.run(2.0)


def test_claims_share_a_round_after_a_pause_as_long_as_the_last_round() -> None:
    clock = Clock()
    clock.run(0.1)
    assert clock.schedule.wait_seconds(True) == LEAST_PAUSE
    clock.run(3.0)
    assert clock.schedule.wait_seconds(True) == 3.0
    clock.seconds += 3.0
    assert clock.schedule.wait_seconds(True) == 0


def test_rounds_for_claims_do_not_put_off_the_full_ones() -> None:
    clock = Clock()
    clock.run(1.0)
    full = []
    for _ in range(20):
        clock.seconds += clock.schedule.wait_seconds(True)
        full.append(clock.run(1.0))
    # 1 s of round and 1 s of pause: each full round is the first one after ten seconds.
    assert [number for number, is_full in enumerate(full) if is_full] == [5, 11, 17]
