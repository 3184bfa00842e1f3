// Renews the part of the page that shows the table, while the page is visible.
"use strict";
(() => {
  const bar = document.getElementById("renewal");
  const live = () => document.getElementById("live");
  if (!live()) return;
  const failed = live().querySelector("[role=alert]") !== null;
  const [pause, said] = [bar.querySelector("button"), bar.querySelector("span")];
  let timer;
  let paused = false;
  let renewed = Date.now();

  const plan = () => {
    clearTimeout(timer);
    bar.hidden = false;
    if (paused || document.hidden) return;
    const every = Number(live().dataset.every);
    timer = setTimeout(renew, Math.max(0, renewed + every - Date.now()));
  };

  const show = (next) => {
    const focused = document.activeElement?.closest("#live a")?.getAttribute("href");
    live().replaceWith(document.adoptNode(next));
    const again = [...live().querySelectorAll("a")].find((link) => link.getAttribute("href") === focused);
    again?.focus({ preventScroll: true });
    said.textContent = `Renewed at ${new Date().toLocaleTimeString()}. ${live().dataset.cost}`;
  };

  const renew = async () => {
    // Text that somebody is about to copy stays.
    if (!getSelection().isCollapsed) {
      renewed = Date.now();
      return plan();
    }
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      // A page that could not be shown at all lacks more than its live part.
      if (failed && answer.ok) return location.reload();
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
      if (next) show(next);
      else said.textContent = "The console refuses: open the address that it printed.";
    } catch {
      said.textContent = "The console does not answer. Does it still run?";
    }
    renewed = Date.now();
    plan();
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", paused);
    plan();
  });
  document.addEventListener("visibilitychange", plan);
  said.textContent = live().dataset.cost;
  plan();
})();
