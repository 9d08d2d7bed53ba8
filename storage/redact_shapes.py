r"""Credentials that give themselves away by their shape: vendor prefixes, JWT, PEM, headers, URLs with a password.

Each rule names the literals one of which its match must contain. They are looked for first, in the case-folded text: a
substring search costs a fraction of a regex, so a text without secrets is passed at the price of about a hundred of them.
Patterns are ASCII (`\w` is no ideograph: a key that stands right behind one is found) and every repeat is either followed
by nothing that could fail or bounded, so that no text takes more than linear time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple


class Span(NamedTuple):
    """Where a secret stands in the text, and of what kind it is."""

    start: int
    end: int
    kind: str


class Rule(NamedTuple):
    """A pattern of which the group `value`, else the whole match, is the secret; `check` has the last word."""

    kind: str
    literals: tuple[str, ...]  # lower-case; one of them is in every match
    pattern: str
    check: Callable[[str], bool] | None = None


#: Not inside a longer word (an escaped line break or a percent code is none), nor the start of an image's data.
_LEFT: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))(?<!base64,)"

_ELSEWHERE: Final = re.compile(
    r"\$\{?[\w.:-]+\}?|\$\(.*\)|\{\{?[\w .]+\}?\}|<[\w -]+>|.?\{[^{}]*\}.?|%\w+%|%s|\*+|\.+|•+|…"
)

#: Kind, the prefixes which open such a credential, and what follows them; shorter than issued, to catch new formats.
_PREFIXED: Final = (
    ("anthropic_key", "sk-ant-", r"[\w-]{16,}"),
    ("openai_key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"[\w-]{20,}"),
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[\w-]{20,}(?:\.[\w-]+)*"),
    ("github_pat", "github_pat_", r"\w{20,}"),
    (
        "gitlab_token",
        "glpat- gldt- glrt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glcbt-",
        r"[\w-]{16,}(?:\.\w+)*",
    ),
    ("slack_token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-", r"[\w%./+-]{9,}[\w%/+-]"),
    ("aws_access_key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("aws_bedrock_key", "ABSK bedrock-api-key-", r"[A-Za-z0-9+/]{60,}={0,2}"),
    ("google_api_key", "AIza", r"[\w-]{30,}"),
    ("google_oauth", "GOCSPX- ya29. 1//0", r"[\w-]{20,}(?:\.[\w-]+)*"),
    ("stripe_key", "sk_test_ sk_live_ sk_prod_ pk_test_ pk_live_ rk_test_ rk_live_ rk_prod_", r"[A-Za-z0-9]{10,}"),
    ("stripe_key", "whsec_", r"[A-Za-z0-9+/]{20,}={0,2}"),
    ("sendgrid_key", "SG.", r"[\w-]{16,}\.[\w-]{16,}"),
    ("brevo_key", "xkeysib- xsmtpsib-", r"[\w-]{32,}"),
    ("npm_token", "npm_", r"[A-Za-z0-9]{30,}"),
    ("pypi_token", "pypi-Ag", r"[\w-]{16,}"),
    ("rubygems_key", "rubygems_", r"[A-Za-z0-9]{32,}"),
    ("docker_token", "dckr_pat_ dckr_oat_", r"[\w-]{20,}"),
    ("huggingface_token", "hf_ api_org_", r"[A-Za-z0-9]{20,}"),
    ("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[A-Za-z0-9]{32,}"),
    ("shopify_token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"[A-Za-z0-9]{24,}"),
    ("cloudflare_token", "cfut_ cfat_ cfk_", r"[\w-]{30,}"),
    ("cloudflare_token", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{80,}"),
    ("databricks_token", "dapi", r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    ("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{20,}"),
    ("notion_token", "secret_", r"[A-Za-z0-9]{40,}"),
    ("notion_token", "ntn_", r"[A-Za-z0-9]{20,}"),
    ("groq_key", "gsk_", r"[A-Za-z0-9]{20,}"),
    ("xai_key", "xai-", r"[A-Za-z0-9]{20,}"),
    ("perplexity_key", "pplx-", r"[A-Za-z0-9]{20,}"),
    ("replicate_token", "r8_", r"[A-Za-z0-9]{20,}"),
    ("nvidia_key", "nvapi-", r"[\w-]{20,}"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_", r"\w{20,}"),
    ("pinecone_key", "pcsk_", r"\w{20,}"),
    ("ai_vendor_key", "csk- fw_ e2b_ vck_", r"[A-Za-z0-9]{20,}"),
    ("ai_vendor_key", "tvly- tgp_v1_ esecret_ wandb_v1_", r"[\w-]{20,}"),
    ("supabase_key", "sbp_ sb_secret_", r"[\w-]{20,}"),
    ("vault_token", "hvs. hvb. hvr.", r"[\w-]{20,}"),
    ("age_key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}"),
    ("nostr_key", "nsec1", r"[a-z0-9]{50,}"),
    ("wallet_key", "xprv yprv zprv", r"[A-Za-z0-9]{80,}"),
    ("tailscale_key", "tskey-", r"(?=[\w-]{0,40}\d)[\w-]{16,}"),
    ("sentry_token", "sntrys_ sntryu_", r"[\w+/=-]{20,}"),
    ("doppler_token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"(?:[\w-]{2,35}\.)?[A-Za-z0-9]{20,}"),
    ("postman_key", "PMAK-", r"[\w-]{20,}"),
    ("atlassian_token", "ATATT3 ATCTT3 ATOATT", r"[\w=-]{20,}"),
    ("bitbucket_password", "ATBB", r"[A-Za-z0-9]{24,}"),
    ("square_token", "sq0atp- sq0csp- sq0idp- EAAAE EAAAl", r"[\w-]{20,}"),
    ("facebook_token", "EAA", r"[A-Za-z0-9]{80,}"),
    ("fly_token", "fo1_ fm1a_ fm1r_ fm2_", r"[\w+/=,-]{19,}[\w+/=-]"),
    ("grafana_token", "glc_ glsa_ eyJrIjoi", r"[\w+/]{32,}={0,2}"),
    ("newrelic_key", "NRAK- NRII- NRJS-", r"[A-Za-z0-9-]{18,}"),
    ("heroku_key", "HRKU-", r"[\w-]{20,}"),
    ("planetscale_token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[\w=.-]{19,}[\w=-]"),
    ("pulumi_token", "pul-", r"[0-9a-f]{40}(?![A-Za-z0-9])"),
    ("onepassword_token", "ops_eyJ", r"[\w+/-]{40,}={0,3}"),
    ("onepassword_key", "A3-", r"[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}"),
    ("figma_token", "figd_ figo_", r"[\w-]{20,}"),
    ("dropbox_token", "sl.u. sl.B", r"[\w-]{50,}"),
    ("dynatrace_token", "dt0c01. dt0s01.", r"[A-Z0-9]{20,}\.[A-Z0-9]{40,}"),
    ("artifactory_key", "AKCp cmVmd", r"[A-Za-z0-9]{55,}"),
    ("alibaba_key", "LTAI", r"[A-Za-z0-9]{12,26}(?![A-Za-z0-9])"),
    ("tencent_key", "AKID", r"[A-Za-z0-9]{28,36}(?![A-Za-z0-9])"),
    ("yandex_key", "AQVN y0_", r"[\w-]{30,}"),
    ("sonar_token", "squ_ sqp_ sqa_", r"[0-9a-f]{40}"),
    ("sourcegraph_token", "sgp_", r"\w{40,}"),
    ("plaid_token", "access-sandbox- access-development- access-production-", r"[0-9a-f-]{36}"),
    ("razorpay_key", "rzp_live_ rzp_test_", r"[A-Za-z0-9]{12,}"),
    ("resend_key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("apify_token", "apify_api_", r"[A-Za-z0-9]{20,}"),
    ("netlify_token", "nfp_", r"[A-Za-z0-9]{30,}"),
    ("contentful_token", "CFPAT-", r"[\w-]{30,}"),
    ("buildkite_token", "bkua_", r"[A-Za-z0-9]{32,}"),
    ("circleci_token", "CCIPAT_ CCIPRJ_", r"\w{20,}"),
    ("posthog_key", "phx_", r"[A-Za-z0-9]{30,}"),
    ("mongodb_key", "mdb_sa_sk_", r"[\w-]{20,}"),
    ("neon_key", "napi_", r"[a-z0-9]{30,}"),
    ("easypost_key", "EZAK EZTK", r"[A-Za-z0-9]{50,}"),
    ("shippo_token", "shippo_live_ shippo_test_", r"[A-Za-z0-9]{30,}"),
    ("openshift_token", "sha256~", r"[\w-]{40,}"),
    ("infracost_key", "ico-", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("typeform_token", "tfp_", r"[\w-]{40,}"),
    ("prefect_key", "pnu_ pnb_", r"[A-Za-z0-9]{30,}"),
    ("elevenlabs_key", "sk_", r"[0-9a-f]{40,}"),
)


def _decoded(text: str) -> bytes:
    """What the Base64 (either alphabet, padded or not) says; empty where it is none."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return b""


def _is_jwt(token: str) -> bool:
    """Whether the header is JSON that names an algorithm, or header and payload are both JSON objects."""
    header, _, rest = token.partition(".")
    return b'"alg"' in _decoded(header[: len(header) // 4 * 4]) or rest.startswith("eyJ")


def _is_basic(value: str) -> bool:
    """Whether it is the Base64 of `user:password`."""
    plain = _decoded(value)
    return b":" in plain and plain.isascii() and plain.decode("ascii").isprintable()


def _is_discord(token: str) -> bool:
    """Whether the first part is the Base64 of the bot's number."""
    return _decoded(token.partition(".")[0]).isdigit()


def _is_unnamed_key(token: str) -> bool:
    """Whether what follows `sk-` is no name such as `learn-1.0.2`: dots or length with capitals, or digits enough."""
    tail = token[3:]
    capital, digits = any("A" <= c <= "Z" for c in tail), sum("0" <= c <= "9" for c in tail)
    return (capital and ("." in tail or len(tail) >= 20)) or (len(tail) >= 16 and digits * 4 > len(tail))


def is_value(value: str) -> bool:
    """Whether it does not stand for a value that is elsewhere, as `${NAME}`, `<password>` and `***` do."""
    return _ELSEWHERE.fullmatch(value) is None


def _is_opaque(value: str) -> bool:
    """Whether it is no word or name: digits among letters, or one run of twenty."""
    return (
        re.search(r"[A-Za-z0-9]{20}", value) is not None
        or (re.search(r"\d", value) and re.search("[A-Za-z]", value)) is not None
    )


#: A shorter stretch without a blank holds none of the prefixed credentials: most texts need no further look.
_STRETCH: Final = re.compile(r"[!-~]{15,}")

#: The block to its END, else, where that was cut off, as many lines as look like a key's.
_PRIVATE_KEY: Final = (
    r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"(?:(?:[^-]++|-(?!---))*+-{4,5} ?END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r"|(?:(?:[\s>|]|\\[nrt])*+(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?[^\n\\]*|[A-Za-z0-9+/=]{16,}+))++"
    r"(?:(?:[\s>|]|\\[nrt])*+[A-Za-z0-9+/=]++(?=\s*(?:\Z|\n)))?)"
)

_STRUCTURED: Final = (
    Rule("private_key_block", ("private key",), _PRIVATE_KEY),
    Rule("private_key_block", ("private-lines:",), r"Private-Lines: \d+(?:\s+[A-Za-z0-9+/=]{16,})+"),
    Rule("jwt", ("eyj",), r"(?<![\w-])eyJ[\w-]{6,}+={0,2}\.\.?[\w-]{4,}+(?:\.[\w-]++){0,3}", _is_jwt),
    Rule(
        "slack_webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<value>[\w/+-]{16,})",
    ),
    Rule("discord_webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d{5,25}/(?P<value>[\w-]{20,})"),
    Rule("teams_webhook", ("/incomingwebhook/",), r"/IncomingWebhook/(?P<value>[\w/-]{20,})"),
    Rule("telegram_token", (":a",), _LEFT + r"(?<!:)\d{6,12}:A[\w-]{32,36}(?![\w-])", _is_opaque),
    Rule("discord_token", (".",), r"(?<![\w.-])[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,45}(?![\w-])", _is_discord),
    Rule(
        "aws_secret_key",
        ("akia", "asia"),
        r"A[KS]IA[A-Z0-9]{16}[\s,:;|\"']{1,10}(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    Rule("azure_key", ("key=",), r"(?:Account|SharedAccess|Access)Key=(?P<value>[A-Za-z0-9+/]{24,}={0,2})"),
    Rule("azure_key", ("sig=",), r"[?&;]sig=(?P<value>[\w%+/=-]{20,})"),
    Rule("azure_client_secret", ("q~",), _LEFT + r"[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~-])"),
    Rule("twilio_key", ("sk", "ac"), _LEFT + r"(?:SK|AC)[0-9a-f]{32}(?![A-Za-z0-9])"),
    Rule("mailgun_key", ("key-",), _LEFT + r"key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    Rule("mailchimp_key", ("-us",), _LEFT + r"[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    Rule("airtable_token", ("pat",), _LEFT + r"pat[A-Za-z0-9]{14}\.[0-9a-f]{40,}"),
    Rule("terraform_token", (".atlasv1.",), _LEFT + r"[A-Za-z0-9]{10,20}\.atlasv1\.[\w=-]{20,}"),
    Rule("openai_key", ("sk-",), _LEFT + r"sk-[A-Za-z0-9]{32,}"),
    Rule("api_key", ("sk-",), _LEFT + r"sk-(?=[\w.-]{8})[\w-]++(?:\.[\w-]++)*", _is_unnamed_key),
    Rule(
        "password_hash",
        ("$",),
        r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|(?:argon2id?|scrypt|y|[156])\$[\w.,=/+$-]{20,})",
    ),
    Rule("basic_auth", ("basic",), r"(?i:basic)[ \t:]{1,4}(?P<value>[\w+/-]{6,}={0,2})", _is_basic),
    Rule(
        "bearer_token",
        ("bearer",),
        r"(?i:bearer)[\"']?[ \t:=]{1,4}[\"']?(?P<value>[\w.~+/-]{7,}[\w~+/-]={0,2})",
        _is_opaque,
    ),
    Rule(
        "authorization",
        ("authorization",),
        r"(?i:authorization)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:[A-Za-z]{1,12}[ ])?(?P<value>[\w.~+/-]{8,}+={0,2})(?![(\[])",
        _is_opaque,
    ),
    Rule(
        "url_password",
        ("://",),
        r"://[^\s/?#:\"'<>]{0,128}:(?!\d{1,5}(?:[/?#]|\Z))(?P<value>[^\s/\"'<>]{1,256}|<[\w -]+>)@(?=[\w\[%$<{])",
        is_value,
    ),
    Rule(
        "basic_auth",
        ("curl",),
        r"curl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,64}:(?P<value>[^\s\"']{1,128})",
        is_value,
    ),
    Rule("basic_auth", ("auth",), r"(?i:auth)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?P<value>[\w+/-]{6,}={0,2})", _is_basic),
    Rule("cookie", ("cookie",), r"(?i:cookie)[\"']?: ?[\"']?(?P<value>[\w.-]{1,64}=[^\n\"']{8,4096})", _is_opaque),
    Rule("password", ("sshpass",), r"sshpass\s+-p\s?(?P<value>\"[^\"\n]{1,128}\"|'[^'\n]{1,128}'|\S{1,128})"),
    Rule(
        "password", ("machine",), r"machine\s+\S{1,255}\s+login\s+\S{1,128}\s+password\s+(?P<value>\S{1,256})", is_value
    ),
)


def _prefixed() -> Iterator[Rule]:
    for kind, prefixes, tail in _PREFIXED:
        words = prefixes.split()
        yield Rule(kind, tuple(word.lower() for word in words), f"{_LEFT}(?:{'|'.join(map(re.escape, words))}){tail}")


_UNBROKEN: Final = tuple(_prefixed())
KINDS: Final = frozenset(rule.kind for rule in (*_UNBROKEN, *_STRUCTURED))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when its literal is first met: most never are."""
    return re.compile(pattern, re.ASCII)


def find(text: str, folded: str) -> Iterator[Span]:
    """Every credential that is known by its shape, rule by rule; `folded` is the text in lower case."""
    stretches = " ".join(_STRETCH.findall(folded))
    if stretches:
        yield from _apply(_UNBROKEN, text, stretches)
    yield from _apply(_STRUCTURED, text, folded)


def _apply(rules: tuple[Rule, ...], text: str, folded: str) -> Iterator[Span]:
    for kind, literals, pattern, check in rules:
        for literal in literals:
            if literal in folded:
                break
        else:
            continue
        compiled = _compiled(pattern)
        group = "value" if "value" in compiled.groupindex else 0
        for match in compiled.finditer(text):
            if check is None or check(match[group]):
                yield Span(*match.span(group), kind)
