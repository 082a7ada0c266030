# SPDX-License-Identifier: Apache-2.0
"""The files of the web page."""

import hashlib
import pathlib
import re

import falcon
import pytest
from falcon import testing

from tests.unit.api.cluster import Cluster, configuration
from tonnage.api import app
from tonnage.api.auth import authentication
from tonnage.api.http import request_context
from tonnage.extensions.page import static_files

STATIC = pathlib.Path(static_files.__file__).with_name("static")
SCRIPTS = sorted(STATIC.glob("*.js"))


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> testing.TestClient:
    """A client on this machine. The OpenAPI document does not describe these files."""
    return _application(cluster, "noauth", authentication.noauth)


def test_the_page_is_served_with_a_strict_policy(client: testing.TestClient) -> None:
    answer = client.simulate_get("/page/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("names", [["page"], ["history", "page"]])
def test_the_page_names_the_enabled_extensions(cluster: Cluster, names: list[str]) -> None:
    conf = configuration(enabled_extensions=names)
    tester = testing.TestClient(app.build(conf, cluster.database, cluster.scheduler, authentication.noauth))
    assert f'<body data-extensions="{" ".join(names)}">' in tester.simulate_get("/page/").text


def test_a_head_is_answered_as_a_get_without_the_body(client: testing.TestClient) -> None:
    got, head = (client.simulate_request(method, "/page/") for method in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == got.headers[name]


def test_the_path_without_the_slash_leads_to_the_page(client: testing.TestClient) -> None:
    answer = client.simulate_get("/page")
    assert answer.status_code == 302
    assert answer.headers["location"].endswith("/page/")


def test_an_unchanged_file_is_not_sent_again(client: testing.TestClient) -> None:
    tag = client.simulate_get("/page/app.js").headers["etag"]
    answer = client.simulate_get("/page/app.js", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..", "%2e%2e%2fapp.py", "vendor.txt"])
def test_other_files_are_not_served(client: testing.TestClient, name: str) -> None:
    assert client.simulate_get(f"/page/{name}").status_code == 404


def test_everything_that_the_page_loads_is_there(client: testing.TestClient) -> None:
    index = (STATIC / "index.html").read_text()
    loaded = set(re.findall(r'(?:src|href)="([^"#]+)"', index))
    for script in SCRIPTS:
        loaded |= {name.removeprefix("./") for name in re.findall(r'from "([^"]+)"', script.read_text())}
    assert "vendor.js" in loaded
    for name in loaded:
        assert client.simulate_get(f"/page/{name}").status_code == 200, name
    # A file that is loaded late makes the first view wait.
    assert {f"{each.stem}.js" for each in SCRIPTS} - {"app.js"} == set(
        re.findall(r'modulepreload" href="([^"]+)"', index)
    )


@pytest.mark.parametrize("name", ["index.html", "style.css", *(path.name for path in SCRIPTS)])
def test_no_file_asks_another_origin_or_has_inline_code(name: str) -> None:
    text = (STATIC / name).read_text()
    addresses = set(re.findall(r"https?://[^\"'` ]+", text))
    addresses = {each for each in addresses if not each.startswith("http://www.w3.org/")}  # namespaces
    assert addresses == set()
    if name != "vendor.js":
        assert not re.search(r"style=|innerHTML|\beval\(|\bon[a-z]+=\"|dangerously", text)


def test_the_libraries_are_those_of_the_recorded_checksum() -> None:
    recorded = re.search(r"^([0-9a-f]{64})  vendor.js$", (STATIC / "vendor.txt").read_text(), re.MULTILINE)
    assert recorded is not None
    assert hashlib.sha256((STATIC / "vendor.js").read_bytes()).hexdigest() == recorded[1]


def _application(cluster: Cluster, strategy: str, authenticator: authentication.Authenticator) -> testing.TestClient:
    conf = configuration(auth_strategy=strategy, enabled_extensions=["page"])
    return testing.TestClient(app.build(conf, cluster.database, cluster.scheduler, authenticator))


def test_files_need_the_authentication_that_a_browser_can_do_itself(cluster: Cluster) -> None:
    def nobody(req: falcon.Request, project: str | None) -> object:
        raise request_context.Unauthenticated(request_context.REQUIRED, "Basic")

    assert _application(cluster, "http_basic", nobody).simulate_get("/page/").status_code == 401  # type: ignore[arg-type]
    # The page itself asks for a token.
    assert _application(cluster, "keystone", nobody).simulate_get("/page/").status_code == 200  # type: ignore[arg-type]
    local = authentication.local_noauth("127.0.0.1")
    noauth = _application(cluster, "noauth", local)
    assert noauth.simulate_get("/page/", headers={"Host": "localhost:8776"}).status_code == 200
    assert noauth.simulate_get("/page/", headers={"Host": "rebound.example:8776"}).status_code == 403
