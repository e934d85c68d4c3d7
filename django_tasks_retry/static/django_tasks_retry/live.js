// Keeps a page up to date: fetches it again and replaces the parts that changed. Without scripts there is "Refresh".
// It rests while the tab is hidden, and leaves alone what is being read or used: a part with the focus, a selection, a
// ticked box or an open form.
"use strict";
(() => {
  const EVERY = 5000; // milliseconds; a slow page is asked for less often
  const LONGEST = 60000;
  const SHARE = 10; // at most a tenth of the time is spent on asking
  const page = document.querySelector("[data-live]");
  const button = document.querySelector("[data-live-button]");
  if (!page || !button) return;
  let timer = 0;
  let failures = 0;
  let isPaused = false;
  let isAsking = false;
  let isOver = false;

  const schedule = (wait) => {
    window.clearTimeout(timer);
    if (!isPaused && !isOver && !document.hidden) timer = window.setTimeout(refresh, Math.min(wait, LONGEST));
  };

  const isInUse = (region) => {
    const selection = document.getSelection();
    const isSelected = selection && !selection.isCollapsed && selection.containsNode(region, true);
    const isFilled = region.querySelector(".action-select:checked, .dtr-action[open]");
    return region.contains(document.activeElement) || isSelected || isFilled;
  };

  // What the reader has opened or scrolled stays so.
  const carryOver = (from, to) => {
    const opened = from.querySelectorAll("details");
    to.querySelectorAll("details").forEach((part, n) => { part.open = Boolean(opened[n] && opened[n].open); });
    return [...from.querySelectorAll(".dtr-scroll")].map((part) => part.scrollLeft);
  };

  const replace = (region, fresh) => {
    if (isInUse(region)) return;
    const places = carryOver(region, fresh);
    if (region.isEqualNode(fresh)) return;
    region.replaceChildren(...fresh.childNodes);
    region.querySelectorAll(".dtr-scroll").forEach((part, n) => { part.scrollLeft = places[n] || 0; });
  };

  const show = (text) => {
    const answer = new DOMParser().parseFromString(text, "text/html");
    const state = answer.querySelector("[data-live]");
    if (!state || !answer.querySelector("[data-region]")) throw new Error("not this page: logged out, say");
    for (const region of page.querySelectorAll("[data-region]")) {
      const fresh = answer.querySelector(`[data-region="${region.dataset.region}"]`);
      if (fresh) replace(region, fresh);
    }
    isOver = state.dataset.live === "off"; // nothing will change any more
    button.hidden = isOver;
  };

  const refresh = async () => {
    if (isAsking) return;
    isAsking = true;
    const begun = Date.now();
    try {
      // The header asks for the page's own part alone, without menus and filters.
      const headers = { "X-Console": "update" };
      const response = await fetch(window.location.href, { credentials: "same-origin", cache: "no-store", headers });
      if (!response.ok) throw new Error(String(response.status));
      const text = await response.text();
      if (!isPaused && !document.hidden) show(text);
      failures = 0;
    } catch {
      failures += 1; // what is shown stays
    } finally {
      isAsking = false;
    }
    schedule(Math.max(EVERY * 2 ** Math.min(failures, 4), (Date.now() - begun) * SHARE));
  };

  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? button.dataset.resume : button.dataset.pause;
    button.setAttribute("aria-pressed", String(isPaused));
    schedule(0);
  });
  document.addEventListener("visibilitychange", () => schedule(0));
  button.hidden = false;
  schedule(EVERY);
})();
