# SPDX-License-Identifier: Apache-2.0
"""The extensions that the option ``enabled_extensions`` names, found by their entry points ``tonnage.extensions``.

The core asks for none of them by name: it goes through the enabled ones and uses the parts that each declares.
"""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from tonnage import extension, plugin_loader
from tonnage.capacity import errors, plugin_errors
from tonnage.extension import Extension

OPTION = cfg.ListOpt(
    "enabled_extensions",
    default=extension.names_in_this_package(),
    help="The optional parts of Tonnage that run, by default those that come with it; none if the option is empty. Their "
    "tables are made by tonnage-manage db sync. It has to be the same for all processes that use one database.",
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the option ``enabled_extensions``."""
    conf.register_opt(OPTION)


def enabled(conf: cfg.ConfigOpts) -> dict[str, Extension]:
    """Return the enabled extensions by their names, in the order of the option.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a name that is unknown or cannot be loaded.
    """
    return {name: _load(name) for name in dict.fromkeys(conf.enabled_extensions)}


def require(conf: cfg.ConfigOpts, name: str) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` unless the extension with this name is enabled."""
    if name not in conf.enabled_extensions:
        raise errors.ConfigurationError(f"the extension '{name}' is not enabled: add it to {OPTION.name}")


def parts(conf: cfg.ConfigOpts, name: str) -> dict[str, Any]:
    """Import a part of each enabled extension that has it, such as ``scheduler``, and return them by extension.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` as :func:`enabled`, and for a part that cannot be
    imported.
    """
    references = {key: getattr(declaration, name) for key, declaration in enabled(conf).items()}
    return {key: _import(key, reference) for key, reference in references.items() if reference}


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the options of the enabled extensions. The configuration files have been read. Raises as :func:`parts`."""
    for list_opts in parts(conf, "options").values():
        for group, options in list_opts():
            if isinstance(group, cfg.OptGroup):
                conf.register_group(group)
            conf.register_opts(options, None if group == "DEFAULT" else group)


def with_transaction_hooks(conf: cfg.ConfigOpts) -> str:
    """Return the names of the enabled extensions whose hooks take part in transactions, with commas between them."""
    return ",".join(sorted(name for name, declaration in enabled(conf).items() if declaration.has_transaction_hooks))


def check(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` for options that an enabled extension cannot use."""
    for check_part in parts(conf, "check").values():
        check_part(conf)


def list_opts() -> list[tuple[Any, list[cfg.Opt]]]:
    """Return ``enabled_extensions`` and the options of all installed extensions, for the sample configuration."""
    return [
        ("DEFAULT", [OPTION]),
        *(
            section
            for declaration in extension.installed().values()
            if declaration.options
            for section in extension.load(declaration.options)()
        ),
    ]


def _load(name: str) -> Extension:
    declaration = plugin_loader.find(extension.NAMESPACE, OPTION.name, name, _mismatch)
    assert isinstance(declaration, Extension)  # noqa: S101  -- the loader has checked it
    return declaration


def _mismatch(plugin: object) -> str | None:
    return None if isinstance(plugin, Extension) else "it is not a tonnage.extension.Extension"


def _import(name: str, reference: str) -> Any:
    try:
        return extension.load(reference)
    except plugin_errors.CAUGHT as error:
        raise errors.ConfigurationError(
            f"{OPTION.name} names '{name}', whose part {reference} cannot be imported: {plugin_errors.described(error)}"
        ) from error


def references(declaration: Extension) -> Mapping[str, str]:
    """Return all parts that a declaration names, by the names of its fields; for tests of extensions."""
    texts = {}
    for field_name in Extension.__dataclass_fields__:
        value = getattr(declaration, field_name)
        if isinstance(value, Mapping):
            texts.update({f"{field_name} {key}": reference for key, reference in value.items()})
        elif isinstance(value, str) and field_name not in ("summary", "web_page") and value:
            texts[field_name] = value
    return texts
