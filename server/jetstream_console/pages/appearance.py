"""How the pages look: a rule for each class that they use and the library of pages lacks.

The library can make such rules in the browser, out of the names of classes. That would take a tenth
of a second of its processor, on each page anew.
"""

from __future__ import annotations

from nicegui import ui

_RULES = """
@layer base {
  *, ::before, ::after { box-sizing: border-box; border: 0 solid rgb(128 128 128 / 0.4); }
  a { color: inherit; }
}
@layer utilities {
  .w-full { width: 100%; }
  .top { justify-content: space-between; }
  .ways { display: flex; flex-wrap: wrap; align-items: center; gap: 0.25rem; }
  .way { padding: 0.25rem 0.5rem; border-radius: 0.25rem; }
  .way:hover { background: rgb(255 255 255 / 0.1); }
  .way[aria-current] { background: rgb(255 255 255 / 0.2); }
  @media (width < 40rem) {
    .ways { flex-wrap: nowrap; overflow-x: auto; max-width: 100%; scrollbar-width: none; }
  }
  .light[data-is="on"] { color: #4ade80; }
  .light[data-is="off"] { color: #f87171; }
  .w-48 { width: 12rem; }
  .w-56 { width: 14rem; }
  .w-64 { width: 16rem; }
  .w-80 { width: 20rem; }
  .h-56 { height: 14rem; }
  .max-w-xl { max-width: 36rem; }
  .max-w-screen-2xl { max-width: 1536px; }
  .m-0 { margin: 0; }
  .mx-auto { margin-left: auto; margin-right: auto; }
  .p-2 { padding: 0.5rem; }
  .py-2 { padding-top: 0.5rem; padding-bottom: 0.5rem; }
  .items-center { align-items: center; }
  .items-baseline { align-items: baseline; }
  .gap-0 { gap: 0; }
  .gap-2 { gap: 0.5rem; }
  .gap-3 { gap: 0.75rem; }
  .gap-4 { gap: 1rem; }
  .facts {
    display: grid; grid-template-columns: fit-content(60%) minmax(0, 1fr); gap: 0.25rem 1rem;
    margin: 0; max-width: 100%;
  }
  .figures {
    display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem;
    margin: 0; width: 100%;
  }
  .figure {
    padding: 0.5rem 1rem; border-width: 1px; border-radius: 0.25rem; overflow-wrap: anywhere;
  }
  .cards {
    display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
    gap: 1rem;
  }
  .as-button {
    display: inline-flex; padding: 0.4rem 1rem; border-radius: 0.25rem; font-weight: 500;
    background: #3b82f6; color: #fff; text-decoration-line: none;
  }
  .as-button:hover { background: #2563eb; }
  .charts { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; }
  @media (width >= 64rem) {
    .charts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  }
  .border { border-width: 1px; }
  .border-b { border-bottom-width: 1px; }
  .border-red-500 { border-color: #ef4444; }
  .rounded { border-radius: 0.25rem; }
  .text-xs { font-size: 0.75rem; line-height: 1rem; }
  .text-sm { font-size: 0.875rem; line-height: 1.25rem; }
  .text-lg { font-size: 1.125rem; line-height: 1.75rem; }
  .text-xl { font-size: 1.25rem; line-height: 1.75rem; }
  .text-white { color: #fff; }
  .text-red-500 { color: #ef4444; }
  .font-medium { font-weight: 500; }
  .font-semibold { font-weight: 600; }
  .font-mono { font-family: ui-monospace, monospace; }
  .no-underline { text-decoration-line: none; }
  .opacity-60 { opacity: 0.6; }
  .opacity-90 { opacity: 0.9; }
  a:focus-visible, button:focus-visible, th:focus-visible {
    outline: 2px solid currentColor; outline-offset: -2px;
  }
  .q-table__bottom-nodata-icon { display: none; }
  .break-all { word-break: break-all; }
  .break-words { overflow-wrap: break-word; }
  .whitespace-pre-wrap { white-space: pre-wrap; }
  /* Short instead of none: what waits for the end of a movement waits for its event. */
  @media (prefers-reduced-motion: reduce) {
    *, ::before, ::after {
      transition-duration: 0.01ms !important; transition-delay: 0s !important;
      animation-duration: 0.01ms !important;
    }
  }
}
"""

# Keys reach the heads of columns and sort by them. A slot for the heads would do it too, and lose
# the focus whenever the table changes.
#
# What has the keyboard may be moved, disabled for a while, or go, because something was refreshed:
# then it gets the keyboard back, or in a table what is in its place now. Whoever puts the pointer
# elsewhere does not want that.
#
# A page whose session has ended cannot come back by itself, but the form that asks for the password
# can be shown in its place.
_KEYS = """<script>{
let kept = null, table = null, line = 0;
const keep = () => {
  const rows = table?.isConnected ? table.querySelectorAll("tbody tr") : [];
  const near = rows[Math.min(line, rows.length - 1)]?.querySelector("a, button");
  (kept.isConnected ? kept : near)?.focus({ preventScroll: true });
};
document.addEventListener("pointerdown", () => { kept = null; }, true);
document.addEventListener("focusin", event => {
  kept = event.target;
  table = kept.closest(".q-table__container");
  line = kept.closest("tbody tr")?.sectionRowIndex ?? 0;
});
new MutationObserver(() => {
  document.querySelectorAll("th.sortable").forEach(head => {
    const is = name => head.classList.contains(name);
    head.tabIndex = 0;
    head.ariaSort = !is("sorted") ? "none" : is("sort-desc") ? "descending" : "ascending";
  });
  if (kept && document.activeElement === document.body && document.hasFocus()) keep();
}).observe(document.documentElement, {
  subtree: true, childList: true, attributes: true, attributeFilter: ["class"],
});
document.addEventListener("keydown", event => {
  if (["Enter", " "].includes(event.key) && event.target.matches("th.sortable")) {
    event.preventDefault();
    event.target.click();
  }
});
setInterval(async () => {
  if (!window.did_handshake || window.socket.connected) return;
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
  if (answer?.status === 401) location.reload();
}, 2000);
}</script>"""


def add_appearance() -> None:
    """Have all pages look and sort like this."""
    ui.add_css(_RULES, shared=True)
    ui.table.default_props('no-data-label="Nothing here."')
    ui.add_head_html(_KEYS, shared=True)
