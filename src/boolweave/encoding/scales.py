"""The order of answers: brackets of numbers, frequencies, degrees, and a few usual ladders."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

# How many times a year something happens.
_PERIODS = {"day": 365.0, "night": 365.0, "week": 52.0, "month": 12.0, "year": 1.0}
_ADVERBS = {"daily": 365.0, "weekly": 52.0, "monthly": 12.0, "yearly": 1.0, "annually": 1.0}
# The length of a unit in hours, so that "6 months" precedes "1 year".
_UNITS = {"minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0, "month": 730.0, "year": 8760.0}

_NUMBER = re.compile(r"[$€£]?\s?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(\s?k\b)?")
_BELOW = re.compile(r"^\s*<|\b(less|fewer|under|below|younger|lower|up to)\b")
_ABOVE = re.compile(r"^\s*>|\+|\b(more|over|above|older|higher|and up|after|at least)\b")
_FEET = re.compile(r"(\d)\s?(?:'|\u2032|ft\b\.?|feet)\s?(\d{1,2})?")
_RANGE = re.compile(r"\d\s*k?\s*(-|–|—|to|and)\s*[$€£]?\s*\d")

# Degrees from none to most; the first that fits counts.
_DEGREES = tuple(
    (re.compile(rf"\b({words})\b"), degree)
    for words, degree in (
        (r"not (\w+ )?at all|never|none of the time|none at all", 0.0),
        ("überhaupt nicht|gar nicht|nie|niemals", 0.0),
        ("extremely|entirely|completely|totally|a great deal|überhaupt|voll|völlig", 5.0),
        ("selten|kaum|wenig", 1.0),
        ("oft|häufig|meistens|ziemlich", 3.0),
        ("sehr|immer|täglich|every day|daily", 4.0),
        ("eher|manchmal|gelegentlich|etwas|mittelmäßig", 2.0),
        ("not very|not much|not so|not too|hardly|rarely|seldom|almost never|very little", 1.0),
        ("slightly|a little|a bit|once in a while", 1.5),
        ("about half the time|half of the time|moderately|fairly", 2.5),
        ("often|usually|frequently|mostly|most of the time|quite", 3.0),
        ("very|a lot|strongly|always|all of the time|very much", 4.0),
        ("somewhat|some|sometimes|occasionally", 2.0),
    )
)
_OPPOSITES = tuple(
    (re.compile(rf"\b{negative}"), re.compile(rf"\b{positive}"))
    for positive, negative in (
        ("agree", "disagree"), ("likely", "unlikely"), ("favou?r", "unfavou?r"),
        ("satisf", "dissatisf"), ("support", "oppose"), ("like", "dislike"),
        ("approve", "disapprove"), ("comfortabl", "uncomfortabl"), ("important", "unimportant"),
        ("better", "worse"), ("positive", "negative"), ("good", "bad"), ("happy", "unhappy"),
        ("more", "less"), ("easy", "difficult"), ("easy", "hard"),
        ("zufrieden", "unzufrieden"), ("wahrscheinlich", "unwahrscheinlich"),
        ("wichtig", "unwichtig"), ("besser", "schlechter"), ("gut", "schlecht"),
        (r"zu$", r"nicht zu$"), (r"dafür", "dagegen"),
    )
)  # fmt: skip
_NEUTRAL = re.compile(
    r"\b(neither|neutral|about the same|no change|undecided|teils|weder|mittel|unentschieden)\b"
)

# Each rung as a pattern, from the lowest; a level belongs to the first that fits, in this order.
_LADDERS = tuple(
    tuple(re.compile(rung) for rung in ladder)
    for ladder in (
        (r"^(less than|no|some) high school|^did not", r"^high school|^ged",
         r"^some college|^associate|^vocational", r"^(bachelor|college|undergraduate|4.year)",
         r"^(graduate|master|post.?grad|doctor|ph\.?d|advanced degree|professional degree)"),
        (r"^(very (poor|bad)|terrible|awful)$", r"^(poor|bad)$", r"^(fair|average|ok(ay)?)$",
         r"^good$", r"^(very good|great)$", r"^(excellent|outstanding)$"),
        (r"^very (low|small)$", r"^(low|small)$", r"^(medium|moderate|average|middle)$",
         r"^(high|large)$", r"^very (high|large)$"),
        (r"^no$", r"^(maybe|perhaps|possibly)$", r"^yes$"),
        (r"^(blue|very rare)$", r"^rare$", r"^medium.rare$", r"^medium$", r"^medium.well$",
         r"^well( done)?$"),
        (r"^(novice|beginner)", r"^intermediate", r"^advanced", r"^expert"),
    )
)  # fmt: skip


def in_order(levels: list[str], name: str = "") -> list[str] | None:
    """The levels of an ordered answer from the lowest to the highest; None if there is no order.

    Examples
    --------
    >>> in_order(["$50,000 - $99,999", "$100,000+", "$0 - $49,999"])
    ['$0 - $49,999', '$50,000 - $99,999', '$100,000+']
    >>> in_order(["Yes, very rude", "No, not at all rude", "Yes, somewhat rude"])
    ['No, not at all rude', 'Yes, somewhat rude', 'Yes, very rude']
    >>> in_order(["red", "green", "blue"])
    """
    if len(levels) < 2:
        return None
    plain = {level: _plain(level) for level in levels}
    rates, degrees = partial(_scored, _rate), partial(_scored, _degree)
    for scale in (_heights, _brackets, rates, _polar, degrees, _rungs):
        scores = scale(list(plain.values()))
        if scores is not None and len(set(scores)) == len(levels):
            return [level for _, level in sorted(zip(scores, levels, strict=True))]
    if re.search(r"\bgrades?\b", name.lower()) and all(
        re.fullmatch("[A-F][+-]?", level) for level in levels
    ):
        ends = {"+": 0.3, "-": -0.3}
        return sorted(levels, key=lambda level: -ord(level[0]) + ends.get(level[1:], 0.0))
    return None


def lower_end(level: str) -> str:
    """The lower end of a bracket, as it is written: "$50,000" for "$50,000 - $99,999"."""
    found = _NUMBER.match(level)
    if found is None or not (_RANGE.search(level) or _ABOVE.search(level.lower())):
        return level
    unit = re.search(r"\d\s+([a-z]+)\s*$", level)
    return found[0].strip() + (f" {unit[1]}" if unit else "")


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split()).rstrip(".")


def _heights(levels: list[str]) -> list[float] | None:
    """Feet and inches, such as 5'11"."""
    found = [_FEET.search(level) for level in levels]
    if len(levels) < 3 or None in found:
        return None
    inches = [12.0 * float(each[1]) + float(each[2] or 0) for each in found if each is not None]
    beyond = [bool(_ABOVE.search(level)) - bool(_BELOW.search(level)) for level in levels]
    return [height + 0.1 * side for height, side in zip(inches, beyond, strict=True)]


def _brackets(levels: list[str]) -> list[float] | None:
    scores, n_brackets = [], 0
    for level in levels:
        numbers = _NUMBER.findall(level)
        if not numbers and re.fullmatch("none|never|zero", level):
            scores.append(-1.0)
            continue
        if not 1 <= len(numbers) <= 2:
            return None
        whole, fraction, thousand = numbers[0]
        low = float(whole.replace(",", "") + fraction) * (1000 if thousand else 1)
        unit = next((size for word, size in _UNITS.items() if f"{word}" in level), 1.0)
        is_range, below = bool(_RANGE.search(level)), bool(_BELOW.search(level))
        above = bool(_ABOVE.search(level))
        n_brackets += is_range or below or above
        nudge = 0.0 if is_range or below == above else -0.001 if below else 0.001
        scores.append(low * unit + nudge * unit)
    return scores if 2 <= len(levels) <= 2 * n_brackets and n_brackets > 1 else None


def _scored(score: Callable[[str], float | None], levels: list[str]) -> list[float] | None:
    """The scores of at least three levels, unless one has none."""
    scores = [score(level) for level in levels]
    return None if len(levels) < 3 or None in scores else [each or 0.0 for each in scores]


def _rate(level: str) -> float | None:
    """How often something happens in a year."""
    if level == "never":
        return 0.0
    nudge = 1.0
    for words, factor in (
        ("less", 0.9), ("fewer", 0.9), ("more", 1.1), ("at least", 1.1), ("almost every", 0.8),
    ):  # fmt: skip
        if words in level:
            nudge = factor
    for word, rate in _ADVERBS.items():
        if re.search(rf"\b{word}\b", level):
            return rate * nudge
    period = next((rate for word, rate in _PERIODS.items() if re.search(rf"\b{word}\b", level)), 0)
    if not period or not re.search(r"\b(a|an|per|each|every|once)\b", level):
        return None
    times = re.search(r"(\d+)(?:\s*(?:-|–|to|or)\s*\d+)? times|\b(once|twice|few|several)\b", level)
    count = 1.0
    if times:
        words_as_number = {"once": 1.0, "twice": 2.0, "few": 2.5, "several": 3.0}
        count = float(times[1]) if times[1] else words_as_number[times[2]]
    return period * count * nudge


def _degree(level: str) -> float | None:
    return next((degree for words, degree in _DEGREES if words.search(level)), None)


def _polar(levels: list[str]) -> list[float] | None:
    """Answers on both sides of a middle, such as strongly disagree to strongly agree."""
    for negative, positive in _OPPOSITES:
        scores = []
        for level in levels:
            if _NEUTRAL.search(level):
                scores.append(0.0)
            elif found := (negative.search(level) or positive.search(level)):
                sign = -1.0 if negative.search(level) else 1.0
                degree = _degree(level.replace(found[0], ""))
                scores.append(sign * (2.7 if degree is None else degree))
        if len(scores) == len(levels) > 2 and min(scores) < 0 < max(scores):
            return scores
    return None


def _rungs(levels: list[str]) -> list[float] | None:
    def rung(ladder: tuple[re.Pattern[str], ...]) -> Callable[[str], float | None]:
        return lambda level: next((float(i) for i, r in enumerate(ladder) if r.search(level)), None)

    ladders = (_scored(rung(ladder), levels) for ladder in _LADDERS)
    return next((scores for scores in ladders if scores is not None), None)
