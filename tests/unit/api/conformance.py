# SPDX-License-Identifier: Apache-2.0
"""The check of responses against the OpenAPI document."""

import functools
import json
import re
from typing import Any
from urllib import parse

import jsonschema_rs
from falcon import testing

#: The address of the document in references.
_ADDRESS = "openapi:"

#: Statuses of responses that the document does not describe: unknown path, unknown method, malformed header.
_UNDESCRIBED = (400, 403, 404, 405, 406, 413)


def _pattern(path: str) -> str:
    """Return the regular expression of a path. The key of metadata or of a spec may contain slashes."""
    return re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path.replace("{key}", "\0"))).replace("\0", ".+")


class Conformance:
    """Checks responses against a document."""

    def __init__(self, document: Any) -> None:
        self._document = document
        # The validator of a response then compiles only the components that it names.
        self._registry = jsonschema_rs.Registry([(_ADDRESS, document)], draft=jsonschema_rs.Draft202012)
        # Literal paths first: /volumes/detail is not a volume.
        paths = sorted(document["paths"], key=lambda path: path.count("{"))
        self._templates = [(re.compile(_pattern(path)), path) for path in paths]

    def check(self, method: str, path: str, answer: testing.Result) -> None:
        """Fail if the document does not allow this response."""
        template = self._template(path)
        operation = None if template is None else self._document["paths"][template].get(method.lower())
        if template is None or operation is None:
            assert answer.status_code in _UNDESCRIBED or method in ("HEAD", "OPTIONS"), (method, path, answer)
            return
        status = str(answer.status_code)
        assert status in operation["responses"], f"{method} {template} answers {status}, which is not in the document"
        validator = self._validator(template, method.lower(), status)
        if validator is None:
            assert not answer.content, f"{method} {template} answers {status} with a body"
        else:
            validator.validate(json.loads(answer.content))

    def _template(self, path: str) -> str | None:
        path = path.partition("?")[0].rstrip("/") or "/"
        without_project = re.sub("^/v3/[^/]+/", "/v3/", path)
        for candidate in (path, without_project):
            for pattern, template in self._templates:
                if pattern.fullmatch(candidate):
                    return template
        return None

    @functools.cache  # noqa: B019  (there is one for all tests)
    def _validator(self, template: str, method: str, status: str) -> Any:
        response = self._document["paths"][template][method]["responses"][status]
        if "content" not in response:
            return None
        place = ("paths", template, method, "responses", status, "content", "application/json", "schema")
        pointer = "/".join(parse.quote(name.replace("~", "~0").replace("/", "~1")) for name in place)
        return jsonschema_rs.Draft202012Validator({"$ref": f"{_ADDRESS}#/{pointer}"}, registry=self._registry)
