// The Indexes page: declared indexes, the indexes that real queries need, and advice from comparing them.

import { get, isProduction, post } from "./api.js";
import { button, fill, h, say, table } from "./dom.js";
import { moment, number, span, upTo } from "./format.js";

/** @type {import("./sections.js").Page} */
export const indexes = {
  id: "indexes", title: "Indexes", key: "i",
  about: "Recommendations from the queries on declared fields that apps have sent since the relay started.",
  command: ({ container, environment, data }) => `schema export --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell }) {
    const now = await get("schema/indexes");
    const { types } = await get("schema");
    const declare = async (row, isWanted) => {
      const field = types.find(({ name }) => name === row.recordType)?.fields.find(({ name }) => name === row.field);
      if (!field) throw new Error(`${row.recordType} no longer has a field ${row.field}.`);
      const marks = isWanted ? [...field.indexes, row.index] : field.indexes.filter((mark) => mark !== row.index);
      const name = field.isSystem ? `"${field.name}"` : field.name;
      await post("schema/edit", { recordType: row.recordType, declaration: [name, field.type, ...marks].join(" ") });
      say(`${row.field} is ${isWanted ? "" : "no longer "}${row.index.toLowerCase()} in development.`);
      await shell.show();
    };
    const missing = now.rows.filter((row) => row.advice === "missing");
    const used = now.rows.filter((row) => row.advice === "used");
    const unused = now.rows.filter((row) => row.advice === "unused");
    /**
     * Returns the columns of a table of indexes.
     * @param {[title: string, isWanted: boolean]} [act] The action on each row.
     * @returns {import("./dom.js").Column[]}
     */
    const columns = (act) => [
      ["Type", (row) => h("a", { href: shell.link("schema", { type: row.recordType }) }, row.recordType)],
      ["Field", (row) => row.field, "mono"], ["Index", (row) => row.index],
      ["Queries", (row) => number(row.queries), "number"], ["Refused", (row) => number(row.refused), "number"],
      ["Last query", (row) => moment(row.last)],
      ["", (row) => !isProduction() && act && button(act[0], () => declare(row, act[1]), { class: "small" })],
    ];
    fill(body,
      h("h2", null, "Missing: queries that need these were refused"),
      isProduction() && missing.length > 0 && h("p", null, "Create them in development, then promote."),
      table(columns(["Create", true]), missing, "None. No query was refused.", { caption: "Missing indexes", mark: () => "bad" }),
      h("h2", null, "Used"), table(columns(), used, "No queries yet.", { caption: "Used indexes" }),
      h("h2", null, "Unused"),
      h("p.quiet", null, `No query has used these for ${span((Date.now() - now.since) / 1000)}, since the relay started. `,
        "An unused index does not slow down writes: the relay builds an index when a query first needs it."),
      h("details", null, h("summary", null, `${unused.length} indexes`),
        table(columns(["Delete", false]), unused, "None.", { caption: "Unused indexes" })),
      h("h2", null, "Indexes on disk"),
      table([
        ["Type", (row) => row.recordType], ["Field", (row) => row.target, "mono"],
        ["State", (row) => row.isComplete ? h("span.badge.good", null, "complete") : h("span.badge.warn", null, "being built")],
        ["Entries", (row) => upTo(row.entries, row.isMore), "number"],
      ], now.made, "No indexes yet.", { caption: "Indexes on disk" }));
  },
};
