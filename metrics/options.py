# SPDX-License-Identifier: Apache-2.0
"""Options of the metrics."""

from oslo_config import cfg

GROUP = cfg.OptGroup("metrics", title="Metrics for Prometheus")

OPTIONS = (
    cfg.BoolOpt("enabled", default=False, help="Serve metrics over HTTP."),
    cfg.HostAddressOpt(
        "listen",
        default="127.0.0.1",
        help="Address that the metrics are served on. Any other than a loopback address needs web_config_file.",
    ),
    cfg.PortOpt(
        "scheduler_listen_port",
        default=9776,
        help="Port of the metrics of tonnage-scheduler, and of scheduler and agents in tonnage-standalone.",
    ),
    cfg.PortOpt(
        "api_listen_port",
        default=9777,
        help="Port of the metrics of tonnage-api, and of the REST API in tonnage-standalone.",
    ),
    cfg.PortOpt("cinder_shadow_listen_port", default=9778, help="Port of the metrics of tonnage-cinder-shadow."),
    cfg.StrOpt(
        "web_config_file",
        help="File with the certificate and the users of the metrics, in the format of Prometheus's exporter-toolkit "
        "(tls_server_config and basic_auth_users). It is read again when it changes.",
    ),
    cfg.IntOpt(
        "max_pools",
        default=10000,
        min=1,
        help="Most pools with series of their own. If there are more, /metrics/ledger has sums of each backend.",
    ),
    cfg.IntOpt(
        "cache_time",
        default=15,
        min=0,
        help="Seconds for which an answer of /metrics/ledger or /metrics/openstack is used for later requests.",
    ),
    cfg.BoolOpt(
        "openstack",
        default=False,
        help="Serve /metrics/openstack, with the names that openstack-exporter gives the series of Cinder.",
    ),
    cfg.IntOpt(
        "openstack_max_projects",
        default=1000,
        min=0,
        help="Most projects with limits in /metrics/openstack. If more of them have volumes, it has no limits.",
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [(GROUP, list(OPTIONS))]
