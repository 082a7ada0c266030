# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration. ``make docs`` builds into docs/_build/html."""

import warnings

import tonnage

warnings.filterwarnings("ignore", message=r"[\s\S]*Eventlet is deprecated")

project = "Tonnage"
author = "the Tonnage authors"
copyright = author
version = release = tonnage.__version__

extensions = [
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.autodoc",
    "stevedore.sphinxext",
]
exclude_patterns = ["_build"]

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"


html_theme = "alabaster"
html_title = f"Tonnage {release}"
html_theme_options = {"description": "Storage capacity, placed exactly", "fixed_sidebar": True, "page_width": "1100px"}
html_show_sourcelink = False
