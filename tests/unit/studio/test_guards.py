"""A page on another origin cannot drive the studio."""

import pytest
from starlette.testclient import TestClient

from slicewise.studio.serving import application

HOST = "127.0.0.1:8765"


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(application(("127.0.0.1", "localhost"), 8765), base_url=f"http://{HOST}")


def test_the_page_and_its_files_are_there(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "http:" not in page.text.replace("http://www.w3.org", "")
    assert client.get("/page/studio.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["/page/../setting.py", "/page/..%2fsetting.py", "/page/nobody.js", "/etc/passwd"])
def test_no_other_file_is(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 405)


def test_every_answer_has_the_policy_and_no_cookie(client: TestClient) -> None:
    for answer in (client.get("/"), client.post("/api/choices", json={}), client.get("/page/nobody.js")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "script-src 'self';" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8765"}, 421),
        ({"host": "127.0.0.1:9999"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": f"https://{HOST}"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({}, 200),
        ({"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_who_may_ask(client: TestClient, headers: dict[str, str], code: int) -> None:
    answer = client.post("/api/choices", content=b"{}", headers={"content-type": "application/json", **headers})
    assert answer.status_code == code


def test_questions_are_not_answered_to_get_or_put(client: TestClient) -> None:
    assert client.get("/api/choices").status_code == 405
    assert client.put("/api/choices", json={}).status_code == 405
    assert client.options("/api/choices").status_code == 405


def test_a_body_has_a_bound(client: TestClient) -> None:
    said = client.post("/api/choices", content=bytes(5 * 2**20), headers={"content-type": "application/json"})
    assert said.status_code == 413

    def chunks() -> object:
        for _ in range(6):
            yield bytes(2**20)

    came = client.post("/api/choices", content=chunks(), headers={"content-type": "application/json"})  # type: ignore[arg-type]
    assert came.status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"setting": 3}', b'{"setting": {}}', b"[" * 5000])
def test_a_wrong_request_is_one_line(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/project", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
