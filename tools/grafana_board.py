#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The board for Grafana: ``make board`` writes ``etc/grafana/tonnage.json`` from this module.

Its queries need the series of ``/metrics/ledger``, of ``/metrics`` of all processes, and of
``etc/prometheus/tonnage.rules.yml``. Figures of pools are aggregated by pool first, so the board stays the same if
several processes are scraped. Physical and promised capacity never share a panel.
"""

from typing import TypeAlias, TypeVar

from grafana_foundation_sdk.builders import bargauge, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as formats

Panel: TypeAlias = bargauge.Panel | stat.Panel | table.Panel | timeseries.Panel
_Kind = TypeVar("_Kind", bound=Panel)

#: Pools and bars of a panel at most, so that the board of a large cloud stays readable.
_MOST = 20

_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
#: The pools of the chosen backends: the name of a pool begins with that of its backend.
_CHOSEN = '{pool=~"$backend#.+"}'
_RATE = "[$__rate_interval]"


def _panel(panel: _Kind, title: str, width: int, description: str, unit: str = "short") -> _Kind:
    """Give a panel its title, its width (of 24), its description, and the unit of its values."""
    return panel.title(title).span(width).height(8).description(description).unit(unit).datasource(_SOURCE)


def _query(expression: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expression).legend_format(legend)


def _steps(*, yellow: float | None = None, red: float | None = None) -> dashboard.ThresholdsConfig:
    """Return colours from a value on; below all of them it is green."""
    steps = [models.Threshold(value=None, color="green")]
    steps += [models.Threshold(value=value, color=name) for name, value in (("yellow", yellow), ("red", red)) if value]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _number(
    title: str, description: str, queries: dict[str, str], unit: str = "short", red: float | None = None
) -> stat.Panel:
    panel = _panel(stat.Panel(), title, 4, description, unit).height(4)
    panel.thresholds(_steps(red=red)).graph_mode(common.BigValueGraphMode.NONE)
    panel.text_mode(common.BigValueTextMode.VALUE_AND_NAME if len(queries) > 1 else common.BigValueTextMode.VALUE)
    for number, (legend, expression) in enumerate(queries.items()):
        panel.with_target(_query(expression, legend).instant().ref_id(chr(ord("A") + number)))
    return panel


def _lines(title: str, width: int, description: str, queries: dict[str, str], unit: str = "short") -> timeseries.Panel:
    panel = _panel(timeseries.Panel(), title, width, description, unit).min(0)
    for number, (legend, expression) in enumerate(queries.items()):
        panel.with_target(_query(expression, legend).ref_id(chr(ord("A") + number)))
    return panel


def _fullest(title: str, description: str, ratio: str, yellow: float) -> bargauge.Panel:
    panel = _panel(bargauge.Panel(), title, 12, description, "percentunit")
    panel.min(0).max(1).thresholds(_steps(yellow=yellow, red=1.0))
    panel.orientation(common.VizOrientation.HORIZONTAL).display_mode(common.BarGaugeDisplayMode.BASIC)
    return panel.with_target(_query(f"topk({_MOST}, {ratio}{_CHOSEN})", "{{pool}}").instant())


def _over_time(title: str, description: str, ratio: str) -> timeseries.Panel:
    # The same pools over the whole range: those that are the fullest at its end.
    chosen = f"{ratio}{_CHOSEN}"
    fullest = f"{chosen} and topk({_MOST}, {chosen} @ end())"
    return _lines(title, 12, description, {"{{pool}}": fullest}, "percentunit")


def _of_pools(metric: str) -> str:
    return f"max by (pool) (tonnage_pool_{metric}{_CHOSEN})"


def _pool_table() -> table.Panel:
    columns = {
        "total": (_of_pools("total_bytes"), "bytes"),
        "free": (_of_pools("free_bytes"), "bytes"),
        "physically in flight": (_of_pools("in_flight_physical_bytes"), "bytes"),
        "free less reserve": (_of_pools("physical_limit_bytes"), "bytes"),
        "provisioned": (_of_pools("provisioned_bytes"), "bytes"),
        "allocated": (_of_pools("allocated_bytes"), "bytes"),
        "in flight": (_of_pools("in_flight_bytes"), "bytes"),
        "limit for thin volumes": (_of_pools("virtual_limit_bytes"), "bytes"),
        "ratio": (_of_pools("oversubscription_ratio"), "short"),
        "up": (_of_pools("up"), "short"),
        "age of the figures": (f"time() - {_of_pools('figures_timestamp_seconds')}", "s"),
    }
    description = "NaN is unknown or infinite, +Inf no limit. A pool of a silent backend has no capacities."
    joined = models.DataTransformerConfig("joinByField", options={"byField": "pool", "mode": "outer"})
    hidden = [f"Time {number + 1}" for number in range(len(columns))]
    return _table("Pools", 24, description, columns, joined, hidden)


def _table(
    title: str,
    width: int,
    description: str,
    columns: dict[str, tuple[str, str]],
    joined: models.DataTransformerConfig,
    hidden: list[str],
) -> table.Panel:
    """Return a table of instant queries: their expressions and units by the titles of their columns."""
    panel = _panel(table.Panel(), title, width, description).height(10)
    panel.with_transformation(joined)
    panel.with_transformation(
        models.DataTransformerConfig("organize", options={"excludeByName": dict.fromkeys(hidden, True)})
    )
    for number, (heading, (expression, unit)) in enumerate(columns.items()):
        letter = chr(ord("A") + number)
        panel.with_target(_query(expression).instant().format(formats.PromQueryFormat.TABLE).ref_id(letter))
        properties = [models.DynamicConfigValue("displayName", heading), models.DynamicConfigValue("unit", unit)]
        panel.override_by_name(f"Value #{letter}", properties)
    return panel


def _now() -> list[Panel]:
    return [
        _number(
            "Backends",
            "A backend is up if it reported within service_down_time.",
            {
                "up": "sum(max by (backend) (tonnage_backend_up))",
                "in all": "count(max by (backend) (tonnage_backend_up))",
            },
        ),
        _number(
            "Pools with current figures",
            "The pools of a silent backend are left out of all sums here.",
            {"current": "sum(max by (pool) (tonnage_pool_up))", "in all": "count(max by (pool) (tonnage_pool_up))"},
        ),
        _number(
            "Schedulers", "Schedulers with a recent heartbeat.", {"up": "sum(max by (host) (tonnage_scheduler_up))"}
        ),
        _number(
            "Oldest figures in use",
            "Age of the oldest figures of a pool whose backend is up.",
            {
                "age": "max(time() - max by (pool) (tonnage_pool_figures_timestamp_seconds)"
                " and on (pool) max by (pool) (tonnage_pool_up) == 1)"
            },
            "s",
            red=300,
        ),
        _number(
            "Unknown or infinite",
            "Current pools without a number for their size or their free space; sums leave them out.",
            {
                "pools": "count(max by (pool) (tonnage_pool_total_bytes) unless max by (pool)"
                " (tonnage_pool_total_bytes >= 0 and tonnage_pool_free_bytes >= 0)) or vector(0)"
            },
        ),
        _number(
            "Differences from the storage",
            "Volumes that the last listings showed not at all, or with another size.",
            {"volumes": 'sum(max by (cause) (tonnage_ledger_discrepancies{cause=~"lost|size"}))'},
            red=1,
        ),
        _lines(
            "Physical capacity",
            12,
            "Pools with the figures of one storage count once, parts of a storage each. Unknown and infinite capacities"
            " are left out.",
            {"total": "tonnage:total_bytes:sum", "taken": "tonnage:total_bytes:sum - tonnage:free_bytes:sum"},
            "bytes",
        ),
        _lines(
            "Promised capacity",
            12,
            "Full sizes of the volumes that Tonnage placed in pools with current figures.",
            {"allocated": "tonnage:allocated_bytes:sum"},
            "bytes",
        ),
    ]


def _pools() -> list[Panel]:
    physical, promised = "pool:tonnage_physical_taken:ratio", "pool:tonnage_promised:ratio"
    about_physical = "Share of the physical size less the reserve that is taken, with claims in flight."
    about_promised = "Share of the limit for thin volumes that is promised, with claims in flight."
    return [
        _fullest("Fullest pools, physical", about_physical, physical, 0.85),
        _fullest("Fullest pools, promised", about_promised, promised, 0.9),
        _over_time("Physical share over time", about_physical, physical),
        _over_time("Promised share over time", about_promised, promised),
        _pool_table(),
    ]


def _soon() -> list[Panel]:
    times = 'tonnage_pool_time_to_full_seconds{pool=~"$backend#.+",estimate="%s"}'
    # The range of the pools whose begin is the soonest.
    soonest = f"bottomk({_MOST}, max by (pool, bound) ({times % 'p10'}))"
    columns = {"from": (soonest, "s")}
    for title, estimate in (("even chance", "p50"), ("to", "p90")):
        columns[title] = f"max by (pool, bound) ({times % estimate}) and {soonest}", "s"
    return [
        _table(
            "Full soonest",
            12,
            "Time until a pool is full, by its physical or its promised capacity: a range with a probability of 80 %."
            " Without an end it is more than 90 days. tonnage forecast has the hit rates of earlier forecasts.",
            columns,
            models.DataTransformerConfig("merge", options={}),
            ["Time"],
        ),
        _lines(
            "Refusals to come",
            12,
            "Share of the simulated runs of 14 days in which a volume type was refused, made once an hour. An empty"
            " type has the volumes without one.",
            {"{{type}}": "max by (type) (tonnage_volume_type_coming_refusals_ratio)"},
            "percentunit",
        ).height(10),
    ]


def _volumes() -> list[Panel]:
    types = f"topk({_MOST}, max by (type) (tonnage_volume_type_allocated_bytes @ end()))"
    return [
        _lines(
            "Allocated by volume type",
            12,
            "An empty type has the volumes without one.",
            {"{{type}}": f"max by (type) (tonnage_volume_type_allocated_bytes) and {types}"},
            "bytes",
        ),
        _lines("Volumes by status", 12, "", {"{{status}}": "max by (status) (tonnage_volumes)"}),
    ]


def _decisions() -> list[Panel]:
    return [
        _lines(
            "Decisions",
            8,
            "Decided requests per second.",
            {"{{outcome}}": f"sum by (outcome) (rate(tonnage_scheduler_decisions_total{_RATE}))"},
            "reqps",
        ),
        _lines(
            "Refusals in the last hour",
            8,
            "By the filter and the code of the nearest pool.",
            {"{{filter}} {{code}}": "sum by (filter, code) (increase(tonnage_scheduler_refusals_total[1h]))"},
        ),
        _lines(
            "Time to a durable decision",
            8,
            "From the arrival at the scheduler.",
            {
                f"{share} %": f"histogram_quantile({share / 100}, sum by (le)"
                f" (rate(tonnage_scheduler_decision_duration_seconds_bucket{_RATE})))"
                for share in (50, 95)
            },
            "s",
        ),
        _lines(
            "Waiting for the decision thread",
            8,
            "Requests and messages.",
            {"waiting": "sum(tonnage_scheduler_queue_requests)"},
        ),
        _lines(
            "Repeated transactions",
            8,
            "Per second: another scheduler was faster (conflict), or the database reported a collision or was away.",
            {
                "conflict": f"sum(rate(tonnage_scheduler_conflicts_total{_RATE}))",
                "{{cause}}": f"sum by (cause) (rate(tonnage_database_retries_total{_RATE}))",
            },
            "cps",
        ),
        _lines(
            "Reports",
            8,
            "Reports of backends per second, by result.",
            {"{{result}}": f"sum by (result) (rate(tonnage_scheduler_reports_total{_RATE}))"},
            "cps",
        ),
    ]


def _operations() -> list[Panel]:
    return [
        _lines(
            "Operations under way",
            6,
            "Claims whose operation has not ended.",
            {"{{verb}}": "sum by (verb) (max by (verb, state) (tonnage_claims))"},
        ),
        _lines(
            "Oldest operation",
            6,
            "Time since its decision.",
            {"{{verb}}": "time() - min by (verb) (tonnage_claim_oldest_timestamp_seconds)"},
            "s",
        ),
        _lines(
            "Ended operations",
            6,
            "Per second, by result.",
            {"{{result}}": f"sum by (result) (rate(tonnage_scheduler_outcomes_total{_RATE}))"},
            "cps",
        ),
        _lines(
            "Findings",
            6,
            "Differences between the ledger and the last listings, and breaches of the definitions of reports.",
            {
                "{{cause}}": "max by (cause) (tonnage_ledger_discrepancies)",
                "reports": "sum(max by (kind) (tonnage_driver_findings))",
            },
        ),
    ]


def _api() -> list[Panel]:
    return [
        _lines(
            "Requests to the REST API",
            12,
            "Per second, by status.",
            {"{{code}}": f"sum by (code) (rate(tonnage_api_requests_total{_RATE}))"},
            "reqps",
        ),
        _lines(
            "Time of a request, 95 %",
            12,
            "By route; the slowest.",
            {
                "{{route}}": f"topk({_MOST}, histogram_quantile(0.95, sum by (le, route)"
                f" (rate(tonnage_api_request_duration_seconds_bucket{_RATE}))))"
            },
            "s",
        ),
    ]


def board() -> dashboard.Dashboard:
    """Return the builder of the board."""
    backends = (
        dashboard.QueryVariable("backend")
        .label("Backend")
        .query("label_values(tonnage_pool_info, backend)")
        .datasource(_SOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(models.VariableOption(text="All", value="$__all"))
    )
    built = (
        dashboard.Dashboard("Tonnage")
        .uid("tonnage")
        .description("Capacity, decisions and operations of Tonnage. It needs the rules in tonnage.rules.yml.")
        .tags(["tonnage", "storage"])
        .time("now-24h", "now")
        .timezone("browser")
        .refresh("1m")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(backends)
    )
    for title, panels in (
        ("Now", _now()),
        ("Pools", _pools()),
        ("Soon", _soon()),
        ("Volumes", _volumes()),
        ("Decisions", _decisions()),
        ("Operations and ledger", _operations()),
        ("API", _api()),
    ):
        built.with_row(dashboard.Row(title))
        for panel in panels:
            built.with_panel(panel)
    return built


def text() -> str:
    """Return the board in Grafana's format. The panels are numbered in their order."""
    built = board().build()
    for number, panel in enumerate(built.panels or (), start=1):
        panel.id_val = number
    return JSONEncoder(sort_keys=True, indent=2).encode(built) + "\n"


if __name__ == "__main__":
    print(text(), end="")
