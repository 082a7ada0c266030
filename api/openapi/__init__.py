# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document, generated from the schemas."""
