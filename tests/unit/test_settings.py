"""The environment: what cannot work is refused with a sentence that names the variable."""

from __future__ import annotations

import pytest

from hermes.errors import StartRefused
from hermes.settings import ENVIRONMENT, Settings, remarks


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("WEB_CONCURRENCY", "0", id="no worker"),
        pytest.param("WEB_CONCURRENCY", "-1", id="less than no worker"),
        pytest.param("WEB_CONCURRENCY", "x", id="workers that are no number"),
        pytest.param("HERMES_GRACE_S", "inf", id="an endless grace"),
        pytest.param("HERMES_GRACE_S", "nan", id="a grace that is no number"),
        pytest.param("HERMES_GRACE_S", "-1", id="a negative grace"),
        pytest.param("HERMES_GRACE_S", "1e300", id="a grace that outlives the server"),
        pytest.param("HERMES_CONNECT_TIMEOUT_S", "0", id="no time to connect"),
        pytest.param("HERMES_CONNECT_TIMEOUT_S", "-5", id="negative time to connect"),
        pytest.param("HERMES_CONNECT_TIMEOUT_S", "nan", id="a time to connect that is no number"),
        pytest.param("HERMES_CONNECT_TIMEOUT_S", "inf", id="endless time to connect"),
        pytest.param("TRACE_LOG_MAX_BYTES", "0", id="trace files without room"),
        pytest.param("TRACE_LOG_MAX_BYTES", "-1", id="a negative size"),
        pytest.param("TRACE_LOG_MAX_BYTES", "10MB", id="a size with a unit"),
        pytest.param("TRACE_LOG_BACKUPS", "-1", id="a negative number of files"),
        pytest.param("TRACE_LOG_ENABLED", "maybe", id="neither true nor false"),
        pytest.param("HERMES_BIND", "127.0.0.1:99999", id="a port beyond the last"),
        pytest.param("HERMES_BIND", "127.0.0.1:0", id="port 0"),
        pytest.param("HERMES_BIND", "foo", id="an address without a port"),
        pytest.param("HERMES_BIND", "8766", id="a port without its colon"),
        pytest.param("HERMES_BIND", "127.0.0.1:", id="a colon without its port"),
        pytest.param("HERMES_BIND", "127.0.0.1:٨٠", id="digits that are not ours"),
        pytest.param("HERMES_BIND", "::1:8766", id="an IPv6 address without brackets"),
        pytest.param("HERMES_BIND", "http://127.0.0.1:8766", id="a URL"),
        pytest.param("HERMES_BIND", "127.0.0.1:1,127.0.0.1:2", id="two addresses"),
        pytest.param("HERMES_BIND", "unix:", id="a socket without a path"),
    ],
)
def test_what_cannot_work_is_refused_by_the_name_of_its_variable(name: str, value: str) -> None:
    with pytest.raises(StartRefused, match=name):
        Settings.from_env({name: value})


@pytest.mark.parametrize(
    "bind",
    [
        "127.0.0.1:8766",
        ":8766",
        "0.0.0.0:65535",
        "[::1]:8766",
        "[fe80::1%eth0]:1",
        "gateway.local:80",
        "unix:/run/h.sock",
    ],
)
def test_every_form_of_an_address_is_taken(bind: str) -> None:
    assert Settings.from_env({"HERMES_BIND": bind}).bind == bind


def test_the_edges_of_what_can_work_are_taken() -> None:
    edges = {
        "HERMES_GRACE_S": "0",
        "HERMES_CONNECT_TIMEOUT_S": "0.001",
        "TRACE_LOG_BACKUPS": "0",
        "WEB_CONCURRENCY": "1",
    }

    settings = Settings.from_env(edges)

    assert (settings.grace_s, settings.connect_timeout_s, settings.trace_log_backups) == (0, 0.001, 0)


def test_an_empty_variable_counts_as_unset() -> None:
    assert Settings.from_env({"WEB_CONCURRENCY": " ", "HERMES_GRACE_S": ""}) == Settings()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        pytest.param({"HERMES_CONFG": "x"}, "HERMES_CONFG is none of Hermes's. Did you mean HERMES_CONFIG?", id="slip"),
        pytest.param({"HERMES_DATABASEURL": "x"}, "Did you mean HERMES_DATABASE_URL?", id="a mark less"),
        pytest.param({"CORS_ORIGINS": "https://a.example, app.example"}, "'app.example' is no origin", id="no origin"),
        pytest.param({"CORS_ORIGINS": "https://a.example/app"}, "is no origin", id="a page"),
    ],
)
def test_what_has_no_effect_is_remarked_on(environ: dict[str, str], said: str) -> None:
    (remark,) = remarks(environ)

    assert said in remark


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param(dict.fromkeys(ENVIRONMENT.values(), "*"), id="every setting"),
        pytest.param(
            {"HERMES_URL": "x", "HERMES_SERVICE_KEY": "x", "HERMES_TESTS_SKIP": "x"}, id="those of clients and tests"
        ),
        pytest.param({"CORS_ORIGINS": "http://localhost:3000/,https://App.example,null"}, id="origins"),
        pytest.param({"HOME": "/", "HERMESCONFIG": "x"}, id="anybody's"),
    ],
)
def test_other_variables_are_nobodys_business(environ: dict[str, str]) -> None:
    assert remarks(environ) == []
