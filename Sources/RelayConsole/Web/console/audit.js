// The Audit log page (actions of operators in the console and on the command line) and the Operators page.

import { get, post } from "./api.js";
import { button, confirmed, copyable, dialog, download, fill, h, say, table } from "./dom.js";
import { counted, moment } from "./format.js";

/** @type {import("./sections.js").Page} */
export const audit = {
  id: "audit", title: "Audit log", key: "a",
  about: "Actions of operators, with time and subject. Never the contents of a record.",
  command: ({ data }) => `log audit --data ${data}`,

  async show(body, { shell, parameters }) {
    const words = h("input", { type: "search", value: parameters.get("words") ?? "", placeholder: "actor, action, container", "aria-label": "Search the audit log" });
    const list = h("div");
    shell.search = words;
    let rows = [];
    const load = async (before) => {
      const { entries } = await get("audit", { words: parameters.get("words"), before, limit: 100 });
      rows = before ? [...rows, ...entries] : entries;
      fill(list, table([
        ["Time", (entry) => moment(entry.at)], ["Actor", (entry) => entry.actor], ["Action", (entry) => h("code", null, entry.action)],
        ["Container", (entry) => entry.container ?? ""], ["Environment", (entry) => entry.environment ?? ""],
        ["Subject", (entry) => entry.subject, "wrap"], ["", (entry) => entry.detail, "wrap"],
      ], rows, "The audit log is empty.", { caption: "Audit log, newest first" }),
      entries.length === 100 && button("Older", () => load(rows.at(-1).number)));
    };
    fill(body, h("div.bar", null, h("form.bar", { role: "search", onsubmit: (event) => {
      event.preventDefault();
      shell.go("audit", { words: words.value });
    } }, words, h("button", { type: "submit" }, "Search")),
    button("Export", async () => {
      const all = [];
      let page;
      do {
        page = (await get("audit", { words: parameters.get("words"), before: all.at(-1)?.number, limit: 1_000 })).entries;
        all.push(...page);
      } while (page.length === 1_000 && all.length < 100_000);
      download("audit.json", "application/json", `${JSON.stringify({ entries: all }, null, 2)}\n`);
      say(page.length === 1_000 ? "The newest 100,000 entries are exported; there are more." : `${counted(all.length, "entry is", "entries are")} exported.`);
    })), list);
    await load();
  },
};

/** @type {import("./sections.js").Page} */
export const operators = {
  id: "operators", title: "Operators",
  about: "Operators may use this console. They see the public database and metadata, but no private contents.",
  command: ({ data }) => `user operator list --data ${data}`,

  async show(body, { shell }) {
    const { operators: rows } = await get("operators");
    fill(body, h("div.bar", null, button("Create operator…", async () => {
      const { code } = await post("operators/link");
      await dialog("One-time link", () => [
        h("p", null, "The link creates one operator. It works once, within 15 minutes. Send it over a channel that you trust."),
        copyable(`${location.origin}${location.pathname}#setup=${code}`),
      ]);
    }, { class: "strong" })),
    table([
      ["Name", (one) => one.name], ["Created", (one) => moment(one.created)],
      ["", (one) => one.name !== shell.welcome.name && button("Delete…", async () => {
        if (!await confirmed(`Delete ${one.name}?`, "This revokes the operator's sessions at once.", "Delete")) return;
        await post("operators/remove", { name: one.name });
        say(`${one.name} is deleted.`);
        await shell.show();
      }, { class: "small danger" })],
    ], rows, "", { caption: "Operators" }));
  },
};
