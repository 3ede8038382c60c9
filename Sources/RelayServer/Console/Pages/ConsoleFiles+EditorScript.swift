extension ConsoleFiles {
    /// One record: its system fields, its values by type, references as links, assets with a preview.
    static let editorScript = #"""
        // One record: its system fields, its values by type, references as links, assets with a preview.

        import { wire } from "./api.js";
        import { button, complain, confirmed, dialog, fill, guarded, h, say } from "./dom.js";
        import { bytes, moment } from "./format.js";
        import { typed, wireType } from "./query.js";

        /**
         * A value to look at. @param {{ value: any, type: string }} field @param {(recordName: string) => void} open Follows a reference.
         * @param {boolean} [isShort] For a table.
         */
        export function shown(field, open, isShort = false) {
          const { value, type } = field;
          if (Array.isArray(value)) {
            const some = isShort ? value.slice(0, 3) : value;
            return some.map((one, index) => [index ? ", " : "", shown({ value: one, type: type?.replace(/_LIST$/, "") }, open, isShort)])
              .concat(value.length > some.length ? ` … (${value.length})` : "");
          }
          if (value && typeof value === "object") {
            if (value.recordName) return button(value.recordName, () => open(value.recordName), { class: "plain small mono", title: "Open this record" });
            if (value.fileChecksum || value.downloadURL) return asset(value, isShort);
            if (value.latitude !== undefined) return `${value.latitude}, ${value.longitude}`;
            return JSON.stringify(value);
          }
          if (type === "TIMESTAMP") return moment(value);
          const text = String(value ?? "");
          return isShort && text.length > 80 ? `${text.slice(0, 80)}…` : text;
        }

        /** The path of an asset here, whatever name the relay has for itself. */
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

        /** What a form's input says of a value. */
        function asText(field, type) {
          if (field === undefined) return "";
          const one = (value) => {
            if (value && typeof value === "object") {
              if (value.recordName) return value.action && value.action !== "NONE" ? `${value.recordName} ${value.action}` : value.recordName;
              if (value.latitude !== undefined) return `${value.latitude}, ${value.longitude}`;
              return JSON.stringify(value);
            }
            return String(value);
          };
          return Array.isArray(field.value) ? field.value.map(one).join("\n") : one(field.value);
        }

        /**
         * Shows a record and changes it. @param {any} type As the schema has it. @param {any} record `undefined` for a new one.
         * @param {(recordName: string) => void} open @returns {Promise<boolean>} Whether something was changed.
         */
        export async function edit(type, record, open) {
          const isNew = !record;
          const isFixed = type.name === "Users";
          const own = type.fields.filter((field) => !field.isSystem);
          /** @type {Map<string, { input: any, field: any, before: string, asset?: any, isCleared?: boolean }>} */ const inputs = new Map();
          const name = h("input", { type: "text", placeholder: "made by the relay when empty", spellcheck: "false", autocomplete: "off" });

          const changed = await dialog(isNew ? `New ${type.name}` : record.recordName, (done) => {
            const follow = (recordName) => { done(); open(recordName); };
            const rows = own.map((field) => {
              const value = record?.fields?.[field.name];
              const before = asText(value, field.type);
              const form = wireType(field.type);
              const entry = { input: undefined, field, before };
              inputs.set(field.name, entry);
              if (form.startsWith("ASSET")) entry.input = h("input", { type: "file", onchange: guarded(async (event) => { entry.asset = event.target.files[0]; }) });
              else if (field.isEncrypted) entry.input = h("input", { type: "text", value: value ? "encrypted by its writer" : "", disabled: true });
              else if (field.type.startsWith("LIST<")) entry.input = h("textarea", { rows: 3, placeholder: "one value on a line" });
              else if (form === "STRING") entry.input = h("textarea", { rows: before.length > 60 ? 4 : 1 });
              else entry.input = h("input", { type: "text", placeholder: form === "TIMESTAMP" ? "2026-05-01T10:00 or milliseconds" : "" });
              if (entry.input.type !== "file" && !field.isEncrypted) entry.input.value = before;
              const reference = value?.value?.recordName && button("open", () => follow(value.value.recordName), { class: "small" });
              return h("div.field", null,
                h("span", null, field.name, " ", h("small", null, field.type), " ",
                  form === "TIMESTAMP" && before && h("small", null, moment(Number(before))), reference),
                value?.value?.downloadURL && [asset(value.value, false), h("label.check", null,
                  h("input", { type: "checkbox", onchange: (event) => { entry.isCleared = event.target.checked; } }), "remove it")],
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
                  ? "Somebody has changed this record meanwhile. Close it and open it again." : error.message;
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

        /** Sends what was changed, and only that. */
        async function save(type, record, recordName, inputs) {
          const fields = {};
          for (const [name, { input, field, before, asset: file, isCleared }] of inputs) {
            if (isCleared && !file) fields[name] = { value: null };
            else if (file) fields[name] = { value: await upload(type.name, name, record?.recordName ?? recordName, file), type: "ASSETID" };
            else if (input.type !== "file" && !field.isEncrypted && input.value !== before) {
              fields[name] = input.value === "" ? { value: null } : typed(field.type, input.value);
            }
          }
          if (record && !Object.keys(fields).length) { say("Nothing was changed."); return false; }
          const operation = record
            ? { operationType: "update", record: { recordName: record.recordName, recordType: type.name, recordChangeTag: record.recordChangeTag, fields } }
            : { operationType: "create", record: { ...(recordName && { recordName }), recordType: type.name, fields } };
          await modify(operation, `${operation.operationType} ${type.name}`);
          say(record ? "Saved." : "Created.");
          return true;
        }

        async function modify(operation, subject) {
          const answer = await wire("records/modify", { operations: [operation] }, { subject });
          const result = answer.records[0];
          if (result.serverErrorCode) throw Object.assign(new Error(result.reason ?? result.serverErrorCode), { code: result.serverErrorCode });
          return result;
        }

        async function remove(record) {
          if (!await confirmed(`Delete ${record.recordName}?`, "It is deleted for everybody. This cannot be undone.", "Delete")) return false;
          try {
            await modify({ operationType: "delete", record: { recordName: record.recordName, recordChangeTag: record.recordChangeTag } }, `delete ${record.recordType}`);
          } catch (error) { complain(error); return false; }
          say("Deleted.");
          return true;
        }

        /** Brings a file to the relay; gives the receipt that goes into the field. */
        async function upload(recordType, fieldName, recordName, file) {
          const { tokens } = await wire("assets/upload", { tokens: [{ recordType, fieldName, ...(recordName && { recordName }) }] });
          const response = await fetch(local(tokens[0].url), { method: "POST", body: file });
          if (!response.ok) throw new Error("The relay did not take the file: it may be too large.");
          return (await response.json()).singleFile;
        }

        """#
}
