"""The configuration file: what it may say, what becomes of it, and how everything wrong is told at once.

Most tests write a whole file as an operator would: `with_` puts a section beside two working tiers, `simple` and
`endpoints` write the simple tier in its flat and its list form.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from urllib.parse import quote

import pytest

from hermes import policy as policies
from hermes.configfile import load, parse
from hermes.errors import ConfigurationInvalid
from hermes.policy import Policy
from hermes.types import Price, RateLimits, Secret

ENV = {"KEY_A": "key-aaaaaa", "KEY_B": "key-bbbbbb", "ROUTER_PROXY_API_KEY": "admin-secret"}

MODELS = """
models:
  simple: {model: small, base_url: "http://a.test/v1", api_key_env: KEY_A}
  complex: {model: large, base_url: "http://a.test/v1", api_key_env: KEY_A}
"""


def with_(section: str) -> str:
    """A working file with a further section."""
    return MODELS + textwrap.dedent(section)


def simple(tier: str) -> str:
    """A file whose simple tier is this."""
    inner = textwrap.indent(textwrap.dedent(tier), "    ")
    return f"models:\n  complex: {{model: large, base_url: 'http://a.test', api_key_env: KEY_A}}\n  simple:\n{inner}"


def endpoints(*entries: str) -> str:
    """A file whose simple tier is a list of these, each in flow form."""
    return simple("endpoints:\n" + "".join(f"  - {entry}\n" for entry in entries))


def read(text: str, environ: dict[str, str] | None = None) -> Policy:
    return parse(text, "f.yaml", ENV if environ is None else environ)


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    """The problems' lines, `f.yaml:LINE: path: message`."""
    with pytest.raises(ConfigurationInvalid) as caught:
        read(text, environ)
    return caught.value.lines()


def the_problem(text: str, environ: dict[str, str] | None = None) -> str:
    """The only problem."""
    found = problems(text, environ)
    assert len(found) == 1, found
    return found[0]


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_what_a_file_does_not_say_has_the_defaults_of_the_policy() -> None:
    policy = read(MODELS)

    assert policy.server == policies.ServerPolicy()
    assert policy.auth == policies.AuthPolicy(admin_key=Secret("admin-secret"))
    assert policy.breaker == policies.BreakerPolicy()
    assert policy.retry == policies.RetryPolicy()
    assert policy.streaming == policies.StreamingPolicy()
    assert policy.gateway == policies.GatewayPolicy()
    assert policy.limits == policies.LimitsPolicy()
    assert policy.budgets == policies.BudgetsPolicy()
    assert policy.persona == policies.PersonaPolicy()
    assert policy.logging == policies.LoggingPolicy()
    assert policy.routing.surrogate == policies.SurrogatePolicy()
    assert policy.routing.teacher is None
    assert policy.source == "f.yaml"
    assert policy.warnings == ()


def test_every_section_arrives_in_the_policy() -> None:
    policy = read(
        with_(
            """
            server: {host: 0.0.0.0, port: 9000, max_body_mb: 0.5}
            auth: {api_key_env: KEY_B, require_client_key: true}
            circuit_breaker: {failure_threshold: 5, recovery_timeout_sec: 1.5, window_sec: 10}
            retry: {backoff_503_sec: [0.05, 1], transport_attempts: 2, transport_backoff_sec: 0}
            streaming: {on_break: error, strikes_before_fallback: 2, idle_timeout_sec: 9.5}
            persona: {user_path: u, memory_path: m, soul_path: s, max_context_chars: 1}
            gateway: {roles: {chat: complex, vision: complex}, house_voice: Be kind.}
            limits: {per_user: {requests_per_minute: 60}, per_key: {tokens_per_minute: 9000, concurrent: 4}}
            budgets: {timezone: America/New_York, on_store_failure: closed, unpriced_reserve_usd: 0.1}
            logging: {store_prompts: none, retention_days: 7}
            classifier:
              session_timeout_minutes: 0.5
              default_tier: complex
              surrogate: {enabled: no, path: x, confidence_threshold: 0.9, target: 0.9, audit_rate: 0}
            """
        )
    )

    assert policy.server == policies.ServerPolicy("0.0.0.0", 9000, 512 * 1024)
    assert policy.auth == policies.AuthPolicy("KEY_B", Secret("key-bbbbbb"), require_client_key=True)
    assert policy.breaker == policies.BreakerPolicy(5, 1.5, 10)
    assert policy.retry == policies.RetryPolicy((0.05, 1.0), 2, 0.0)
    assert policy.streaming == policies.StreamingPolicy("error", 2, 9.5)
    assert policy.persona == policies.PersonaPolicy("u", "m", "s", 1)
    assert policy.gateway.roles == {"chat": "complex", "reasoning": "complex", "vision": "complex"}
    assert policy.gateway.house_voice == "Be kind."
    assert policy.limits == policies.LimitsPolicy(RateLimits(requests_per_minute=60), RateLimits(0, 9000, 4))
    assert policy.budgets == policies.BudgetsPolicy("America/New_York", "closed", 100_000_000)
    assert policy.logging == policies.LoggingPolicy("none", 7)
    assert (policy.routing.session_timeout_s, policy.routing.default_tier) == (30.0, "complex")
    assert policy.routing.surrogate == policies.SurrogatePolicy(False, "x", 0.9, 0.9, 0.0)


def test_an_empty_value_means_not_given() -> None:
    """What remains when an operator comments out a section's keys, or a key's value."""
    policy = read(
        with_("server:\nretry:\n  transport_attempts: ~\nclassifier: {surrogate: {confidence_threshold: null}}")
    )

    assert policy.server == policies.ServerPolicy()
    assert policy.retry == policies.RetryPolicy()
    assert policy.routing.surrogate.confidence_threshold is None


def test_the_file_of_the_older_router_loads_as_it_is() -> None:
    text = """
        classifier:
          model: qwen2.5:3b
          base_url: http://OLLAMA_HOST:11434/v1
          api_key_env: ''
          profile_hint: ''
          surrogate: {enabled: yes, path: .router/pipeline.joblib, confidence_threshold: 0.85}
          system_prompt: |
            "Hello" → simple
            "{message}" →
          session_timeout_minutes: 5           # cache classification per session
        models:
          simple: {model: fast, base_url: https://a.test/v1, api_key_env: KEY_A, timeout_seconds: 120}
          complex:
            model: smart
            base_url: https://b.test/v1
            api_key_env: KEY_B
            timeout_seconds: 300
            fallback_model: smart
            fallback_base_url: https://c.test/v1
            fallback_key_env: NOT_SET
            fallback_alternate_key_env: NOT_SET
        routing:
          escalation_keywords:
            - 502
            - why isn't
          de_escalation_keywords:
            - ok
        server:
          port: 8766
          host: 0.0.0.0
        persona:
          soul_path: ~/.hermes/SOUL.md
          max_context_chars: 800
        """

    policy = read(textwrap.dedent(text))

    assert policy.routing.escalation_keywords == ("502", "why isn't")
    assert policy.persona.soul_path == "~/.hermes/SOUL.md"
    assert [e.id for e in policy.cascades["complex"].endpoints] == ["smart@b.test/v1", "smart@c.test/v1"]
    assert [w.split(": ")[1] for w in policy.warnings] == [
        "models.complex.fallback_key_env",
        "models.complex.fallback_alternate_key_env",
        "classifier.surrogate.path",
    ]


# --- wrong values, unknown keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "told"),
    [
        pytest.param("classifier: {timeout_seconds: true}", "classifier.timeout_seconds: must be", id="flag as number"),
        pytest.param("auth: {require_client_key: falsch}", "auth.require_client_key: must be", id="text as flag"),
        pytest.param("auth: {require_client_key: 'true'}", "auth.require_client_key: must be", id="quoted flag"),
        pytest.param("auth: {require_client_key: 1}", "auth.require_client_key: must be", id="number as flag"),
        pytest.param("circuit_breaker: {failure_threshold: many}", "failure_threshold: must be", id="text as number"),
        pytest.param("circuit_breaker: {failure_threshold: '3'}", "failure_threshold: must be", id="quoted number"),
        pytest.param("circuit_breaker: {failure_threshold: 2.5}", "whole number, not a fraction", id="fraction"),
        pytest.param("circuit_breaker: {failure_threshold: 0}", "failure_threshold: must be", id="zero threshold"),
        pytest.param("circuit_breaker: {window_sec: 0}", "must be a number of seconds more than 0", id="zero seconds"),
        pytest.param("circuit_breaker: {window_sec: -1}", "window_sec: must be", id="negative seconds"),
        pytest.param("circuit_breaker: {window_sec: .inf}", "window_sec: must be", id="endless"),
        pytest.param("circuit_breaker: {window_sec: .nan}", "window_sec: must be", id="no number"),
        pytest.param("circuit_breaker: {window_sec: 1e9}", "between 0 and 86400", id="more than a day"),
        pytest.param("circuit_breaker: {window_sec: [1]}", "not a list", id="list as number"),
        pytest.param("circuit_breaker: {window_sec: {a: 1}}", "not a mapping", id="mapping as number"),
        pytest.param("circuit_breaker: {failure_threshold: 010}", "failure_threshold: must be", id="octal look-alike"),
        pytest.param(f"retry: {{transport_attempts: {'9' * 5000}}}", "transport_attempts: must be", id="5000 digits"),
        pytest.param("retry: {transport_attempts: 11}", "between 1 and 10", id="too many attempts"),
        pytest.param("retry: {backoff_503_sec: 2}", "backoff_503_sec: must be a list", id="number as list"),
        pytest.param("retry: {backoff_503_sec: [2, x]}", "retry.backoff_503_sec[1]: must be", id="item of a list"),
        pytest.param(f"retry: {{backoff_503_sec: {[1] * 11}}}", "has too many entries", id="endless backoff"),
        pytest.param("server: {port: 70000}", "server.port: must be a port number", id="port"),
        pytest.param("server: {max_body_mb: 0}", "max_body_mb: must be", id="no body"),
        pytest.param("server: {host: 'http://x'}", "server.host: must be a host", id="URL as host"),
        pytest.param("server: x", "server: must be a mapping", id="text as section"),
        pytest.param("server: [1]", "server: must be a mapping", id="list as section"),
        pytest.param("streaming: {on_break: stop}", "must be one of: done, error", id="unlisted word"),
        pytest.param("logging: {store_prompts: yes}", "must be one of: none, preview, full", id="flag as word"),
        pytest.param("logging: {retention_days: 0}", "retention_days: must be", id="retention"),
        pytest.param("classifier: {default_tier: medium}", "must be one of: simple, complex", id="unknown tier"),
        pytest.param("classifier: {profile_hint: true}", "profile_hint: must be text", id="flag as text"),
        pytest.param("classifier: {profile_hint: [a]}", "profile_hint: must be text, not a list", id="list as text"),
        pytest.param(r'classifier: {profile_hint: "\0"}', "holds a control character", id="control character"),
        pytest.param('persona: {user_path: "a\\nb"}', "must be text on one line", id="two lines"),
        pytest.param("gateway: {roles: {chat: medium}}", "gateway.roles.chat: must be one of", id="role's tier"),
        pytest.param("gateway: {roles: {simple: simple}}", "a role cannot be called", id="role named as a tier"),
        pytest.param("gateway: {roles: {'a b': simple}}", "a role's name has", id="role's name"),
        pytest.param("limits: {per_user: {concurrent: -1}}", "limits.per_user.concurrent: must be", id="limit"),
        pytest.param("budgets: {timezone: Mars/Base}", "budgets.timezone: must be a time zone", id="time zone"),
        pytest.param("budgets: {timezone: ../../etc/passwd}", "budgets.timezone: must be", id="time zone as path"),
        pytest.param("budgets: {on_store_failure: maybe}", "must be one of: open, closed", id="budget failure"),
        pytest.param("knowledge: {embedder: remote}", "knowledge.embedder: must be local, or", id="embedder"),
        pytest.param("knowledge: {min_score: 1.1}", "must be a number between 0 and 1", id="score"),
        pytest.param("residency: {detect: [mail]}", "residency.detect[0]: must be one of: email", id="kind of data"),
        pytest.param("residency: {rules: [{action: mask}]}", "rules[0].action: must be one of: allow", id="action"),
        pytest.param("residency: {rules: {a: 1}}", "residency.rules: must be a list", id="rules"),
        pytest.param("shadow: {gate: {min_samples: 0}}", "shadow.gate.min_samples: must be", id="gate"),
        pytest.param("routing: {override_keywords: {complex: [[a]]}}", "complex[0]: must be a word", id="nested word"),
        pytest.param("routing: {escalation_keywords: ['']}", "not nothing", id="empty word"),
        pytest.param("routing: {escalation_keywords: fix}", "must be a list", id="word as list"),
    ],
)
def test_a_wrong_value_is_refused_with_path_and_line(section: str, told: str) -> None:
    text = with_(section)

    found = the_problem(text)

    assert told in found
    assert found.startswith(f"f.yaml:{len(MODELS.splitlines()) + 1}: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            with_("circuit_braker: {}"), "circuit_braker: unknown key; did you mean circuit_breaker?", id="root"
        ),
        pytest.param(with_("circuit_braker:"), "did you mean circuit_breaker?", id="with nothing in it"),
        pytest.param(with_("server: {prt: 1}"), "server.prt: unknown key; did you mean port?", id="section"),
        pytest.param(
            endpoints("{modle: m, base_url: 'http://a', api_key_env: ''}"),
            "models.simple.endpoints[0].modle: unknown key; did you mean model?",
            id="list form",
        ),
        pytest.param(
            simple("modle: m\nbase_url: http://a\napi_key_env: ''"),
            "models.simple.modle: unknown key; did you mean model?",
            id="flat form",
        ),
        pytest.param(
            endpoints("{model: m, base_url: 'http://a', api_key_env: '', price: {input_per_mtok: 1, out_per_mtok: 1}}"),
            "price.out_per_mtok: unknown key; did you mean output_per_mtok?",
            id="price",
        ),
        pytest.param(
            with_("residency: {rules: [{match: {use_cas: x}}]}"),
            "match.use_cas: unknown key; did you mean use_case?",
            id="rule",
        ),
        pytest.param(
            simple("model: m\nbase_url: http://a\napi_key_env: ''\nprice: {}"),
            "models.simple.price: unknown key in the flat form; it belongs to an entry of `endpoints`",
            id="list key in the flat form",
        ),
        pytest.param(
            with_("window_sec: 3"), "window_sec: unknown key here; it belongs to circuit_breaker", id="misplaced"
        ),
        pytest.param(with_("server: {zzz: 1}"), "unknown key; known here: host, max_body_mb, port", id="nothing near"),
        pytest.param(with_("").replace("models:", "Models:"), "Models: unknown key; did you mean models?", id="needed"),
        pytest.param(
            with_("").replace("api_key_env:", "api_key:", 1),
            "api_key: unknown key; did you mean api_key_env?",
            id="key",
        ),
        pytest.param(with_("zzz: 1"), "docs/configuration.md", id="nothing near, many keys"),
        pytest.param(with_("'[key]': 1"), "unknown key", id="pydantic's own mark as a key"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(text: str, told: str) -> None:
    found = the_problem(text)

    assert told in found


def test_all_problems_are_told_at_once_in_the_order_of_the_lines() -> None:
    text = """\
        server: {port: yes, prt: 1}
        models:
          simple:
            endpoints:
              - {model: m, base_url: ftp://a, api_key_env: NO_SUCH_ENV}
              - {base_url: 'http://b', api_key_env: ''}
              - 5
          complex:
            model: m
            base_url: http://a
            api_key_env: NO_SUCH_ENV
            timeout_seconds: soon
        circuit_braker: {}
        gateway: {roles: {chat: medium}}
        server: {}
        """

    found = problems(textwrap.dedent(text))

    places = [line.split(": ")[1] + "@" + line.split(":")[1] for line in found]
    assert places == [
        "server.prt@1",
        "server.port@1",
        "models.simple.endpoints[0].base_url@5",
        "models.simple.endpoints[0].api_key_env@5",
        "models.simple.endpoints[1].model@6",
        "models.simple.endpoints[2]@7",
        "models.complex.api_key_env@11",
        "models.complex.timeout_seconds@12",
        "circuit_braker@13",
        "gateway.roles.chat@14",
        "server@15",
    ]


def test_a_hundred_problems_are_enough() -> None:
    text = with_("".join(f"zz{i}: 1\n" for i in range(150)))

    found = problems(text)

    assert len(found) == 101
    assert found[-1] == "f.yaml: and 50 more problems"


# --- YAML -------------------------------------------------------------------------------------------------------------


def test_keywords_keep_the_text_they_were_written_with() -> None:
    words = "[502, on, no, 1.50, null, ~, 0x1F, 010, 1_000, 2001-01-01, True, 'quoted 7', two  words, two words, .inf]"

    policy = read(with_(f"routing: {{override_keywords: {{complex: {words}}}, escalation_keywords: {words}}}"))

    expected = ("502", "on", "no", "1.50", "null", "~", "0x1F", "010", "1_000", "2001-01-01", "True", "quoted 7")
    assert policy.routing.override_keywords["complex"] == (*expected, "two words", ".inf")
    assert policy.routing.escalation_keywords == (*expected, "two words", ".inf")


def test_an_explicit_list_of_keywords_replaces_the_built_in_one_alone() -> None:
    policy = read(with_("routing: {override_keywords: {simple: []}, de_escalation_keywords: [bye]}"))

    assert policy.routing.override_keywords == {"simple": (), "complex": ("implement", "debug", "deploy")}
    assert policy.routing.de_escalation_keywords == ("bye",)
    assert "error" in policy.routing.escalation_keywords


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "f.yaml: is empty", id="empty"),
        pytest.param("# nothing\n", "f.yaml: is empty", id="only comments"),
        pytest.param("- a\n", "must hold sections", id="a list"),
        pytest.param("hello", "must hold sections", id="a word"),
        pytest.param('a: {b: [{c: "http://127.0', "f.yaml:1: is not valid YAML", id="cut in the middle"),
        pytest.param("a: 1\nb: [1\nc: 2\n", "f.yaml:3: is not valid YAML", id="open bracket"),
        pytest.param("a: b: c\n", "mapping values are not allowed here", id="two colons"),
        pytest.param("a: 1\n\x07: 2", "f.yaml:2: holds a character that YAML does not allow", id="control character"),
        pytest.param('a: "\\UFFFFFFFF"', "is not valid YAML", id="beyond Unicode"),
        pytest.param('a: "\\ud800"', "surrogate", id="half a character"),
        pytest.param("a: 1\n---\nb: 2\n", "f.yaml:2: holds a second document", id="two documents"),
        pytest.param("server: !!python/object/apply:os.system [ls]", "server: a tag", id="tag"),
        pytest.param("server: {port: !!int 3}", "server.port: a tag", id="harmless tag"),
        pytest.param("? [a]\n: 1", "a key must be a word", id="list as key"),
        pytest.param("a: *nowhere", "alias", id="alias of nothing"),
        pytest.param("a: &x {b: *x}", "alias", id="alias of itself"),
        pytest.param("a: {<<: 3}", "`<<` takes", id="merge of a number"),
        pytest.param("[" * 40, "nested more than 32 deep", id="deep"),
        pytest.param("a: [" + "1, " * 20_001 + "]", "more than 20000 values", id="many values"),
        pytest.param("#" * (1024 * 1024 + 1), "larger than 1024 KiB", id="large"),
    ],
)
def test_what_is_not_a_configuration_is_refused_with_a_sentence(text: str, told: str) -> None:
    assert told in the_problem(text)


def test_a_bomb_of_aliases_is_refused_before_it_unfolds() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 30)]

    assert "values, its aliases expanded" in the_problem("\n".join(levels))


def test_aliases_cannot_nest_deeper_than_a_file_may() -> None:
    levels = ["l0: &l0 [x]"] + [f"l{i}: &l{i} [*l{i - 1}]" for i in range(1, 40)]

    assert "deep, its aliases expanded" in the_problem("\n".join(levels))


def test_anchors_and_merges_save_writing() -> None:
    text = """\
        models:
          simple: &base
            model: small
            base_url: http://a.test/v1
            api_key_env: KEY_A
          complex:
            <<: *base
            model: large
        """

    policy = read(textwrap.dedent(text))

    assert [e.model for e in policy.cascades["complex"].endpoints] == ["large"]
    assert policy.cascades["complex"].endpoints[0].base_url == "http://a.test/v1"


def test_a_fault_behind_an_alias_is_told_for_each_place_that_it_breaks() -> None:
    text = "models: {simple: &t {model: m, base_url: 'http://a', api_key_env: NO_SUCH_ENV}, complex: *t}"

    assert [line.split(": ")[1] for line in problems(text)] == [
        "models.simple.api_key_env",
        "models.complex.api_key_env",
    ]


def test_a_key_that_stands_twice_is_refused_with_both_lines() -> None:
    found = the_problem(with_("server:\n  port: 1\n  port: 2\n"))

    assert found == "f.yaml:7: server.port: stands twice; the first is on line 6"


# --- endpoints --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base_url", "shown_url", "place"),
    [
        pytest.param("https://h.test/v1", "https://h.test/v1", "https://h.test/v1", "h.test/v1", id="plain"),
        pytest.param("https://h.test/v1///", "https://h.test/v1", "https://h.test/v1", "h.test/v1", id="slashes"),
        pytest.param("http://h.test", "http://h.test", "http://h.test", "h.test", id="no path: no /v1 is added"),
        pytest.param("http://h.test:80/", "http://h.test:80", "http://h.test", "h.test", id="default port"),
        pytest.param(
            "https://h.test:80/x", "https://h.test:80/x", "https://h.test:80/x", "h.test:80/x", id="other port"
        ),
        pytest.param("HTTP://H.test/V4", "HTTP://H.test/V4", "http://h.test/V4", "h.test/V4", id="case"),
        pytest.param("http://[::1]:9/v1", "http://[::1]:9/v1", "http://[::1]:9/v1", "[::1]:9/v1", id="IPv6"),
        pytest.param(
            "https://us:pass-word@h.test/v1/?api-version=2&key=k-123456",
            "https://us:pass-word@h.test/v1?api-version=2&key=k-123456",
            "https://h.test/v1",
            "h.test/v1",
            id="user and query",
        ),
    ],
)
def test_a_base_url_is_taken_as_written_and_shown_without_its_secrets(
    url: str, base_url: str, shown_url: str, place: str
) -> None:
    policy = read(endpoints(f"{{model: m, base_url: '{url}', api_key_env: ''}}"))

    endpoint = policy.cascades["simple"].endpoints[0]
    assert (endpoint.base_url, endpoint.shown_url, endpoint.id.partition("#")[0]) == (base_url, shown_url, f"m@{place}")


def test_addresses_that_differ_only_in_what_is_not_shown_are_two_endpoints() -> None:
    one, other = (f"{{model: m, base_url: 'https://h.test/v1?tenant={name}', api_key_env: ''}}" for name in "ab")

    policy = read(endpoints(one, other))

    first, second = policy.cascades["simple"].endpoints
    assert first.id != second.id
    assert "tenant" not in first.id + second.id


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://h",
            "h.test/v1",
            "http://",
            "http:///v1",
            "http://h:x/",
            "http://h:99999",
            "http://[::1",
            "http://h:0",
        ),
        *("http://{host}/v1", "http://h/a b", "http://hö.test", "http://h/#x", "http://us:SECRET@/v1", "x"),
        "http://u@SECRET@",
    ],
)
def test_a_base_url_that_names_no_provider_is_refused_without_repeating_it(url: str) -> None:
    found = the_problem(endpoints(f"{{model: m, base_url: '{url}', api_key_env: ''}}"))

    assert "models.simple.endpoints[0].base_url: " in found
    assert "SECRET" not in found


def test_a_base_url_with_the_operation_in_it_is_warned_of() -> None:
    policy = read(endpoints("{model: m, base_url: 'http://h/v1/chat/completions', api_key_env: ''}"))

    assert "leave it out" in policy.warnings[0]


def test_an_endpoint_of_the_list_form_has_all_it_may_have() -> None:
    entry = """{model: m, base_url: 'http://h/v1', api_key_envs: [KEY_A, KEY_B], region: no,
        capabilities: [vision, tools], context_window: 128000,
        price: {input_per_mtok: 0.1, output_per_mtok: 2, cached_input_per_mtok: 0.05},
        headers: {x-team: blue, x-auth: 'env:HDR'}, timeout_seconds: 0.5}"""

    policy = read(endpoints(entry), {**ENV, "HDR": " header-secret\n"})

    endpoint = policy.cascades["simple"].endpoints[0]
    assert [(key.env, key.value.reveal()) for key in endpoint.keys] == [
        ("KEY_A", "key-aaaaaa"),
        ("KEY_B", "key-bbbbbb"),
    ]
    assert endpoint.needs_key
    assert endpoint.region == "no"
    assert endpoint.capabilities == {"vision", "tools"}
    assert endpoint.context_window == 128_000
    assert endpoint.price == Price(100_000_000, 2_000_000_000, 50_000_000)
    assert endpoint.headers == (("x-team", Secret("blue")), ("x-auth", Secret("header-secret")))
    assert endpoint.timeout_s == 0.5


def test_what_an_endpoint_does_not_say_is_unknown_or_everything() -> None:
    endpoint = read(endpoints("{model: m, base_url: 'http://h', api_key_env: ''}")).cascades["simple"].endpoints[0]

    assert (endpoint.region, endpoint.capabilities, endpoint.context_window, endpoint.price) == (None, None, None, None)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        pytest.param("headers: {x: 'env:NO_SUCH_ENV'}", "environment variable NO_SUCH_ENV is not set", id="missing"),
        pytest.param("headers: {x: 'env:BROKEN'}", "environment variable BROKEN holds a line break", id="line break"),
        pytest.param("headers: {x: 'env:sk-not-a-name'}", "must be env: and the name", id="a secret for a name"),
        pytest.param('headers: {x: "a\\nb"}', "must be text on one line", id="two lines"),
        pytest.param("headers: {x: ''}", "a header's value is one line", id="empty"),
        pytest.param("headers: {x: 漢}", "a header's value is one line of Latin-1", id="not Latin-1"),
        pytest.param("headers: {'a b': c}", "is not a header's name", id="name"),
        pytest.param("headers: {Content-Length: 3}", "is set by Hermes itself", id="framing"),
        pytest.param("headers: {X-a: b, x-A: c}", "stands twice", id="twice"),
        pytest.param("headers: {Authorization: 'env:KEY_A'}", "give api_key_env or this header", id="authorization"),
        pytest.param("capabilities: [sight]", "must be one of: vision", id="capability"),
        pytest.param("context_window: 0", "context_window: must be", id="window"),
        pytest.param("price: {input_per_mtok: 1}", "price.output_per_mtok: is missing", id="half a price"),
        pytest.param("price: {input_per_mtok: -1, output_per_mtok: 1}", "input_per_mtok: must be", id="negative price"),
        pytest.param("timeout_seconds: 0", "timeout_seconds: must be", id="timeout"),
        pytest.param("api_key_envs: [KEY_B]", "give api_key_env or api_key_envs, not both", id="both ways of a key"),
    ],
)
def test_a_wrong_part_of_an_endpoint_is_refused(part: str, told: str) -> None:
    text = endpoints(f"{{model: m, base_url: 'http://h', api_key_env: KEY_A, {part}}}")

    assert told in the_problem(text, {**ENV, "BROKEN": "header\r\nsecret"})


def test_authorization_may_be_given_as_a_header_where_there_is_no_key() -> None:
    policy = read(endpoints("{model: m, base_url: 'http://h', api_key_env: '', headers: {authorization: 'env:KEY_A'}}"))

    assert policy.cascades["simple"].endpoints[0].headers == (("authorization", Secret("key-aaaaaa")),)


# --- tiers ------------------------------------------------------------------------------------------------------------


def test_the_flat_form_is_a_primary_and_two_fallbacks() -> None:
    text = simple(
        """
        model: one
        base_url: http://a.test/v1/
        api_key_env: KEY_A
        alternate_key_env: KEY_B
        fallback_model: two
        fallback_base_url: http://b.test/v1
        fallback_key_env: KEY_B
        fallback_alternate_key_env: KEY_B
        fallback2_model: three
        fallback2_base_url: http://c.test/v1
        fallback2_key_env: ''
        timeout_seconds: 7
        """
    )

    cascade = read(text).cascades["simple"]

    assert [e.id for e in cascade.endpoints] == ["one@a.test/v1", "two@b.test/v1", "three@c.test/v1"]
    assert [[key.env for key in e.keys] for e in cascade.endpoints] == [["KEY_A", "KEY_B"], ["KEY_B"], []]
    assert [e.needs_key for e in cascade.endpoints] == [True, True, False]
    assert [e.timeout_s for e in cascade.endpoints] == [7, 7, 7]
    assert cascade.timeout_s == 21


def test_a_flat_fallback_at_the_same_address_has_the_primary_s_address_and_keys() -> None:
    policy = read(simple("model: one\nbase_url: http://a.test/v1\napi_key_env: KEY_A\nfallback_model: two"))

    fallback = policy.cascades["simple"].endpoints[1]
    assert (fallback.id, [key.env for key in fallback.keys]) == ("two@a.test/v1", ["KEY_A"])
    assert policy.warnings == ()


def test_a_flat_fallback_elsewhere_never_gets_the_primary_s_key() -> None:
    text = (
        "model: one\nbase_url: http://a.test\napi_key_env: KEY_A\nfallback_model: two\nfallback_base_url: http://b.test"
    )

    policy = read(simple(text))

    fallback = policy.cascades["simple"].endpoints[1]
    assert (fallback.keys, fallback.needs_key) == ((), True)
    assert "fallback_key_env: names no key" in policy.warnings[0]


def test_a_second_account_in_the_flat_form_becomes_a_second_key() -> None:
    text = "model: m\nbase_url: http://a\napi_key_env: KEY_A\nfallback_model: m\nfallback_key_env: KEY_B"

    policy = read(simple(text))

    cascade = policy.cascades["simple"]
    assert [[key.env for key in e.keys] for e in cascade.endpoints] == [["KEY_A", "KEY_B"]]
    assert cascade.timeout_s == 120
    assert "its keys join those before" in policy.warnings[0]


def test_a_fallback_without_its_model_is_warned_of_and_blanks_are_not() -> None:
    primary = "model: m\nbase_url: http://a\napi_key_env: KEY_A\n"

    policy = read(simple(primary + "fallback_model: ''\nfallback_base_url: ''\nfallback2_key_env: X"))

    assert len(policy.cascades["simple"].endpoints) == 1
    assert [w.split(": ", 1)[1] for w in policy.warnings] == [
        "models.simple.fallback2_key_env: has no effect without fallback2_model"
    ]


@pytest.mark.parametrize(
    ("tier_timeout", "own", "expected_endpoint_s", "expected_tier_s"),
    [
        pytest.param("", "", [120, 120], 240, id="defaults: the sum"),
        pytest.param("", ", timeout_seconds: 2.5", [2.5, 2.5], 5, id="of the endpoints: the sum"),
        pytest.param("timeout_seconds: 9", "", [9, 9], 9, id="of the tier: bounds the whole, and each"),
        pytest.param("timeout_seconds: 9", ", timeout_seconds: 7", [7, 7], 9, id="of both"),
    ],
)
def test_timeouts_of_the_list_form(
    tier_timeout: str, own: str, expected_endpoint_s: list[float], expected_tier_s: float
) -> None:
    entries = [f"{{model: m{i}, base_url: 'http://h', api_key_env: ''{own}}}" for i in range(2)]

    cascade = read(endpoints(*entries) + f"    {tier_timeout}\n").cascades["simple"]

    assert [e.timeout_s for e in cascade.endpoints] == expected_endpoint_s
    assert cascade.timeout_s == expected_tier_s


def test_the_complex_tier_has_more_time_by_default() -> None:
    assert read(MODELS).cascades["complex"].timeout_s == 300


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(MODELS.replace("  complex", "  #"), ["f.yaml:2: models.complex: is missing"], id="no complex"),
        pytest.param("server: {}", ["models.simple: is missing", "models.complex: is missing"], id="no models"),
        pytest.param(simple("endpoints: []"), ["endpoints: must hold at least one"], id="no endpoint"),
        pytest.param(
            simple("endpoints: [{model: m, base_url: 'http://a', api_key_env: ''}]\nfallback_model: x"),
            ["models.simple: mixes both forms"],
            id="both forms",
        ),
        pytest.param(endpoints("{model: m, base_url: 'http://a'}"), ["endpoints[0]: names no key"], id="no key named"),
        pytest.param(simple("model: m\nbase_url: http://a"), ["simple.api_key_env: names no key"], id="the same, flat"),
        pytest.param(endpoints("{base_url: 'http://a', api_key_env: ''}"), ["[0].model: is missing"], id="no model"),
        pytest.param(endpoints("{model: m, api_key_env: ''}"), ["[0].base_url: is missing"], id="no address"),
        pytest.param(
            endpoints(*["{model: m, base_url: 'http://a/', api_key_env: ''}"] * 2),
            ["f.yaml:6: models.simple.endpoints[1]: is the same model at the same address as models.simple.endpoints["],
            id="the same endpoint twice",
        ),
    ],
)
def test_a_tier_that_cannot_answer_is_refused(text: str, told: list[str]) -> None:
    found = problems(text)

    assert len(found) == len(told)
    assert all(part in line for part, line in zip(told, found, strict=True)), found


# --- secrets ----------------------------------------------------------------------------------------------------------

TWO = "{model: m, base_url: 'http://a', api_key_envs: [KEY_A, KEY_B]}"
FALLBACK = "{model: m0, base_url: 'http://a', api_key_env: ''}", "{model: m, base_url: 'http://a', api_key_env: KEY_B}"


def test_white_space_around_a_secret_is_cut_and_told_without_the_secret() -> None:
    policy = read(MODELS, {"KEY_A": "\tkit-key\r\n"})

    assert policy.cascades["simple"].endpoints[0].keys[0].value == Secret("kit-key")
    assert "environment variable KEY_A" in policy.warnings[0]
    assert "kit-key" not in "".join(policy.warnings)


@pytest.mark.parametrize("value", ["sk-SECRET\nX", "sk-SECRET\rX", "sk-SECRET\0", "sk-SECRET\x85x", "sk-SECRET-漢"])
def test_a_secret_that_no_header_can_carry_is_refused_by_its_name(value: str) -> None:
    found = problems(MODELS, {"KEY_A": value})

    assert len(found) == 2
    assert all("environment variable KEY_A holds" in line and "SECRET" not in line for line in found)


def test_an_admin_key_that_no_header_can_carry_is_refused() -> None:
    found = the_problem(MODELS, {**ENV, "ROUTER_PROXY_API_KEY": "admin\nSECRET"})

    assert "auth.api_key_env: environment variable ROUTER_PROXY_API_KEY holds" in found


@pytest.mark.parametrize("environ", [{}, {"ROUTER_PROXY_API_KEY": ""}, {"ROUTER_PROXY_API_KEY": " \n"}])
def test_without_an_admin_key_there_is_none(environ: dict[str, str]) -> None:
    assert read(MODELS, {"KEY_A": "key-aaaaaa", **environ}).auth.admin_key is None


def test_an_admin_key_that_the_file_switches_off_is_warned_of() -> None:
    policy = read(with_("auth: {api_key_env: ''}"))

    assert policy.auth.admin_key is None
    assert "every admin route answers 401" in policy.warnings[0]


@pytest.mark.parametrize("environ", [{}, {"KEY_A": ""}, {"KEY_A": " \n"}], ids=["unset", "empty", "blank"])
def test_a_missing_key_of_a_primary_is_a_problem(environ: dict[str, str]) -> None:
    found = the_problem(endpoints("{model: m, base_url: 'http://a', api_key_env: KEY_C}"), {**ENV, "KEY_C": ""})
    both = problems(MODELS, environ)

    assert "models.simple.endpoints[0].api_key_env: environment variable KEY_C is empty" in found
    assert [line.split(": ")[1] for line in both] == ["models.simple.api_key_env", "models.complex.api_key_env"]


def test_a_primary_with_one_of_its_keys_is_good_enough() -> None:
    policy = read(endpoints(TWO), {"KEY_A": "key-aaaaaa"})

    assert [key.env for key in policy.cascades["simple"].endpoints[0].keys] == ["KEY_A"]
    assert policy.warnings == (
        "f.yaml:5: models.simple.endpoints[0].api_key_envs[1]: environment variable KEY_B is not set",
    )


def test_a_primary_with_none_of_its_keys_is_told_of_each() -> None:
    text = endpoints(TWO).replace("api_key_env: KEY_A", "api_key_env: ''")

    assert [line.split(": ")[1] for line in problems(text, {})] == [
        "models.simple.endpoints[0].api_key_envs[0]",
        "models.simple.endpoints[0].api_key_envs[1]",
    ]


def test_a_fallback_without_its_key_is_warned_of_and_stays_for_the_cascade_to_skip() -> None:
    policy = read(endpoints(*FALLBACK), {"KEY_A": "key-aaaaaa"})

    fallback = policy.cascades["simple"].endpoints[1]
    assert (fallback.keys, fallback.needs_key) == ((), True)
    assert "KEY_B is not set; without a key this endpoint is skipped" in policy.warnings[0]


@pytest.mark.parametrize("part", ["api_key_env: ''", 'api_key_env: ""', "api_key_envs: []"])
def test_an_endpoint_can_need_no_key(part: str) -> None:
    endpoint = read(endpoints(f"{{model: m, base_url: 'http://a', {part}}}")).cascades["simple"].endpoints[0]

    assert (endpoint.keys, endpoint.needs_key) == ((), False)


def test_the_same_key_under_two_names_is_used_once() -> None:
    policy = read(endpoints(TWO), {"KEY_A": "key-aaaaaa", "KEY_B": "key-aaaaaa"})

    assert [key.env for key in policy.cascades["simple"].endpoints[0].keys] == ["KEY_A"]
    assert "KEY_B holds the same key as KEY_A" in policy.warnings[0]


@pytest.mark.parametrize(
    "pasted",
    [
        "sk-proj-SECRET",
        "sk_live_51SECRETabc123DEFghi456",
        "SECRET0123456789abcdef0123456789",
        "AKIASECRET0123456789",
        "a b",
    ],
)
def test_a_key_pasted_where_its_variable_s_name_belongs_is_not_repeated(pasted: str) -> None:
    found = the_problem(endpoints(f"{{model: m, base_url: 'http://a', api_key_env: '{pasted}'}}"))

    assert "must be the name of an environment variable" in found
    assert pasted not in found


def test_the_policy_knows_every_secret_for_redaction() -> None:
    entry = """{model: m, base_url: 'http://us%40er:pass%2Fword@a/v1?api_key=query-secret&v=2024-10-21',
        api_key_env: KEY_A, headers: {x-token: literal-secret, x-title: Our House, x-y: 'env:HDR'}}"""

    policy = read(endpoints(entry), {**ENV, "HDR": "header-secret", "KEY_B": "unnamed"})

    assert policy.secrets == {
        *("key-aaaaaa", "admin-secret", "header-secret", "literal-secret", "query-secret"),
        *("us%40er:pass%2Fword", "us@er:pass/word", "pass%2Fword", "pass/word", "dXNAZXI6cGFzcy93b3Jk"),
    }


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("literalsecret-HDR-112233445566", True),
        ("Zm9vYmFyYmF6cXV4MTIzNDU2", True),
        ("123e4567-e89b-12d3-a456-426614174000", True),
        ("2024-10-21-preview", False),
        ("max-tokens-3-5-sonnet-2024-07-15", False),
        ("application/vnd.api.v2+json", False),
        ("Our House of 1234567890123", False),
        ("internationalization", False),
    ],
)
def test_what_is_shaped_as_a_secret_is_one_whatever_its_name(value: str, is_secret: bool) -> None:
    in_header = read(
        endpoints(f"{{model: m, base_url: 'http://a', api_key_env: KEY_A, headers: {{x-two: '{value}'}}}}")
    )
    in_query = read(endpoints(f"{{model: m, base_url: 'http://a?code={quote(value)}', api_key_env: KEY_A}}"))

    assert [value in policy.secrets for policy in (in_header, in_query)] == [is_secret] * 2


def test_short_secrets_are_not_redacted_as_they_would_black_out_words() -> None:
    assert read(MODELS, {"KEY_A": "abc", "ROUTER_PROXY_API_KEY": "admin-secret"}).secrets == {"admin-secret"}


# --- the teacher and the surrogate ------------------------------------------------------------------------------------

TEACHER = "classifier: {model: t, base_url: 'http://t.test/v1'%s}"


def test_a_teacher_is_an_endpoint_with_a_prompt() -> None:
    policy = read(with_(TEACHER % ", api_key_env: KEY_B, region: eu, timeout_seconds: 2, profile_hint: ' A nurse. '"))

    teacher = policy.routing.teacher
    assert teacher is not None
    assert (teacher.endpoint.id, teacher.endpoint.region, teacher.endpoint.timeout_s) == ("t@t.test/v1", "eu", 2.0)
    assert [key.env for key in teacher.endpoint.keys] == ["KEY_B"]
    assert teacher.profile_hint == "A nurse."
    assert teacher.system_prompt.count("{message}") == 1


def test_a_teacher_that_names_no_key_needs_none() -> None:
    teacher = read(with_(TEACHER % "")).routing.teacher

    assert teacher is not None
    assert (teacher.endpoint.needs_key, teacher.endpoint.timeout_s) == (False, 15.0)


def test_a_teacher_s_prompt_keeps_its_braces() -> None:
    prompt = 'Answer as {"class": "simple"} or {}. Text: {message}'

    teacher = read(with_(TEACHER % f", system_prompt: {json.dumps(prompt)}")).routing.teacher

    assert teacher is not None
    assert teacher.system_prompt == prompt


def test_a_prompt_without_its_place_for_the_message_gets_one_and_a_warning() -> None:
    policy = read(with_(TEACHER % ", system_prompt: 'Simple or complex?'"))

    assert policy.routing.teacher is not None
    assert policy.routing.teacher.system_prompt == "Simple or complex?\n\n{message}"
    assert "classifier.system_prompt: has no {message}" in policy.warnings[0]


@pytest.mark.parametrize("section", ["classifier: {}", "classifier:", "classifier: {session_timeout_minutes: 1}"])
def test_a_classifier_section_without_a_model_is_no_teacher(section: str) -> None:
    assert read(with_(section)).routing.teacher is None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        pytest.param("classifier: {model: t}", "classifier.base_url: is missing", id="model alone"),
        pytest.param("classifier: {base_url: 'http://t'}", "classifier.model: is missing", id="address alone"),
        pytest.param(TEACHER % ", api_key_env: NO_SUCH_ENV", "NO_SUCH_ENV is not set", id="key not set"),
        pytest.param("shadow: {judge: {model: t}}", "shadow.judge.base_url: is missing", id="judge"),
        pytest.param("knowledge: {embedder: {model: t}}", "knowledge.embedder.base_url: is missing", id="embedder"),
    ],
)
def test_half_a_teacher_judge_or_embedder_is_refused(section: str, told: str) -> None:
    assert told in the_problem(with_(section))


@pytest.mark.parametrize("name", ["model.pkl", "model.pickle", "pipeline.joblib"])
def test_a_pickled_surrogate_is_warned_of_as_a_file_and_in_its_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    as_file = read(with_(f"classifier: {{surrogate: {{path: '{tmp_path / name}'}}}}"))
    as_folder = read(with_(f"classifier: {{surrogate: {{path: '{tmp_path}'}}}}"))

    told = (
        "classifier.surrogate.path: holds a pickled model, which is never loaded: run `python -m hermes surrogate fit`"
    )
    assert told in as_file.warnings[0]
    assert told in as_folder.warnings[0]


def test_a_fitted_surrogate_is_not_warned_of(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    (tmp_path / "leftover.joblib").touch()

    assert read(with_(f"classifier: {{surrogate: {{path: '{tmp_path}'}}}}")).warnings == ()


def test_a_persona_file_that_is_there_and_cannot_be_read_is_warned_of(tmp_path: Path) -> None:
    policy = read(with_(f"persona: {{user_path: '{tmp_path}', memory_path: '{tmp_path}/none', soul_path: ~nobody/x}}"))

    assert [w.split(": ")[1] for w in policy.warnings] == ["persona.user_path"]


# --- sections of the gateway's other stages ---------------------------------------------------------------------------


def test_sections_of_later_stages_are_checked_and_kept_in_the_document() -> None:
    text = with_(
        """
        limits: {per_user: {requests_per_minute: 10, concurrent: 2}}
        budgets: {timezone: America/New_York, on_store_failure: closed}
        knowledge:
          use_cases: [faq]
          embedder: {model: e, base_url: "http://u:pw@e/v1", api_key_env: KEY_B}
        residency:
          detect: [email]
          rules:
            - {match: {data_classes: [customer], use_case: payroll}, regions: [eu], endpoints: [large]}
            - {match: {detected: [email]}, action: redact, store_text: false}
        shadow: {daily_usd: 1.5, judge: {model: j, base_url: "http://j", api_key_env: KEY_B}, gate: {min_samples: 9}}
        """
    )

    document = read(text).document

    assert document["limits"]["per_user"] == {"requests_per_minute": 10, "tokens_per_minute": 0, "concurrent": 2}
    assert document["limits"]["per_key"] == {"requests_per_minute": 0, "tokens_per_minute": 0, "concurrent": 0}
    assert document["budgets"] == {
        "timezone": "America/New_York",
        "on_store_failure": "closed",
        "unpriced_reserve_usd": 0.01,
    }
    assert document["knowledge"]["embedder"]["base_url"] == "http://e/v1"
    assert document["knowledge"]["embedder"]["api_key_envs"] == ["KEY_B"]
    assert document["residency"]["rules"][0]["match"]["use_case"] == ["payroll"]
    assert document["residency"]["rules"][0]["action"] == "allow"
    assert document["residency"]["rules"][1]["store_text"] is False
    assert document["shadow"]["judge"]["model"] == "j"
    assert document["shadow"]["gate"]["min_win_or_tie"] == 0.9


def test_a_rule_knows_which_of_its_names_are_ids() -> None:
    plain = read(with_("residency: {}"))
    primary = plain.cascades["complex"].endpoints[0]
    assert primary.id != primary.model

    policy = read(with_(f"residency: {{rules: [{{endpoints: ['{primary.id}', {primary.model}]}}]}}"))

    place = policy.residency.rules[0].place
    assert place is not None
    assert (place.ids, place.endpoints) == ({primary.id}, {primary.id, primary.model})


def test_a_rule_that_can_never_match_is_warned_of() -> None:
    rules = "residency: {detect: [email], rules: [{match: {detected: [iban]}}, {endpoints: [large, nobody]}]}"

    told = [w.split(": ", 1)[1] for w in read(with_(rules)).warnings]

    assert told == [
        "residency.rules[0].match.detected: iban is not in residency.detect, so it is never found",
        "residency.rules[1].endpoints[1]: names no endpoint or model of this file",
    ]


def test_a_region_that_no_endpoint_has_is_warned_of_with_the_one_that_was_probably_meant() -> None:
    at_home = "judge: {model: j, base_url: 'http://j/v1', region: eu-west}"
    rules = f"shadow: {{{at_home}}}\nresidency: {{rules: [{{regions: [eu-wset, eu-west]}}, {{regions: []}}]}}"

    told = [w.split(": ", 1)[1] for w in read(with_(rules)).warnings]

    assert told == [
        "residency.rules[0].regions[0]: is the region of no endpoint; did you mean eu-west?",
        "residency.rules[1].regions: is empty: nobody may see the requests of this rule",
    ]


def test_a_judge_without_its_key_is_warned_of() -> None:
    policy = read(with_("shadow: {judge: {model: j, base_url: 'http://j', api_key_env: NO_SUCH_ENV}}"))

    assert "shadow.judge.api_key_env: environment variable NO_SUCH_ENV is not set" in policy.warnings[0]


# --- the document -----------------------------------------------------------------------------------------------------


def test_the_document_shows_the_configuration_in_force_without_its_secrets() -> None:
    entry = """{model: m, base_url: 'http://us:password@a/v1?key=query-secret', api_key_env: KEY_A,
        headers: {x-auth: literal-secret, x-y: 'env:KEY_B'}, price: {input_per_mtok: 1, output_per_mtok: 2}}"""

    policy = read(endpoints(entry))

    assert policy.document["models"]["simple"] == {
        "timeout_seconds": 120,
        "endpoints": [
            {
                "model": "m",
                "base_url": "http://a/v1",
                "api_key_envs": ["KEY_A"],
                "region": None,
                "headers": {"x-auth": "***", "x-y": "env:KEY_B"},
                "timeout_seconds": 120,
                "capabilities": None,
                "context_window": None,
                "price": {"input_per_mtok": 1, "output_per_mtok": 2, "cached_input_per_mtok": None},
            }
        ],
    }
    shown = json.dumps(dict(policy.document))
    assert not [secret for secret in policy.secrets if secret in shown]
    assert policy.document["retry"] == {
        "backoff_503_sec": [2, 4, 8],
        "transport_attempts": 3,
        "transport_backoff_sec": 1,
    }


def test_the_document_is_a_configuration_that_means_the_same() -> None:
    text = with_(TEACHER % ", api_key_env: KEY_B") + "\ngateway: {roles: {vision: complex}}\n"
    first = read(text)

    again = read(json.dumps(dict(first.document)))

    assert again == first


# --- load -------------------------------------------------------------------------------------------------------------


def test_load_reads_a_file_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "router_config.yaml"
    path.write_text("\ufeff" + MODELS.replace("\n", "\r\n"), encoding="utf-8")

    assert load(path, ENV).source == str(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(None, "does not exist: copy router_config.example.yaml, or set HERMES_CONFIG", id="missing"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"a: 1\nb: \xff\n", ":2: is not UTF-8 text", id="Latin-1"),
        pytest.param(b"#" * (1024 * 1024 + 1), "is larger than 1024 KiB", id="large"),
        pytest.param(b"#" * (1024 * 1024) + "é".encode(), "is larger than 1024 KiB", id="cut within a character"),
    ],
)
def test_load_refuses_with_a_sentence(content: bytes | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "router_config.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigurationInvalid) as caught:
        load(path, ENV)

    assert told in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_load_refuses_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="cannot be read"):
        load(tmp_path, ENV)
