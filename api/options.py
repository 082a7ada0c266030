# SPDX-License-Identifier: Apache-2.0
"""Options of the REST API, under the names that Cinder's users know."""

from oslo_config import cfg

from tonnage.api.http import middleware
from tonnage.k8s import options as k8s_options
from tonnage.ledger.inventory import service_options
from tonnage.quotas import options as quota_options

OPTIONS = (
    cfg.HostAddressOpt("osapi_volume_listen", default="127.0.0.1", help="Address that the REST API listens on."),
    cfg.PortOpt("osapi_volume_listen_port", default=8776, help="Port that the REST API listens on."),
    cfg.IntOpt(
        "osapi_volume_threads", default=64, min=1, help="How many requests the built-in server works on at a time."
    ),
    cfg.IntOpt(
        "osapi_volume_stop_timeout",
        default=60,
        min=1,
        help="Seconds that a stopping server gives the requests it has accepted.",
    ),
    cfg.IntOpt(
        "client_socket_timeout",
        default=75,
        min=1,
        help="Seconds after which a connection to the built-in server is ended on which nothing is said after an "
        "answer. Clients that ask again that soon need no new one, unless the server has osapi_volume_threads others "
        "on which nothing is said.",
    ),
    cfg.IntOpt("osapi_max_limit", default=1000, min=1, help="Most items in one page of a list."),
    cfg.IntOpt(
        "osapi_max_request_body_size",
        default=114688,
        min=1024,
        # What Cinder calls it since oslo.middleware has the option.
        deprecated_opts=[cfg.DeprecatedOpt("max_request_body_size", group="oslo_middleware")],
        help="Largest body of a request that is read, in bytes.",
    ),
    cfg.StrOpt(
        "auth_strategy",
        default="noauth",
        choices=[
            ("noauth", "everybody is the administrator; for one machine, on loopback"),
            ("keystone", "by tokens of OpenStack Identity; see [keystone_authtoken]"),
            ("http_basic", "by names and passwords in http_basic_auth_user_file, whose are all administrators"),
        ],
        help="How the REST API knows who is asking.",
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
        help="Let auth_strategy = noauth serve on an address that other machines reach, and believe what is sent to "
        "any name of this one, not to localhost and 127.0.0.1 alone. All who reach it are administrators, and so are "
        "pages of any site in a browser that does.",
    ),
    cfg.StrOpt("default_volume_type", help="Name or id of the volume type of volumes that are created without one."),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the API, and those that it shares with the schedulers."""
    conf.register_opts(OPTIONS)
    conf.register_opts(service_options.OPTIONS)
    quota_options.register(conf)
    k8s_options.register(conf)
    middleware.register(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by section, for the sample configuration."""
    return [("DEFAULT", list(OPTIONS)), *k8s_options.list_opts()]
