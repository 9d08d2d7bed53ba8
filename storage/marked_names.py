"""Names that something marks as such, in any script: @handles, quoted titles, and the honorifics of Chinese, Japanese, Korean.

Each finder yields (start, end, name). Pure, and linear: no pattern looks further than a bounded number of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from storage.common_words import OPENERS, words

Spot = tuple[int, int, str]

_HANDLE: Final = re.compile(r"(?<![\w@./+-])@([^\W_][\w.-]{0,38}\w)(?![\w/@])")
_EVERYONE: Final = frozenset(("all", "channel", "everyone", "here", "team"))

#: By pairs; straight quotes have no side of their own, so what is inside them must touch them.
_QUOTED: Final = re.compile(
    r"“([^“”\n]{2,60})”|„([^„“”\n]{2,60})[“”]|«([^«»\n]{2,60})»|»(?!\s)([^«»\n]{2,60})(?<!\s)«|"
    r'(?<!\w)"(?!\s)([^"\n]{2,60})(?<!\s)"(?!\w)|(?<!\w)‘((?:[^‘’\n]|’(?=\w)){2,60})’(?!\w)|'
    r"『([^『』\n]{2,60})』|《([^《》\n]{2,60})》|(?<![说說道问問：:])「([^「」\n]{2,60})」(?!って|と(?!いう))"
)
_SENTENCE: Final = re.compile(r"[.!?…,:;。！？、，；：]\s*$|[.!?…]\s|[。！？]")
_MOST_WORDS: Final = 8

_HAN: Final = "々\u3400-\u9fff"
_HANS: Final = re.compile(f"[{_HAN}]+")
_KANA: Final = re.compile("[ぁ-ゖァ-ヺ]")
_HONORIFIC: Final = re.compile("さん|さま|様|ちゃん(?!と)|先生|老师|老師|女士|小姐")
_CHINESE_TITLES: Final = frozenset(("先生", "老师", "老師", "女士", "小姐"))
_BEFORE: Final = 20  # characters looked at before an honorific
_JAPANESE: Final = re.compile(rf"(?<![ァ-ヺー・])[ァ-ヺ][ァ-ヺー・]{{1,17}}$|(?<![{_HAN}])[{_HAN}]{{1,4}}$")
_BABY: Final = re.compile(
    "(?<![ぁ-ゖ])(?![おご])[ぁ-ゖ]{2,4}$"
)  # in hiragana, only before `ちゃん`: no word ends there else
_DAY: Final = re.compile("^(?:昨日|今日|明日|今朝|今夜|先日|先週|来週|毎日)")
_NOBODY: Final = words(
    "奥 皆 母 父 姉 兄 娘 嫁 客 婆 爺 孫 赤 屋 本屋 花屋 医者 店員 大工 仕 同 多 模 異 神 何 誰 あか"
)
#: The hundred commonest family names, simplified and traditional, and those of two characters.
_FAMILY: Final = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石"
    "廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤張劉陳楊黃趙吳孫馬羅鄭謝許韓馮鄧蕭葉蘇呂盧鍾譚陸"
)
_FAMILY_OF_TWO: Final = frozenset(
    ("欧阳", "歐陽", "司马", "司馬", "上官", "诸葛", "諸葛", "夏侯", "东方", "皇甫", "尉迟")
)
_WEEKDAY: Final = re.compile("^周[一二三四五六日天末]")
_POSTS: Final = ("主任", "高中")  # they end like names
#: Up to a particle and the end of the word.
_KOREAN: Final = re.compile(
    r"(?<![가-힣])([가-힣]{2,4}?) ?[씨님](?=(?:가|는|은|를|을|의|와|과|도|에게|에|한테|께서?|이?랑|하고|로|이|만)?(?![가-힣]))"
)
_KOREAN_TITLES: Final = words(
    "아저 아가 마음 선생 부모 고객 사장 교수 부장 과장 팀장 대표 회장 회원 원장 목사 하느 하나 주인 어머 아버 할머 할아버 장모 "
    "도련 기사 의사 작가 감독 코치 실장 대리 차장 이사 박사 오늘 우리"
)


def marked(text: str) -> list[Spot]:
    """All of them; a text pays for the marks that are in it."""
    found = [*handles(text)] if "@" in text else []
    if not text.isascii() or '"' in text:
        found += titles(text)
    if not text.isascii():
        found += addressed(text)
    return found


def handles(text: str) -> Iterator[Spot]:
    """The @handles, with their sign; no part of an address, a path or a call to everybody."""
    for found in _HANDLE.finditer(text):
        if found[1].casefold() not in _EVERYONE and not found[1].isdecimal():
            yield *found.span(), found[0]


def titles(text: str) -> Iterator[Spot]:
    """What stands in quotes and reads like a title: begins with a capital where the script has any, and is no sentence."""
    for found in _QUOTED.finditer(text):
        title = found[found.lastindex or 0].strip()
        if found[0][0] in '“„«»"‘' and text[max(found.start() - 2, 0) : found.start()].rstrip().endswith(","):
            continue  # somebody said it
        if _is_title(title):
            yield *found.span(), title


def _is_title(title: str) -> bool:
    parts = title.split()
    if not parts or "\0" in title or len(parts) > _MOST_WORDS or _SENTENCE.search(title) or title[0].islower():
        return False
    spoken = parts[0].casefold().partition("'")[0].partition("’")[0] in OPENERS
    return not (spoken and len(parts) > 1 and not any(part[0].isupper() for part in parts[1:]))


def addressed(text: str) -> Iterator[Spot]:
    """Who is named with an honorific right behind the name, in Chinese, Japanese or Korean; the name alone."""
    japanese = _KANA.search(text) is not None
    for found in _HONORIFIC.finditer(text):
        before = text[max(found.start() - _BEFORE, 0) : found.start()]
        chinese = found[0] in _CHINESE_TITLES and not japanese
        name = _chinese(before) if chinese else _japanese(before, found[0])
        if name:
            yield found.start() - len(name), found.end(), name
    for found in _KOREAN.finditer(text):
        if found[1] not in _KOREAN_TITLES:
            yield *found.span(), found[1]


def _japanese(before: str, honorific: str) -> str:
    """The run of one script that ends here, if it can be a name."""
    found = _JAPANESE.search(before) or (_BABY.search(before) if honorific == "ちゃん" else None)
    name = "" if found is None else _DAY.sub("", found[0])
    return "" if name in _NOBODY or name.endswith("者") else name


def _chinese(before: str) -> str:
    """The longest end of three characters, or four, that begins with a family name."""
    if before.endswith(_POSTS):
        return ""
    for length in (4, 3, 2):
        if before[-length:][:2] in _FAMILY_OF_TWO:
            return before[-length:]
    for length in (3, 2, 1):
        name = before[-length:]
        if len(name) == length and name[0] in _FAMILY and _HANS.fullmatch(name) and not _WEEKDAY.match(name):
            return name
    return ""
