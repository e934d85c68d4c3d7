"""Values in words that people read, safe to show wherever they come from."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..taskqueue.summaries import CAP

# Controls, and the marks that reorder or hide text: shown as escapes, so that nobody is led to read something else.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
LINE = 160
TEXT = 20_000


def visible(text: object, limit: int = TEXT) -> str:
    """At most `limit` characters, the head and the tail, with what cannot be seen made visible."""
    whole = str(text)
    if len(whole) > limit:
        head, tail = limit * 2 // 3, limit // 3
        mark = _("… %(count)s characters cut …") % {"count": number(len(whole) - head - tail)}
        whole = f"{whole[:head]}\n{mark}\n{whole[-tail:]}"
    return UNSEEN.sub(lambda bad: f"\\u{ord(bad.group()):04x}", whole)


def line(text: object, limit: int = LINE) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(str(text)[: limit * 4].split())
    return visible(flat if len(flat) <= limit else f"{flat[: limit - 1]}…")


def number(value: int) -> str:
    return number_format(value, use_l10n=True, force_grouping=True)


def decimal(value: float) -> str:
    """One place, rounded; `number_format` alone would cut the rest off."""
    return number_format(Decimal(f"{value:.1f}"), decimal_pos=1, use_l10n=True, force_grouping=True)


def capped(count: int, cap: int = CAP) -> str:
    return f"{number(cap)}+" if count > cap else number(count)


def about(count: int) -> str:
    """A large number as people say it."""
    if count < 10_000:
        return number(count)
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"≈ {decimal(count / size)} {unit}"
    return number(count)


def share(part: float, whole: float) -> str:
    return f"{decimal(100 * part / whole)} %" if whole else "—"


def duration(seconds: float) -> str:
    """Two units at most: 850 ms, 1.2 s, 3 min 2 s, 2 h 14 min, 3 d 4 h."""
    if seconds < 0:
        seconds = 0.0
    if seconds < 1:
        return _("%(ms)s ms") % {"ms": round(seconds * 1000)}
    if seconds < 10:
        return _("%(s)s s") % {"s": decimal(seconds)}
    whole = round(seconds)
    days, hours, minutes = whole // 86400, whole % 86400 // 3600, whole % 3600 // 60
    if whole < 60:
        return _("%(s)s s") % {"s": whole}
    if whole < 3600:
        return two(_("%(min)s min") % {"min": minutes}, _("%(s)s s") % {"s": whole % 60}, whole % 60)
    if whole < 86400:
        return two(_("%(h)s h") % {"h": hours}, _("%(min)s min") % {"min": minutes}, minutes)
    return two(_("%(d)s d") % {"d": number(days)}, _("%(h)s h") % {"h": hours}, hours)


def two(large: str, small: str, amount: int) -> str:
    return f"{large} {small}" if amount else large


def between(start: datetime, end: datetime) -> str:
    return duration((end - start).total_seconds())


def ago(moment: datetime, now: datetime) -> str:
    if moment > now:
        return pgettext("a time to come", "in %(time)s") % {"time": between(now, moment)}
    return pgettext("a time gone by", "%(time)s ago") % {"time": between(moment, now)}


def short_path(func_path: str) -> str:
    """The function's own name; the module is told beside it where there is room."""
    return func_path.rpartition(".")[2] or func_path


def short_class(exception: str) -> str:
    return exception.rpartition(".")[2]
