# SPDX-License-Identifier: Apache-2.0
"""Options of Tonnage in Cinder's configuration, in the group ``[tonnage]``."""

from oslo_config import cfg, types

from tonnage.capacity import number_bounds

GROUP = cfg.OptGroup("tonnage", title="Tonnage as the scheduler of Cinder")

#: Values of ``without_ledger``.
REFUSE, STOCK = "refuse", "stock"

#: Cinder's filters and weighers that Tonnage can evaluate itself.
NATIVE_FILTERS = ("AvailabilityZoneFilter", "CapacityFilter", "CapabilitiesFilter")
NATIVE_WEIGHERS = ("CapacityWeigher",)

OPTIONS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL of the ledger's database, which all schedulers of this Cinder share: "
        "mysql+pymysql://... or postgresql+psycopg://...; 'tonnage-manage db sync' creates its tables. It is a "
        "database of its own, not Cinder's.",
    ),
    cfg.StrOpt(
        "without_ledger",
        default=REFUSE,
        choices=[
            (REFUSE, "requests are refused"),
            (STOCK, "requests are decided as by Cinder's own scheduler, from the last reports: pools may overflow"),
        ],
        help="What happens to requests while the ledger's database cannot be reached.",
    ),
    cfg.ListOpt(
        "native_filters",
        item_type=types.String(choices=NATIVE_FILTERS),
        default=[],
        help="Filters of scheduler_default_filters that Tonnage evaluates itself, for all pools at once and with the "
        "results of Cinder's. They run first, so that the other filters judge only the pools that are left. Many pools "
        f"are decided on much faster. Available are {', '.join(NATIVE_FILTERS)}.",
    ),
    cfg.ListOpt(
        "native_weighers",
        item_type=types.String(choices=NATIVE_WEIGHERS),
        default=[],
        help="Weighers of scheduler_default_weighers that Tonnage evaluates itself in the same way, if "
        f"scheduler_weight_handler is the default. Available is {', '.join(NATIVE_WEIGHERS)}.",
    ),
    cfg.FloatOpt(
        "probe_interval",
        default=10.0,
        min=0.5,
        help="Least number of seconds between two probes of a backend. A backend is probed only if operations have "
        "ended since, or if its figures have changed.",
    ),
    cfg.FloatOpt(
        "poll_interval",
        default=1.5,
        min=0.1,
        help="Seconds between two reads of the rows of volumes that are being made or changed.",
    ),
    cfg.FloatOpt(
        "full_poll_interval", default=60.0, min=1.0, help="Seconds between two reads of the rows of all volumes."
    ),
    cfg.FloatOpt(
        "claim_lease",
        default=60.0,
        min=5.0,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds after which a claim is given up whose scheduler ended before it sent the command, or whose group "
        "got no volumes.",
    ),
    cfg.FloatOpt(
        "refusal_patience",
        default=15.0,
        min=0.0,
        help="Most seconds for which a refusal waits for a report, if a pool would have room should its figures "
        "contain volumes that are counted as in flight too. Longer than probe_interval.",
    ),
    cfg.FloatOpt(
        "undecided_after",
        default=300.0,
        min=1.0,
        help="Seconds after which a volume that waits for a decision is named in the log, in 'tonnage refusals' and in "
        "'tonnage why': its request is lost, or no scheduler reads the bus fast enough.",
    ),
    cfg.IntOpt(
        "growth_silence",
        default=60,
        min=5,
        max=3600,
        help="Seconds without a sign of life of a cinder-volume that moves a volume to grow, after which it may be "
        "dead. It is taken for dead if its heartbeats show that it has restarted.",
    ),
    cfg.IntOpt(
        "figures_lag",
        default=0,
        min=0,
        max=10,
        help="Number of further probes that have to be answered before figures are taken to contain an operation: 1 "
        "for arrays that answer from a cache, or whose figures change some time after the operation.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options for a sample of Cinder's configuration."""
    return [(GROUP, OPTIONS)]
