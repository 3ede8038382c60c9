// The Logs page: recent requests. The relay logs refused requests always, and the others while this page is open.
// Entries contain no private data.

import { get } from "./api.js";
import { button, download, fill, h, loading, table } from "./dom.js";
import { bytes, moment, took } from "./format.js";

/** @type {import("./sections.js").Page} */
export const logs = {
  id: "logs", title: "Logs", key: "l",
  about: "Refused requests since the relay started, and all requests while this page is open: at most 2,000 (log.access: true logs all of them). Users and devices have pseudonyms. Names, tokens and contents are never logged.",
  command: () => "log show --follow",

  async show(body, { shell, parameters, signal }) {
    const wanted = { errors: parameters.get("errors") ?? "", operation: parameters.get("operation") ?? "", user: parameters.get("user") ?? "", everywhere: parameters.get("everywhere") ?? "" };
    const go = (change) => shell.go("logs", { ...wanted, ...change });
    const operation = h("input", { type: "search", value: wanted.operation, placeholder: "records/query", "aria-label": "Operation" });
    shell.search = operation;
    const check = (name, text) => h("label.check", null, h("input", {
      type: "checkbox", checked: wanted[name] === "1", onchange: (event) => go({ [name]: event.target.checked ? "1" : "" }),
    }), text);
    const list = h("div", null, loading());
    let rows = [], last = 0;
    fill(body, h("div.bar", null,
      h("form.bar", { role: "search", onsubmit: (event) => { event.preventDefault(); go({ operation: operation.value.trim() }); } },
        operation, h("button", { type: "submit" }, "Filter")),
      check("errors", "only refused"), check("everywhere", "all containers"),
      button("Export", () => download("requests.json", "application/json", `${JSON.stringify({ lines: rows }, null, 2)}\n`))), list);

    const draw = async () => {
      const { lines } = await get("logs", { ...wanted, after: last });
      if (!lines.length && last) return;
      const isFirst = last === 0;
      // The newest line is the first. Its number may be lower than `last`, since a restart resets the numbers.
      last = lines[0]?.number ?? 0;
      rows = [...lines, ...rows].slice(0, 500);
      const fresh = new Set(isFirst ? [] : lines.map((line) => line.number));
      fill(list, table(/** @type {import("./dom.js").Column[]} */ ([
        ["Time", (line) => moment(line.at)], ["Operation", (line) => line.operation, "mono"],
        wanted.everywhere && ["Container", (line) => line.container ?? ""],
        ["Database", (line) => line.database ?? ""],
        ["User", (line) => (line.user ? button(line.user, () => go({ user: wanted.user === line.user ? "" : line.user }), {
          class: "plain small mono", title: wanted.user ? "Show all users again" : "Show only this user's requests",
        }) : "")],
        ["Device", (line) => h("code", null, line.device?.slice(0, 4) ?? "")], ["Status", (line) => line.status, "number"],
        ["Error", (line) => line.error ?? "", "mono"], ["Duration", (line) => took(line.milliseconds), "number"],
        ["Bytes", (line) => bytes(line.bytes), "number"],
        ["Request", (line) => h("code", { title: line.id }, line.id.slice(-8))],
      ].filter(Boolean)), rows, "No requests yet. This page refreshes every two seconds.", {
        caption: "Requests, newest first", mark: (line) => (fresh.has(line.number) ? "new" : line.status >= 500 ? "bad" : undefined),
      }));
    };
    await draw();
    shell.every(2_000, signal, draw);
  },
};
