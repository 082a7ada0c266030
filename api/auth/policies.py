# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the rules, under Cinder's names. :mod:`tonnage.api.auth.enforcement` asks them.

Administrators may do everything; within its own project a member may change and a reader may look.
"""

from oslo_policy import policy

IS_ADMIN = "context_is_admin"
ADMIN = "rule:admin_api"
MEMBER = "rule:admin_api or (role:member and project_id:%(project_id)s)"
READER = "rule:admin_api or (role:reader and project_id:%(project_id)s)"

VOLUME_CREATE = "volume:create"
VOLUME_GET = "volume:get"
VOLUME_GET_ALL = "volume:get_all"
VOLUME_UPDATE = "volume:update"
VOLUME_DELETE = "volume:delete"
VOLUME_FORCE_DELETE = "volume:force_delete"
VOLUME_FORCE_DELETE_ACTION = "volume_extension:volume_admin_actions:force_delete"
METADATA_GET = "volume:get_volume_metadata"
METADATA_CREATE = "volume:create_volume_metadata"
METADATA_UPDATE = "volume:update_volume_metadata"
METADATA_DELETE = "volume:delete_volume_metadata"
VOLUME_EXTEND = "volume:extend"
VOLUME_RETYPE = "volume:retype"
VOLUME_MIGRATE = "volume_extension:volume_admin_actions:migrate_volume"
VOLUME_MANAGE = "volume_extension:volume_manage"
VOLUME_UNMANAGE = "volume_extension:volume_unmanage"
LIST_MANAGEABLE = "volume_extension:list_manageable"
VOLUME_RESET_STATUS = "volume_extension:volume_admin_actions:reset_status"
VOLUME_HOST = "volume_extension:volume_host_attribute"
VOLUME_TENANT = "volume_extension:volume_tenant_attribute"
VOLUME_MIGRATION = "volume_extension:volume_mig_status_attribute"
TYPE_GET_ALL = "volume_extension:type_get_all"
TYPE_GET = "volume_extension:type_get"
TYPE_CREATE = "volume_extension:type_create"
TYPE_UPDATE = "volume_extension:type_update"
TYPE_DELETE = "volume_extension:type_delete"
TYPE_ACCESS_INDEX = "volume_extension:volume_type_access:get_all_for_type"
TYPE_ACCESS_ADD = "volume_extension:volume_type_access:addProjectAccess"
TYPE_ACCESS_REMOVE = "volume_extension:volume_type_access:removeProjectAccess"
TYPE_EXTRA_SPECS = "volume_extension:access_types_extra_specs"
TYPE_QOS = "volume_extension:access_types_qos_specs_id"
QOS_GET_ALL = "volume_extension:qos_specs_manage:get_all"
QOS_GET = "volume_extension:qos_specs_manage:get"
QOS_CREATE = "volume_extension:qos_specs_manage:create"
QOS_UPDATE = "volume_extension:qos_specs_manage:update"
QOS_DELETE = "volume_extension:qos_specs_manage:delete"
SPECS_INDEX = "volume_extension:types_extra_specs:index"
SPECS_SHOW = "volume_extension:types_extra_specs:show"
SPECS_CREATE = "volume_extension:types_extra_specs:create"
SPECS_UPDATE = "volume_extension:types_extra_specs:update"
SPECS_DELETE = "volume_extension:types_extra_specs:delete"
GET_POOLS = "scheduler_extension:scheduler_stats:get_pools"
EXPLAIN = "scheduler_extension:scheduler_stats:explain"
WHAT_IF = "scheduler_extension:scheduler_stats:what_if"
SERVICES = "volume_extension:services:index"
SERVICES_UPDATE = "volume_extension:services:update"
ZONES = "volume_extension:availability_zones:index"
HOSTS = "volume_extension:hosts"
CAPABILITIES = "volume_extension:capabilities"
SNAPSHOT_GET = "volume:get_snapshot"
SNAPSHOT_GET_ALL = "volume:get_all_snapshots"
SNAPSHOT_CREATE = "volume:create_snapshot"
BACKUP_GET = "backup:get"
BACKUP_GET_ALL = "backup:get_all"
BACKUP_CREATE = "backup:create"
GROUP_CREATE = "group:create"
GROUP_GET = "group:get"
GROUP_GET_ALL = "group:get_all"
GROUP_UPDATE = "group:update"
GROUP_DELETE = "group:delete"
GROUP_RESET_STATUS = "group:reset_status"
GROUP_PROJECT = "group:group_project_attribute"
GROUP_TYPE_CREATE = "group:group_types:create"
GROUP_TYPE_UPDATE = "group:group_types:update"
GROUP_TYPE_DELETE = "group:group_types:delete"
GROUP_TYPE_SPECS = "group:access_group_types_specs"
GROUP_SPECS_INDEX = "group:group_types_specs:get_all"
GROUP_SPECS_SHOW = "group:group_types_specs:get"
GROUP_SPECS_CREATE = "group:group_types_specs:create"
GROUP_SPECS_UPDATE = "group:group_types_specs:update"
GROUP_SPECS_DELETE = "group:group_types_specs:delete"
GROUP_SNAPSHOT_GET = "group:get_group_snapshot"
GROUP_SNAPSHOT_GET_ALL = "group:get_all_group_snapshots"
GROUP_SNAPSHOT_CREATE = "group:create_group_snapshot"
TYPE_ENCRYPTION = "volume_extension:volume_type_encryption:get"
QUOTAS_SHOW = "volume_extension:quotas:show"
QUOTAS_UPDATE = "volume_extension:quotas:update"
QUOTAS_DELETE = "volume_extension:quotas:delete"
QUOTA_CLASSES_GET = "volume_extension:quota_classes:get"
QUOTA_CLASSES_UPDATE = "volume_extension:quota_classes:update"
USED_LIMITS = "limits_extension:used_limits"
CSI_GET_ALL = "csi:get_all_drivers"
CSI_GET = "csi:get_driver"
CSI_UPDATE = "csi:update_driver"
CSI_DELETE = "csi:delete_driver"
CSI_FIT = "csi:fit"
CSI_CLAIM = "csi:claim"
MESSAGE_GET = "message:get"
MESSAGE_GET_ALL = "message:get_all"
MESSAGE_DELETE = "message:delete"

_BASE = [
    policy.RuleDefault(IS_ADMIN, "role:admin", description="Who counts as an administrator."),
    policy.RuleDefault("admin_api", "rule:context_is_admin", description="What administrators may do."),
]


def _rule(name: str, check: str, description: str, *operations: tuple[str, str]) -> policy.DocumentedRuleDefault:
    return policy.DocumentedRuleDefault(
        name=name,
        check_str=check,
        description=description,
        operations=[{"method": method, "path": path} for method, path in operations],
        scope_types=["project"],
    )


_RULES = [
    _rule(VOLUME_CREATE, MEMBER, "Create a volume, or several at once.", ("POST", "/volumes")),
    _rule(VOLUME_GET, READER, "Show a volume.", ("GET", "/volumes/{volume_id}")),
    _rule(
        VOLUME_GET_ALL,
        READER,
        "List volumes.",
        ("GET", "/volumes"),
        ("GET", "/volumes/detail"),
        ("GET", "/volumes/summary"),
    ),
    _rule(VOLUME_UPDATE, MEMBER, "Change a volume's name, description or metadata.", ("PUT", "/volumes/{volume_id}")),
    _rule(VOLUME_DELETE, MEMBER, "Delete a volume.", ("DELETE", "/volumes/{volume_id}")),
    _rule(VOLUME_FORCE_DELETE, ADMIN, "Delete a volume with force=true.", ("DELETE", "/volumes/{volume_id}")),
    _rule(
        VOLUME_FORCE_DELETE_ACTION,
        ADMIN,
        "Delete a volume by force (os-force_delete).",
        ("POST", "/volumes/{volume_id}/action"),
    ),
    _rule(
        METADATA_GET,
        READER,
        "See a volume's metadata.",
        ("GET", "/volumes/{volume_id}/metadata"),
        ("GET", "/volumes/{volume_id}/metadata/{key}"),
    ),
    _rule(METADATA_CREATE, MEMBER, "Set metadata of a volume.", ("POST", "/volumes/{volume_id}/metadata")),
    _rule(
        METADATA_UPDATE,
        MEMBER,
        "Change metadata of a volume.",
        ("PUT", "/volumes/{volume_id}/metadata"),
        ("PUT", "/volumes/{volume_id}/metadata/{key}"),
    ),
    _rule(METADATA_DELETE, MEMBER, "Remove metadata of a volume.", ("DELETE", "/volumes/{volume_id}/metadata/{key}")),
    _rule(VOLUME_EXTEND, MEMBER, "Extend a volume (os-extend).", ("POST", "/volumes/{volume_id}/action")),
    _rule(VOLUME_RETYPE, MEMBER, "Give a volume another type (os-retype).", ("POST", "/volumes/{volume_id}/action")),
    _rule(
        VOLUME_MIGRATE,
        ADMIN,
        "Move a volume to another pool (os-migrate_volume).",
        ("POST", "/volumes/{volume_id}/action"),
    ),
    _rule(
        VOLUME_UNMANAGE,
        ADMIN,
        "Forget a volume and leave it on the storage (os-unmanage).",
        ("POST", "/volumes/{volume_id}/action"),
    ),
    _rule(
        VOLUME_MANAGE,
        ADMIN,
        "Take over what is on the storage.",
        ("POST", "/manageable_volumes"),
        ("POST", "/os-volume-manage"),
    ),
    _rule(
        LIST_MANAGEABLE,
        ADMIN,
        "List what can be taken over.",
        ("GET", "/manageable_volumes"),
        ("GET", "/manageable_volumes/detail"),
        ("GET", "/os-volume-manage"),
        ("GET", "/os-volume-manage/detail"),
    ),
    _rule(
        VOLUME_RESET_STATUS,
        ADMIN,
        "Declare a volume's status (os-reset_status).",
        ("POST", "/volumes/{volume_id}/action"),
    ),
    _rule(VOLUME_HOST, ADMIN, "See which pool a volume is in.", ("GET", "/volumes/{volume_id}")),
    _rule(VOLUME_TENANT, READER, "See whose a volume is.", ("GET", "/volumes/{volume_id}")),
    _rule(VOLUME_MIGRATION, ADMIN, "See how a volume's migration goes.", ("GET", "/volumes/{volume_id}")),
    _rule(TYPE_GET_ALL, READER, "List volume types.", ("GET", "/types")),
    _rule(TYPE_GET, READER, "Show a volume type.", ("GET", "/types/{type_id}"), ("GET", "/types/default")),
    _rule(TYPE_CREATE, ADMIN, "Create a volume type.", ("POST", "/types")),
    _rule(TYPE_UPDATE, ADMIN, "Change a volume type.", ("PUT", "/types/{type_id}")),
    _rule(TYPE_DELETE, ADMIN, "Delete a volume type.", ("DELETE", "/types/{type_id}")),
    _rule(
        TYPE_ACCESS_INDEX,
        ADMIN,
        "List the projects that may use a private type.",
        ("GET", "/types/{type_id}/os-volume-type-access"),
    ),
    _rule(
        TYPE_ACCESS_ADD,
        ADMIN,
        "Let a project use a private type (addProjectAccess).",
        ("POST", "/types/{type_id}/action"),
    ),
    _rule(
        TYPE_ACCESS_REMOVE,
        ADMIN,
        "Take a project's access to a private type back (removeProjectAccess).",
        ("POST", "/types/{type_id}/action"),
    ),
    _rule(TYPE_EXTRA_SPECS, READER, "See the extra specs in volume types.", ("GET", "/types/{type_id}")),
    _rule(TYPE_QOS, ADMIN, "See which QoS specs a volume type has.", ("GET", "/types/{type_id}")),
    _rule(
        QOS_GET_ALL,
        ADMIN,
        "List QoS specs, and the types that they are for.",
        ("GET", "/qos-specs"),
        ("GET", "/qos-specs/{specs_id}/associations"),
    ),
    _rule(QOS_GET, ADMIN, "Show QoS specs.", ("GET", "/qos-specs/{specs_id}")),
    _rule(QOS_CREATE, ADMIN, "Create QoS specs.", ("POST", "/qos-specs")),
    _rule(
        QOS_UPDATE,
        ADMIN,
        "Change QoS specs, or the types that they are for.",
        ("PUT", "/qos-specs/{specs_id}"),
        ("GET", "/qos-specs/{specs_id}/associate"),
        ("GET", "/qos-specs/{specs_id}/disassociate"),
        ("GET", "/qos-specs/{specs_id}/disassociate_all"),
    ),
    _rule(
        QOS_DELETE,
        ADMIN,
        "Delete QoS specs, or some of their keys.",
        ("DELETE", "/qos-specs/{specs_id}"),
        ("PUT", "/qos-specs/{specs_id}/delete_keys"),
    ),
    _rule(SPECS_INDEX, READER, "List a type's extra specs.", ("GET", "/types/{type_id}/extra_specs")),
    _rule(SPECS_SHOW, READER, "Show an extra spec.", ("GET", "/types/{type_id}/extra_specs/{key}")),
    _rule(SPECS_CREATE, ADMIN, "Set extra specs.", ("POST", "/types/{type_id}/extra_specs")),
    _rule(SPECS_UPDATE, ADMIN, "Set one extra spec.", ("PUT", "/types/{type_id}/extra_specs/{key}")),
    _rule(SPECS_DELETE, ADMIN, "Remove an extra spec.", ("DELETE", "/types/{type_id}/extra_specs/{key}")),
    _rule(GET_POOLS, ADMIN, "Show the pools.", ("GET", "/scheduler-stats/get_pools")),
    _rule(EXPLAIN, ADMIN, "Explain a decision without making it.", ("POST", "/scheduler-stats/explain")),
    _rule(WHAT_IF, ADMIN, "Ask what would be decided if things were different.", ("POST", "/scheduler-stats/what-if")),
    _rule(SERVICES, ADMIN, "List schedulers and backends.", ("GET", "/os-services")),
    _rule(
        SERVICES_UPDATE,
        ADMIN,
        "Enable or disable a backend or a scheduler; drain a backend.",
        ("PUT", "/os-services/enable"),
        ("PUT", "/os-services/disable"),
        ("PUT", "/os-services/disable-log-reason"),
        ("PUT", "/os-services/drain"),
    ),
    _rule(ZONES, READER, "List availability zones.", ("GET", "/os-availability-zone")),
    _rule(HOSTS, ADMIN, "List hosts and what is on them.", ("GET", "/os-hosts"), ("GET", "/os-hosts/{host}")),
    _rule(CAPABILITIES, ADMIN, "Show what a backend can do.", ("GET", "/capabilities/{host}")),
    _rule(SNAPSHOT_GET_ALL, READER, "List snapshots.", ("GET", "/snapshots"), ("GET", "/snapshots/detail")),
    _rule(SNAPSHOT_GET, READER, "Show a snapshot.", ("GET", "/snapshots/{item_id}")),
    _rule(SNAPSHOT_CREATE, MEMBER, "Create a snapshot.", ("POST", "/snapshots")),
    _rule(BACKUP_GET_ALL, READER, "List backups.", ("GET", "/backups"), ("GET", "/backups/detail")),
    _rule(BACKUP_GET, READER, "Show a backup.", ("GET", "/backups/{item_id}")),
    _rule(BACKUP_CREATE, MEMBER, "Create a backup.", ("POST", "/backups")),
    _rule(GROUP_CREATE, MEMBER, "Create a group.", ("POST", "/groups"), ("POST", "/groups/action")),
    _rule(GROUP_GET, READER, "Show a group.", ("GET", "/groups/{group_id}")),
    _rule(GROUP_GET_ALL, READER, "List groups.", ("GET", "/groups"), ("GET", "/groups/detail")),
    _rule(GROUP_UPDATE, MEMBER, "Change a group, and which volumes are in it.", ("PUT", "/groups/{group_id}")),
    _rule(GROUP_DELETE, MEMBER, "Delete a group (delete).", ("POST", "/groups/{group_id}/action")),
    _rule(GROUP_RESET_STATUS, ADMIN, "Declare a group's status (reset_status).", ("POST", "/groups/{group_id}/action")),
    _rule(GROUP_PROJECT, ADMIN, "See whose a group is.", ("GET", "/groups/{group_id}"), ("GET", "/groups/detail")),
    _rule(GROUP_TYPE_CREATE, ADMIN, "Create a group type.", ("POST", "/group_types")),
    _rule(GROUP_TYPE_UPDATE, ADMIN, "Change a group type.", ("PUT", "/group_types/{group_type_id}")),
    _rule(GROUP_TYPE_DELETE, ADMIN, "Delete a group type.", ("DELETE", "/group_types/{group_type_id}")),
    _rule(
        GROUP_TYPE_SPECS,
        ADMIN,
        "See the specs in group types. Everybody may see the types.",
        ("GET", "/group_types"),
        ("GET", "/group_types/{group_type_id}"),
    ),
    _rule(GROUP_SPECS_INDEX, ADMIN, "List a group type's specs.", ("GET", "/group_types/{group_type_id}/group_specs")),
    _rule(
        GROUP_SPECS_SHOW,
        ADMIN,
        "Show a spec of a group type.",
        ("GET", "/group_types/{group_type_id}/group_specs/{key}"),
    ),
    _rule(
        GROUP_SPECS_CREATE, ADMIN, "Set specs of a group type.", ("POST", "/group_types/{group_type_id}/group_specs")
    ),
    _rule(
        GROUP_SPECS_UPDATE,
        ADMIN,
        "Set one spec of a group type.",
        ("PUT", "/group_types/{group_type_id}/group_specs/{key}"),
    ),
    _rule(
        GROUP_SPECS_DELETE,
        ADMIN,
        "Remove a spec of a group type.",
        ("DELETE", "/group_types/{group_type_id}/group_specs/{key}"),
    ),
    _rule(
        GROUP_SNAPSHOT_GET_ALL,
        READER,
        "List snapshots of groups.",
        ("GET", "/group_snapshots"),
        ("GET", "/group_snapshots/detail"),
    ),
    _rule(GROUP_SNAPSHOT_GET, READER, "Show a snapshot of a group.", ("GET", "/group_snapshots/{item_id}")),
    _rule(GROUP_SNAPSHOT_CREATE, MEMBER, "Create a snapshot of a group.", ("POST", "/group_snapshots")),
    _rule(TYPE_ENCRYPTION, ADMIN, "See how a type is encrypted.", ("GET", "/types/{type_id}/encryption")),
    _rule(
        QUOTAS_SHOW,
        READER,
        "Show the limits of a project.",
        ("GET", "/os-quota-sets/{project_id}"),
        ("GET", "/os-quota-sets/{project_id}/defaults"),
    ),
    _rule(QUOTAS_UPDATE, ADMIN, "Set limits of a project.", ("PUT", "/os-quota-sets/{project_id}")),
    _rule(QUOTAS_DELETE, ADMIN, "Forget the limits of a project.", ("DELETE", "/os-quota-sets/{project_id}")),
    _rule(QUOTA_CLASSES_GET, ADMIN, "Show the limits of a class.", ("GET", "/os-quota-class-sets/{class_name}")),
    _rule(QUOTA_CLASSES_UPDATE, ADMIN, "Set limits of a class.", ("PUT", "/os-quota-class-sets/{class_name}")),
    _rule(USED_LIMITS, READER, "Show what a project may have and has.", ("GET", "/limits")),
    _rule(CSI_GET_ALL, ADMIN, "List the storage drivers of Kubernetes clusters.", ("GET", "/csi-drivers")),
    _rule(CSI_GET, ADMIN, "Show such a driver with its storage.", ("GET", "/csi-drivers/{driver}")),
    _rule(CSI_UPDATE, ADMIN, "Change such a driver and its figures.", ("PATCH", "/csi-drivers/{driver}")),
    _rule(CSI_DELETE, ADMIN, "Remove such a driver with its figures.", ("DELETE", "/csi-drivers/{driver}")),
    _rule(CSI_FIT, ADMIN, "Ask which nodes take volumes together.", ("POST", "/csi-capacity/fit")),
    _rule(
        CSI_CLAIM,
        ADMIN,
        "Claim what volumes need on a node, and give it back.",
        ("POST", "/csi-capacity/fit"),
        ("GET", "/csi-capacity/claims/{holder}"),
        ("DELETE", "/csi-capacity/claims/{holder}"),
    ),
    _rule(MESSAGE_GET_ALL, READER, "List user messages.", ("GET", "/messages")),
    _rule(MESSAGE_GET, READER, "Show a user message.", ("GET", "/messages/{message_id}")),
    _rule(MESSAGE_DELETE, MEMBER, "Delete a user message.", ("DELETE", "/messages/{message_id}")),
]


def list_rules() -> list[policy.RuleDefault]:
    """Return all rules, for oslo.policy's tools."""
    return [*_BASE, *_RULES]


def by_operation() -> dict[tuple[str, str], list[str]]:
    """Return the names of the rules that say who may do what, by method and path (behind ``/v3``)."""
    found: dict[tuple[str, str], list[str]] = {}
    for rule in _RULES:
        for each in rule.operations:
            found.setdefault((each["method"], each["path"]), []).append(str(rule.name))
    return found
