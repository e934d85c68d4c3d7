// Completes the last word of the search, by the browser's own list: what stands before it is put in front of each word.
"use strict";
(() => {
  const form = document.getElementById("changelist-search");
  const box = document.getElementById("searchbar");
  if (!box || !box.list) return;
  const words = [...box.list.options].map((option) => option.value);
  box.addEventListener("input", () => {
    const before = box.value.slice(0, box.value.lastIndexOf(" ") + 1);
    box.list.replaceChildren(...words.map((word) => new Option("", before + word)));
  });
  // What was not chosen need not stand in the address.
  form.addEventListener("submit", () => form.querySelectorAll("[name]").forEach((field) => { field.disabled = !field.value; }));
})();
