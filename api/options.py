# SPDX-License-Identifier: Apache-2.0
"""Options of the REST API, with the names of Cinder's options."""

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity import number_bounds
from tonnage.ledger.inventory import service_options
from tonnage.metrics import options as metrics_options
from tonnage.quotas import options as quota_options

OPTIONS = (
    cfg.HostAddressOpt("osapi_volume_listen", default="127.0.0.1", help="Address that the REST API listens on."),
    cfg.PortOpt("osapi_volume_listen_port", default=8776, help="Port that the REST API listens on."),
    cfg.IntOpt(
        "osapi_volume_threads", default=64, min=1, help="Number of requests that the built-in server handles at a time."
    ),
    cfg.IntOpt(
        "osapi_volume_stop_timeout",
        default=60,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds that a stopping server gives the requests it has accepted.",
    ),
    cfg.IntOpt(
        "client_socket_timeout",
        default=75,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds after which the built-in server closes a connection without a whole request: an idle one, or one "
        "on which the headers of a request arrive slowly.",
    ),
    cfg.IntOpt("osapi_max_limit", default=1000, min=1, help="Most items in one page of a list."),
    cfg.IntOpt(
        "osapi_max_request_body_size",
        default=114688,
        min=1024,
        # The name in Cinder since oslo.middleware has the option.
        deprecated_opts=[cfg.DeprecatedOpt("max_request_body_size", group="oslo_middleware")],
        help="Largest body of a request that is read, in bytes.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=[
            ("noauth", "everybody is an administrator; for one machine, on loopback"),
            ("keystone", "tokens of OpenStack Identity; see [keystone_authtoken]"),
            ("http_basic", "names and passwords in http_basic_auth_user_file; all users are administrators"),
        ],
        help="Authentication of the users of the REST API.",
    ),
    cfg.StrOpt(
        "http_basic_auth_user_file",
        default="/etc/tonnage/htpasswd",
        help="The users of auth_strategy = http_basic, all of them administrators: a line name:bcrypt for each, as "
        "htpasswd -B of Apache writes it.",
    ),
    cfg.BoolOpt(
        "noauth_on_any_address",
        default=False,
        help="Allow auth_strategy = noauth on an address that other machines reach, and accept requests to any name of "
        "this machine, not only to localhost and 127.0.0.1. Everybody with access to it is an administrator, and so "
        "are the pages of any site in a browser that reaches it.",
    ),
    cfg.BoolOpt(
        "cinder_service_names",
        default=True,
        help="Show agents as cinder-volume and schedulers as cinder-scheduler, the names that tools for OpenStack look "
        "for in the list of services. Requests may use these names and Tonnage's own in any case.",
    ),
    cfg.StrOpt(
        "default_volume_type",
        default="__DEFAULT__",
        help="Name or id of the volume type of volumes that are created without one, for all projects, also if the "
        "type is private. If the option is empty, these volumes have no type.",
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the API and those that it shares with the schedulers."""
    enabled_extensions.register(conf)
    conf.register_opts(OPTIONS)
    conf.register_opts(service_options.OPTIONS)
    quota_options.register(conf)
    metrics_options.register(conf)


def list_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS)), *metrics_options.list_opts()]
