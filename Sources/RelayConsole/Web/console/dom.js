// Helpers that create DOM elements. All text is inserted as text nodes, so contents of records and names of users
// cannot become markup.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "path", "line", "rect", "circle", "g", "text", "title", "polyline"]);

/**
 * Creates an element. Properties that begin with `on` are event listeners, and `data` is assigned to the dataset. `true`
 * sets an empty attribute; `false`, `null` and `undefined` set none.
 * @param {string} tag The element's name, followed by classes: `p.quiet`.
 * @param {Record<string, any> | null} [properties]
 * @param {...any} children Elements, strings, numbers and nested arrays of them. `false`, `null` and `undefined` are skipped.
 * @returns {any}
 */
export function h(tag, properties, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = DRAWN.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key === "value" || key === "checked" || key === "selected" || key === "indeterminate") element[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === false || child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replaces an element's children.
 * @param {Element} element
 * @param {...any} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * Creates a button.
 * @param {string} text
 * @param {(event: Event) => any} act
 * @param {Record<string, any>} [properties]
 */
export function button(text, act, properties = {}) {
  return h("button", { type: "button", ...properties, onclick: guarded(act) }, text);
}

/** Wraps a listener: disables its button while it runs, and reports the error it throws. */
export function guarded(act) {
  return async (event) => {
    const element = event?.currentTarget;
    const isButton = element?.tagName === "BUTTON";
    if (isButton) { element.disabled = true; element.setAttribute("aria-busy", "true"); }
    try { await act(event); } catch (error) { complain(error); } finally {
      if (isButton) { element.disabled = false; element.removeAttribute("aria-busy"); }
    }
  };
}

/** @typedef {[heading: string, cell: (row: any) => any, cellClass?: string]} Column */

/**
 * Creates a table.
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {string} empty The text to show if there are no rows.
 * @param {{ caption?: string, mark?: (row: any) => string | undefined }} [options]
 */
export function table(columns, rows, empty, options = {}) {
  if (!rows.length) return h("p.empty", null, empty);
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": options.caption ?? "Table" },
    h("table", null,
      options.caption && h("caption.hidden", null, options.caption),
      h("thead", null, h("tr", null, columns.map(([name, , kind]) => h(kind ? `th.${kind.replaceAll(" ", ".")}` : "th", { scope: "col" }, name)))),
      h("tbody", null, rows.map((row) => {
        const line = h("tr", null, columns.map(([name, cell, kind]) => h(kind ? `td.${kind.replaceAll(" ", ".")}` : "td", { data: { label: name } }, cell(row))));
        const mark = options.mark?.(row);
        if (mark) line.classList.add(mark);
        return line;
      }))));
}

/**
 * Creates a label around an input or select.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string} [hint]
 */
export function field(label, input, hint) {
  return h("label.field", null, h("span", null, label), input, hint && h("small", null, hint));
}

/**
 * Creates a select; each value may come with its text.
 * @param {(string | [string, string])[]} values
 * @param {string} [chosen]
 * @param {Record<string, any>} [properties]
 */
export function select(values, chosen, properties = {}) {
  return h("select", properties, values.map((value) => {
    const [key, text] = Array.isArray(value) ? value : [value, value];
    return h("option", { value: key, selected: key === chosen }, text);
  }));
}

/**
 * Shows a message for some seconds.
 * @param {string} text
 * @param {boolean} [isBad]
 */
export function say(text, isBad = false) {
  const toast = h(isBad ? "p.toast.bad" : "p.toast", null, text,
    button("×", () => toast.remove(), { "aria-label": "Close this message" }));
  document.getElementById("toasts").append(toast);
  setTimeout(() => toast.remove(), isBad ? 12_000 : 5_000);
}

/**
 * Shows an error, unless it is an abort or leads to the sign-in page.
 * @param {any} error
 */
export function complain(error) {
  if (error?.code === "signIn" || error?.name === "AbortError") return;
  say(error?.message ?? String(error), true);
}

/** The text that stands where contents are being fetched. It appears only if they take a moment. */
export const loading = () => h("p.loading", { role: "status" }, "Loading…");

const openDialogs = () => /** @type {HTMLDialogElement[]} */ ([...document.querySelectorAll("dialog[open]")]);

// A dialog adds an entry to the browser's history, so that Back closes it, and marks the entry below, so that Back can be told
// from a navigation. A dialog that is closed in another way leaves its entry, which the next dialog uses; Back skips it otherwise.
// Removing it is asynchronous and could undo a later navigation.
function addEntry() {
  if (history.state?.isDialog) return;
  history.replaceState({ ...history.state, isBelowDialog: true }, "");
  history.pushState({ isDialog: true }, "");
}

addEventListener("popstate", ({ state }) => {
  const open = openDialogs();
  if (state?.isDialog) return;
  if (!state?.isBelowDialog) { for (const one of open) one.close(); return; }
  if (!open.length) return history.back();
  open.at(-1)?.close();
  if (open.length > 1) addEntry();
});

/**
 * Shows a dialog until it is closed. Resolves to the value passed to `done`, or to `undefined`.
 * @param {string} title
 * @param {(done: (value?: any) => void) => any} content
 * @returns {Promise<any>}
 */
export function dialog(title, content, kind = "") {
  return new Promise((resolve) => {
    let outcome;
    const box = h(`dialog${kind}`, { "aria-labelledby": "dialog-title" });
    const done = (value) => { outcome = value; box.close(); };
    fill(box, h("header", null, h("h2", { id: "dialog-title" }, title),
      h("button.plain", { type: "button", "aria-label": "Close", onclick: () => done() }, "×")), content(done));
    box.addEventListener("close", () => { box.remove(); resolve(outcome); });
    document.body.append(box);
    box.showModal();
    addEntry();
    // Focus the first input. Otherwise the browser focuses the close button.
    box.querySelector("form input:not([type=file]):not([readonly]):not([disabled]), form textarea:not([readonly])")?.focus();
  });
}

/**
 * Asks the user to confirm a destructive action.
 * @returns {Promise<boolean>}
 */
export async function confirmed(title, text, verb) {
  return Boolean(await dialog(title, (done) => [
    h("p", null, text),
    h("div.actions", null, button("Cancel", () => done(false)), button(verb, () => done(true), { class: "danger" })),
  ]));
}

/**
 * Asks the user to type the container's name, which changes in production require.
 * @param {string} container
 * @returns {Promise<boolean>}
 */
export async function typedName(container) {
  return Boolean(await dialog("This changes production", (done) => {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "The container's name" });
    const go = button("Change production", () => done(true), { class: "danger", disabled: true });
    input.addEventListener("input", () => { go.disabled = input.value !== container; });
    return h("form", { onsubmit: (event) => { event.preventDefault(); if (!go.disabled) done(true); } },
      h("p", null, "Devices of real users use this environment. Type ", h("code", null, container), " to confirm."), input,
      h("div.actions", null, button("Cancel", () => done(false)), go));
  }, ".production"));
}

/**
 * Shows a text with a button that copies it.
 * @param {string} text
 * @param {string} [label]
 */
export function copyable(text, label = "Copy") {
  return h("div.copyable", null, h("pre", { tabindex: 0 }, text), button(label, async () => {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  }));
}

/**
 * Starts a download of a text as a file.
 * @param {string} name
 * @param {string} type
 * @param {string} text
 */
export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1_000);
}
