# SPDX-License-Identifier: Apache-2.0
"""The commands of ``tonnage`` that change volumes, by the REST API."""
