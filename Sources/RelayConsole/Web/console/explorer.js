// The API explorer: sends any operation of the wire protocol, and shows the same call for curl and in Swift.

import { callText, place, post } from "./api.js";
import { copyable, field, fill, guarded, h, select } from "./dom.js";
import { laidOut } from "./format.js";
import { readJSON, writeJSON } from "./json.js";

/** The address of the relay that serves this page, including the path prefix of a proxy. */
const base = new URL("../", location.href).href.replace(/\/$/, "").replace(/[#?].*$/, "");

/** @type {import("./sections.js").Page} */
export const explorer = {
  id: "explorer", title: "API explorer", key: "e",
  about: "Sends any operation, as a user by tokens (which stay in this page) or as yourself in the public database.",

  async show(body, { shell, parameters }) {
    const description = await (await fetch("../openapi.json")).json();
    const operations = Object.entries(description.paths).flatMap(([path, item]) =>
      Object.entries(item).filter(([method]) => method === "post" || (method === "get" && !item.post)).map(([method, one]) => ({ path, method, one, name: nameOf(path) })));
    const choice = select([...new Set(operations.map(({ name }) => name))], parameters.get("operation") ?? "records/query", { id: "operation" });
    const database = select(["public", "private", "shared"], parameters.get("database") ?? "private");
    const who = select([["user", "a user, by tokens"], ["operator", "myself, public database"]], parameters.get("as") ?? "user");
    const apiToken = h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: kept.apiToken, placeholder: "64 hex digits; none with --dev or a user's code" });
    const webToken = h("input", { type: "text", autocomplete: "off", spellcheck: "false", value: kept.webToken, placeholder: "dev-alice, or a code from the user's account page" });
    const area = h("textarea", { rows: 12, spellcheck: "false", "aria-label": "Request body" });
    const texts = h("div"), answer = h("div", { "aria-live": "polite" }), about = h("p.quiet", null);
    const chosen = () => operations.find(({ name }) => name === choice.value);
    const address = (hidesTokens) => {
      const query = new URLSearchParams();
      if (apiToken.value) query.set("ckAPIToken", hidesTokens ? "$API_TOKEN" : apiToken.value);
      if (webToken.value) query.set("ckWebAuthToken", hidesTokens && !webToken.value.startsWith("dev-") ? "$WEB_TOKEN" : webToken.value);
      const { path } = chosen();
      const where = path.replace("{version}", "1").replace("{container}", place.container).replace("{environment}", place.environment).replace("{database}", database.value);
      const asked = query.toString();
      return `${base}${where}${asked ? `?${asked}` : ""}`.replaceAll("%24", "$");
    };
    const describe = () => {
      kept.apiToken = apiToken.value;
      kept.webToken = webToken.value;
      fill(about, chosen().one.summary ?? "");
      fill(texts, h("div.two", null,
        h("section", null, h("h3", null, "curl"), copyable(curl(chosen().method, address(true), area.value))),
        h("section", null, h("h3", null, "Swift"), copyable(swift(choice.value, database.value, area.value)))));
    };
    const show = (status, text, time) => fill(answer, h("h3", null, "Response "),
      h("p", null, h(status < 400 ? "span.badge.good" : "span.badge.bad", null, `${status}`), ` ${time} ms`), copyable(text));
    const begin = () => { area.value = JSON.stringify(sample(choice.value), null, 2); describe(); };
    choice.addEventListener("change", begin);
    const banner = h("p.note", { role: "status", id: "acting", hidden: true });
    const tell = () => {
      const isActing = who.value === "user" && webToken.value.trim() !== "";
      banner.hidden = !isActing;
      fill(banner, "You act as ", h("strong", null, webToken.value.startsWith("dev-") ? webToken.value : "the user of this token"),
        ": requests run as this user and show this user's data. The audit log records this.");
    };
    webToken.addEventListener("input", tell);
    who.addEventListener("change", tell);
    const tokens = h("div.row.tokens", null, h("div.grow", null, field("API token", apiToken)), h("div.grow", null, field("Web auth token", webToken)));
    who.addEventListener("change", () => {
      const isSelf = who.value === "operator";
      tokens.hidden = isSelf;
      database.disabled = isSelf;
      if (isSelf) database.value = "public";
      describe();
    });
    for (const input of [database, apiToken, webToken, area]) input.addEventListener("input", describe);
    const send = guarded(async (event) => {
      event?.preventDefault();
      const isGet = chosen().method === "get";
      // Throws if the text is not JSON. The request contains the text as typed.
      if (!isGet) readJSON(area.value);
      const start = performance.now();
      if (who.value === "operator") {
        const shown = await callText("POST", `wire/${choice.value}`, { subject: `explorer: ${choice.value}` }, area.value)
          .then((text) => [200, text], (error) => [error.status ?? 0, error.text || error.message]);
        return show(shown[0], whole(shown[1], 2), Math.round(performance.now() - start));
      }
      const token = webToken.value.trim();
      if (token && !token.startsWith("dev-") && !apiToken.value) {
        const shown = await callText("POST", `act/${database.value}/${choice.value}`, {}, area.value, { "X-Zonecast-Consent": token })
          .then((text) => [200, text], (error) => [error.status ?? 0, error.text || error.message]);
        return show(shown[0], whole(shown[1], 2), Math.round(performance.now() - start));
      }
      if (token) {
        await post("explorer/act", { user: webToken.value.startsWith("dev-") ? webToken.value : "by a token", operation: `${database.value} ${choice.value}` });
      }
      const response = await fetch(address(false), isGet ? {} : { method: "POST", headers: { "Content-Type": "text/plain" }, body: area.value });
      const text = await response.text();
      const time = Math.round(performance.now() - start);
      show(response.status, whole(text, 2), time);
    });
    fill(body, banner, h("form", { onsubmit: send },
      h("div.row", null, field("Operation", choice), field("As", who), field("Database", database)), tokens,
      about, area, h("div.actions", null, h("button.strong", { type: "submit", id: "send" }, "Send"))), answer, texts);
    begin();
    tell();
  },
};

/** The tokens the user has typed. They are kept in memory only. */
export const kept = { apiToken: "", webToken: "" };

/** Returns the operation's name, such as `records/query` for `/database/{version}/…/records/query`. */
function nameOf(path) {
  return path.replace(/^\/(database|device)\/(1|\{version\})\/\{container\}\/\{environment\}\/(\{database\}\/|public\/|private\/|shared\/)?/, "");
}

/** Returns an example of an operation's request body. */
function sample(name) {
  const zoneID = { zoneName: "Notes" };
  const record = { recordName: "n1", recordType: "Note", fields: { title: { value: "Buy milk", type: "STRING" } } };
  switch (name) {
    case "records/query": return { zoneID, query: { recordType: "Note", sortBy: [{ fieldName: "title", ascending: true }] }, resultsLimit: 20 };
    case "records/modify": return { zoneID, operations: [{ operationType: "create", record }] };
    case "records/lookup": return { zoneID, records: [{ recordName: "n1" }] };
    case "zones/modify": return { operations: [{ operationType: "create", zone: { zoneID } }] };
    case "zones/lookup": return { zones: [{ zoneID }] };
    case "changes/zone": return { zones: [{ zoneID }] };
    case "subscriptions/modify": return { operations: [{ operationType: "create", subscription: { subscriptionID: "all", subscriptionType: "database" } }] };
    case "users/lookup/email": return { users: [{ emailAddress: "ada@example.org" }] };
    default: return {};
  }
}

const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl(method, address, text) {
  const body = method === "get" ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${shellQuoted(whole(text))}`;
  // Double quotes let the shell expand the variables that hold the tokens.
  return `curl "${address}"${body}`;
}

/** Reformats JSON without changing a digit; returns any other text as it is. */
function whole(text, indent = 0) {
  try { readJSON(text); } catch { return text; }
  return laidOut(text, indent);
}

/** Returns Swift code for the call. ZoneKit uses CloudKit's names. */
function swift(name, database, text) {
  const scope = { public: "publicCloudDatabase", private: "privateCloudDatabase", shared: "sharedCloudDatabase" }[database];
  const quoted = (value) => JSON.stringify(String(value ?? ""));
  let body = {};
  try { body = readJSON(text) ?? {}; } catch { /* a body under way */ }
  const zone = body.zoneID?.zoneName ? `CKRecordZone.ID(zoneName: ${quoted(body.zoneID.zoneName)})` : ".default";
  const head = `import ZoneKit  // or CloudKit\n\nlet database = CKContainer(identifier: ${quoted(place.container)}).${scope}\n`;
  const value = (one) => typeof one === "string" ? quoted(one) : writeJSON(one);
  switch (name) {
    case "records/query": {
      const sort = (body.query?.sortBy ?? []).map((one) => `NSSortDescriptor(key: ${quoted(one.fieldName)}, ascending: ${one.ascending !== false})`);
      return `${head}let query = CKQuery(recordType: ${quoted(body.query?.recordType)}, predicate: NSPredicate(value: true))\n`
        + (sort.length ? `query.sortDescriptors = [${sort.join(", ")}]\n` : "")
        + `let (results, cursor) = try await database.records(matching: query, inZoneWith: ${zone})\n`;
    }
    case "records/modify": {
      const lines = (body.operations ?? []).flatMap((one, index) => {
        if (/delete/i.test(one.operationType)) return [`try await database.deleteRecord(withID: CKRecord.ID(recordName: ${quoted(one.record?.recordName)}, zoneID: ${zone}))`];
        const fields = Object.entries(one.record?.fields ?? {}).map(([key, entry]) => `record${index}[${quoted(key)}] = ${value(entry?.value)}`);
        return [`let record${index} = CKRecord(recordType: ${quoted(one.record?.recordType)}, recordID: CKRecord.ID(recordName: ${quoted(one.record?.recordName)}, zoneID: ${zone}))`, ...fields, `try await database.save(record${index})`];
      });
      return `${head}${lines.join("\n")}\n`;
    }
    case "records/lookup": return `${head}let record = try await database.record(for: CKRecord.ID(recordName: ${quoted(body.records?.[0]?.recordName)}, zoneID: ${zone}))\n`;
    case "zones/modify": return `${head}let zone = try await database.save(CKRecordZone(zoneName: ${quoted(body.operations?.[0]?.zone?.zoneID?.zoneName)}))\n`;
    case "zones/list": return `${head}let zones = try await database.allRecordZones()\n`;
    case "changes/zone": return `${head}let changes = try await database.recordZoneChanges(inZoneWith: CKRecordZone.ID(zoneName: ${quoted(body.zones?.[0]?.zoneID?.zoneName)}), since: nil)\n`;
    case "changes/database": return `${head}let changes = try await database.databaseChanges(since: nil)\n`;
    case "subscriptions/list": return `${head}let subscriptions = try await database.allSubscriptions()\n`;
    case "subscriptions/modify": return `${head}let subscription = try await database.save(CKDatabaseSubscription(subscriptionID: ${quoted(body.operations?.[0]?.subscription?.subscriptionID)}))\n`;
    case "users/caller": case "users/current": return `import ZoneKit  // or CloudKit\n\nlet user = try await CKContainer(identifier: ${quoted(place.container)}).userRecordID()\n`;
    default: return "// ZoneKit makes this call internally. It has no function of its own in Swift.\n";
  }
}
