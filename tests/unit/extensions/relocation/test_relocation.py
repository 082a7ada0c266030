# SPDX-License-Identifier: Apache-2.0
"""Plans that Cinder carries out, to their end."""

from types import SimpleNamespace
from typing import Any

import pytest
from oslo_config import cfg

from tests.unit.extensions.relocation.cloud_api import CLOUD, A, B, C, CloudApi, CloudWorld
from tests.unit.ledger.records import new_id
from tonnage.capacity import errors
from tonnage.extensions.moves import options as move_options
from tonnage.extensions.moves.plan_messages import ApplyPlan
from tonnage.extensions.moves.planning.plan import PlanQuery
from tonnage.extensions.moves.records import plan_records
from tonnage.extensions.relocation import relocation_options
from tonnage.extensions.relocation.plan_choices import MOVER, Choices
from tonnage.extensions.relocation.relocation import Relocation, rules_of
from tonnage.scheduler.configuration import settings


def configuration(**limits: Any) -> cfg.ConfigOpts:
    """Return a configuration with the defaults, apart from limits."""
    conf = cfg.ConfigOpts()
    settings.register(conf)
    for group, options in (*move_options.list_opts(), *relocation_options.list_opts()):
        conf.register_opts(options, group.name)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in limits.items():
        conf.set_override(name, value, "moves")
    return conf


class Plans:
    """A cloud whose plans are carried out."""

    def __init__(self, api: CloudApi, **limits: Any) -> None:
        self.api, self.world = api, CloudWorld(api)
        self.relocation = self.new_process(**limits)

    def new_process(self, **limits: Any) -> Relocation:
        """Return another process that carries plans out."""
        relocation = Relocation(configuration(**limits), self.world.client, self.world.database)
        relocation.planner._now = lambda: self.api.now
        return relocation

    def apply(self, goal: str, limits: dict[str, Any] | None = None, **arguments: Any) -> str:
        """Start a plan and return its id."""
        query = PlanQuery(goal=goal, arguments=arguments, options=Choices(cloud=CLOUD).as_options())
        order = ApplyPlan(plan_id=new_id(), query=query, limits=limits or {})
        assert self.relocation.starter().apply(order).moves
        return order.plan_id

    def run(self, rounds: int = 60, relocation: Relocation | None = None) -> None:
        """Carry plans out until none is open, or for so many rounds; a minute passes with each."""
        left = iter(range(rounds))

        def is_over() -> bool:
            is_last = next(left, None) is None
            return is_last or not self.world.database.read(plan_records.open_plans, MOVER)

        (relocation or self.relocation).run(is_over, lambda _: self.api.pass_time(65))

    def state(self, plan_id: str) -> tuple[str, str | None]:
        row = self.world.database.read(plan_records.get, plan_id)
        return row.state, row.message

    def steps(self, plan_id: str) -> list[tuple[str, str]]:
        return [(step.volume_id, step.state) for step in self.world.database.read(plan_records.steps, plan_id)]

    def orders(self) -> list[str]:
        return [path.split("/")[2] for method, path, _ in self.api.requests if method == "POST"]


@pytest.fixture
def api() -> CloudApi:
    return CloudApi({A: 100, B: 100, C: 50})


def test_a_backend_becomes_empty(api: CloudApi) -> None:
    ids = [api.add(A, 10) for _ in range(6)]
    plans = Plans(api, moves_per_backend=2)
    plan_id = plans.apply("empty", target="h@a")
    plans.run()
    assert plans.state(plan_id) == ("finished", "h@a has no volume")
    assert A not in api.places().values()
    assert sorted(plans.orders()) == sorted(ids), "each once"
    assert plans.world.database.read(plan_records.open_plans, MOVER) == []


@pytest.mark.parametrize("change", [{"status": "disabled"}, {"frozen": True}])
@pytest.mark.parametrize("target", ["h@a", A])
def test_a_backend_that_takes_no_volumes_any_more_becomes_empty(
    api: CloudApi, change: dict[str, Any], target: str
) -> None:
    """Cinder's scheduler shows no pool of it."""
    ids = [api.add(A, size) for size in (10, 20, 5)]
    api.services["h@a"] |= change
    plans = Plans(api)
    plan_id = plans.apply("empty", {"moves": 1}, target=target)
    plans.run()
    assert plans.state(plan_id) == ("finished", f"{target} has no volume")
    assert sorted(plans.steps(plan_id)) == sorted((volume_id, "moved") for volume_id in ids)
    assert A not in api.places().values()


@pytest.mark.parametrize("change", [{"status": "disabled"}, {"frozen": True}, {"state": "down"}])
def test_a_backend_that_goes_away_while_its_last_volume_moves_is_empty(api: CloudApi, change: dict[str, Any]) -> None:
    api.add(A, 10)
    plans = Plans(api)
    plan_id = plans.apply("empty", target="h@a")
    plans.run(0)
    api.services["h@a"] |= change
    plans.run()
    assert plans.state(plan_id) == ("finished", "h@a has no volume")


@pytest.mark.parametrize("silent", [{"h@a"}, {"h@b"}, {"h@c"}, {"h@b", "h@c"}])
def test_a_running_plan_waits_for_the_reports_to_a_scheduler_that_was_restarted(
    api: CloudApi, silent: set[str]
) -> None:
    ids = [api.add(A, 10) for _ in range(3)]
    plans = Plans(api)
    plan_id = plans.apply("empty", {"moves": 1}, target=A)
    plans.run(0)
    api.silent = silent
    executor = plans.new_process().executor()
    executor._timeout = 0.0
    for _ in range(5):
        api.pass_time(65)
        executor._next_goal_look[plan_id] = 0.0
        executor.work()
    state, message = plans.state(plan_id)
    names = ", ".join(sorted(silent))
    expected = f"waits until it can be planned: Cinder's scheduler shows no pool of {names} yet"
    assert (state, str(message).startswith(expected)) == ("running", True), message
    assert A in api.places().values()
    api.silent = set()
    plans.run(60)
    assert plans.state(plan_id) == ("finished", f"{A} has no volume")
    assert sorted(plans.orders()) == sorted(ids), "each once"


def test_plans_that_ended_long_ago_are_deleted(api: CloudApi) -> None:
    api.add(A, 10)
    plans = Plans(api)
    plan_id = plans.apply("empty", target=A)
    plans.run()
    with plans.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE move_plans SET ended_at = datetime(ended_at, '-9999 days')")
    plans.new_process().run(lambda: True)
    with pytest.raises(errors.NotFound, match=f"plan {plan_id} could not be found"):
        plans.state(plan_id)


def test_a_volume_that_cinder_cannot_move_is_named_and_the_rest_is_moved(api: CloudApi) -> None:
    api.add(A, 10), api.add(A, 20)
    kept = api.add(A, 5, group_id="g1")
    plans = Plans(api, no_progress_timeout=1)
    plan_id = plans.apply("empty", target=A)
    plans.run(12)
    state, message = plans.state(plan_id)
    assert (state, f"volume {kept} belongs to group g1" in str(message)) == ("running", True)
    assert sorted(api.places().values()).count(A) == 1
    plans.world.database.run(plan_records.stop, plan_id)
    plans.run(2)
    assert plans.state(plan_id)[0] == "stopped"


def test_a_process_that_dies_after_the_mark_loses_no_move_and_makes_none_twice(
    api: CloudApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume_id = api.add(A, 10)
    plans = Plans(api)
    plan_id = plans.apply("empty", target=A)

    class Killed(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(plans.world.client, "migrate", die)
        with pytest.raises(Killed):
            plans.run()
    assert plans.steps(plan_id) == [(volume_id, "moving")]
    other = plans.new_process()
    plans.run(1, other)
    assert plans.orders() == [], "the process that has marked the step may still send its request"
    with plans.world.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE move_steps SET started_at = datetime(started_at, '-31 seconds')")
    plans.run(60, other)
    assert (plans.state(plan_id)[0], plans.orders()) == ("finished", [volume_id])


def test_two_processes_carry_a_plan_out_together(api: CloudApi) -> None:
    ids = [api.add(A, 5) for _ in range(8)]
    plans = Plans(api)
    plan_id = plans.apply("empty", target=A)
    executors = plans.relocation.executor(), plans.new_process().executor()
    for _ in range(40):
        if not [executor.work() for executor in executors][-1]:
            break
        api.pass_time(65)
    assert plans.state(plan_id)[0] == "finished"
    assert sorted(plans.orders()) == sorted(ids)


def test_a_plan_fails_when_moves_fail(api: CloudApi) -> None:
    for _ in range(4):
        api.add(A, 10)
    api.refused = {B, C}
    plans = Plans(api)
    plan_id = plans.apply("empty", {"failures": 2, "moves": 2}, target=A)
    plans.run()
    state, message = plans.state(plan_id)
    assert (state, str(message).startswith("2 moves failed")) == ("failed", True)
    assert len(plans.orders()) == 2


def test_a_paused_plan_waits_and_hours_and_limits_hold(api: CloudApi) -> None:
    for _ in range(3):
        api.add(A, 10)
    plans = Plans(api)
    plan_id = plans.apply("empty", {"moves": 1}, target=A)
    plans.run(0)
    assert len(plans.orders()) == 1
    plans.world.database.run(plan_records.pause, plan_id)
    plans.run(3)
    assert (plans.state(plan_id)[0], len(plans.orders())) == ("paused", 1)
    plans.world.database.run(plan_records.resume, plan_id)
    plans.run()
    assert (plans.state(plan_id)[0], len(plans.orders())) == ("finished", 3)


def test_room_for_a_volume_is_made_first(api: CloudApi) -> None:
    api = CloudApi({A: 20, B: 19, C: 4})
    large, small = api.add(A, 9), api.add(B, 4)
    api.add(B, 7)
    plans = Plans(api)
    plan_id = plans.apply("empty", target=A)
    plans.run()
    assert plans.state(plan_id)[0] == "finished"
    assert plans.orders() == [small, large]


@pytest.mark.parametrize("status", [503, 404, 400])
@pytest.mark.parametrize("begin", [0, 1])
def test_cinder_that_is_away_is_waited_for(
    api: CloudApi, caplog: pytest.LogCaptureFixture, status: int, begin: int
) -> None:
    """A web server or a proxy before Cinder may answer with other statuses while Cinder's API starts."""
    api.add(A, 10), api.add(A, 20)
    plans = Plans(api)
    plan_id = plans.apply("empty", {"moves": 1}, target=A)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        api.status = status if begin < len(pauses) < begin + 3 else 0
        api.pass_time(65)

    plans.relocation.run(lambda: not plans.world.database.read(plan_records.open_plans, MOVER), sleep)
    assert plans.state(plan_id)[0] == "finished"
    assert f"answers {status}" in caplog.text
    assert [state for _, state in plans.steps(plan_id)] == ["moved", "moved"]


def test_the_database_that_is_away_is_waited_for_longer_and_longer(
    api: CloudApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, pauses = Plans(api), []

    def fail() -> bool:
        raise errors.Unavailable("the ledger is away")

    executor: Any = SimpleNamespace(work=fail)
    monkeypatch.setattr(plans.relocation, "executor", lambda: executor)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            executor.work = lambda: False

    plans.relocation.run(lambda: True, sleep)
    assert pauses == [10, 20, 40, 60, 60]


def test_a_plan_that_is_only_shown_names_the_plan_that_keeps_it_from_its_start(api: CloudApi) -> None:
    api.add(A, 10)
    plans = Plans(api)
    query = PlanQuery(goal="empty", arguments={"target": A}, options=Choices(cloud=CLOUD).as_options())
    assert plans.relocation.preview(query).outcome == f"{A} becomes empty"
    plan_id = plans.apply("empty", target=A)
    expected = f"{A} becomes empty; plan {plan_id} uses {A}, {B}: 'plan apply' is refused until that has ended"
    assert plans.relocation.preview(query).outcome == expected
    assert Relocation(configuration(), plans.world.client, None).preview(query).moves


def test_a_database_is_needed_and_has_the_plans_of_one_cloud(api: CloudApi) -> None:
    relocation = Relocation(configuration(), CloudWorld(api).client, None)
    with pytest.raises(errors.ConfigurationError, match=r"set \[database\] connection"):
        relocation.starter()
    api.add(A, 10)
    plans = Plans(api)
    plan_id = plans.apply("empty", target=A)
    plans.relocation.require_own_plans()

    def change(session: Any) -> None:
        plan_records.get(session, plan_id).mover_options = Choices(cloud="http://else").as_options()

    plans.world.database.run(change)
    with pytest.raises(errors.ConfigurationError, match=f"plan {plan_id} in the database is one of the cloud at http"):
        plans.relocation.require_own_plans()


def test_the_rules_have_the_filter_for_the_state_of_backends() -> None:
    rules, ratio = rules_of(configuration())
    assert rules.filters.filters[0].name == "BackendStateFilter"
    assert ratio == 20.0
