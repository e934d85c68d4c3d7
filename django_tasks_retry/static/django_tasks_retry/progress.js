// Shows progress in a page of one's own: <div data-progress="{{ url }}"><progress></progress> <span data-show="note"></span></div>
"use strict";
for (const box of document.querySelectorAll("[data-progress]")) {
  const source = new EventSource(box.dataset.progress);
  source.addEventListener("message", ({ data }) => {
    const told = JSON.parse(data);
    const bar = box.querySelector("progress");
    if (bar && told.share === null) bar.removeAttribute("value");
    else if (bar) bar.value = told.share;
    for (const part of box.querySelectorAll("[data-show]")) part.textContent = told[part.dataset.show] ?? "";
    box.dataset.status = told.status;
    if (told.ended) source.close();
    box.dispatchEvent(new CustomEvent("progresschange", { bubbles: true, detail: told }));
  });
}
