"""Credentials that only their label gives away: `password: …`, `DB_TOKEN=…`, `"apiKey": "…"`, "my password is …".

A label is found anywhere in a word (`dbPassword`, `AWS_SECRET_ACCESS_KEY`); then comes what joins it to the value, then
the value, and last the judgement: what stands beside a label is more often an English word, a type or a variable than a
secret. The surer the join (`=` or quotes before "is"), the less the value itself must look like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from storage.redact_shapes import Span, is_value

KINDS: Final = frozenset({"password", "secret", "api_key", "token", "passphrase", "card_code", "pin"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Labels, in lower case, and what they announce. A key is one only behind one of the words below it.
_LABELS: Final = {
    **dict.fromkeys(
        ("password", "passwd", "passphrase", "passcode", "pwd", "_pass", "/pass", "pass=", "pass ="), "password"
    ),
    **dict.fromkeys(("pass word", "pass-word", "pass_word", "pass phrase", "pass-phrase", "pass_phrase"), "password"),
    **dict.fromkeys(
        ("pass code", "passwort", "kennwort", "contraseña", "contrasena", "mot de passe", "senha"), "password"
    ),
    **dict.fromkeys(("wachtwoord", "lösenord", "losenord", "hasło", "haslo", "şifre", "пароль"), "password"),
    **dict.fromkeys(("密码", "密碼", "口令", "パスワード", "비밀번호", "암호"), "password"),
    **dict.fromkeys(("pass:", "pw:", "pw="), "password"),  # only where no other word stands before: no boarding pass
    **dict.fromkeys(("secret", "credential", "creds"), "secret"),
    "token": "token",
    "key": "api_key",
}
_SECRET_KEY: Final = re.compile(
    r"(?:api|access|private|auth|authentication|authorization|encryption|decryption|signing|master|account|app|application|service"
    r"|ssh|deploy|admin|root|license|licence|subscription|storage|shared|session|webhook|hmac|jwt|client|consumer|wi-?fi|wpa2?"
    r"|psk|network|security|functions)[ _-]?\Z"
)
_IN_MASK: Final = re.compile(r"\[redacted:[\w.-]*\Z")

#: What may stand between label and value: `assigned` says outright that a value follows, `said` that it may.
_JOIN: Final = re.compile(
    r"""
    s? (?:[ _-]?(?:access[ _-]?)?(?:key|token|value|base|string)){0,2} \d{0,2}  # the rest of SECRET_KEY_BASE, password2
    ["'`\\\]}*]{0,3} (?:\ \([^()\n]{0,40}\))?
    (?:\s(?:for|of|to|on|at|in|from)\s[^\n:=,.!?;]{1,60}?)?
    (?:
      (?P<assigned>
        [ \t]{0,8} (?: :\ ?[\w.\[\]|&?]{1,24}\ ? (?==(?!=)) )?  # a type, as in `password: str = …`
        (?: =>|->|→|[:=：＝]{1,3}|(?<=\s)\|(?=\ ) ) [*_]{0,2} \s{0,8} (?: [\[(]\s?(?=["']) )?
        | >(?=[^<@\s])
      )
      | (?P<said>
        \s{1,3} (?: (?P<copula>is|was|are) (?:\ (?:now|still|just))? | (?:(?:will|should|must)\ )?be | to | as | becomes?
          | equals | set\ to | ist | lautet | war | es | era | est | é | è | это | jest | är | [-–—] ) \s?:? \s{1,3}
        | ['’]s\s
        | \s?[是为為はが은는이가]、?[:：]?\s?
      )
      | (?P<beside> [ \t]{1,3} | [ \t]?\n )
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)

#: Quoted to its closing quote, else to the next blank: ASCII and Latin letters, so that Chinese needs no blank to end it.
_VALUE: Final = re.compile(
    r"""(?P<quote>\\?["'`])(?P<quoted>(?:(?!(?P=quote))[^\n]){1,1024})(?P=quote)"""
    r"""|[“„‘«「『](?P<curly>[^”“’»」』\n]{1,256})[”“’»」』]|["'`]?(?P<bare>[!-~¡-ɏ]{1,256})"""
)
_REST: Final = re.compile(r"[!-~¡-ɏ]*+")
_LONG: Final = 256  # characters by which a value is judged; what goes on behind them belongs to it
#: Where a value without quotes ends before the blank: a quote, markup, the next parameter or member.
_CUT: Final = re.compile(
    r"""\"|\`|"|`|'(?!\w)|<(?=[/a-z])|&(?=[\w.-]{1,40}=|[a-z]{2,8};)|;(?=[\w .-]{1,40}[=:])|,(?=["'{\[]|[\w.-]{1,40}[=:])"""
)
_CLOSING: Final = ".,;:?)]}"
_CLAUSE_END: Final = re.compile(r"""[)"'*]*(?:[.,;!?)]+(?=\s|\Z)|\s*(?:\Z|\n)|\ (?:and|but|so|or)\b)""")

#: Values which are never secrets.
_HARMLESS: Final = re.compile(
    r"""
    # paths, URLs, data, addresses
      (?:\.{1,2}|~)?(?:/[\w.@+-]+){2,}/? | (?:\.{1,2}|~)/\S* | [a-z]:\\.* | [a-z][a-z0-9+.-]*://\S* | data:\S*
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}
    # dates, times, versions, ranges, shares, quantities
    | \d{4}-\d\d(?:-\d\d)?(?:[T ]\S*)? | \d{1,2}[:/.]\d{1,2}(?:[:/.]\d{2,4})? | \d+/\d+ | \d+[-–+]\d* | [<>~≈]=?\d+\S?
    | v?\d+(?:\.\d+)+(?:-?(?:a|b|rc|alpha|beta|dev|post)\.?\d*)?
    | \d+[ ]?-?(?:st|nd|rd|th|k|m|gb|mb|kb|ms|s|sec|min|h|hrs?|days?|d|x|%|px|bits?|bytes?|chars?|characters|digits?)
    # names of algorithms and of things spelt with digits
    | (?:base\d\d|sha-?\d{1,3}|md5|argon2|pbkdf2|oauth\ ?\d|utf-?\d+|aes-?\d+|rsa-?\d+|ed25519|[hre]s\d{3}|x509|http/?\d
      |web\d|k8s|s3|gpt-?\d|1password)(?:[^A-Za-z0-9].*)?[a-z]{0,3}
    # code: members, calls, lists, interpolation, and variables named after what they hold
    | [a-z_$@][a-z_]*(?:(?:\.|->|::)[a-z_]+)+ | [a-z_.]+[(\[].* | [a-z_]\w*[._]\w*[(\[].* | [(\[{][a-z_.][^0-9]* | :[a-z:]+
    | .*(?:%[sdr](?![A-Za-z0-9])|\{[\w.!:\[\]]*\}).*
    | [a-z_.-]*(?:password|passwd|passphrase|pwd|secret|token|_key|-key|apikey|env)[a-z_.-]*
    # placeholders and marks
    | your[-_ ].* | x{3,} | \[redacted.*
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:['’/-][^\W\d_]+)*")
_SEGMENT: Final = re.compile(
    r"[a-z]{1,12}\d{0,3}[a-z]?|[A-Z][a-z]{0,12}\d{0,3}|[A-Z]{1,12}\d{0,3}|\d{1,4}[A-Za-z]?|[a-z]{2}\d{1,3}[a-z]"
)

#: What a sentence says *about* a password; with the endings below it decides whether one plain word is one.
_ABOUT: Final = _words("""
    required optional secret secure insecure safe unsafe strong weak wrong right correct incorrect valid invalid same different
    new old long short longer shorter simple complex easy hard good bad fine okay empty blank null none nil undefined unset
    unknown known true false default string strings text str bytes bool boolean number object input plaintext hash hashes hex
    here there below above inside attached back gone lost out up down due mine yours his hers ours theirs nothing something
    everything anything always never not still only also later today tomorrow yesterday already again soon what which that this
    these those the and for with from you your our their its see ask use please must should may can will enter type choose
    forgot change reset contact common unique random case plain public private personal sensitive hidden visible set kept too
    very more less about bearer basic manager protection policy field key name value code test options option
    falsch richtig vergessen vorhanden obligatoire oublié incorrecte requerida obligatoria olvidada incorrecta obrigatória
""").union(_LABELS)
#: Words which hold sentences together and passphrases do not.
_JOINING: Final = _words("""
    a an i in on at of to by as is be or if we it the and for with from you your our their its that this these those which what
    not no are was has have had must should may can will would please enter type use see contact ask
""")
_ABOUT_ENDING: Final = re.compile(r".*(?:ed|ing|able|ible|ive|ary|ory|ful|less|ous|ly|ic|al|ent|ant|en|wn|lt|pt)\Z")

_PHRASE: Final = re.compile(
    r"(?i:(?:seed|recovery|backup|secret|wallet)[ _-]?(?:phrase|words?|seed)|mnemonic|pass[ _-]?phrase|pass[ _-]?word(?!.? is))"
    r"[\"'*]{0,2}(?: (?i:is)|\s?[:=]{1,2})\s{0,3}[\"']?(?P<value>[a-z]{3,10}(?:[ \n,-]{1,2}[a-z]{3,10}){3,23})(?![A-Za-z])"
)
_CARD_CODE: Final = re.compile(
    r"(?i:(?<![a-z])c[vs][vc]2?(?![a-z])|card (?:security|verification) (?:code|number|value))"
    r"[^\w\n]{0,4}(?:is[ :]{1,2})?(?P<value>[0-9]{3,4})(?![\w.])"
)
_PIN: Final = re.compile(
    r"(?:(?<![A-Za-z])PIN(?: (?i:code|number))?|(?i:\bpin (?:code|number)))(?: for [^\n.:=]{1,40}?)?"
    r"\s{0,2}(?:(?i:is|was)\b|[:=])\s{0,2}[\"']?(?P<value>[0-9]{4,8})(?![\w-]|\.[0-9])"
)


def find(text: str, folded: str) -> Iterator[Span]:
    """Every credential beside its label; `folded` is the text in lower case."""
    if "cvc" in folded or "cvv" in folded or "csc" in folded or "card " in folded:
        yield from (Span(*match.span("value"), "card_code") for match in _CARD_CODE.finditer(text))
    if "pin" in folded:
        yield from (Span(*match.span("value"), "pin") for match in _PIN.finditer(text))
    if "phrase" in folded or "mnemonic" in folded or "seed" in folded or "password" in folded:
        for match in _PHRASE.finditer(text):
            length = _phrase(match["value"])
            if length:
                yield Span(match.start("value"), match.start("value") + length, "passphrase")
    for label, kind in _LABELS.items():
        at = folded.find(label)
        while at >= 0:
            end = at + len(label)
            if _is_label(label, folded, at):
                span = _secret_after(text, at, at + len(label.rstrip(" =:")), kind)
                if span is not None:
                    yield span
                    end = span.end
            at = folded.find(label, end)


def _is_label(word: str, folded: str, at: int) -> bool:
    """Whether it stands in no mask, a `key` behind a word that makes it a secret one, and `pass:` by itself."""
    before = folded[max(0, at - 32) : at]
    if _IN_MASK.search(before):
        return False
    if word == "key":
        return _SECRET_KEY.search(before) is not None
    return word not in {"pass:", "pw:", "pw="} or not before.rstrip(" ")[-1:].isalnum()


def _secret_after(text: str, start: int, end: int, kind: str) -> Span | None:
    """The value which the label at `start` to `end` announces, if it is judged a secret."""
    join = _JOIN.match(text, end)
    found = None if join is None else _VALUE.match(text, join.end())
    if join is None or found is None:
        return None
    group = str(found.lastgroup)
    first, last = found.span(group)
    bare, long = group == "bare", False
    if bare:
        last = _cut(text, first, last)
        long = last - first == _LONG
    value = text[first:last]
    if len(value) < 4 or not is_value(value) or _HARMLESS.fullmatch(value):
        return None
    beside = bare and join["beside"] is not None and not _is_option(text, start)
    sure = not bare or (join["said"] is None and not beside)
    if kind == "password":
        ends = _CLAUSE_END.match(text, last) is not None and "\n" not in join[0]
        alone = not bare or (ends and (sure or join["copula"] is not None))
        secret = _is_password(value, sure=sure, alone=alone, beside=beside)
    else:
        secret = _is_key(kind, value, sure=sure, beside=beside, variable=sure and text[start:end].isupper())
    if not secret:
        return None
    if long and (rest := _REST.match(text, last)):
        last = _cut(text, last, rest.end())
    return Span(first, last, kind)


def _cut(text: str, first: int, last: int) -> int:
    """Where a value without quotes ends, the marks that close a clause left out."""
    cut = _CUT.search(text, first, last)
    if cut is not None:
        last = cut.start()
    elif last - first == _LONG:
        return last
    return first + len(text[first:last].rstrip(_CLOSING))


def _is_option(text: str, start: int) -> bool:
    """Whether the label is a command's option, `--db-password …`, which a blank joins to its value."""
    return re.search(r"(?:\s|\A)--?[\w-]*\Z", text[max(0, start - 32) : start]) is not None


def _is_password(value: str, *, sure: bool, alone: bool, beside: bool) -> bool:
    """Anything but words about passwords, where it is assigned; in a sentence it must have a digit or sign, or end it."""
    if " " in value:
        return sure and (_phrase(value) == len(value) or _is_strange(value))
    if _PLAIN.fullmatch(value):
        return alone and value.lower() not in _ABOUT and not (value.islower() and _ABOUT_ENDING.fullmatch(value))
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    if sure:
        return True
    if beside:
        return letters and digits and len(value) >= 6
    return (letters and len(value) >= 5) or (digits and len(value) >= 4)


def _is_key(kind: str, value: str, *, sure: bool, beside: bool, variable: bool) -> bool:
    """Letters with digits which read like no name of a thing; letters or digits alone only where long and assigned.

    What an environment variable is set to may read like a name: `JWT_SECRET=my-dev-secret-1`.
    """
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    if " " in value:
        return False
    if letters and digits:
        return len(value) >= (20 if beside else 6) and (
            variable or _UUID.fullmatch(value) is not None or not _is_name(value)
        )
    if digits:
        return sure and len(value) >= (16 if kind == "token" else 8)  # a number of tokens is no token
    return sure and len(value) >= 24 and value.isalpha() and len(set(value)) > 1


def _is_name(value: str) -> bool:
    """Whether it reads like `cl100k_base` or `db-creds-v2`: words and short numbers joined, few digits in all."""
    segments = re.split(r"[-_./]", value)
    digits = sum(c.isdigit() for c in value)
    return (
        len(segments) > 1
        and digits * 10 <= len(value) * 3
        and any(segment.isalpha() and len(segment) > 2 for segment in segments)
        and all(_SEGMENT.fullmatch(segment) or not segment for segment in segments)
    )


def _phrase(value: str) -> int:
    """How much of the words is a passphrase and no sentence about one: four or more before any word that joins others.

    Eleven and more without a short one are a wallet's: its list has joining words, too.
    """
    words = list(re.finditer(r"[^ \n,-]+", value.lower()))
    if len(words) >= 11 and all(len(word[0]) > 2 for word in words):
        return len(value)
    before = list(takewhile(lambda word: word[0] not in _JOINING, words))
    if len(before) < 4 or _ABOUT_ENDING.fullmatch(before[0][0]) or sum(word[0] in _ABOUT for word in before) > 1:
        return 0
    return before[-1].end()


def _is_strange(value: str) -> bool:
    """Whether a quoted phrase holds a word with digits or signs inside, and none that joins others."""
    words = value.split()
    return not _JOINING.intersection(value.lower().split()) and any(
        re.search(r"[A-Za-z][\d@$!#%&]\w", word) for word in words
    )
