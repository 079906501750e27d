"use strict";
// Light or dark, as chosen last on any page of the dashboard.
(() => {
  const root = document.documentElement;
  // The token that `perfkit view` printed with the address: behind a #, so that it is never sent with a page's own request.
  const token = /^#token=([\w-]+)$/.exec(location.hash);
  if (token) {
    sessionStorage.setItem("perfkit-token", token[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
  const kept = localStorage.getItem("perfkit-theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]"))
      button.addEventListener("click", () => {
        const now = root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
        root.dataset.theme = now === "dark" ? "light" : "dark";
        localStorage.setItem("perfkit-theme", root.dataset.theme);
        dispatchEvent(new Event("theme"));
      });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("theme")));
})();
