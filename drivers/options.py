# SPDX-License-Identifier: Apache-2.0
"""The options of every backend, and the access of drivers to the sections of the configuration.

Each backend has a section of its own name. A driver with several pools may accept a section ``[backend:pool]`` with the
settings of one pool; each setting that it lacks comes from the backend's section.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from oslo_config import cfg, types

from tonnage.capacity import errors, number_bounds, type_conversion
from tonnage.capacity.over_subscription import AUTO, parse_ratio
from tonnage.capacity.reports import rule_fields
from tonnage.capacity.request import Provisioning
from tonnage.capacity.topology.node_selectors import NodeSelector


class Ratio(types.ConfigType):
    """A ``max_over_subscription_ratio``: a number of at least 1, or the word ``auto``."""

    def __init__(self) -> None:
        super().__init__(type_name="number >= 1, or auto")

    def __call__(self, value: Any) -> float | str:
        """Return the number, or ``auto``. Raises ValueError for any other value."""
        return parse_ratio(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "Ratio"

    def _formatter(self, value: Any) -> str:
        return str(value)


class Capabilities(types.ConfigType):
    """A JSON object of capabilities."""

    def __init__(self) -> None:
        super().__init__(type_name="JSON object")

    def __call__(self, value: Any) -> dict[str, Any]:
        """Return the object. Raises ValueError for any other value."""
        try:
            parsed = json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ValueError(f"{value!r} is not JSON: {error}") from None
        if not isinstance(parsed, dict):
            raise ValueError(f"{value!r} is not a JSON object")
        return parsed

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return "Capabilities"

    def _formatter(self, value: Any) -> str:
        return json.dumps(value)


class Topology(Capabilities):
    """A node selector, in the JSON form of Kubernetes."""

    def __call__(self, value: Any) -> dict[str, Any]:
        """Return the object. Raises ValueError for any other value."""
        parsed = super().__call__(value)
        try:
            type_conversion.convert(parsed, NodeSelector)
        except msgspec.ValidationError as error:
            raise ValueError(f"{value!r} is no node selector: {error}") from None
        return parsed

    def __repr__(self) -> str:
        return "Topology"


#: Options that can differ between the pools of a backend, for drivers that have pool sections.
POOL_OPTS: Sequence[cfg.Opt] = (
    cfg.IntOpt(
        "reserved_percentage",
        default=0,
        min=0,
        max=100,
        help="Share of the total capacity that must stay unused, in percent.",
    ),
    cfg.Opt(
        "max_over_subscription_ratio",
        type=Ratio(),
        help="Largest ratio of provisioned to total capacity for thin volumes: a number of at least 1 (1.0 means that "
        "the provisioned capacity cannot exceed the total), or 'auto' to compute it from the provisioned and the "
        "used capacity. If unset, the scheduler's option of this name applies. Thick volumes are not affected.",
    ),
    cfg.Opt(
        "extra_capabilities",
        type=Capabilities(),
        default={},
        help='Further capabilities to report, as a JSON object: {"media": "ssd"}. Extra specs of volume types can '
        "request them. They do not override the capabilities that the driver itself reports.",
    ),
    cfg.StrOpt(
        "filter_function",
        help="Condition for placing a volume here, as an expression: volume.size < 500. Needs DriverFilter in "
        "scheduler_default_filters.",
    ),
    cfg.StrOpt(
        "goodness_function",
        help="Expression for the suitability of this storage for a volume, from 0 (poor) to 100 (perfect). Needs "
        "GoodnessWeigher in scheduler_default_weighers.",
    ),
    cfg.FloatOpt(
        "min_free_capacity_percentage",
        min=0,
        max=100,
        help="Minimum share of the total capacity, in percent, that has to stay physically free when a volume is "
        "placed here. If unset, the scheduler's option of this name applies. Needs FreeSpaceFilter in "
        "scheduler_default_filters.",
    ),
    cfg.FloatOpt(
        "min_free_capacity_extend_percentage",
        min=0,
        max=100,
        help="The same for extending a volume here. If unset, the scheduler's option of this name applies, and without "
        "that the minimum for new volumes.",
    ),
    cfg.StrOpt(
        "node_name",
        help="Name of the node with this storage, if no other node reaches it. topology_labels may give the location "
        "of that node. Like the next three options it needs TopologyFilter in scheduler_default_filters.",
    ),
    cfg.ListOpt("node_list", help="Names of the nodes that reach this storage, if there are several."),
    cfg.DictOpt(
        "topology_labels",
        default={},
        help="Labels of Kubernetes that all nodes which reach this storage have: "
        "topology.kubernetes.io/zone:z1,topology.kubernetes.io/rack:r3.",
    ),
    cfg.Opt(
        "node_topology",
        type=Topology(),
        help="The nodes that reach this storage, if labels alone cannot select them: a node selector of Kubernetes in "
        "JSON. Without any of these four options all nodes reach it.",
    ),
    cfg.ListOpt(
        "storage_classes",
        default=[],
        help="Storage classes of this storage; <fallback> stands for all classes without another pool of the backend. "
        "Needs StorageClassFilter in scheduler_default_filters.",
    ),
    cfg.StrOpt(
        "provisioner",
        help="Provisioner of the Kubernetes storage classes whose pod volumes are created on this storage: "
        "tonnage-publisher and the extender admit them here, for storage_classes. The csi driver sets it by itself.",
    ),
    cfg.FloatOpt(
        "report_lifetime",
        min=1,
        help="Seconds after a report for which its figures are used. Keep it well above "
        "backend_stats_polling_interval. If unset, they are used until the backend counts as down (service_down_time).",
    ),
)

#: The options that are reported under their own names where they are set.
_REPORTED = (
    "max_over_subscription_ratio",
    "filter_function",
    "goodness_function",
    "min_free_capacity_percentage",
    "min_free_capacity_extend_percentage",
    "node_name",
    "node_list",
    "topology_labels",
    "node_topology",
    "provisioner",
    "report_lifetime",
)

#: Options of every backend, for all drivers.
BACKEND_OPTS: Sequence[cfg.Opt] = (
    cfg.StrOpt("volume_driver", help="Name of the storage driver, as in the entry points 'tonnage.drivers'."),
    cfg.StrOpt(
        "volume_backend_name",
        help="Name that the pools report as the capability volume_backend_name, for the extra specs of volume types. "
        "Several backends may share one. If unset, it is the name of the section.",
    ),
    cfg.StrOpt(
        "backend_availability_zone",
        help="Availability zone of this backend. If unset, the agent's storage_availability_zone applies.",
    ),
    *POOL_OPTS,
)


def provisioning_opt(name: str, default: str) -> cfg.Opt:
    """Return an option with the values thin, thick and both."""
    return cfg.StrOpt(
        name,
        default=default,
        choices=[
            ("thin", "volumes use space as they are written"),
            ("thick", "the space of a volume is allocated when it is created"),
            ("both", "as the volume's type requests; thin by default"),
        ],
        help="Provisioning of volumes.",
    )


def kinds(value: str) -> frozenset[Provisioning]:
    """Return the kinds of provisioning that a value of :func:`provisioning_opt` allows."""
    return frozenset(Provisioning) if value == "both" else frozenset({Provisioning(value)})


class WrongValue(errors.ConfigurationError):
    """The value of an option is invalid; ``error`` is the exception of oslo.config."""

    def __init__(self, section: str, name: str, error: Exception) -> None:
        super().__init__(f"[{section}] {name}: {_cause(error)}")
        self.section, self.name, self.error = section, name, error


class Section:
    """The values of one section as attributes.

    A pool's section takes each value that it does not set from ``parent``, the backend's section. Reading a malformed
    value raises :class:`WrongValue`.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, section: str, options: Iterable[cfg.Opt], parent: "Section | None" = None
    ) -> None:
        self._conf = conf
        self._parent = parent
        self._names: set[str] = set()
        self.section_name = section
        #: The driver's own option that takes precedence over ``max_over_subscription_ratio``, see
        #: :attr:`tonnage.drivers.base.Driver.auto_ratio_option`.
        self.auto_ratio_option: str | None = None if parent is None else parent.auto_ratio_option
        self.pools: dict[str, Section] = {}
        self.register(options)

    def register(self, options: Iterable[cfg.Opt]) -> None:
        """Add options to the section and validate the values that it sets."""
        for option in options:
            if self._parent is not None:
                # Without a default, None shows that the pool's section has no value.
                option = copy.copy(option)
                option.default = None
            try:
                self._conf.register_opt(option, group=self.section_name)
            except cfg.Error as error:
                raise errors.ConfigurationError(f"[{self.section_name}] {option.name}: {error}") from error
            self._names.add(option.dest)
            getattr(self, option.dest)

    def pool(self, name: str, options: Iterable[cfg.Opt]) -> "Section":
        """Return the values for one pool: those of section ``[backend:pool]``, or else those of this section."""
        section = Section(self._conf, f"{self.section_name}:{name}", options, parent=self)
        self.pools[name] = section
        return section

    @property
    def has_own_ratio(self) -> bool:
        """Return whether the driver computes the ratio by itself here."""
        return self.auto_ratio_option is not None and bool(getattr(self, self.auto_ratio_option))

    def sets(self, name: str) -> bool:
        """Return whether this section itself has a value for the option, from a file or as its default."""
        return name in self._names and self._value(name) is not None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (name not in self._names and self._parent is None):
            raise AttributeError(f"section [{self.section_name}] has no option {name}")
        value = self._value(name) if name in self._names else None
        return getattr(self._parent, name) if value is None and self._parent is not None else value

    def _value(self, name: str) -> Any:
        try:
            value = self._conf[self.section_name][name]
            number_bounds.check(value)
        except (cfg.Error, ValueError) as error:
            raise WrongValue(self.section_name, name, error) from error
        return value


def _cause(error: Exception) -> str:
    """Return the text of the error in a value, without the object representation that oslo.config adds."""
    cause = error.__cause__ or error.__context__
    return str(cause if isinstance(cause, ValueError) else error)


def capabilities(section: Any, backend: str) -> dict[str, Any]:
    """Return the capabilities that a pool reports from the options of every backend.

    ``section`` is the section of the pool or of the backend. A driver that computes the ratio by itself has to add it.
    """
    reported: dict[str, Any] = {
        **section.extra_capabilities,
        "volume_backend_name": section.volume_backend_name or backend.rpartition("@")[2],
        "reserved_percentage": section.reserved_percentage,
        # Null leaves the ratio to the scheduler; a report without the field is incomplete.
        "max_over_subscription_ratio": None,
    }
    for name in _REPORTED:
        if (value := getattr(section, name, None)) not in (None, {}):
            reported[name] = value
    if classes := getattr(section, "storage_classes", None):
        reported["storage_class"] = classes[0] if len(classes) == 1 else classes
    if getattr(section, "has_own_ratio", False):
        reported["max_over_subscription_ratio"] = None
    return reported


def default_ratio(conf: cfg.ConfigOpts) -> str | None:
    """Return ``[DEFAULT] max_over_subscription_ratio``, None if unset; it is an option of the scheduler."""
    name = "max_over_subscription_ratio"
    try:
        ratio = conf[name]
    except cfg.NoSuchOptError:
        conf.register_opt(cfg.StrOpt(name))
        ratio = conf[name]
    return None if ratio is None else str(ratio)


def contradictions(section: Section, driver: str, supports_auto_ratio: bool, default: str | None = None) -> None:
    """Raise ConfigurationError where the section, or one of its pool sections, needs a feature that the driver lacks.

    ``default`` is the ratio of sections that have none. The driver's own ratio option takes precedence.
    """
    if supports_auto_ratio:
        return
    for part in (section, *section.pools.values()):
        if part.has_own_ratio:
            continue
        own = part.max_over_subscription_ratio
        if own == AUTO or (own is None and str(default).strip().lower() == AUTO):
            name = "DEFAULT" if own is None else part.section_name
            alternative = f", or {part.auto_ratio_option} = true" if part.auto_ratio_option else ""
            raise errors.ConfigurationError(
                f"[{name}] max_over_subscription_ratio = {AUTO}: driver {driver} of [{part.section_name}] does not "
                f"support it; set a number of at least 1 in [{part.section_name}]{alternative}"
            )


def unclear_nodes(section: Section) -> None:
    """Raise ConfigurationError where the section, or one of its pool sections, names the nodes in several ways."""
    for part in (section, *section.pools.values()):
        named = [name for name in ("node_name", "node_list", "node_topology") if getattr(part, name)]
        if part.node_topology and part.topology_labels:
            named.append("topology_labels")
        if len(named) > 1:
            raise errors.ConfigurationError(
                f"[{part.section_name}] has {' and '.join(named)}, and each says which nodes reach storage; set one "
                "(topology_labels may stand beside the name of a node)"
            )
        nodes = part.node_list or []
        if len(set(nodes)) < len(nodes):
            raise errors.ConfigurationError(
                f"[{part.section_name}] node_list = {', '.join(nodes)}: a node is there twice"
            )


def unreadable_rules(section: Section) -> Iterator[str]:
    """Yield a line for each value of the section, or of one of its pool sections, that no plug-in can read."""
    for part in (section, *section.pools.values()):
        fields = {name: getattr(part, name) for name in _REPORTED if part.sets(name)}
        for _, text in rule_fields.unreadable(fields):
            yield f"[{part.section_name}] {text}"


def classless_provisioner(section: Section) -> None:
    """Raise ConfigurationError where the section, or one of its pool sections, names a provisioner and no classes."""
    for part in section.pools.values() or [section]:
        if part.provisioner and not part.storage_classes:
            raise errors.ConfigurationError(
                f"[{part.section_name}] provisioner = {part.provisioner}: it makes volumes of storage classes; name "
                "them in storage_classes, <fallback> for all"
            )
