// The Records page: queries, shows, edits and exports records of the public database. The console cannot read private
// records.

import { get, isProduction, place, wire } from "./api.js";
import { button, complain, confirmed, dialog, download, fill, h, loading, say, table } from "./dom.js";
import { edit, shown } from "./editor.js";
import { counted, moment, short } from "./format.js";
import { writeJSON } from "./json.js";
import { addressOf, builder, fieldNamed, partsOf, queryBody } from "./query.js";

/** @type {import("./sections.js").Page} */
export const records = {
  id: "records", title: "Records", key: "r",
  about: "Records of the public database. Only users see the contents of their private and shared databases.",
  command: ({ container, environment, url }) => `record query TYPE --database public --container ${container} --environment ${environment} --url ${url}`,

  async show(body, { shell, parameters }) {
    const { types } = await get("schema");
    if (!types.length) {
      fill(body, h("p.empty", null, "No record types yet. Import a schema, or save a first record from your app in development."));
      return;
    }
    const parts = partsOf(parameters);
    if (!types.some(({ name }) => name === parts.type)) {
      const own = types.filter(({ name }) => name !== "Users");
      parts.type = (own.find((one) => one.records > 0) ?? own[0] ?? types[0]).name;
    }
    const type = types.find(({ name }) => name === parts.type);
    const list = h("div", { "aria-live": "polite" });
    const run = () => {
      const query = addressOf(parts);
      const link = `${shell.link("records")}?${query}`;
      if (location.hash === link) load(); else location.hash = link;
    };
    const lookup = h("input", { type: "search", placeholder: "record name", "aria-label": "Fetch a record by its name" });
    shell.search = lookup;
    fill(body, builder(types, parts, run), h("div.bar", null,
      h("form.bar", { onsubmit: (event) => { event.preventDefault(); open(lookup.value.trim()); } },
        lookup, h("button", { type: "submit" }, "Fetch")),
      button("Create record", () => change(undefined), { class: "strong", id: "new-record" }),
      button("Columns…", () => columnsDialog()), button("Export…", () => exportDialog()),
      button("Delete matching…", () => removeAll(), { class: "danger" })), list);

    /** @type {any[]} */ let rows = [];
    let marker;
    const own = type.fields.filter((field) => !field.isSystem).map((field) => field.name);
    const columns = () => parts.columns ?? own.slice(0, 6);

    const load = async (more = false) => {
      if (!more) { rows = []; marker = undefined; fill(list, loading()); }
      try {
        const page = await wire("records/query", queryBody(type, parts, marker));
        rows.push(...page.records);
        marker = page.continuationMarker;
      } catch (error) {
        fill(list, h("p.trouble", null, error.message), /not marked/.test(error.message)
          && h("p", { id: "unmarked" }, "Indexes are set on the page of the type: ", h("a", { href: shell.link("schema", { type: type.name }) }, type.name),
            isProduction() ? ", in development, and promoted from there." : ".",
            " To list records without a filter, ___recordID must be queryable. A single record can always be fetched by its name, above."));
        return;
      }
      draw();
    };

    const draw = () => fill(list, table([
      ["Name", (row) => button(short(row.recordName, 28), () => change(row), { class: "plain small mono", title: row.recordName })],
      ...columns().map((name) => [name, (row) => row.fields?.[name] ? shown(row.fields[name], open, true) : "", "wrap"]),
      ["Modified", (row) => moment(row.modified?.timestamp)],
      ["Tag", (row) => row.recordChangeTag, "mono"],
    ], rows, "No record matches.", { caption: `Records of type ${parts.type}` }),
    h("p.quiet", null, marker ? `The first ${rows.length}. ` : `${counted(rows.length, "record")}. `, marker && button("More", () => load(true))));

    const open = async (recordName) => {
      if (!recordName) return;
      const answer = await wire("records/lookup", { records: [{ recordName }] });
      const record = answer.records[0];
      if (record.serverErrorCode) { say(`There is no record ${recordName} in the public database.`, true); return; }
      await change(record);
    };

    const change = async (record) => {
      const known = types.find(({ name }) => name === (record?.recordType ?? parts.type)) ?? type;
      if (await edit(known, record, open)) await load();
    };

    const columnsDialog = async () => {
      const chosen = new Set(columns());
      const done = await dialog("Columns", (close) => h("div", null,
        own.map((name) => h("label.check", null, h("input", { type: "checkbox", checked: chosen.has(name), onchange: (event) => {
          if (event.target.checked) chosen.add(name); else chosen.delete(name);
        } }), name)),
        h("div.actions", null, button("Show", () => close(true), { class: "strong" }))));
      if (!done) return;
      parts.columns = own.filter((name) => chosen.has(name));
      run();
      draw();
    };

    /** Fetches the matching records page by page, up to a limit. */
    const everything = async (limit) => {
      const found = [];
      let next;
      do {
        const page = await wire("records/query", { ...queryBody(type, parts, next), resultsLimit: 200 });
        found.push(...page.records);
        next = page.continuationMarker;
      } while (next && found.length < limit);
      return { found: found.slice(0, limit), isAll: !next };
    };

    const exportDialog = () => dialog("Export", (close) => [
      h("p", null, "Exports up to 10,000 matching records. For more, use the command ",
        h("code", null, "zonecast record export --database public"), "."),
      h("div.actions", null,
        button("CSV", async () => {
          const { found, isAll } = await everything(10_000);
          download(`${parts.type}.csv`, "text/csv", csv(found, own));
          say(isAll ? `${counted(found.length, "record is", "records are")} exported.` : "The first 10,000 records are exported; there are more.");
          close();
        }),
        button("JSON", async () => {
          const { found, isAll } = await everything(10_000);
          download(`${parts.type}.json`, "application/json", `${writeJSON({ records: found }, 2)}\n`);
          say(isAll ? `${counted(found.length, "record is", "records are")} exported.` : "The first 10,000 records are exported; there are more.");
          close();
        })),
    ]);

    /** Deletes the matching records, after the user has confirmed their number. */
    const removeAll = async () => {
      const { found, isAll } = await everything(2_000);
      if (!found.length) { say("No record matches, so there is nothing to delete."); return; }
      const words = isAll ? `${counted(found.length, "record")} of type ${parts.type}` : `the first ${found.length} records of type ${parts.type}`;
      if (!await confirmed("Delete the matching records?", `This deletes ${words} for all users. It cannot be undone.`, `Delete ${counted(found.length, "record")}`)) return;
      let deleted = 0, kept = 0, confirm = "";
      for (let start = 0; start < found.length; start += 200) {
        const operations = found.slice(start, start + 200).map(({ recordName }) => ({ operationType: "forceDelete", record: { recordName } }));
        const answer = await wire("records/modify", { operations, atomic: false }, { subject: `delete ${operations.length} ${parts.type}`, confirm: confirm || undefined });
        confirm = place.environment === "production" ? place.container : "";
        for (const record of answer.records) if (record.serverErrorCode) kept += 1; else deleted += 1;
      }
      say(kept ? `${counted(deleted, "record is", "records are")} deleted, ${kept} could not be deleted.` : `${counted(deleted, "record is", "records are")} deleted.`, kept > 0);
      await load();
    };

    if (fieldNamed(type, "___recordID") !== undefined) await load();
    // Not awaited: `show` must end before the user closes the dialog.
    if (parameters.get("record")) open(parameters.get("record")).catch(complain);
  },
};

/**
 * Returns records as CSV.
 * @param {any[]} found
 * @param {string[]} fields
 */
function csv(found, fields) {
  const cell = (value) => {
    if (value === undefined) return "";
    const text = typeof value === "string" ? value : writeJSON(value);
    // A leading quote keeps spreadsheets from running the text as a formula.
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    // Quotes distinguish an empty text from a missing value.
    return text === "" || /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const head = ["recordName", "recordType", "recordChangeTag", "created", "modified", ...fields];
  const lines = found.map((record) => [
    record.recordName, record.recordType, record.recordChangeTag, record.created?.timestamp, record.modified?.timestamp,
    ...fields.map((name) => record.fields?.[name]?.value),
  ].map(cell).join(","));
  return `${[head.join(","), ...lines].join("\r\n")}\r\n`;
}
