"""Numbers that are secrets: payment cards (Luhn), IBANs (mod 97) and United States social security numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from storage.redact_shapes import Span

KINDS: Final = frozenset({"card", "iban", "ssn"})

#: Groups of digits with single separators between them; not inside a word, a decimal or an international phone number.
_DIGIT_RUN: Final = re.compile(
    r"\d(?<![A-Za-z0-9+]\d)(?<![A-Za-z0-9]-\d)(?<!\d[.,]\d)\d*(?:[ \u00a0\u202f\u2013-]\d+)*+"
)
_GOES_ON: Final = re.compile(r"[A-Za-z0-9_]|[.,]\d|-[A-Za-z]")
_DIGITS: Final = re.compile(r"\d+")

#: Issuer prefixes with the lengths they are issued in: Visa, Mastercard, American Express, Diners Club, Discover, JCB,
#: UnionPay, RuPay, Mir, Maestro.
_ISSUED: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|3(?:0[0-59]|[689]\d)\d(?:\d{10}|\d{12})"
    r"|(?:6011|64[4-9]\d|65\d\d|35(?:2[89]|[3-8]\d)|62\d\d|60[68]\d|8[12]\d\d|508\d|220[0-4])(?:\d{12}|\d{15})"
    r"|(?:5018|5020|5038|5893|6304|6759|676[1-3])\d{9,15}"
)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)

#: Country and length of every IBAN (SWIFT IBAN registry).
_IBANS: Final = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 "
    "FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
    "LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
    "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
)
_IBAN_LENGTH: Final = {entry[:2]: int(entry[2:]) for entry in _IBANS.split()}
_WORD: Final = re.compile(r"[A-Za-z0-9]")
_IBAN: Final = re.compile(
    r"[0-9]{2}(?<=[A-Za-z]{2}[0-9]{2})(?<![A-Za-z0-9]....)(?=((?:[ \u00a0-]?[A-Za-z0-9]){11,30}))", re.DOTALL
)
#: One in 7,000 holds an IBAN with its check digits right.
_UUID: Final = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)

#: Area, group and serial as the Social Security Administration issues them; without dashes only where it is named.
_SSN: Final = re.compile(
    r"-(?<=(?!000|666|9)[0-9]{3}-)(?<![A-Za-z0-9+./-]....)(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![A-Za-z0-9]|[-./][0-9])",
    re.DOTALL,
)
_NAMED_SSN: Final = re.compile(
    r"(?i:\bssn\b|social security(?: (?:number|no\.?|#))?)[^\w\n]{0,4}(?:(?:is|was)[ :]{1,2})?[\"']?"
    r"(?P<value>(?!000|666|9)[0-9]{3}[ -]?(?!00)[0-9]{2}[ -]?(?!0000)[0-9]{4})(?![0-9])"
)


def find(text: str, folded: str) -> Iterator[Span]:
    """Every card number, IBAN and social security number; `folded` is the text in lower case."""
    if _DIGITS.search(text) is None:
        return
    yield from _cards(text)
    yield from _ibans(text)
    yield from (Span(match.start() - 3, match.end(), "ssn") for match in _SSN.finditer(text))
    if "ssn" in folded or "social security" in folded:
        for match in _NAMED_SSN.finditer(text):
            yield Span(*match.span("value"), "ssn")


def _cards(text: str) -> Iterator[Span]:
    for run in _DIGIT_RUN.finditer(text):
        if run.end() - run.start() < 13:
            continue
        groups = [match.span() for match in _DIGITS.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            last = _last_group_of_card(text, groups, first)
            if last is None:
                first += 1
            else:
                yield Span(groups[first][0], groups[last][1], "card")
                first = last + 1


def _last_group_of_card(text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """The last group of the longest card number that starts with group `first`: one block, or 4, 6 or 8 digits first."""
    digits, found = "", None
    if groups[first][1] - groups[first][0] not in (4, 6, 8, *range(13, 20)):
        return None
    for last in range(first, min(first + 6, len(groups))):
        digits += text[slice(*groups[last])]
        if len(digits) > 19:
            break
        if len(digits) >= 13 and _is_card(digits) and not _GOES_ON.match(text, groups[last][1]):
            found = last
    return found


def _is_card(digits: str) -> bool:
    """Issuer prefix, its length and the Luhn check; a 13-digit bar code with its own check digit right is none."""
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    if _ISSUED.fullmatch(digits) is None:
        return False
    numbers = [int(digit) for digit in reversed(digits)]
    if (sum(numbers[::2]) + sum(_DOUBLED[digit] for digit in numbers[1::2])) % 10:
        return False
    return len(numbers) != 13 or (sum(numbers[::2]) + 3 * sum(numbers[1::2])) % 10 != 0


def _ibans(text: str) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        start = match.start() - 2
        length = _IBAN_LENGTH.get(text[start : start + 2].upper(), 99)
        end, seen = match.end(), 4
        while end < match.end(1) and seen < length:
            seen += text[end] not in " \u00a0-"
            end += 1
        if seen == length and not _WORD.match(text, end) and _is_iban(text[start:end]) and not _in_uuid(text, start):
            yield Span(start, end, "iban")


def _in_uuid(text: str, place: int) -> bool:
    return any(found.start() <= place < found.end() for found in _UUID.finditer(text, max(place - 36, 0), place + 36))


def _is_iban(written: str) -> bool:
    """ISO 7064 MOD 97-10 over the number with its first four characters moved to the end, letters as 10..35."""
    number = "".join(c for c in written if c.isalnum()).upper()
    return int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 == 1
