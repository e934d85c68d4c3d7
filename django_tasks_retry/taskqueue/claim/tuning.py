"""Tuning: every number by which claimers remember, share, poll and wait, with the reason for its value."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Clock: TypeAlias = Callable[[], float]  # Seconds that only grow. Tests pass a clock of their own.


def tuned(value: T, reason: str) -> T:
    return field(default=value, metadata={"reason": reason})


@dataclass(frozen=True, slots=True)
class ClaimTuning:
    """Durations are seconds. The page of the docs is made from this class."""

    # The cursor

    remember_seconds: float = tuned(
        1.0,
        "Known ranges are claimed from without a refresh for this long. A task with a higher priority or an earlier "
        "eta is found by the next refresh, so this is the longest that it is overtaken. A refresh takes 0.5 ms with a "
        "million tasks scheduled for later.",
    )
    remember_lanes_seconds: float = tuned(
        0.25, "The same while tasks wait in lanes: a refresh sees some of the lanes only, so it comes round more often."
    )
    ranges_a_page: int = tuned(
        128,
        "Ranges without a lane that one refresh reads; the next one goes on behind them. Reading a page takes 2 ms of "
        "10,000 queues with work; reading all of them took 78 ms.",
    )
    quiet_seconds: float = tuned(
        60.0,
        "A range in which nothing is due is kept for this long, so that the next arrival is claimed by one statement.",
    )
    quiet_ranges: int = tuned(16, "The number of them that are kept: each costs every claim one probe of the index.")
    slow_seconds: float = tuned(
        0.01,
        "A refresh, or a claim that reads ranges from their beginning, is slow if it takes longer, twice in a row. "
        "Then it walks dead index entries or tasks that are not for this claimer, and rests.",
    )
    share_of_time: float = tuned(
        0.05,
        "A claimer spends this share of its time on what is slow, so it rests for twenty times as long. Reading past "
        "300,000 tasks of other functions takes 0.15 s, so a task below the floor waits for 3 s at most.",
    )

    # The rotation over lanes

    fewest_hops: int = tuned(64, "Lanes that one refresh hops over for each queue and priority, at least.")
    most_hops: int = tuned(
        256,
        "As many as the claim wants, up to this number: the cost of a refresh does not grow with the number of lanes.",
    )
    fresh_seconds: float = tuned(
        5.0, "A refresh also sees the lanes of tasks that became due within this time, if the rotation is elsewhere."
    )

    # Contention

    claimers_at_head: int = tuned(
        8,
        "Claimers at the head of one range at once. Each one steps over what the others have locked: of 64 claimers "
        "each read 104 buffers for a row, of 8 claimers 37. Further ones are refused.",
    )
    claims_to_wait: int = tuned(
        6,
        "A refused claimer waits for this many times its last claim, then twice as long each time: it "
        "cannot know how many wait with it.",
    )
    longest_contention_wait: float = tuned(0.5, "It never waits longer.")
    contention_spread: float = tuned(0.4, "Each wait is up to this share longer, so that claimers come back apart.")
    usual_claim_seconds: float = tuned(0.005, "Assumed duration before the first claim.")
    contention_patience: float = tuned(
        3.0,
        "A claimer refused for this long claims without a place, so that a stuck lock cannot stop work. With one "
        "second, two tries on a busy machine used it up, and a row cost 58 buffers, not 44.",
    )
    insist_seconds: float = tuned(5.0, "How long it then keeps doing so.")

    # The limiter

    fewest_locked: int = tuned(16, "Limited ranges that one passage through the limiter locks, at least.")
    most_locked: int = tuned(
        128,
        "It locks twice as many as it may claim, since some will be full, up to this number: other claimers pass over "
        "what it locks. With a fixed 64, 100 limited lanes took two passages.",
    )
    limited_ahead: float = tuned(
        0.25,
        "How much of the usual a child claims ahead while tasks of limited lanes are due. With nothing ahead, a "
        "no-op in one of 100 lanes took 2.4 ms of CPU, most of it for claims of one task or two.",
    )
    full_seconds: float = tuned(
        0.25,
        "A lane that is full is not tried again for this long. The end of a task of the same process opens it at once.",
    )
    locked_seconds: float = tuned(0.02, "The same for a lane whose row another claimer has locked.")
    paused_seconds: float = tuned(1.0, "The same for a lane that is paused, or whose row cannot be read.")
    longest_rate_wait: float = tuned(
        5.0,
        "A lane with a rate is tried again when its window has room, and after this long anyway: limits may change.",
    )


TUNING = ClaimTuning()
