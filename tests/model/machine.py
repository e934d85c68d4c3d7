"""A machine that leads random lives of a few tasks, on a database and in the model at once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import count

from django.db import connections, transaction
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.errors import Abort, IllegalMove, Retry, Snooze
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.rules.backoff import Exponential
from django_tasks_retry.taskqueue import ClaimMemory, Completed, EnqueueOptions, Failed, Released
from tests import tasks as functions
from tests.model.compare import SEEN, differences, expected
from tests.model.invariants import violations
from tests.model.model import PLACES, Model, Row

MINUTE = 60.0
BACKOFFS = {
    (1,): [MINUTE],
    (0, 2): [0, 2 * MINUTE],
    (1, 2): Exponential(base=MINUTE, factor=2, cap=2 * MINUTE, jitter=0),
}

minutes = st.integers(0, 3)
workers = st.sampled_from(["alone", "sup/1"])
calls = st.fixed_dictionaries(
    {
        "eta": st.sampled_from([0, 0, 0, 2]),
        "queue": st.sampled_from(["default", "emails"]),
        "priority": st.sampled_from([0, 0, 5]),
        "max_attempts": st.integers(1, 3),
        "delays": st.sampled_from(sorted(BACKOFFS)),
        "interval": st.sampled_from([0, 0, 0, 2]),
        "unique_key": st.sampled_from([None, None, "key"]),
        "lane": st.sampled_from(["", "", "", "tenant-1"]),
    }
)
outcomes = st.sampled_from(["complete", "fail", "fail", "release", "retry", "snooze", "abort"])


class QueueMachine(RuleBasedStateMachine):
    """Each example lives in one transaction that is rolled back."""

    tasks = Bundle("tasks")
    leases = Bundle("leases")
    using = "default"

    def __init__(self):
        super().__init__()
        self.atomic = transaction.atomic(using=self.using)
        self.atomic.__enter__()
        clock.shift(timedelta(0), self.using)
        if connections[self.using].vendor == "postgresql":
            with connections[self.using].cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        self.start = clock.now(self.using)
        self.model = Model()
        # A second of the claimer's for two minutes of the queue's, so that it remembers lanes through some of them.
        self.memory = ClaimMemory(clock=lambda: self.model.now / 2)
        # A claim finds all open that the one before found full.
        self.claims = count(0.0, 10.0)

    @initialize(target=tasks, some=st.lists(calls, min_size=2, max_size=3))
    def some_tasks(self, some):
        return multiple(*[self.enqueued(call) for call in some])

    @initialize(target=leases, call=calls, worker=workers)
    def some_lease(self, call, worker):
        """Every rule is possible from the first step on."""
        self.enqueued({**call, "eta": 0, "max_attempts": 3})
        return multiple(*self.claim_some(worker, 3, 1, remembering=True))

    def teardown(self):
        transaction.set_rollback(True, using=self.using)
        self.atomic.__exit__(None, None, None)
        clock.shift(timedelta(0), self.using)

    def minute(self, moment):
        """A time of the database as the model counts it; what really passes is far less than half a minute."""
        return None if moment is None else round((moment - self.start).total_seconds() / MINUTE)

    def adopt(self, row):
        """The model learns the id that the database gave to a task of its own making."""
        unknown = Task.objects.using(self.using).filter(run_id=row.run).exclude(pk__in=self.model.rows)
        row.id = next(task.pk for task in unknown if (task.queue, self.minute(task.eta)) == (row.queue, row.eta))
        assert self.model.enqueue(row)
        return row.id

    def enqueued(self, call):
        timing = {"eta": timedelta(minutes=call["eta"]), "interval": call["interval"] * MINUTE}
        wishes = {name: call[name] for name in ("queue", "priority", "max_attempts", "unique_key", "lane")}
        task = taskqueue.enqueue(EnqueueOptions(functions.noop, backoff=BACKOFFS[call["delays"]], **timing, **wishes))
        known = task.pk in self.model.rows
        row = Row(task.pk, task.pk, **wishes, delays=call["delays"], interval=call["interval"])
        row.eta = self.model.now + call["eta"]
        assert task.already_enqueued == known == (not self.model.enqueue(row))
        return task.pk

    @rule(target=tasks, call=calls)
    def enqueue(self, call):
        crowded = sum(row.unfinished for row in self.model.rows.values()) > 4
        return multiple() if crowded else self.enqueued(call)

    @rule(target=leases, worker=workers, limit=st.integers(1, 3), lasts=st.integers(1, 2), remembering=st.booleans())
    def claim(self, worker, limit, lasts, remembering):
        return multiple(*self.claim_some(worker, limit, lasts, remembering=remembering))

    def claim_some(self, worker, limit, lasts, *, remembering):
        """From remembered lanes it may serve an older order, or part, for a moment; then it says so. Never nothing."""
        due, most = self.model.claimable(), self.model.most_claimable()
        self.memory.closed.clock = partial(float, next(self.claims))
        leases = taskqueue.claim(worker, limit=limit, lease=lasts * MINUTE, memory=self.memory if remembering else None)
        taken = [self.model.rows[lease.id] for lease in leases]
        left = [row for row in due if row not in taken]
        assert all(row in due for row in taken)
        assert len({lease.id for lease in leases}) == len(leases) <= limit
        assert len(leases) == min(limit, most) or (remembering and leases and self.memory.cursor.came_short)
        for row in taken:
            self.model.claim(row, worker, lasts)
        left = [row for row in left if row in self.model.claimable()]
        assert max((self.model.running_in(row.lane) for row in taken if row.lane), default=0) <= PLACES
        if not remembering:
            assert all(row.priority <= one.priority for one in taken for row in left)
            assert not any(one.eta > row.eta for one in taken for row in left if same_lane(one, row))
        return leases

    @rule(some=st.lists(leases, min_size=1, max_size=4), lasts=minutes)
    def renew(self, some, lasts):
        some = list({lease.fence: lease for lease in some}.values())
        lost = taskqueue.renew(some, lasts * MINUTE)
        for lease in some:
            if row := self.model.held(lease.fence):
                self.model.renew(row, lasts)
        assert lost == {
            lease.fence: self.model.why_lost(lease.fence) for lease in some if not self.model.held(lease.fence)
        }

    @rule(lasts=minutes)
    def renew_by_supervisor(self, lasts):
        held = [row for row in self.model.rows.values() if row.locked_by == "sup/1" and row.expires > self.model.now]
        assert taskqueue.renew_workers(["sup/1"], lasts * MINUTE, actor="sup") == {row.id for row in held}
        for row in held:
            self.model.renew(row, lasts)

    @rule(target=leases, lease=leases)
    def let_go_and_claim_again(self, lease):
        """Often the same worker gets the same task: then its old and new leases differ in the attempt alone."""
        self.reported([(lease, "release")], 0)
        return multiple(*self.claim_some(lease.locked_by, 3, 2, remembering=False))

    @rule(target=leases, worker=workers, outcome=outcomes, delay=minutes, by_supervisor=st.booleans())
    def work(self, worker, outcome, delay, by_supervisor):
        """The usual life: a claim and its report."""
        leases = self.claim_some(worker, 1, 2, remembering=True)
        self.reported([(lease, outcome) for lease in leases], delay, by_supervisor=by_supervisor)
        return multiple(*leases)

    @rule(
        target=tasks,
        reports=st.lists(st.tuples(leases, outcomes), min_size=1, max_size=3),
        delay=minutes,
        by_supervisor=st.booleans(),
    )
    def report(self, reports, delay, by_supervisor):
        reports = list({lease.fence: (lease, name) for lease, name in reports}.values())
        return multiple(*self.reported(reports, delay, by_supervisor=by_supervisor))

    def reported(self, reports, delay, *, by_supervisor=False):
        actors = [sup_of(lease) if by_supervisor else None for lease, _ in reports]
        told = [outcome_of(*report, delay, actor) for report, actor in zip(reports, actors, strict=True)]
        receipts = taskqueue.finish(told)
        accepted, next_ids = [], []
        for (lease, name), actor in zip(reports, actors, strict=True):
            row = self.model.held(lease.fence)
            again = self.apply(row, name, delay, actor or lease.locked_by) if row else None
            accepted.append(row is not None)
            next_ids += [self.adopt(again)] if again else []
        for (lease, _), receipt, held in zip(reports, receipts, accepted, strict=True):
            row = self.model.rows[lease.id]
            expected = (row.status, None) if held else (None, self.model.why_lost(lease.fence))
            assert (receipt.lease, receipt.status, receipt.lost) == (lease, *expected)
        return next_ids

    def apply(self, row, name, delay, actor):
        match name:
            case "complete":
                return self.model.complete(row, actor)
            case "fail" | "abort":
                return self.model.fail(row, actor, for_good=name == "abort")
            case "retry":
                return self.model.fail(row, actor, after=delay)
            case _:
                return self.model.release(row, actor, delay)

    @rule(dead=st.sampled_from([None, "sup/1"]))
    def recover(self, dead):
        actor = "sup" if dead else "queue"
        back = taskqueue.recover(actor=actor, dead=dead)
        assert {one.lease.id for one in back} == self.model.recover(actor, dead)

    @rule(ids=st.lists(tasks, min_size=1, max_size=2))
    def cancel(self, ids):
        ids = list(dict.fromkeys(ids))
        changed = taskqueue.cancel(ids, by="operator", reason="why not")
        cancelled = [row for row in map(self.model.rows.get, ids) if row.unfinished]
        for row in cancelled:
            row.move("CANCELLED", "operator", "cancelled")
        assert set(changed.done) == {row.id for row in cancelled}
        assert changed.skipped == len(ids) - len(cancelled)

    @rule(target=tasks, task=tasks)
    def retry(self, task):
        row = self.model.rows[task]
        again = taskqueue.retry([task], by="operator")
        if row.unfinished or self.model.key_is_taken(row):
            assert again == []
            return multiple()
        [one] = again
        assert self.adopt(self.model.retry(row, "operator")) == one.pk
        return one.pk

    @rule(task=tasks, change=st.sampled_from([{}, {"eta": 2}, {"queue": "emails"}, {"priority": 5}]))
    def reschedule(self, task, change):
        row = self.model.rows[task]
        wishes = {**change, "eta": timedelta(minutes=change["eta"])} if "eta" in change else change
        moving = {"queue": row.queue, **change}["queue"]
        before, row.queue = row.queue, moving if row.status == "PENDING" else row.queue
        try:
            changed = taskqueue.reschedule([task], by="operator", **wishes)
        except IllegalMove:
            assert self.model.key_is_taken(row)
            row.queue = before
            return
        assert not (row.unfinished and self.model.key_is_taken(row))
        assert changed.done == ([task] if row.status == "PENDING" else [])
        if changed.done:
            row.priority = change.get("priority", row.priority)
            eta = None if {"queue", "priority"} & set(change) else self.model.now + change.get("eta", 0)
            row.move("PENDING", "operator", "rescheduled", eta=eta)

    @rule(passed=st.integers(1, 3))
    def time_passes(self, passed):
        self.model.now += passed
        clock.shift(timedelta(minutes=self.model.now), self.using)

    @invariant()
    def the_database_is_as_the_model_says(self):
        stored = {row["pk"]: row for row in Task.objects.using(self.using).values(*SEEN)}
        events = {pk: [] for pk in stored}
        for event in TaskEvent.objects.using(self.using).order_by("id"):
            events[event.task_id].append((event.kind, event.attempt, event.actor))
        for row in stored.values():
            for column in ("eta", "slot", "lock_expires_at"):
                row[column] = self.minute(row[column])
        assert differences(stored, {row.id: expected(row) for row in self.model.rows.values()}) == []
        assert events == {row.id: row.events for row in self.model.rows.values()}

    @invariant()
    def the_contract_holds(self):
        assert violations(self.using) == []


def same_lane(one, other):
    return (one.queue, one.priority, one.lane) == (other.queue, other.priority, other.lane)


def sup_of(lease):
    """Return workers that may report for the holder of this lease."""
    return "sup" if lease.locked_by.startswith("sup/") else None


def outcome_of(lease, name, delay, actor):
    match name:
        case "complete":
            return Completed(lease, {"done": True}, actor)
        case "release":
            return Released(lease, "shutdown", delay * MINUTE, actor)
    errors = {"retry": Retry(after=delay * MINUTE), "snooze": Snooze(delay * MINUTE), "abort": Abort("no use")}
    return Failed(lease, errors.get(name, ValueError("boom")), actor)
