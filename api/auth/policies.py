# SPDX-License-Identifier: Apache-2.0
"""The policy rules, under Cinder's names. :mod:`tonnage.api.auth.enforcement` checks them.

Administrators may do everything. Within its own project a member may change volumes and a reader may see them.
"""

from collections.abc import Callable, Iterable

from oslo_config import cfg
from oslo_policy import policy

from tonnage import enabled_extensions, extension
from tonnage.capacity import errors

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
FAILURE_DETAILS = "volume_extension:failure_details"
GET_POOLS = "scheduler_extension:scheduler_stats:get_pools"
EXPLAIN = "scheduler_extension:scheduler_stats:explain"
WHAT_IF = "scheduler_extension:scheduler_stats:what_if"
REFUSALS = "scheduler_extension:scheduler_stats:refusals"
LEDGER = "scheduler_extension:scheduler_stats:ledger"
WHY = "scheduler_extension:scheduler_stats:why"
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
UNSUPPORTED = "volume_extension:unsupported"
TYPE_ENCRYPTION = "volume_extension:volume_type_encryption:get"
VOLUME_ENCRYPTION = "volume_extension:volume_encryption_metadata"
QUOTAS_SHOW = "volume_extension:quotas:show"
QUOTAS_UPDATE = "volume_extension:quotas:update"
QUOTAS_DELETE = "volume_extension:quotas:delete"
QUOTA_CLASSES_GET = "volume_extension:quota_classes:get"
QUOTA_CLASSES_UPDATE = "volume_extension:quota_classes:update"
USED_LIMITS = "limits_extension:used_limits"
MESSAGE_GET = "message:get"
MESSAGE_GET_ALL = "message:get_all"
MESSAGE_DELETE = "message:delete"

_BASE = [
    policy.RuleDefault(IS_ADMIN, "role:admin", description="Definition of an administrator."),
    policy.RuleDefault("admin_api", "rule:context_is_admin", description="Default rule for calls of administrators."),
]


#: One row for each rule: its name, its check, its description, and the API calls to which it applies.
# fmt: off
_TABLE: tuple[tuple[str, ...], ...] = (
    (VOLUME_CREATE, MEMBER, "Create a volume, or several volumes.", "POST /volumes"),
    (VOLUME_GET, READER, "Show a volume.", "GET /volumes/{volume_id}"),
    (VOLUME_GET_ALL, READER, "List volumes.", "GET /volumes", "GET /volumes/detail", "GET /volumes/summary"),
    (VOLUME_UPDATE, MEMBER, "Change a volume's name, description or metadata.", "PUT /volumes/{volume_id}"),
    (VOLUME_DELETE, MEMBER, "Delete a volume.", "DELETE /volumes/{volume_id}"),
    (VOLUME_FORCE_DELETE, ADMIN, "Delete a volume with force=true.", "DELETE /volumes/{volume_id}"),
    (VOLUME_FORCE_DELETE_ACTION, ADMIN, "Delete a volume by force (os-force_delete).",
     "POST /volumes/{volume_id}/action"),
    (METADATA_GET, READER, "See a volume's metadata.",
     "GET /volumes/{volume_id}/metadata", "GET /volumes/{volume_id}/metadata/{key}"),
    (METADATA_CREATE, MEMBER, "Set metadata of a volume.", "POST /volumes/{volume_id}/metadata"),
    (METADATA_UPDATE, MEMBER, "Change metadata of a volume.",
     "PUT /volumes/{volume_id}/metadata", "PUT /volumes/{volume_id}/metadata/{key}"),
    (METADATA_DELETE, MEMBER, "Remove metadata of a volume.", "DELETE /volumes/{volume_id}/metadata/{key}"),
    (VOLUME_EXTEND, MEMBER, "Extend a volume (os-extend).", "POST /volumes/{volume_id}/action"),
    (VOLUME_RETYPE, MEMBER, "Change the type of a volume (os-retype).", "POST /volumes/{volume_id}/action"),
    (VOLUME_MIGRATE, ADMIN, "Move a volume to another pool (os-migrate_volume).", "POST /volumes/{volume_id}/action"),
    (VOLUME_UNMANAGE, ADMIN, "Unmanage a volume and leave it on the storage (os-unmanage).",
     "POST /volumes/{volume_id}/action"),
    (VOLUME_MANAGE, ADMIN, "Manage an existing volume of the storage.",
     "POST /manageable_volumes", "POST /os-volume-manage"),
    (LIST_MANAGEABLE, ADMIN, "List manageable volumes.",
     "GET /manageable_volumes", "GET /manageable_volumes/detail", "GET /os-volume-manage",
     "GET /os-volume-manage/detail"),
    (VOLUME_RESET_STATUS, ADMIN, "Reset the status of a volume (os-reset_status).", "POST /volumes/{volume_id}/action"),
    (VOLUME_HOST, ADMIN, "See the pool of a volume.", "GET /volumes/{volume_id}"),
    (FAILURE_DETAILS, ADMIN, "See hosts, pools and figures in refusals, reasons and messages, and causes of a 503.",
     "POST /volumes", "POST /volumes/{volume_id}/action", "GET /volumes/{volume_id}", "GET /messages"),
    (VOLUME_TENANT, READER, "See the project of a volume.", "GET /volumes/{volume_id}"),
    (VOLUME_MIGRATION, ADMIN, "See the migration status of a volume.", "GET /volumes/{volume_id}"),
    (TYPE_GET_ALL, READER, "List volume types.", "GET /types"),
    (TYPE_GET, READER, "Show a volume type.", "GET /types/{type_id}", "GET /types/default"),
    (TYPE_CREATE, ADMIN, "Create a volume type.", "POST /types"),
    (TYPE_UPDATE, ADMIN, "Change a volume type.", "PUT /types/{type_id}"),
    (TYPE_DELETE, ADMIN, "Delete a volume type.", "DELETE /types/{type_id}"),
    (TYPE_ACCESS_INDEX, ADMIN, "List the projects that may use a private type.",
     "GET /types/{type_id}/os-volume-type-access"),
    (TYPE_ACCESS_ADD, ADMIN, "Give a project access to a private type (addProjectAccess).",
     "POST /types/{type_id}/action"),
    (TYPE_ACCESS_REMOVE, ADMIN, "Remove a project's access to a private type (removeProjectAccess).",
     "POST /types/{type_id}/action"),
    (TYPE_EXTRA_SPECS, READER, "See the extra specs in volume types.", "GET /types/{type_id}"),
    (TYPE_QOS, ADMIN, "See the QoS specs of a volume type.", "GET /types/{type_id}"),
    (QOS_GET_ALL, ADMIN, "List QoS specs and their volume types.",
     "GET /qos-specs", "GET /qos-specs/{specs_id}/associations"),
    (QOS_GET, ADMIN, "Show QoS specs.", "GET /qos-specs/{specs_id}"),
    (QOS_CREATE, ADMIN, "Create QoS specs.", "POST /qos-specs"),
    (QOS_UPDATE, ADMIN, "Change QoS specs or their volume types.",
     "PUT /qos-specs/{specs_id}", "GET /qos-specs/{specs_id}/associate", "GET /qos-specs/{specs_id}/disassociate",
     "GET /qos-specs/{specs_id}/disassociate_all"),
    (QOS_DELETE, ADMIN, "Delete QoS specs, or some of their keys.",
     "DELETE /qos-specs/{specs_id}", "PUT /qos-specs/{specs_id}/delete_keys"),
    (SPECS_INDEX, READER, "List a type's extra specs.", "GET /types/{type_id}/extra_specs"),
    (SPECS_SHOW, READER, "Show an extra spec.", "GET /types/{type_id}/extra_specs/{key}"),
    (SPECS_CREATE, ADMIN, "Set extra specs.", "POST /types/{type_id}/extra_specs"),
    (SPECS_UPDATE, ADMIN, "Set one extra spec.", "PUT /types/{type_id}/extra_specs/{key}"),
    (SPECS_DELETE, ADMIN, "Remove an extra spec.", "DELETE /types/{type_id}/extra_specs/{key}"),
    (GET_POOLS, ADMIN, "Show the pools.", "GET /scheduler-stats/get_pools"),
    (EXPLAIN, ADMIN, "Explain a decision without making it.", "POST /scheduler-stats/explain"),
    (REFUSALS, ADMIN, "List the recorded refusals.", "GET /scheduler-stats/refusals"),
    (LEDGER, ADMIN, "Show pools, volumes of all projects, types and claims in the ledger.",
     "GET /scheduler-stats/ledger/{overview}"),
    (WHY, ADMIN, "Show the decisions on a volume, and explain the same request now.", "GET /scheduler-stats/why"),
    (WHAT_IF, ADMIN, "Simulate decisions under assumed changes.", "POST /scheduler-stats/what-if"),
    (SERVICES, ADMIN, "List schedulers and backends.", "GET /os-services"),
    (SERVICES_UPDATE, ADMIN, "Enable or disable a backend or a scheduler; drain a backend.",
     "PUT /os-services/enable", "PUT /os-services/disable", "PUT /os-services/disable-log-reason",
     "PUT /os-services/drain", "PUT /os-services/freeze", "PUT /os-services/thaw", "PUT /os-services/failover_host",
     "PUT /os-services/failover", "PUT /os-services/set-log", "PUT /os-services/get-log", "POST /workers/cleanup"),
    (ZONES, READER, "List availability zones.", "GET /os-availability-zone"),
    (HOSTS, ADMIN, "List hosts, and show the usage of a host.", "GET /os-hosts", "GET /os-hosts/{host}"),
    (CAPABILITIES, ADMIN, "Show the capabilities of a backend.", "GET /capabilities/{host}"),
    (SNAPSHOT_GET_ALL, READER, "List snapshots.", "GET /snapshots", "GET /snapshots/detail"),
    (SNAPSHOT_GET, READER, "Show a snapshot.", "GET /snapshots/{item_id}"),
    (SNAPSHOT_CREATE, MEMBER, "Create, change or delete a snapshot.", "POST /snapshots",
     "POST /snapshots/{item_id}", "PUT /snapshots/{item_id}", "DELETE /snapshots/{item_id}"),
    (BACKUP_GET_ALL, READER, "List backups.", "GET /backups", "GET /backups/detail"),
    (BACKUP_GET, READER, "Show a backup.", "GET /backups/{item_id}"),
    (BACKUP_CREATE, MEMBER, "Create, change or delete a backup.", "POST /backups",
     "POST /backups/{item_id}", "PUT /backups/{item_id}", "DELETE /backups/{item_id}"),
    (GROUP_CREATE, MEMBER, "Create a group.", "POST /groups", "POST /groups/action"),
    (GROUP_GET, READER, "Show a group.", "GET /groups/{group_id}"),
    (GROUP_GET_ALL, READER, "List groups.", "GET /groups", "GET /groups/detail"),
    (GROUP_UPDATE, MEMBER, "Change a group, or its volumes.", "PUT /groups/{group_id}"),
    (GROUP_DELETE, MEMBER, "Delete a group (delete).", "POST /groups/{group_id}/action"),
    (GROUP_RESET_STATUS, ADMIN, "Reset the status of a group (reset_status).", "POST /groups/{group_id}/action"),
    (GROUP_PROJECT, ADMIN, "See the project of a group.", "GET /groups/{group_id}", "GET /groups/detail"),
    (GROUP_TYPE_CREATE, ADMIN, "Create a group type.", "POST /group_types"),
    (GROUP_TYPE_UPDATE, ADMIN, "Change a group type.", "PUT /group_types/{group_type_id}"),
    (GROUP_TYPE_DELETE, ADMIN, "Delete a group type.", "DELETE /group_types/{group_type_id}"),
    (GROUP_TYPE_SPECS, ADMIN, "See the specs in group types. Everybody may see the types.",
     "GET /group_types", "GET /group_types/{group_type_id}"),
    (GROUP_SPECS_INDEX, ADMIN, "List a group type's specs.", "GET /group_types/{group_type_id}/group_specs"),
    (GROUP_SPECS_SHOW, ADMIN, "Show a spec of a group type.", "GET /group_types/{group_type_id}/group_specs/{key}"),
    (GROUP_SPECS_CREATE, ADMIN, "Set specs of a group type.", "POST /group_types/{group_type_id}/group_specs"),
    (GROUP_SPECS_UPDATE, ADMIN, "Set one spec of a group type.", "PUT /group_types/{group_type_id}/group_specs/{key}"),
    (GROUP_SPECS_DELETE, ADMIN, "Remove a spec of a group type.",
     "DELETE /group_types/{group_type_id}/group_specs/{key}"),
    (GROUP_SNAPSHOT_GET_ALL, READER, "List snapshots of groups.",
     "GET /group_snapshots", "GET /group_snapshots/detail"),
    (GROUP_SNAPSHOT_GET, READER, "Show a snapshot of a group.", "GET /group_snapshots/{item_id}"),
    (GROUP_SNAPSHOT_CREATE, MEMBER, "Create, change or delete a snapshot of a group.", "POST /group_snapshots",
     "POST /group_snapshots/{item_id}", "PUT /group_snapshots/{item_id}", "DELETE /group_snapshots/{item_id}"),
    (VOLUME_ENCRYPTION, READER, "See the encryption of a volume.", "GET /volumes/{volume_id}/encryption"),
    (TYPE_ENCRYPTION, ADMIN, "See the encryption of a volume type.", "GET /types/{type_id}/encryption",
     "POST /types/{type_id}/encryption", "GET /types/{type_id}/encryption/{key}",
     "POST /types/{type_id}/encryption/{key}",
     "PUT /types/{type_id}/encryption/{key}", "DELETE /types/{type_id}/encryption/{key}"),
    (UNSUPPORTED, READER, "Use kinds of objects of Cinder that Tonnage does not have: lists are empty.",
     *(call for path in ("attachments", "cgsnapshots", "clusters", "consistencygroups", "default-types",
                         "manageable_snapshots", "os-snapshot-manage", "os-volume-transfer", "volume-transfers")
       for call in (f"GET /{path}", f"POST /{path}", f"GET /{path}/detail", f"GET /{path}/{{item_id}}",
                    f"POST /{path}/{{item_id}}", f"PUT /{path}/{{item_id}}", f"DELETE /{path}/{{item_id}}"))),
    (QUOTAS_SHOW, READER, "Show the limits of a project.",
     "GET /os-quota-sets/{project_id}", "GET /os-quota-sets/{project_id}/defaults"),
    (QUOTAS_UPDATE, ADMIN, "Set limits of a project.", "PUT /os-quota-sets/{project_id}"),
    (QUOTAS_DELETE, ADMIN, "Delete the limits of a project.", "DELETE /os-quota-sets/{project_id}"),
    (QUOTA_CLASSES_GET, ADMIN, "Show the limits of a quota class.", "GET /os-quota-class-sets/{class_name}"),
    (QUOTA_CLASSES_UPDATE, ADMIN, "Set limits of a quota class.", "PUT /os-quota-class-sets/{class_name}"),
    (USED_LIMITS, READER, "Show the limits and the usage of a project.", "GET /limits"),
    (MESSAGE_GET_ALL, READER, "List user messages.", "GET /messages"),
    (MESSAGE_GET, READER, "Show a user message.", "GET /messages/{message_id}"),
    (MESSAGE_DELETE, MEMBER, "Delete a user message.", "DELETE /messages/{message_id}"),
)
# fmt: on


def rule(name: str, check: str, description: str, *calls: str) -> policy.DocumentedRuleDefault:
    """Return the rule for these API calls, such as ``GET /volumes``, with paths below ``/v3``.

    ``check`` is :data:`ADMIN`, :data:`MEMBER` or :data:`READER`. Extensions that use the same rule declare it with the
    same check and description, each with its own calls.
    """
    operations = [_operation(call) for call in calls]
    return policy.DocumentedRuleDefault(name, check, description, operations, scope_types=["project"])


def list_rules() -> list[policy.RuleDefault]:
    """Return the rules of the core and of all installed extensions, for oslo.policy's tools."""
    references = (declaration.policies for declaration in extension.installed().values())
    return _with_extensions(extension.load(reference) for reference in references if reference)


def enabled_rules(conf: cfg.ConfigOpts) -> list[policy.RuleDefault]:
    """Return the rules of the core and of the enabled extensions.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an extension that cannot be loaded.
    """
    return _with_extensions(enabled_extensions.parts(conf, "policies").values())


def by_operation(rules: Iterable[policy.RuleDefault]) -> dict[tuple[str, str], list[str]]:
    """Return the names of the rules that apply to each API call, by method and path below ``/v3``."""
    rule_names: dict[tuple[str, str], list[str]] = {}
    for documented in rules:
        if isinstance(documented, policy.DocumentedRuleDefault):
            for operation in documented.operations:
                key = (operation["method"], operation["path"])
                rule_names.setdefault(key, []).append(str(documented.name))
    return rule_names


def _with_extensions(
    list_functions: Iterable[Callable[[], Iterable[policy.DocumentedRuleDefault]]],
) -> list[policy.RuleDefault]:
    """Return the rules of the core and those that the functions list, a rule of several extensions as one."""
    by_name = {str(row[0]): rule(*row) for row in _TABLE}
    for list_function in list_functions:
        for added in list_function():
            name = str(added.name)
            by_name[name] = _joined(by_name[name], added) if name in by_name else added
    return [*_BASE, *by_name.values()]


def _joined(first: policy.DocumentedRuleDefault, second: policy.DocumentedRuleDefault) -> policy.DocumentedRuleDefault:
    if (first.check_str, first.description) != (second.check_str, second.description):
        raise errors.ConfigurationError(
            f"the policy rule {first.name} is declared twice, with different checks or descriptions"
        )
    return policy.DocumentedRuleDefault(
        first.name,
        first.check_str,
        first.description,
        [*first.operations, *second.operations],
        scope_types=first.scope_types,
    )


def _operation(call: str) -> "policy.Operation":
    method, path = call.split()
    return {"method": method, "path": path}
