// The Schema page: record types and their fields. Production's schema changes by promotion only.

import { get, isProduction, place, post } from "./api.js";
import { button, confirmed, dialog, download, field, fill, guarded, h, say, select, table } from "./dom.js";
import { upTo } from "./format.js";

const TYPES = [
  "STRING", "INT64", "DOUBLE", "TIMESTAMP", "BYTES", "LOCATION", "REFERENCE", "ASSET", "LIST<STRING>", "LIST<INT64>", "LIST<DOUBLE>",
  "LIST<TIMESTAMP>", "LIST<BYTES>", "LIST<LOCATION>", "LIST<REFERENCE>", "LIST<ASSET>", "ENCRYPTED STRING", "ENCRYPTED INT64",
  "ENCRYPTED DOUBLE", "ENCRYPTED BYTES", "ENCRYPTED TIMESTAMP", "ENCRYPTED LOCATION",
];

/** @type {import("./sections.js").Page} */
export const schema = {
  id: "schema", title: "Record types", key: "s",
  about: "Record types with their fields and indexes. Edit them in development; production changes only by promotion.",
  command: ({ container, environment, data }) => `schema export --container ${container} --environment ${environment} --data ${data}`,

  async show(body, { shell, parameters }) {
    const now = await get("schema");
    const name = parameters.get("type");
    const type = now.types.find((one) => one.name === name);
    if (type) return one(body, shell, type);
    fill(body,
      h("div.bar", null,
        !isProduction() && button("Create type…", () => newType(shell), { class: "strong", id: "new-type" }),
        button("As text…", () => text(shell, now.text)),
        h("a", { href: shell.link("promote") }, "Differences from production")),
      table([
        ["Type", (one) => h("a", { href: shell.link("schema", { type: one.name }) }, one.name)],
        ["Fields", (one) => one.fields.filter((field) => !field.isSystem).length, "number"],
        ["Indexes", (one) => one.fields.reduce((sum, field) => sum + field.indexes.length, 0), "number"],
        ["In the public database", (one) => h("a", { href: shell.link("records", { type: one.name }) }, upTo(one.records, one.isMore)), "number"],
        ["Roles", (one) => one.grants.map((grant) => grant.role).join(", "), "wrap"],
      ], now.types, "No record types yet. Save a first record from your app in development, or create a type here.", { caption: "Record types" }));
  },
};

/** Shows one record type. */
function one(body, shell, type) {
  const mayChange = !isProduction();
  const send = async (edit) => {
    await post("schema/edit", { recordType: type.name, ...edit });
    await shell.show();
  };
  const index = (field, name) => {
    const has = field.indexes.includes(name);
    if (!field.possible.includes(name)) return "";
    return h("label.check", null, h("input", {
      type: "checkbox", checked: has, disabled: !mayChange, "aria-label": `${field.name} ${name.toLowerCase()}`,
      onchange: guarded(async () => {
        const indexes = has ? field.indexes.filter((one) => one !== name) : [...field.indexes, name];
        await send({ declaration: declaration(field, indexes) });
        say(`${field.name} is ${has ? "no longer " : ""}${name.toLowerCase()}.`);
      }),
    }));
  };
  fill(body,
    h("div.bar", null, h("a", { href: shell.link("schema") }, "All types"), h("strong", null, type.name),
      h("a", { href: shell.link("records", { type: type.name }) }, "its records"),
      mayChange && button("Create field…", async () => { if (await newField(send)) say("The field is created."); }, { class: "strong", id: "new-field" }),
      mayChange && type.name !== "Users" && button("Delete type…", async () => {
        if (!await confirmed(`Delete ${type.name}?`, "Its records stay in development, but can no longer be written or queried. A type that production has cannot be deleted.", "Delete type")) return;
        await post("schema/edit", { recordType: type.name, removeType: true });
        shell.go("schema");
      }, { class: "danger" })),
    table([
      ["Field", (field) => field.isSystem ? h("span.quiet", null, field.name) : field.name, "mono"],
      ["Type", (field) => field.type, "mono"], ["Set by", (field) => (field.isSystem ? "the relay" : "clients")],
      ["Queryable", (field) => index(field, "QUERYABLE")], ["Sortable", (field) => index(field, "SORTABLE")],
      ["Searchable", (field) => index(field, "SEARCHABLE")],
      ["", (field) => mayChange && !field.isSystem && button("Delete…", async () => {
        if (!await confirmed(`Delete ${field.name}?`, "Its values stay in the records and reappear if you create the field again. A field that production has cannot be deleted.", "Delete field")) return;
        await send({ removeField: field.name });
      }, { class: "small danger", "aria-label": `Delete field ${field.name}` })],
    ], type.fields, "", { caption: `Fields of ${type.name}` }),
    h("h2", null, "Permissions in the public database"),
    table([["Role", (grant) => grant.role, "mono"], ["Permissions", (grant) => grant.rights.join(", ")]], type.grants,
      "No role has a permission for this type.", { caption: "Permissions" }),
    h("p", null, h("a", { href: shell.link("roles") }, "Edit permissions")));
}

/** Returns a field's declaration in the schema language. */
function declaration(field, indexes) {
  const name = field.isSystem ? `"${field.name}"` : field.name;
  return [name, field.type, ...indexes].join(" ");
}

async function newType(shell) {
  const name = await dialog("Create record type", (done) => {
    const input = h("input", { type: "text", required: true, pattern: "[A-Za-z][A-Za-z0-9_]*", spellcheck: "false" });
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      await post("schema/edit", { recordType: input.value });
      done(input.value);
    }) }, field("Name", input, "A letter, then letters, digits and underscores."),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
  if (name) shell.go("schema", { type: name });
}

/**
 * Shows a dialog that adds a field.
 * @param {(edit: any) => Promise<void>} send
 */
function newField(send) {
  return dialog("Create field", (done) => {
    const name = h("input", { type: "text", required: true, pattern: "[A-Za-z][A-Za-z0-9_]*", spellcheck: "false" });
    const type = select(TYPES, "STRING");
    const marks = ["QUERYABLE", "SORTABLE", "SEARCHABLE"].map((mark) => [mark, h("input", { type: "checkbox" })]);
    return h("form", { onsubmit: guarded(async (event) => {
      event.preventDefault();
      const indexes = marks.filter(([, box]) => box.checked).map(([mark]) => mark);
      await send({ declaration: [name.value, type.value, ...indexes].join(" ") });
      done(true);
    }) }, field("Name", name), field("Type", type, "The type cannot change once it is in production."),
    h("p", null, marks.map(([mark, box]) => h("label.check", null, box, mark.toLowerCase()))),
    h("div.actions", null, h("button.strong", { type: "submit" }, "Create")));
  });
}

/** Shows a dialog with the whole schema as text. In development the user can import an edited text. */
function text(shell, now) {
  return dialog("Schema as text", (done) => {
    const area = h("textarea", { rows: 18, spellcheck: "false", readonly: isProduction(), "aria-label": "Schema" });
    area.value = now;
    const outcome = h("div", { "aria-live": "polite" });
    const send = (applies) => async () => {
      const answer = await post("schema/import", { text: area.value, applies });
      fill(outcome, report(answer));
      if (answer.isApplied) {
        say("The schema is imported into development.");
        done();
        await shell.show();
      }
    };
    return [area, outcome, h("div.actions", null,
      button("Export", () => download(`${place.container}.ckdb`, "text/plain", area.value)),
      !isProduction() && button("Check", send(false), { id: "check-text" }),
      !isProduction() && button("Import into development", send(true), { class: "strong" }))];
  });
}

/**
 * Lists the issues and changes that the relay reports for a schema edit.
 * @param {any} answer
 */
export function report(answer) {
  return [
    answer.issues.map((issue) => h(issue.isWarning ? "p.note" : "p.trouble", null,
      issue.line ? `Line ${issue.line}, column ${issue.column}: ` : "", issue.message)),
    answer.isAllowed && !answer.changes.length && h("p", null, "No differences."),
    answer.changes.length > 0 && table([
      ["", (change) => h(change.sign === "+" ? "b.added" : change.sign === "-" ? "b.removed" : "b.changed", null, change.sign)],
      ["Element", (change) => change.element, "wrap"],
      ["Before", (change) => h("code", null, change.before || "–")], ["After", (change) => h("code", null, change.after || "–")],
    ], answer.changes, "", { caption: "Changes" }),
  ];
}
