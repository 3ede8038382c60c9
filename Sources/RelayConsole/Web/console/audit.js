// The Audit log page (actions of operators in the console and on the command line) and the Operators page.

import { get, post } from "./api.js";
import { button, confirmed, copyable, dialog, download, fill, h, say, table } from "./dom.js";
import { counted, moment } from "./format.js";

/** @type {import("./sections.js").Page} */
export const audit = {
  id: "audit", title: "Audit log", key: "a",
  about: "Who did what, when, to what. Never the contents of a record.",
  command: ({ data }) => `console audit --data ${data}`,

  async show(body, { shell, parameters }) {
    const words = h("input", { type: "search", value: parameters.get("words") ?? "", placeholder: "who, what, container", "aria-label": "Search the audit log" });
    const list = h("div");
    shell.search = words;
    let rows = [];
    const load = async (before) => {
      const { entries } = await get("audit", { words: parameters.get("words"), before, limit: 100 });
      rows = before ? [...rows, ...entries] : entries;
      fill(list, table([
        ["When", (entry) => moment(entry.at)], ["Who", (entry) => entry.actor], ["Did", (entry) => h("code", null, entry.action)],
        ["Container", (entry) => entry.container ?? ""], ["Environment", (entry) => entry.environment ?? ""],
        ["To", (entry) => entry.subject, "wrap"], ["", (entry) => entry.detail, "wrap"],
      ], rows, "Nothing yet.", { caption: "Audit log, the newest first" }),
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
      say(page.length === 1_000 ? "The newest 100,000 entries are saved; there are more." : `${counted(all.length, "entry is", "entries are")} saved.`);
    })), list);
    await load();
  },
};

/** @type {import("./sections.js").Page} */
export const operators = {
  id: "operators", title: "Operators",
  about: "Those who may use this console. They see the public database and metadata, and no private contents.",
  command: ({ data }) => `console operators --data ${data}`,

  async show(body, { shell }) {
    const { operators: rows } = await get("operators");
    fill(body, h("div.bar", null, button("Let somebody in…", async () => {
      const { code } = await post("operators/link");
      await dialog("A one-time link", () => [
        h("p", null, "It makes one more operator: one use, 15 minutes. Send it to them by a way you trust."),
        copyable(`${location.origin}${location.pathname}#setup=${code}`),
      ]);
    }, { class: "strong" })),
    table([
      ["Name", (one) => one.name], ["Since", (one) => moment(one.created)],
      ["", (one) => one.name !== shell.welcome.name && button("Remove…", async () => {
        if (!await confirmed(`Remove ${one.name}?`, "Their sign-ins end at once.", "Remove")) return;
        await post("operators/remove", { name: one.name });
        say(`${one.name} is no operator any more.`);
        await shell.show();
      }, { class: "small danger" })],
    ], rows, "", { caption: "Operators" }));
  },
};
