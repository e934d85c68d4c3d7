"""Bugs that no test noticed at first."""

from __future__ import annotations

from tests.mutants.mutant import SQLITE, UNNAMED, Edit, Mutant

PERMISSIONS, SCHEDULES = "tests/admin/test_permissions.py::", "tests/admin/test_schedules.py::"
TELEMETRY, PROCESS = "tests/worker/test_telemetry.py::", "worker/child/process.py"
REDACTION, BASE = "tests/admin/test_redaction.py::", "admin/base.py"
CLOSED = PERMISSIONS + "test_no_address_opens_without_the_permission_to_view_its_page"
KNOWN = "tests/taskqueue/test_recover.py::test_only_leases_that_their_supervisor_knows_are_renewed"

SURVIVORS = (
    Mutant(
        "a breaker counts failures from before its resume",
        (Edit("taskqueue/control/decisions.py", ', "counts_from": moment}', "}"),),
        ("tests/lanes/test_breaker.py::test_a_person_who_resumes_it_is_believed",),
    ),
    Mutant(
        "a supervisor renews leases that its children do not know",
        (
            Edit("taskqueue/sql/renew_workers.sql", "t.id = ANY(%(known)s::uuid[])", "TRUE"),
            Edit("taskqueue/engines/sqlite.py", "leased = leased.filter(pk__in=known)", "pass"),
        ),
        (KNOWN,),
    ),
    Mutant(
        "the log of Django holds reasons as they were typed",
        (Edit(BASE, "{redact_text(reason)}", "{reason}"),),
        ("tests/contrib/test_doors.py::test_the_log_of_django",),
    ),
    Mutant(
        "an address opens without the permission to view its page",
        (Edit(BASE, "console.has_view_permission(request) and (not permission", "(not permission"),),
        (CLOSED,),
        on=SQLITE,
    ),
    Mutant(
        "a schedule shows its runs to everybody",
        (Edit("admin/schedules.py", 'scope.now) if self.has_perm(request, "view_task") else []', "scope.now)"),),
        (SCHEDULES + "test_runs_and_series_are_shown_to_users_who_may_view_tasks",),
    ),
    Mutant(
        "a header that names a secret does not hide it",
        (Edit("rules/redact.py", '"key", "header", "field"', '"key", "field"'),),
        (REDACTION + "test_a_secret_is_hidden_by_the_name_that_stands_beside_it",),
        on=UNNAMED,
    ),
    Mutant(
        "jwt is no name of a secret",
        (Edit("rules/secrets.py", "|jwt|bearer", "|bearer"),),
        (REDACTION + "test_each_word_that_names_a_secret_hides_it_in_texts_and_by_its_key",),
        on=UNNAMED,
    ),
    Mutant(
        "telemetry has two seconds to be sent",
        (Edit(PROCESS, "TELEMETRY_SECONDS = 10.0", "TELEMETRY_SECONDS = 2.0"),),
        (TELEMETRY + "test_a_child_that_ends_sends_all_to_a_slow_collector",),
        on=SQLITE,
    ),
    Mutant(
        "a task that ends its process takes the telemetry of its neighbours along",
        (Edit(PROCESS, "        send_before_exit()\n", ""),),
        (TELEMETRY + "test_a_neighbour_that_ends_the_process_takes_nothing_along",),
        on=SQLITE,
    ),
)
