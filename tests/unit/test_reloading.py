"""A reload never closes the door behind the operator, and tells what it cannot change."""

from __future__ import annotations

import pytest

from hermes.configfile import parse
from hermes.configfile.reloading import fit_for_reload
from hermes.errors import ConfigurationInvalid
from hermes.policy import Policy, ServerPolicy

TIERS = "models: {simple: &t {model: m, base_url: 'http://a', api_key_env: ''}, complex: *t}\n"
ENV = {"ROUTER_PROXY_API_KEY": "admin-key", "OTHER_KEY": "other-key"}


def policy(more: str = "", env: dict[str, str] | None = None) -> Policy:
    return parse(TIERS + more, "r.yaml", ENV if env is None else env)


def test_a_variable_for_the_admin_key_that_is_not_set_is_a_problem() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"auth\.api_key_env: NO_KEY is not set in the server's environment"):
        fit_for_reload(policy("auth: {api_key_env: NO_KEY}"), policy(), None)


@pytest.mark.parametrize(
    ("new", "running"),
    [
        pytest.param(policy("auth: {api_key_env: OTHER_KEY}"), policy(), id="another variable that is set"),
        pytest.param(policy("auth: {api_key_env: ''}"), policy(), id="closed on purpose"),
        pytest.param(policy(env={}), policy(env={}), id="never open"),
    ],
)
def test_other_changes_of_the_admin_key_are_the_operators_own(new: Policy, running: Policy) -> None:
    assert fit_for_reload(new, running, None) is new


@pytest.mark.parametrize(
    ("bound", "warned"),
    [
        pytest.param(ServerPolicy("127.0.0.1", 8766), True, id="another port"),
        pytest.param(ServerPolicy("127.0.0.1", 9000), False, id="the same"),
        pytest.param(None, False, id="the environment's"),
    ],
)
def test_an_address_that_a_reload_cannot_change_is_a_warning(bound: ServerPolicy | None, warned: bool) -> None:
    found = fit_for_reload(policy("server: {port: 9000}"), policy(), bound)

    warnings = ["r.yaml: server.host and server.port count at the next start; the server goes on at 127.0.0.1:8766"]
    assert list(found.warnings) == (warnings if warned else [])
    assert found.server.port == 9000
