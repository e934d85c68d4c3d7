"""Numbers, times and texts as people read them, safe to show wherever they come from."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ..rules.names import CHAIN, short_name
from ..taskqueue.statistics import CAP

# Controls, and the marks that reorder or hide text: shown as escapes, so that nobody is led to read something else.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
NO_VALUE = "—"
MEANS_SOMETHING = re.compile(r"[^\w@%+=:,./-]", re.ASCII)  # to a shell


def printable(text: object, limit: int = 20_000) -> str:
    """Cut a text to `limit` characters, head and tail, with invisible characters shown as escapes."""
    full = str(text)
    if len(full) > limit:
        head, tail = limit * 2 // 3, limit // 3
        mark = _("… %(count)s characters omitted …") % {"count": format_number(len(full) - head - tail)}
        full = f"{full[:head]}\n{mark}\n{full[-tail:]}"
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", full)


def one_line(text: object, limit: int = 160) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(str(text)[: limit * 4].split())
    return printable(flat if len(flat) <= limit else f"{flat[: limit - 1]}…")


def shell_word(text: str) -> str:
    """The text as one word of a shell: whatever could mean something to it stands behind a backslash."""
    return MEANS_SOMETHING.sub(r"\\\g<0>", text)


def task_name(path: str, limit: int = 80, calls: Sequence[str] = ()) -> str:
    """Name a task by its function. A chain is named in words, and by what it runs if that is known."""
    if path != CHAIN:
        return one_line(short_name(path), limit)
    names = " → ".join(map(short_name, calls))
    return one_line(_("chain: %(tasks)s") % {"tasks": names} if names else _("chain"), limit)


def error_name(error: Mapping[str, Any]) -> str:
    """The exception's name without its module, or the code if there was no exception."""
    return short_name(error.get("exception") or "") or str(error.get("code") or "")


def format_number(value: int) -> str:
    return number_format(value, use_l10n=True, force_grouping=True)


def format_decimal(value: float) -> str:
    """One place, rounded half up from what a clock can tell; `number_format` alone would cut the rest off."""
    rounded = Decimal(f"{value:.6f}").quantize(Decimal("0.1"), ROUND_HALF_UP)
    return number_format(rounded, decimal_pos=1, use_l10n=True, force_grouping=True)


def format_capped(count: int, cap: int = CAP) -> str:
    """Format a count: exact up to the cap; above it an estimate, of which two digits are known."""
    return f"≈ {format_number(round(count, 2 - len(str(count))))}" if count > cap else format_number(count)


def format_approximate(count: int) -> str:
    """A large number, rounded, with its unit."""
    if count < 10_000:
        return format_number(count)
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size * 0.99995:  # what would be rounded to a thousand of the smaller unit is one of the larger
            return f"≈ {format_decimal(count / size)} {unit}"
    return format_number(count)


def format_percentage(part: float, whole: float) -> str:
    return f"{format_decimal(100 * part / whole)} %" if whole else NO_VALUE


def format_duration(seconds: float) -> str:
    """Two units at most: 850 ms, 1.2 s, 3 min 2 s, 2 h 14 min, 3 d 4 h."""
    if not math.isfinite(seconds):
        return "∞"
    if seconds < 10:
        ms = {"ms": round(max(0.0, seconds) * 1000)}
        return _("%(ms)s ms") % ms if seconds < 1 else _("%(s)s s") % {"s": format_decimal(seconds)}
    whole = round(seconds)
    days, hours, minutes = whole // 86400, whole % 86400 // 3600, whole % 3600 // 60
    if whole < 60:
        return _("%(s)s s") % {"s": whole}
    if whole < 3600:
        return join_units(_("%(min)s min") % {"min": minutes}, _("%(s)s s") % {"s": whole % 60}, whole % 60)
    if whole < 86400:
        return join_units(_("%(h)s h") % {"h": hours}, _("%(min)s min") % {"min": minutes}, minutes)
    return join_units(_("%(d)s d") % {"d": format_number(days)}, _("%(h)s h") % {"h": hours}, hours)


def join_units(large: str, small: str, amount: int) -> str:
    return f"{large} {small}" if amount else large


def format_elapsed(start: datetime, end: datetime) -> str:
    return format_duration((end - start).total_seconds())


def format_moment(moment: datetime | None) -> str:
    if moment is None:
        return NO_VALUE
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return f"{local:%Y-%m-%d %H:%M:%S}"


def format_ago(moment: datetime, now: datetime) -> str:
    """Format a past time: never as in the future, though the clock was read before the row was."""
    return format_relative(min(moment, now), now)


def format_relative(moment: datetime, now: datetime) -> str:
    if moment > now:
        return pgettext("a time to come", "in %(time)s") % {"time": format_elapsed(now, moment)}
    return pgettext("a time gone by", "%(time)s ago") % {"time": format_elapsed(moment, now)}


def when(moment: datetime | None, now: datetime) -> dict[str, str]:
    """Return the values of a sentence that names an instant: `time`, and how long `ago` or until then."""
    return {"time": format_moment(moment), "ago": format_relative(moment or now, now)}


def counted(count: int, noun: str = "task", plural: str = "") -> str:
    return f"{format_number(count)} {noun if count == 1 else plural or noun + 's'}"
