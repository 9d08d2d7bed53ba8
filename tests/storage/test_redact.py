"""What is masked and what is not: one table of planted secrets, one of innocents.

The secrets are put together when the tests run, so that scanners find none in the repository.
"""

from __future__ import annotations

import base64
import json

import pytest

from storage.redact import Redactor

REDACTOR = Redactor()

MIXED = "a1B2c3D4e5F6g7H8i9J0"  # 20 characters
LONG = MIXED * 3
HEX = "0123456789abcdef" * 4
LETTERS = "abcdefghijKLMNOPQRSTuvwxyzABCDEFGH"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
CARD = "4111" + "1111" * 3
DASHES = "-" * 5


def token(header: dict[str, str]) -> str:
    parts = (json.dumps(header).encode(), b'{"sub":"1"}', b"signature-bytes")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def block(kind: str, body: str) -> str:
    return f"{DASHES}BEGIN {kind}{DASHES}\n{body}\n{DASHES}END {kind}{DASHES}"


#: Kind, the text before the secret, the secret, the text after it.
PLANTED = [
    ("anthropic_key", "key ", "sk-" + "ant-api03-" + LONG, " end"),
    ("openai_key", "", "sk-" + "proj-" + LONG, ""),
    ("openai_key", "use ", "sk-" + "svcacct-" + LONG, "."),
    ("openai_key", "", "sk-" + "T" * 48, ""),
    ("api_key", "", "sk-" + "sp-AB.CD", ""),
    ("api_key", "Qwen uses ", "sk-" + "sp-ABcd12.EFgh34.xyz", ", I think"),
    ("api_key", "", "sk-" + "or-v1-" + HEX, ""),
    ("github_token", "export GITHUB_TOKEN=", "gh" + "p_" + "a" * 36, " && ls"),
    ("github_token", "", "gh" + "s_" + "12_" + LONG + "." + LONG, ""),
    ("github_token", "我的密钥是", "gh" + "o_" + MIXED * 2, "，谢谢"),
    ("github_pat", "", "github" + "_pat_" + MIXED + "_" + LONG, ""),
    ("gitlab_token", "", "glp" + "at-" + MIXED, ""),
    ("slack_token", "", "xo" + "xb-1234567890-" + MIXED, ""),
    ("slack_token", "", "xa" + "pp-1-A012-34-" + MIXED, ""),
    ("slack_webhook", "https://hooks.slack.com/services/", "T00/B00/" + MIXED, " posts"),
    ("discord_webhook", "https://discord.com/api/webhooks/1234567890/", LONG, ""),
    ("discord_token", "", base64.b64encode(b"198622483471925248").decode() + ".Cl2FMQ." + LONG[:27], ""),
    ("aws_access_key", "id ", "AK" + "IAIOSFODNN7EXAMPLE", ""),
    ("aws_access_key", "id ", "AS" + "IAIOSFODNN7EXAMPLE", ""),
    ("secret", "aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY", ""),
    ("secret", "AWS secret access key: ", MIXED + "/+" + MIXED[:18], ""),
    ("google_api_key", "", "AI" + "zaSy" + MIXED + LONG[:13], ""),
    ("google_oauth", "", "ya" + "29." + LONG, ""),
    ("google_oauth", "", "GOC" + "SPX-" + MIXED + "abcdefgh", ""),
    ("azure_key", "AccountName=x;AccountKey=", LONG + "==", ";EndpointSuffix=core.windows.net"),
    ("azure_key", "https://x.blob.core.windows.net/c?sv=2020&sig=", MIXED + "%3D", ""),
    ("stripe_key", "", "sk" + "_live_" + MIXED, ""),
    ("stripe_key", "", "wh" + "sec_" + LONG, ""),
    ("twilio_key", "", "SK" + HEX[:32], ""),
    ("sendgrid_key", "", "SG" + "." + MIXED + "ab." + LONG, ""),
    ("mailgun_key", "", "key" + "-" + HEX[:32], ""),
    ("mailchimp_key", "", HEX[:32] + "-us" + "12", ""),
    ("npm_token", "", "np" + "m_" + MIXED + LONG[:16], ""),
    ("pypi_token", "", "py" + "pi-AgEIcHlwaS5vcmc" + LONG, ""),
    ("huggingface_token", "", "h" + "f_" + LETTERS, ""),
    ("digitalocean_token", "", "do" + "p_v1_" + HEX, ""),
    ("shopify_token", "", "shp" + "at_" + HEX[:32], ""),
    ("telegram_token", "bot ", "123456789:A" + "A" + MIXED + LONG[:13], ""),
    ("databricks_token", "", "da" + "pi" + HEX[:32], ""),
    ("linear_key", "", "lin" + "_api_" + MIXED * 2, ""),
    ("notion_token", "", "nt" + "n_" + MIXED * 2, ""),
    ("groq_key", "", "gs" + "k_" + MIXED * 2, ""),
    ("xai_key", "", "xa" + "i-" + LONG, ""),
    ("perplexity_key", "", "ppl" + "x-" + LONG, ""),
    ("replicate_token", "", "r" + "8_" + MIXED * 2, ""),
    ("supabase_key", "", "sb" + "p_" + HEX[:40], ""),
    ("vault_token", "", "hv" + "s." + LONG, ""),
    ("age_key", "", "AGE-SECRET" + "-KEY-1" + "QPZRY9X8GF" * 6, ""),
    ("tailscale_key", "", "tsk" + "ey-auth-k1-" + MIXED, ""),
    ("sentry_token", "", "sntr" + "ys_" + LONG, ""),
    ("doppler_token", "", "dp" + ".pt." + MIXED * 2, ""),
    ("postman_key", "", "PM" + "AK-" + HEX[:24] + "-" + HEX[:34], ""),
    ("atlassian_token", "", "ATA" + "TT3" + LONG, ""),
    ("square_token", "", "sq0" + "atp-" + MIXED + "ab", ""),
    ("fly_token", "", "fo" + "1_" + LONG, ""),
    ("jwt", "token=", token({"alg": "HS256", "typ": "JWT"}), "."),
    ("private_key_block", "see ", block("RSA PRIVATE KEY", f"{LINE}\n{LINE}"), " done"),
    ("private_key_block", "", block("PGP PRIVATE KEY BLOCK", f"Version: 2\n\n{LINE}\n=abcd"), "\nmore"),
    ("private_key_block", '{"k": "', block("PRIVATE KEY", LINE).replace("\n", "\\n"), '"}'),
    ("private_key_block", "", f"{DASHES}BEGIN EC PRIVATE KEY{DASHES}\n{LINE}\n{LINE}\nabc=", "\n\nand cut off there"),
    ("bearer_token", "Authorization: Bearer ", "abcdef" + "123456", ""),
    ("bearer_token", "curl -H 'authorization: bearer ", "x" * 20, "'"),
    ("basic_auth", "Authorization: Basic ", base64.b64encode(b"bob:hunter2").decode(), ""),
    ("basic_auth", "curl -u admin:", "s3" + "cret", " https://example.com"),
    ("basic_auth", '{"auths":{"r.example.com":{"auth":"', base64.b64encode(b"bob:hunter2").decode(), '"}}}'),
    ("cookie", "Cookie: ", "sid=" + MIXED + "; theme=dark", ""),
    ("url_password", "postgres://u:", "p", "@h"),
    ("url_password", "mongodb+srv://bob:", "p%40ss", "@cluster0.example.net/db"),
    ("url_password", "redis://:", "s3" + "cret", "@localhost:6379/0"),
    ("url_password", "amqp://guest:", "guest", "@rabbit:5672/"),
    ("url_password", "mysql://root:", "a@b", "@db/x"),
    ("url_password", "smtp://bob@example.com:", "hunter2", "@smtp.example.com:587"),
    ("password", "password: ", "hunter2", ""),
    ("password", "my password is ", "123456", ""),
    ("password", "DB_PASSWORD='", "s3" + "cret", "'"),
    ("password", '{"password":"', "swordfish", '","x":1}'),
    ("password", '{\\"password\\": \\"', "hunter2xyz", '\\"}'),
    ("password", "my password is ", "hunter2xyz", ", do not tell"),
    ("password", "My wifi password is ", "swordfish", "."),
    ("password", "the password for github is ", "Tr0ub4dor&3", ""),
    ("password", "Server=db;Password=", "hunter2", ";Database=x"),
    ("password", "jdbc:postgresql://h/db?user=u&password=", "s3cr3t", "&ssl=true"),
    ("password", "deploy --db-password ", "hunter2xyz", " now"),
    ("password", "<password>", "hunter2", "</password>"),
    ("password", "**Password:** ", "Summer2024!", ""),
    ("password", "| password | ", "hunter2xyz", " |"),
    ("password", 'password: str = "', "hunter2xyz", '"'),
    ("password", "user: bob, pass: ", "hunter2", ""),
    ("password", "Mein Passwort ist ", "hunter2xyz", "."),
    ("password", "密码是", "hunter2xyz", "，谢谢"),
    ("password", "パスワードは", "hunter2xyz", "です"),
    ("password", "пароль: ", "hunter2xyz", ""),
    ("passphrase", "my passphrase is ", "correct horse battery staple", " and I like it"),
    (
        "passphrase",
        "seed phrase: ",
        "abandon ability able about above absent absorb abstract absurd abuse access act",
        "",
    ),
    ("pin", "my PIN is ", "4711", ""),
    ("card_code", "CVC: ", "123", ""),
    ("secret", "client_secret=", "abc123" + "def456", ""),
    ("secret", "clientSecret: '", "abc123" + "def456", "'"),
    ("secret", "JWT_SECRET: ", "my-dev-secret-1", ""),
    ("secret", "credentials: ", "admin:hunter2", ""),
    ("api_key", "X-Api-Key: ", "abcd1234" + "efgh", ""),
    ("api_key", "the API key for OpenWeather is ", HEX[:16], ""),
    ("api_key", "heroku api key: ", "123e4567-e89b-12d3-a456-" + "426614174000", ""),
    ("api_key", "api_key=", "12345678", ""),
    ("token", "access token: ", HEX[:40], ""),
    ("token", "the token is ", "abc123" + "def456", "; both old"),
    ("card", "paid with ", "4111 1111 1111 1111", " 12/27"),
    ("card", "", "3782 822463 10005", ""),
    ("card", "卡号", CARD, "。"),
    ("card", "full width ", "".join(chr(ord(digit) + 0xFEE0) for digit in CARD), ""),
    ("iban", "IBAN: ", "GB82 WEST 1234 5698 7654 32", "."),
    ("iban", "an ", "NL91ABNA0417164300", " zahlen"),
    ("ssn", "SSN ", "123-45-6789", ""),
    ("ssn", "my social security number is ", "123 45 6789", ""),
]

INNOCENT = r"""
The fix is in commit 3f786850e387550fdab836ed7e6dc881de23001b.
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
123e4567-e89b-12d3-a456-426614174000
A risk-based approach with sk-learn and sk-learn-1.0.2
sk-image-0.22.0-dev-build, task-9f86d081884c7d659a2feaa0c55ad015
The password is required.
Password must be at least 8 characters
password: string
"password": "Enter your password"
"password": null
password=password
password = os.environ["DB_PASSWORD"]
password=${DB_PASSWORD}
password: {{ vault_password }}
PASSWORD=********
Password: 8-64 characters
Her password is weak.
my password is my dog's name
the password was changed on 2024-05-01
She forgot her password again, reset it to continue.
The Wi-Fi password is written on the router.
password is base64-encoded
passwords are hashed with argon2id
password_file=/run/secrets/db
pwd: /srv/app/src
Das Passwort ist falsch.
密码是必填的
the token is expired
The token is v2.1.0 and the token limit is 128k
token: cl100k_base
max_tokens: 4096, tokens: 12345678
token = lexer.next_token()
csrf token: {{ csrf_token }}
token_type=Bearer, the bearer of this letter
Basic understanding of basic authentication
Authorization: required, auth: none, auth: basic
Cookie: chocolate chip
The secret to happiness is 42 small things
The secret Santa draw is on 2024-12-20
secret: kubernetes/db-creds-v2
secretary: John1234
api_key: your-api-key-here
api_key = settings.API_KEY
The API key is stored in 1Password
API key rotation every 90d
primary key: 123456789012, cache key: user:1234:profile
public key: ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7
Monkey: 12345678abc, boarding pass: AB1234XY
The passphrase is stored somewhere safe now.
recovery phrase is a list of twelve words which you must write down on paper
GPIO pin: 13
+49 170 1234567, +1 415 555 2671, (415) 555-2671, 415-555-2671
0049 170 1234 5678
2024-01-15, 15/01/2024, 2024-01-15T10:30:00Z, 2024-01-15 10:30:00.123456+00:00
1700000000000 and 1700000000.123456
Order 1234567890123456
order number 4000 1234 5678 9011
4111 1111 1111 1112
ISBN 978-3-16-148410-0, EAN 4006381333931
000-12-3456, 666-12-3456, 900-12-3456, 123-00-4567, 123-45-0000
DE89370400440532013001 and XX89370400440532013000
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
/srv/app/projects/dreamd/storage/redact.py and C:\Users\alice\secret.txt
https://example.com:8080/a@b?query=1&page=2
http://localhost:3000?email=bob@example.com
https://user@example.com/ and ssh://git@github.com:22/org/repo.git
git@github.com:org/repo.git, https://medium.com/@alice/post-1234
postgres://bob@localhost/db, postgres://user:${DB_PASSWORD}@host/db
alice@example.com
#ff8800 and #FF8800AA
AKIA is the prefix of AWS access keys, ghp_ is how GitHub tokens start, eyJ is how a JWT starts
-----BEGIN PRIVATE KEY----- is the header of a PEM file
-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----
hf_hub_download("model") under npm_config_registry
192.168.1.100, 00:1A:2B:3C:4D:5E, 2001:0db8:85a3:0000:0000:8a2e:0370:7334
3.14159265358979323846, -122.4194155, 37.7749295
s3://bucket/key-2024/part-00001.parquet
in ba63fc5d-8344-4173-84fa-086c1a933c7c, cd7c8df9-3223-4d92-be76-05734188dddd and 2105a338-ad22-45f7-bcb1-98d68febb3e8
[REDACTED:password] is what a mask looks like, [REDACTED:api_key]: abc123def456 is behind one
""".strip().splitlines()


@pytest.mark.parametrize(
    ("kind", "before", "secret", "after"), PLANTED, ids=[f"{row[0]}-{n}" for n, row in enumerate(PLANTED)]
)
def test_a_planted_secret_is_masked_and_what_stands_around_it_is_not(kind, before, secret, after):
    redacted = REDACTOR.redact(before + secret + after)
    assert redacted.text == f"{before}[REDACTED:{kind}]{after}"
    assert redacted.hits == {kind: 1}
    assert redacted.raises_to == "confidential"


@pytest.mark.parametrize("text", INNOCENT, ids=range(len(INNOCENT)))
def test_an_innocent_text_passes_unchanged(text):
    assert REDACTOR.redact(text) == (text, {}, None)


def test_the_secret_key_beside_an_access_key_is_masked_too():
    text = "AK" + "IAIOSFODNN7EXAMPLE," + "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
    assert REDACTOR.redact(text).text == "[REDACTED:aws_access_key],[REDACTED:aws_secret_key]"


def test_overlapping_secrets_become_one_mask_named_by_the_first_rule():
    text = "password: gh" + "p_" + "a" * 36 + "!tail"
    redacted = REDACTOR.redact(text)
    assert redacted.text == "password: [REDACTED:github_token]"
    assert redacted.hits == {"github_token": 1}


def test_hits_are_counted_by_kind():
    text = f"{CARD}, {CARD} and my password is hunter2xyz"
    assert REDACTOR.redact(text).hits == {"card": 2, "password": 1}


def test_a_letter_whose_lower_case_is_longer_does_not_shift_the_mask():
    assert REDACTOR.redact("İİİ password: hunter2").text == "İİİ password: [REDACTED:password]"
