// The record editor: system fields, an input for each field by its type, references as links, and asset previews.

import { wire } from "./api.js";
import { button, complain, confirmed, dialog, fill, guarded, h, say } from "./dom.js";
import { asText, dateText, hint, typed, wireType } from "./fieldtext.js";
import { bytes, moment } from "./format.js";
import { readJSON, writeJSON } from "./json.js";

/**
 * Returns a field's value for display.
 * @param {{ value: any, type: string }} field
 * @param {(recordName: string) => void} open Opens the record that a reference names.
 * @param {boolean} [isShort] Shortens the value for a table cell.
 */
export function shown(field, open, isShort = false) {
  const { value, type } = field;
  if (Array.isArray(value)) {
    const some = isShort ? value.slice(0, 3) : value;
    /** @type {any[]} */
    const parts = some.map((one, index) => [index ? ", " : "", shown({ value: one, type: type?.replace(/_LIST$/, "") }, open, isShort)]);
    return parts.concat(value.length > some.length ? ` … (${value.length})` : "");
  }
  if (value && typeof value === "object") {
    if (value.recordName) return button(value.recordName, () => open(value.recordName), { class: "plain small mono", title: "Open this record" });
    if (value.fileChecksum || value.downloadURL) return asset(value, isShort);
    if (value.latitude !== undefined) return asText(field, "LOCATION");
    return writeJSON(value);
  }
  if (type === "TIMESTAMP") return dateText(value);
  const text = typeof value === "string" ? value : writeJSON(value) ?? "";
  return isShort && text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** Returns an asset's address on the host of this page. The relay's own address may name another host. */
const local = (address) => {
  const url = new URL(address, location.href);
  return url.host === location.host ? url.href : `..${url.pathname}${url.search}`;
};

function asset(value, isShort) {
  const words = `asset, ${bytes(value.size)}`;
  if (isShort || !value.downloadURL) return h("span.badge", null, words);
  const link = h("a", { href: local(value.downloadURL), download: "", rel: "noreferrer" }, "download");
  const picture = h("img.thumb", { src: local(value.downloadURL), alt: "Preview of the asset", loading: "lazy" });
  picture.addEventListener("error", () => picture.remove());
  return h("span", null, words, " · ", link, picture);
}

/**
 * Shows a record in a dialog and saves the edits.
 * @param {any} type The record type's schema.
 * @param {any} record `undefined` for a new one.
 * @param {(recordName: string) => void} open
 * @returns {Promise<boolean>} Whether the record was created, changed or deleted.
 */
export async function edit(type, record, open) {
  const isNew = !record;
  const isFixed = type.name === "Users";
  const own = type.fields.filter((field) => !field.isSystem);
  /** @type {Map<string, { input: any, field: any, text: string, shown: string, asset?: any, isCleared?: boolean }>} */ const inputs = new Map();
  const name = h("input", { type: "text", placeholder: "chosen by the relay if empty", spellcheck: "false", autocomplete: "off" });

  const changed = await dialog(isNew ? `Create record of type ${type.name}` : record.recordName, (done) => {
    const follow = (recordName) => { done(); open(recordName); };
    const rows = own.map((field) => {
      const value = record?.fields?.[field.name];
      const text = asText(value, field.type);
      const form = wireType(field.type);
      const entry = { input: undefined, field, text, shown: "" };
      inputs.set(field.name, entry);
      if (form.startsWith("ASSET")) entry.input = h("input", { type: "file", onchange: guarded(async (event) => { entry.asset = event.target.files[0]; }) });
      else if (field.isEncrypted) entry.input = h("input", { type: "text", value: value ? "encrypted by the app" : "", disabled: true });
      else if (field.type.startsWith("LIST<")) entry.input = h("textarea", { rows: 3, placeholder: hint(field.type) });
      else if (form === "STRING") entry.input = h("textarea", { rows: text.length > 60 || text.includes("\n") ? 4 : 1, placeholder: value ? "an empty string" : "no value" });
      else entry.input = h("input", { type: "text", placeholder: hint(field.type) });
      if (entry.input.type !== "file" && !field.isEncrypted) entry.input.value = text;
      // The input normalises line ends, so detect edits by its own value and not by the stored text.
      entry.shown = entry.input.value;
      const reference = value?.value?.recordName && button("open", () => follow(value.value.recordName), { class: "small" });
      return h("div.field", null,
        h("span", null, field.name, " ", h("small", null, field.type), " ",
          form === "TIMESTAMP" && value && h("small", null, dateText(value.value)), reference),
        value?.value?.downloadURL && [asset(value.value, false), h("label.check", null,
          h("input", { type: "checkbox", onchange: (event) => { entry.isCleared = event.target.checked; } }), "delete")],
        entry.input);
    });
    const trouble = h("p.trouble", { role: "alert", hidden: true });
    return h("form", { onsubmit: async (event) => {
      event.preventDefault();
      trouble.hidden = true;
      try {
        if (await save(type, record, name.value.trim(), inputs)) done(true);
      } catch (error) {
        trouble.textContent = error.code === "CONFLICT"
          ? "The record was changed after you opened it. Close it and open it again." : error.message;
        trouble.hidden = false;
      }
    } },
    isNew ? h("label.field", null, h("span", null, "Record name"), name) : facts(record, follow),
    rows.length ? h("h3", null, "Fields") : h("p.quiet", null, "This type has no fields of its own."), rows, trouble,
    h("div.actions", null,
      !isNew && !isFixed && button("Delete…", async () => { if (await remove(record)) done(true); }, { class: "danger" }),
      h("button.strong", { type: "submit" }, isNew ? "Create" : "Save")));
  });
  return Boolean(changed);
}

function facts(record, follow) {
  const by = (stamp) => stamp && [moment(stamp.timestamp), " by ", h("code", null, stamp.userRecordName ?? "–")];
  return h("details", { open: true }, h("summary", null, "System fields"), h("dl.facts", null,
    h("dt", null, "Record type"), h("dd", null, record.recordType),
    h("dt", null, "Change tag"), h("dd", null, h("code", null, record.recordChangeTag)),
    h("dt", null, "Created"), h("dd", null, by(record.created)),
    h("dt", null, "Modified"), h("dd", null, by(record.modified)),
    record.parent && [h("dt", null, "Parent"), h("dd", null, button(record.parent.recordName, () => follow(record.parent.recordName), { class: "plain small mono" }))]));
}

/** Sends only the fields that were changed. */
async function save(type, record, recordName, inputs) {
  const fields = {};
  for (const [name, { input, field, text, shown, asset: file, isCleared }] of inputs) {
    if (isCleared && !file) fields[name] = { value: null };
    else if (file) fields[name] = { value: await upload(type.name, name, record?.recordName ?? recordName, file), type: "ASSETID" };
    else if (input.type !== "file" && !field.isEncrypted && input.value !== shown) fields[name] = changed(name, field.type, input.value, text);
  }
  if (record && !Object.keys(fields).length) { say("Nothing was changed."); return false; }
  const operation = record
    ? { operationType: "update", record: { recordName: record.recordName, recordType: type.name, recordChangeTag: record.recordChangeTag, fields } }
    : { operationType: "create", record: { ...(recordName && { recordName }), recordType: type.name, fields } };
  await modify(operation, `${operation.operationType} ${type.name}`);
  say(record ? "Saved." : "Created.");
  return true;
}

/**
 * Returns the field for an edited text.
 * @param {string} name
 * @param {string} type
 * @param {string} input The new text.
 * @param {string} before The old text.
 */
function changed(name, type, input, before) {
  if (input === "") return { value: null };
  try {
    // The input turns CRLF into LF. Restore CRLF if the old text used it throughout.
    const isWindows = wireType(type) === "STRING" && /\r\n/.test(before) && !/\r(?!\n)|(?<!\r)\n/.test(before);
    return typed(type, isWindows ? input.replace(/\r?\n/g, "\r\n") : input);
  } catch (error) {
    throw new Error(`${name}: ${error.message} Nothing was saved.`);
  }
}

async function modify(operation, subject) {
  const answer = await wire("records/modify", { operations: [operation] }, { subject });
  const result = answer.records[0];
  if (result.serverErrorCode) throw Object.assign(new Error(result.reason ?? result.serverErrorCode), { code: result.serverErrorCode });
  return result;
}

async function remove(record) {
  if (!await confirmed(`Delete ${record.recordName}?`, "The record is deleted for all users. This cannot be undone.", "Delete")) return false;
  try {
    await modify({ operationType: "delete", record: { recordName: record.recordName, recordChangeTag: record.recordChangeTag } }, `delete ${record.recordType}`);
  } catch (error) { complain(error); return false; }
  say("Deleted.");
  return true;
}

/** Uploads a file. Returns the receipt, which is the field's value. */
async function upload(recordType, fieldName, recordName, file) {
  const { tokens } = await wire("assets/upload", { tokens: [{ recordType, fieldName, ...(recordName && { recordName }) }] });
  const response = await fetch(local(tokens[0].url), { method: "POST", body: file });
  if (!response.ok) throw new Error("The relay refused the file. It may be too large.");
  return readJSON(await response.text()).singleFile;
}
