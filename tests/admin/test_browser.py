"""In a real browser: everything works without scripts, nothing breaks the strictest policy."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from django_tasks_retry import progress, taskqueue
from django_tasks_retry.admin import bulk
from django_tasks_retry.models import Queue, Schedule, Task
from tests import tasks
from tests.admin import scene, shop
from tests.admin.conftest import make_user

BASE = "/admin/django_tasks_retry"
PAGES = {
    "overview": f"{BASE}/overview/",
    "tasks": f"{BASE}/task/",
    "tasks-filtered": f"{BASE}/task/?status=failed&queue=emails&q=since:1d",
    "enqueue": f"{BASE}/task/enqueue/",
    "failures": f"{BASE}/failuregroup/",
    "functions": f"{BASE}/taskfunction/",
    "function": f"{BASE}/taskfunction/?function=shop.tasks.send_receipt",
    "schedules": f"{BASE}/schedule/",
    "schedule": f"{BASE}/schedule/nightly/change/",
    "schedule-form": f"{BASE}/schedule/add/",
    "queues": f"{BASE}/queue/",
    "lanes": f"{BASE}/flowlimit/",
    "workers": f"{BASE}/worker/",
}
COUNT_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@pytest.fixture
def open_page(browser: Any, live_server: Any, committed: str) -> Iterator[Callable[..., Any]]:
    """Open pages of the console as an operator who is logged in."""
    make_user(password="pw")
    contexts = []

    def opened(**options: Any) -> Any:
        context = browser.new_context(base_url=live_server.url, **options)
        contexts.append(context)
        page = context.new_page()
        page.goto("/admin/login/?next=/admin/")
        page.fill("#id_username", "olga")
        page.fill("#id_password", "pw")
        page.click("input[type=submit]")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    """Without scripts."""
    return open_page(java_script_enabled=False)


def task_url(task: Task) -> str:
    return f"{BASE}/task/{task.pk}/change/"


def group_url(task: Task) -> str:
    task.refresh_from_db()
    return f"{BASE}/failuregroup/{task.fingerprint}/"


def all_urls(played: dict[str, Task]) -> list[str]:
    run = f"{BASE}/task/run/{played['failed'].run_id}/"
    return [*PAGES.values(), group_url(played["failed"]), run, *(task_url(task) for task in played.values())]


def test_a_task_is_retried_without_scripts(page, committed):
    task = scene.play(committed)["import"]
    page.goto(task_url(task))
    page.click("text=Retry…")
    page.fill(".dtr-action-retry input[name=reason]", "the file is mended")
    page.click(".dtr-action-retry button")
    assert "1 task retried." in page.inner_text(".messagelist")
    again = Task.objects.get(retry_of=task)
    assert str(again.pk) in page.url
    assert again.events.get().data["reason"] == "the file is mended"


def test_a_running_task_is_cancelled_without_scripts(page, committed):
    task = scene.play(committed)["running"]
    page.goto(task_url(task))
    page.click("text=Cancel…")
    page.click(".dtr-action-cancel button")
    task.refresh_from_db()
    assert task.status == "CANCELLED"


def ask_to_retry_all(page: Any) -> None:
    page.goto(f"{PAGES['tasks']}?status=failed")
    page.select_option("select[name=action]", "retry_selected")
    page.check("input[name=select_across]")
    page.click("button[name=index]")


def test_all_matching_tasks_are_retried_without_scripts(page, committed):
    scene.play(committed)
    failed = Task.objects.failed().count()
    ask_to_retry_all(page)
    assert f"{failed} tasks will be retried as new tasks" in page.inner_text("#content")
    page.fill("input[name=reason]", "after the outage")
    page.click("button.default")
    assert f"{failed} tasks retried." in page.inner_text(".messagelist")
    assert Task.objects.filter(retry_of__isnull=False).count() == failed
    assert "status=failed" in page.url


def test_a_group_of_failures_is_retried_without_scripts(page, committed):
    scene.play(committed)
    page.goto(PAGES["failures"])
    page.click("tr:has-text('ValueError') >> text=Retry all…")
    page.click("button.default")
    assert "9 tasks retried." in page.inner_text(".messagelist")


def test_a_queue_is_paused_and_resumed_without_scripts(page, committed):
    scene.play(committed)
    page.goto(PAGES["queues"])
    row = page.locator("tr", has=page.locator("a", has_text="bulk"))
    row.locator("summary").click()
    row.locator("input[name=reason]").fill("the disk is full")
    row.locator("button").click()
    assert Queue.objects.get(name="bulk").reason == "the disk is full"
    row = page.locator("tr", has=page.locator("a", has_text="bulk"))
    row.locator("summary").click()
    row.locator("button").click()
    assert Queue.objects.get(name="bulk").paused_at is None


def test_a_schedule_is_made_edited_paused_and_run_without_scripts(page, committed):
    scene.play(committed)
    page.goto(f"{PAGES['schedules']}add/")
    page.fill("[name=name]", "morning stock")
    page.select_option("[name=task]", "shop.tasks.sync_stock")
    page.fill("[name=cron]", "30 8 * * mon-fry")
    page.click("button[name=preview]")
    assert "missing a required argument: 'warehouse'" in page.inner_text(".errornote")
    page.fill("[name=args]", '["north"]')
    page.click("button[name=preview]")
    assert "bad day-of-week" in page.inner_text(".errornote")
    page.fill("[name=cron]", "30 8 * * mon-fri")
    page.fill("[name=timezone]", "America/New_York")
    page.click("button[name=preview]")
    assert page.inner_text(".dtr-preview").count("08:30:00") >= 5
    page.fill("[name=reason]", "asked for by sales")
    page.click("button[name=save]")
    made = Schedule.objects.get(name="morning stock")
    assert (made.args, made.timezone) == (["north"], "America/New_York")

    page.click("text=Edit")
    page.fill("[name=args]", '["south"]')
    page.click("button[name=preview]")
    page.click("button[name=save]")
    edited = Schedule.objects.get(name="morning stock")
    assert (edited.args, edited.next_at) == (["south"], made.next_at)

    page.click("text=Run now…")
    page.click(".dtr-action-run button")
    assert Task.objects.get(schedule="morning stock").args == ["south"]
    page.click("text=Pause…")
    page.fill(".dtr-action-pause input[name=reason]", "stocktaking")
    page.click(".dtr-action-pause button")
    assert Schedule.objects.get(name="morning stock").paused_at is not None
    assert "(stocktaking)" in page.inner_text(".dtr-explanation")


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_no_page_violates_the_strictest_policy(open_page, committed):
    played = scene.play(committed)
    page = open_page()
    page.add_init_script(COUNT_VIOLATIONS)
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    for url in all_urls(played):
        response = page.goto(url)
        assert response.headers["content-security-policy"].startswith("default-src 'self'")
        assert page.evaluate("window.violations") == [], url
    assert said == []


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_the_violation_counter_counts(open_page, committed):
    page = open_page()
    page.add_init_script(COUNT_VIOLATIONS)
    page.goto(PAGES["tasks"])
    page.evaluate("""new Promise((reported) => {
        document.addEventListener("securitypolicyviolation", () => reported(true), {once: true});
        document.body.insertAdjacentHTML("beforeend", '<p style="color: red">x</p>');
    })""")
    assert page.evaluate("window.violations") != []


CUT_OFF = """
[...document.querySelectorAll(".dtr-scroll, .results")]
    .filter((part) => part.scrollWidth > part.clientWidth)
    .map((part) => part.textContent.trim().slice(0, 60))
"""


WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_no_page_is_wider_than_the_screen(width, open_page, committed):
    """And beside the open sidebar of a desk no table is cut off; on a phone tables scroll by themselves."""
    played = scene.play(committed)
    played["import"].retry(by="tests", reason="INC")
    page = open_page(viewport={"width": width, "height": 900})
    lists = [PAGES["tasks"] + query for query in ("?status=failed", "?queue=nowhere", "?q=error:IBAN")]
    for url in [*all_urls(played), *lists]:
        page.goto(url)
        assert page.evaluate(WIDER) == 0, url
        if width > 1000:
            assert page.evaluate(CUT_OFF) == [], url


BREADCRUMBS = """
[...document.querySelectorAll("nav .breadcrumbs")].map((list) => {
    const link = list.querySelector("a"), box = list.getBoundingClientRect(), style = getComputedStyle(list);
    const colours = [style.color, style.backgroundColor, getComputedStyle(link).color];
    return [...colours, link.getBoundingClientRect().x, box.width, box.height];
})
"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_breadcrumbs_of_all_pages_look_as_those_of_the_admin(scheme, open_page, committed):
    """The list of tasks has the admin's own breadcrumbs, whatever Django's version draws them with."""
    played = scene.play(committed)
    page = open_page(color_scheme=scheme, viewport={"width": 1440, "height": 900})
    page.goto(PAGES["tasks"])
    [own] = page.evaluate(BREADCRUMBS)
    for url in all_urls(played):
        page.goto(url)
        assert page.evaluate(BREADCRUMBS) == [own], url
        assert page.locator("nav nav").count() == 0, url


WIDTHS = """
["#content-main", "#toolbar", "#changelist-form", "#result_list"]
    .map((part) => document.querySelector(part).getBoundingClientRect().width)
"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_the_list_of_tasks_takes_the_whole_width(width, open_page, committed):
    scene.play(committed)
    page = open_page(viewport={"width": width, "height": 900})
    page.goto(PAGES["tasks"])
    assert len(set(page.evaluate(WIDTHS))) == 1


OUTSIDE = """
[...document.querySelectorAll("#content-main *")]
    .filter((part) => !part.closest(".dtr-scroll, .dtr-sr, pre, svg, .results") && part.getClientRects().length)
    .filter((part) => { const box = part.getBoundingClientRect(); return box.left < -1 || box.right > innerWidth + 1; })
    .map((part) => part.outerHTML.slice(0, 80))
"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_from_right_to_left_no_page_is_wider_than_the_screen(width, open_page, committed, settings):
    """A browser would not scroll to what lies beyond the beginning of a line: it is looked for."""
    settings.LANGUAGE_CODE = "he"
    played = scene.play(committed)
    page = open_page(viewport={"width": width, "height": 900})
    for url in all_urls(played):
        page.goto(url)
        assert page.evaluate("document.documentElement.dir") == "rtl"
        assert page.evaluate(WIDER) == 0, url
        assert page.evaluate(OUTSIDE) == [], url


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
class TestLive:
    """Updates by themselves, without disturbing whoever reads."""

    @pytest.fixture
    def overview(self, open_page, committed):
        scene.play(committed)
        page = open_page(viewport={"width": 1280, "height": 500})
        page.clock.install()
        page.goto(PAGES["overview"])
        return page

    def tick(self, page: Any, seconds: float = 6) -> None:
        page.clock.run_for(seconds * 1000)

    def test_the_overview_follows_the_queue(self, overview):
        assert "paused by on call" in overview.inner_text("[data-region=problems]")
        taskqueue.resume("emails")
        with overview.expect_response(lambda response: "overview" in response.url):
            self.tick(overview)
        overview.locator("[data-region=problems]").filter(has_not_text="paused by").wait_for()

    def test_a_tasks_page_follows_it_to_its_end_and_then_rests(self, overview):
        [task] = Task.objects.running().order_by("pk")[:1]
        overview.goto(task_url(task))
        task.cancel(by="ann", reason="enough")
        with overview.expect_response(lambda response: "change" in response.url) as answered:
            self.tick(overview)
        assert "<header" not in answered.value.text()
        overview.locator(".dtr-path .dtr-badge").filter(has_text="Cancelled").wait_for()
        asked: list[str] = []
        overview.on("request", lambda request: asked.append(request.url))
        self.tick(overview, 60)
        assert asked == []

    def test_a_list_follows_but_not_while_rows_are_ticked(self, overview):
        overview.goto(f"{PAGES['tasks']}?status=ready")
        shown = overview.locator("#result_list tbody")
        before = shown.count()
        Task.objects.enqueue_many([(tasks.noop,)] * 3)
        overview.check(".action-select >> nth=0")
        overview.evaluate("document.activeElement.blur()")
        with overview.expect_response(lambda response: "task" in response.url):
            self.tick(overview)
        overview.locator("[data-region=pages]").filter(has_text=f"{before + 3} tasks").wait_for()
        assert shown.count() == before
        overview.uncheck(".action-select >> nth=0")
        overview.evaluate("document.activeElement.blur()")
        with overview.expect_response(lambda response: "task" in response.url):
            self.tick(overview)
        overview.locator("#result_list tbody").nth(before + 2).wait_for()

    @pytest.mark.parametrize("name", ["failures", "functions", "function"])
    def test_failures_and_functions_follow(self, overview, name):
        overview.goto(PAGES[name])
        before = overview.inner_text("[data-region=as-of]")
        with overview.expect_response(lambda response: response.url.endswith(PAGES[name])):
            self.tick(overview)
        overview.locator("[data-region=as-of]").filter(has_not_text=before).wait_for()

    def test_scroll_and_what_was_opened_stay(self, overview):
        overview.click("summary:has-text('Show as table')")
        overview.evaluate("document.activeElement.blur(); window.scrollTo(0, 300)")
        taskqueue.resume("emails")
        with overview.expect_response(lambda response: "overview" in response.url):
            self.tick(overview)
        overview.locator("[data-region=problems]").filter(has_not_text="paused by").wait_for()
        assert overview.evaluate("document.querySelector('figure details').open")
        assert overview.evaluate("window.scrollY") == 300

    def test_what_has_the_focus_or_is_selected_is_left_alone(self, overview):
        overview.focus("[data-region=problems] button")
        overview.evaluate("getSelection().selectAllChildren(document.querySelector('[data-region=cards]'))")
        overview.evaluate("window.kept = document.querySelector('[data-region=cards] li')")
        taskqueue.resume("emails")
        Task.objects.enqueue_many([(tasks.noop,)] * 7)
        with overview.expect_response(lambda response: "overview" in response.url):
            self.tick(overview)
        overview.locator("[data-region=queues]").filter(has_text="Active").wait_for()
        assert "paused by on call" in overview.inner_text("[data-region=problems]")
        assert overview.evaluate("document.activeElement.matches('[data-region=problems] button')")
        assert overview.evaluate("window.kept.isConnected")

    def test_it_rests_in_a_hidden_tab_and_when_paused(self, overview):
        asked: list[str] = []
        overview.on("request", lambda request: asked.append(request.url))
        overview.click("[data-live-button]")
        self.tick(overview, 60)
        assert overview.inner_text("[data-live-button]") == "Resume updates"
        overview.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        overview.click("[data-live-button]")
        overview.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        self.tick(overview, 60)
        assert asked == []

    def test_without_scripts_the_page_is_whole_and_offers_to_refresh(self, page, committed):
        scene.play(committed)
        page.goto(PAGES["overview"])
        assert page.is_visible("text=Refresh")
        assert not page.is_visible("[data-live-button]")


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_page_has_a_barrier_that_axe_knows(open_page, committed, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    urls = all_urls(scene.play(committed))
    shown = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    found = {}
    for url in urls:
        shown.goto(url)
        found[url] = [(each["id"], each["nodes"][0]["html"]) for each in axe.run(shown).response["violations"]]
    ask_to_retry_all(shown)
    found["confirm"] = [(each["id"], each["nodes"][0]["html"]) for each in axe.run(shown).response["violations"]]
    assert {url: barriers for url, barriers in found.items() if barriers} == {}


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
class TestTheListOfTasks:
    def test_a_screen_shows_fifteen_tasks_and_their_errors(self, open_page, committed):
        played = scene.play(committed)
        played["import"].retry(by="tests")
        page = open_page(viewport={"width": 1440, "height": 1000})
        page.goto(f"{PAGES['tasks']}?status=failed")
        rows = page.locator("#result_list tbody")
        assert rows.count() >= 9
        assert page.locator(".dtr-error-row").first.bounding_box()["width"] > 1000
        tops = [row.bounding_box() for row in rows.all()]
        height = max(row["height"] for row in tops)
        assert tops[0]["y"] + 15 * height <= 1000

    def test_the_search_completes_its_last_word(self, open_page, committed):
        scene.play(committed)
        page = open_page()
        page.goto(PAGES["tasks"])
        page.fill("#searchbar", "status:failed que")
        offered = page.eval_on_selector_all("#dtr-words option", "options => options.map(option => option.value)")
        assert {"status:failed queue:emails", "status:failed task:send_receipt"} <= set(offered)
        page.fill("#searchbar", "status:failed queue:emails")
        page.click("#changelist-search button")
        assert page.url.endswith("/task/?q=status%3Afailed+queue%3Aemails"), "empty filters stay out of the address"


def test_on_a_phone_every_button_is_within_the_screen(open_page, committed):
    scene.play(committed)
    page = open_page(viewport={"width": 390, "height": 900})
    for name in ("overview", "failures", "queues", "workers"):
        page.goto(PAGES[name])
        for button in page.locator("button.button:visible, summary.dtr-button:visible").all():
            box = button.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390, (name, button.inner_text())


COVERED = """
[...document.querySelectorAll("td.dtr-buttons")].map((cell) => [cell, cell.getBoundingClientRect()]).filter(
    ([cell, own]) => [...cell.parentElement.children].some((other) => {
        const box = other.getBoundingClientRect();
        const apart = box.right <= own.left || own.right <= box.left || box.bottom <= own.top || own.bottom <= box.top;
        return other !== cell && !apart;
    })
).length
"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_on_a_phone_no_button_covers_the_text_beside_it(open_page, committed):
    scene.play(committed)
    taskqueue.pause("stripe", kind="lane", by="ann", reason="the provider answers nobody since noon, INC-204")
    page = open_page(viewport={"width": 390, "height": 900})
    for name in ("failures", "queues", "lanes", "workers"):
        page.goto(PAGES[name])
        assert page.locator("td.dtr-buttons").count(), name
        assert page.evaluate(COVERED) == 0, name


GAPS = """
[...document.querySelectorAll("#dtr-control ~ form label")].map((label) => {
    const next = label.nextElementSibling.getBoundingClientRect(), box = label.getBoundingClientRect();
    return Math.max(next.left - box.right, next.top - box.bottom);
})
"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_the_fields_of_lanes_stand_apart_and_their_buttons_side_by_side(open_page, committed):
    taskqueue.pause("stripe", kind="lane", by="ann")
    page = open_page(viewport={"width": 1440, "height": 900})
    page.goto(PAGES["lanes"])
    gaps = page.evaluate(GAPS)
    assert len(gaps) == 5
    assert min(gaps) >= 4
    buttons = page.locator(".dtr-lanes summary").all()
    assert len({button.bounding_box()["y"] for button in buttons}) == 1
    page.set_viewport_size({"width": 390, "height": 900})
    assert len({button.bounding_box()["y"] for button in buttons}) == 1


def test_with_scripts_a_large_action_continues_by_itself(open_page, committed, monkeypatch):
    monkeypatch.setattr(bulk, "SECONDS", -1.0)
    monkeypatch.setattr(bulk, "BATCH", 2)
    Task.objects.enqueue_many([(tasks.noop,)] * 5)
    page = open_page()
    page.goto(f"{PAGES['tasks']}?status=ready")
    page.select_option("select[name=action]", "cancel_selected")
    page.check("input[name=select_across]")
    page.click("button[name=index]")
    page.click("button.default")
    page.wait_for_selector("text=5 tasks cancelled.")
    assert Task.objects.cancelled().count() == 5


def pictures(played: dict[str, Task]) -> dict[str, str]:
    shown = ("failed", "retrying", "running", "orphan")
    return {**PAGES, **{f"task-{name}": task_url(played[name]) for name in shown}}


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS=folder takes them, for a person to look at")
@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screenshots(open_page, committed, scheme):
    folder = Path(os.environ["SCREENSHOTS"])
    folder.mkdir(parents=True, exist_ok=True)
    played = scene.play(committed)
    for width in (1280, 400):
        page = open_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        for name, url in pictures(played).items():
            page.goto(url)
            picture = folder / f"{name}-{scheme}-{width}.png"
            page.screenshot(path=picture, full_page=True)
            assert picture.stat().st_size > 5000


def deploy_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tracebacks look as they do in production: the shop's code in a folder of its own, ours among the packages."""
    home, package = "/srv/shop/tasks.py", "/srv/venv/site-packages/django_tasks_retry/worker/child/attempt.py"
    lines = Path(shop.__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, home, (0, None, lines, home))
    ours = [(function, home) for function in (shop.send_receipt.func, shop.deliver, shop.import_row.func)]
    for function, file in [*ours, (scene.outcome_of, package)]:
        monkeypatch.setattr(function, "__code__", function.__code__.replace(co_filename=file))


@pytest.mark.skipif("README_PICTURES" not in os.environ, reason="README_PICTURES=docs/images makes them anew")
@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_for_the_readme(open_page, committed, scheme, monkeypatch):
    folder = Path(os.environ["README_PICTURES"])
    folder.mkdir(parents=True, exist_ok=True)
    deploy_shop(monkeypatch)
    played = scene.play(committed)
    page = open_page(color_scheme=scheme, viewport={"width": 1180, "height": 880})
    page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
    shown = {"overview": PAGES["overview"], "task": task_url(played["failed"]), "failure": group_url(played["failed"])}
    for name, url in shown.items():
        page.goto(url)
        page.screenshot(path=folder / f"{name}-{scheme}.png")


UPLOADS = """<!doctype html><title>Uploads</title>
<div id=one data-progress="{}"><progress></progress> <span data-show="note"></span></div>
<div id=other data-progress="{}"><progress></progress></div>
<script src="/static/django_tasks_retry/progress.js" defer></script>"""


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
def test_a_bar_in_a_page_of_ones_own_moves_to_its_end_and_then_asks_no_more(open_page, committed):
    one, other = (progress.url(Task.objects.enqueue(tasks.noop)) for _ in range(2))
    page = open_page()
    page.route("**/uploads/", lambda route: route.fulfill(body=UPLOADS.format(one, other), content_type="text/html"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition("/tasks/")[2]))
    page.goto("/uploads/")
    bar = page.locator("#one progress")
    page.locator("#one[data-status=PENDING]").wait_for()
    assert bar.get_attribute("value") is None, "how far it has come is not known"
    [lease] = taskqueue.claim("w")
    taskqueue.renewal.report_progress(lease, 25, 100, "importing")
    page.locator("#one [data-show=note]").filter(has_text="importing").wait_for()
    assert bar.evaluate("bar => bar.value") == 0.25
    taskqueue.finish([taskqueue.Completed(lease)])
    page.locator("#one[data-status=SUCCESS]").wait_for()
    assert bar.evaluate("bar => bar.value") == 1
    before = asked.count(one.partition("/tasks/")[2])
    assert before >= 3
    for _ in range(3):
        with page.expect_request(lambda request: request.url.endswith(other)):
            pass
    assert asked.count(one.partition("/tasks/")[2]) == before, "while the other one, which waits, went on asking"


OVERLAPS = """
[...document.querySelectorAll(".dtr-card-value")].map((value) => {
    value.textContent = "22 h 18 min 59 s and 999 ms";
    const range = document.createRange();
    range.selectNodeContents(value);
    const card = value.closest("a"), text = range.getBoundingClientRect(), box = card.getBoundingClientRect();
    return text.left >= box.left && text.right <= box.right;
}).filter((inside) => !inside).length
"""
CARDS = "[...document.querySelectorAll('a.dtr-card')].map((card) => card.getBoundingClientRect())"


@pytest.mark.parametrize("on", ["sqlite"], indirect=True)
@pytest.mark.parametrize("width", [390, 1440])
def test_a_long_value_stays_within_its_card_and_cards_stand_apart(width, open_page, committed):
    page = open_page(viewport={"width": width, "height": 900})
    page.goto(PAGES["overview"])
    assert page.evaluate(OVERLAPS) == 0
    boxes = page.evaluate(CARDS)
    rows = [(left, right) for left, right in pairwise(boxes) if left["y"] == right["y"]]
    assert rows
    assert all(right["x"] - left["x"] - left["width"] >= 8 for left, right in rows)
