# SPDX-License-Identifier: Apache-2.0
"""What the log says of an exception in a hook of the extension ``example``."""

NOTE = "raised by the extension 'example', which the option enabled_extensions names"
FAILED_AFTER_COMMIT = "A hook of the extension 'example' failed after a commit"
