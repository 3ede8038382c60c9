// zonecast.js: a client for a Zonecast relay, and for no framework. MIT licence.
//
//   import { Container } from "https://relay.example/zonecast.js";
//
//   const container = new Container({
//     url: "https://relay.example", container: "iCloud.org.example.notes",
//     environment: "development", webAuthToken: "dev-alice",
//   });
//   const notes = container.privateDatabase;
//   await notes.saveZones(["Notes"]);
//   const note = await notes.save({ recordType: "Note", fields: { title: "Buy milk" } }, { zone: "Notes" });
//   const { records } = await notes.query({ recordType: "Note" }, { zone: "Notes" });
//
// The words are CloudKit's, and what is answered is what the wire says (CloudKit Web Services). Browsers of 2022 and later,
// and every JavaScript runtime with fetch and WebSocket.
//
// Numbers are exact. In answers, a whole number for which `Number.isSafeInteger` is false is a `BigInt`. Callers may pass
// `BigInt` wherever they may pass numbers. `JSON.stringify` throws for `BigInt`; use `writeJSON` and `readJSON` instead.

import { readJSON, stringEnd, UnwritableValue, writeJSON } from "./json.js";

export { readJSON, stringEnd, UnwritableValue, writeJSON } from "./json.js";

/**
 * @typedef {{ zoneName: string, ownerRecordName?: string }} ZoneID
 * @typedef {string | ZoneID} Zone  A zone of one's own may be named by its name alone.
 * @typedef {{ value: any, type?: string, isEncrypted?: boolean, exactSeconds?: any }} Field  As on the wire.
 * @typedef {{ recordName?: string, recordType?: string, recordChangeTag?: string, fields?: Object<string, any>,
 *   zoneID?: ZoneID, deleted?: boolean, [key: string]: any }} Record
 *   In requests a field may be a plain value: see `field`. In answers fields are as on the wire: see `values`.
 * @typedef {{ zone?: Zone, atomic?: boolean, desiredKeys?: string[], numbersAsStrings?: boolean }} RequestOptions
 * @typedef {{ method: string, path: string, body?: any, status: number, answer: any, started: number, ended: number,
 *   error?: string }} Exchange  A request and its answer, without the tokens; times as of `performance.now()`.
 */

/** Why something was refused, or did not arrive. */
export class RelayError extends Error {
  /**
   * @param {Object<string, any>} answer
   * @param {number} [status]
   */
  constructor(answer, status = 0) {
    super(`${answer.serverErrorCode ?? "UNKNOWN_ERROR"}: ${answer.reason ?? "no reason given"}`);
    this.name = "RelayError";
    /**
     * `CONFLICT`, `NOT_FOUND`, …; `NETWORK_ERROR` where no answer came.
     * @type {string}
     */
    this.serverErrorCode = answer.serverErrorCode ?? "UNKNOWN_ERROR";
    /**
     * What the published codes have no word for, such as `CHANGE_TOKEN_EXPIRED`.
     * @type {string | undefined}
     */
    this.ckErrorCode = answer.ckErrorCode;
    /** @type {string} */ this.reason = answer.reason ?? "";
    /**
     * Seconds to wait before a retry; `undefined`: a retry does not help.
     * @type {number | undefined}
     */
    this.retryAfter = answer.retryAfter === undefined ? undefined : Number(answer.retryAfter);
    /**
     * Where to sign in, with `AUTHENTICATION_REQUIRED`.
     * @type {string | undefined}
     */
    this.redirectURL = answer.redirectURL;
    /** @type {string | undefined} */ this.uuid = answer.uuid;
    /** @type {number} */ this.status = status;
    /**
     * Which record, in an answer about several.
     * @type {string | undefined}
     */
    this.recordName = answer.recordName;
    /** @type {ZoneID | undefined} */ this.zoneID = answer.zoneID;
    /**
     * The record as the relay has it, with `CONFLICT`.
     * @type {Record | undefined}
     */
    this.serverRecord = answer.serverRecord;
    /**
     * What became of each record, with `ATOMIC_ERROR`.
     * @type {(Record | RelayError)[] | undefined}
     */
    this.records = answer.records?.map(result);
  }

  /** Nothing is wrong with what was sent: the same may be sent again, and takes effect once. */
  get isPassing() {
    return ["NETWORK_ERROR", "THROTTLED", "TRY_AGAIN_LATER"].includes(this.serverErrorCode);
  }

  /** Whether what was sent may have been carried out all the same: its answer was lost, or somebody else gave one. */
  get leavesOutcomeOpen() { return this.status >= 500 || this.serverErrorCode === "NETWORK_ERROR"; }

  /** The token is of another time: forget it, and fetch from the start. */
  get isTokenExpired() { return this.ckErrorCode === "CHANGE_TOKEN_EXPIRED"; }
}

/**
 * An item of an answer, or the error that it says.
 * @returns {any}
 */
const result = (item) => (item.serverErrorCode ? new RelayError(item) : item);

/**
 * @param {Zone} zone
 * @returns {ZoneID}
 */
export const zoneID = (zone) => (typeof zone === "string" ? { zoneName: zone } : zone);

/** The error for a value that no field can hold. It is thrown before anything is sent. */
const unsendable = (reason) => new RelayError({ serverErrorCode: "BAD_REQUEST", reason });

/**
 * A field for the wire: from a text, number, `BigInt`, boolean (1 or 0), `Date`, `Uint8Array`, list of these, reference or
 * location; `null` clears the field. A field in wire form (with a `value`) is kept. Whole numbers and empty lists get no type,
 * since a 2 may be meant for a DOUBLE field; the schema decides. Throws a `RelayError` for values that no field can hold:
 * `NaN`, infinities, invalid dates, and a `BigInt` of more than 64 bits.
 * @param {any} value
 * @returns {Field}
 */
export function field(value) {
  if (value === null || value === undefined) return { value: null };
  if (typeof value === "string") return { value, type: "STRING" };
  if (typeof value === "boolean") return { value: value ? 1 : 0, type: "INT64" };
  if (typeof value === "bigint") {
    if (BigInt.asIntN(64, value) !== value) throw unsendable(`${value} has more than the 64 bits of an INT64.`);
    return { value };
  }
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw unsendable(`${value} is not a number that a field can hold.`);
    return isWhole(value) ? { value } : { value, type: "DOUBLE" };
  }
  if (value instanceof Date) return moment(value);
  if (value instanceof Uint8Array) return { value: base64(value), type: "BYTES" };
  if (Array.isArray(value)) return list(Array.from(value, field));
  if (typeof value !== "object") throw unsendable(`A ${typeof value} is not a value that a field can hold.`);
  if ("value" in value) return "exactSeconds" in value ? refined(value) : value;
  if ("recordName" in value) return { value: { action: "NONE", ...value }, type: "REFERENCE" };
  if ("latitude" in value) return { value, type: "LOCATION" };
  return { value, type: "ASSETID" };
}

/** The `exactSeconds` of dates that `values` made: a `Date` holds whole milliseconds only. */
const beyondMilliseconds = new WeakMap();

/** @param {Date} date */
function moment(date) {
  const value = date.getTime();
  if (Number.isNaN(value)) throw unsendable("An invalid date is not a value that a field can hold.");
  const read = beyondMilliseconds.get(date);
  return { value, type: "TIMESTAMP", ...(read?.value === value && { exactSeconds: read.exactSeconds }) };
}

/** Removes `exactSeconds` from a field in wire form if its value has been changed to another millisecond since. */
function refined({ exactSeconds, ...field }) {
  const isOf = (seconds, value) => typeof seconds === "number" && Math.abs((seconds + 978_307_200) * 1000 - Number(value)) <= 0.5;
  if (!Array.isArray(field.value)) return isOf(exactSeconds, field.value) ? { ...field, exactSeconds } : field;
  const kept = field.value.map((value, index) => (isOf(exactSeconds?.[index], value) ? exactSeconds[index] : null));
  return kept.some((one) => one !== null) ? { ...field, exactSeconds: kept } : field;
}

/** @param {Field[]} items */
function list(items) {
  const type = items.some((item) => item.type === "DOUBLE") ? "DOUBLE" : items.find((item) => item.type)?.type;
  const exactSeconds = items.map((item) => item.exactSeconds ?? null);
  return {
    value: items.map((item) => item.value), ...(type && { type: `${type}_LIST` }),
    ...(exactSeconds.some((one) => one !== null) && { exactSeconds }),
  };
}

/** The types that `values` converts; it leaves fields of other types in wire form. */
const PLAIN = /^((STRING|BYTES|INT64|DOUBLE|TIMESTAMP|REFERENCE|LOCATION|ASSET|ASSETID|NUMBER_INT64|NUMBER_DOUBLE)(_LIST)?|UNKNOWN_LIST)$/;

/**
 * A record's fields as plain values: `TIMESTAMP` as `Date`, `BYTES` as `Uint8Array`, other types as they came. A time outside
 * of `Date`'s range stays a number of milliseconds, and a field of an unknown type stays in wire form (value and type).
 * Saving the values again does not change the stored fields.
 * @param {Record} record
 * @returns {Object<string, any>}
 */
export function values(record) {
  return Object.fromEntries(Object.entries(record.fields ?? {}).map(([name, field]) => [name, plainValue(field)]));
}

/** @param {Field} field */
function plainValue(field) {
  const { value, type, exactSeconds } = field;
  if (type && !PLAIN.test(type)) return field;
  if (!Array.isArray(value)) return plainItem(value, type, exactSeconds);
  return value.map((item, index) => plainItem(item, type?.replace(/_LIST$/, ""), exactSeconds?.[index]));
}

function plainItem(value, type, exactSeconds) {
  if (type === "BYTES") return bytes(value);
  if (type !== "TIMESTAMP") return value;
  const date = new Date(Number(value));
  if (Number.isNaN(date.getTime())) return value;
  if (typeof exactSeconds === "number") beyondMilliseconds.set(date, { value: date.getTime(), exactSeconds });
  return date;
}

const isWhole = (value) => Number.isInteger(value) && value >= -(2 ** 63) && value < 2 ** 63;
const base64 = (data) => btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join(""));
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
/** A container on a relay, as one user or nobody sees it from one device. */
export class Container {
  /**
   * @param {object} settings
   * @param {string} [settings.url] Where the relay is; by default where this module came from.
   * @param {string} settings.container Like `iCloud.org.example.notes`.
   * @param {"development" | "production"} [settings.environment]
   * @param {string} [settings.apiToken] Needed but by a relay in `--dev`.
   * @param {string} [settings.webAuthToken] Who speaks; `dev-NAME` with a relay in `--dev`. Without: nobody.
   * @param {string} [settings.deviceID] Names this device, so that it hears nothing of its own changes.
   * @param {number} [settings.retries] How often a call is repeated when the relay says so, at most.
   * @param {(token: string | undefined) => void} [settings.onToken] The web auth token has changed: keep it.
   * @param {(exchange: Exchange) => void} [settings.onExchange] Sees every request with its answer.
   * @param {typeof fetch} [settings.fetch] Instead of the browser's own.
   */
  constructor(settings) {
    this.url = (settings.url ?? new URL(".", import.meta.url).href).replace(/\/$/, "");
    this.name = settings.container;
    this.environment = settings.environment ?? "development";
    this.apiToken = settings.apiToken;
    this.webAuthToken = settings.webAuthToken;
    /** How often another user has come: what was begun before is not gone on with in their name. */
    this.turns = 0;
    /** Called when the user changes: the notice connections. @type {Set<() => void>} */
    this.userListeners = new Set();
    /** How often the user has come into shares. */
    this.arrivals = 0;
    this.deviceID = settings.deviceID ?? randomName();
    this.retries = settings.retries ?? 3;
    this.onToken = settings.onToken ?? (() => {});
    this.onExchange = settings.onExchange ?? (() => {});
    this.fetch = settings.fetch ?? ((address, options) => fetch(address, options));
    this.publicDatabase = new Database(this, "public");
    /** What answers have told about fields that a plain value does not tell. */
    this.fieldForms = new FieldForms();
    this.privateDatabase = new Database(this, "private");
    this.sharedDatabase = new Database(this, "shared");
  }

  /**
   * Becomes another user, or nobody.
   * @param {string | undefined} token
   */
  setWebAuthToken(token) {
    if (token === this.webAuthToken) return;
    this.turns += 1;
    this.webAuthToken = token;
    for (const listener of this.userListeners) listener();
    this.onToken(token);
  }

  /**
   * Takes a fresh token of the same user, unless it comes after their turn.
   * @param {string | null} token
   * @param {number} turn That of the request which brought it.
   */
  renew(token, turn) {
    if (!token || !this.webAuthToken || turn !== this.turns || token === this.webAuthToken) return;
    this.webAuthToken = token;
    this.onToken(token);
  }

  /**
   * Calls an operation; throws a `RelayError`. Repeats by itself what the relay asks to be repeated.
   * @param {string} operation Like `private/records/modify`.
   * @param {any} [body] Without one it is a GET.
   * @param {{ signal?: AbortSignal, of?: "database" | "device" }} [options]
   * @returns {Promise<any>}
   */
  async call(operation, body, options = {}) {
    const turn = this.turns;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#callOnce(operation, body, options);
      } catch (error) {
        const isForNow = error instanceof RelayError && error.retryAfter !== undefined;
        if (!isForNow || attempt >= this.retries || error.retryAfter > 60) throw error;
        await pause(error.retryAfter * 1000 * (1 + Math.random() / 4), options.signal);
        if (turn !== this.turns) throw error;
      }
    }
  }

  /**
   * @param {string} operation
   * @param {any} body
   * @param {{ signal?: AbortSignal, of?: "database" | "device" }} options
   */
  async #callOnce(operation, body, { signal, of = "database" }) {
    const path = `/${of}/1/${encodeURIComponent(this.name)}/${this.environment}/${operation}`;
    const query = new URLSearchParams();
    if (this.apiToken) query.set("ckAPIToken", this.apiToken);
    if (this.webAuthToken) query.set("ckWebAuthToken", this.webAuthToken);
    const text = body === undefined ? undefined : sendable(body);
    const seen = { method: body === undefined ? "GET" : "POST", path, body, status: 0, answer: undefined };
    const started = performance.now();
    const turn = this.turns;
    try {
      const response = await this.fetch(`${this.url}${path}?${query}`, {
        method: seen.method,
        headers: { "Content-Type": "application/json", "X-Zonecast-Device-ID": this.deviceID },
        body: text,
        cache: "no-store", signal,
      });
      seen.status = response.status;
      this.renew(response.headers.get("X-Apple-CloudKit-Web-Auth-Token"), turn);
      seen.answer = readJSON(await response.text());
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      seen.error = String(error);
      const reason = `No answer came from ${this.url}.`;
      throw new RelayError({ serverErrorCode: "NETWORK_ERROR", reason }, seen.status);
    } finally {
      this.onExchange({ ...seen, started, ended: performance.now() });
    }
    if (seen.status !== 200) throw new RelayError(seen.answer, seen.status);
    return seen.answer;
  }

  // Who

  /** Who speaks; throws `AUTHENTICATION_REQUIRED` with a `redirectURL` when nobody does. */
  currentUser() { return this.call("public/users/caller"); }

  /**
   * People who may be found.
   * @param {{ emailAddress?: string, phoneNumber?: string, userRecordName?: string }[]} infos
   */
  async discoverUsers(infos) { return (await this.call("public/users/discover", { lookupInfos: infos })).users; }

  /**
   * Signs in by the relay's page in a window of its own; to be called in answer to a click, or the browser opens none.
   * The API token must name this page's origin (`--allowed-origin`). Resolves with the user when the page has called back.
   * @param {{ signal?: AbortSignal }} options
   */
  async signIn({ signal } = {}) {
    // Opened before anything is awaited: afterwards it is no answer to the click any more.
    const page = window.open("", "zonecast-sign-in", "popup,width=480,height=720");
    const address = await this.signInAddress();
    if (!address) {
      page?.close();
      return this.currentUser();
    }
    if (!page) throw new RelayError({ serverErrorCode: "SIGN_IN_FAILED", reason: "The browser opened no window." });
    page.location.href = address;
    const token = await new Promise((resolve, reject) => {
      const end = (settle, value) => {
        clearInterval(watch);
        window.removeEventListener("message", hear);
        settle(value);
      };
      const hear = (event) => {
        if (event.origin !== new URL(address).origin || !event.data?.ckWebAuthToken) return;
        end(resolve, event.data.ckWebAuthToken);
      };
      const gone = new RelayError({ serverErrorCode: "SIGN_IN_FAILED", reason: "The sign-in page was closed." });
      let closedFor = 0;
      const watch = setInterval(() => {
        // The message of a page that closes itself comes a moment after the page has gone.
        closedFor = page.closed ? closedFor + 1 : 0;
        if (closedFor > 4 || signal?.aborted) end(reject, signal?.reason ?? gone);
      }, 250);
      window.addEventListener("message", hear);
    });
    this.setWebAuthToken(token);
    return this.currentUser();
  }

  /**
   * Where the sign-in page is; `undefined` for a container that has a user.
   * @returns {Promise<string | undefined>}
   */
  async signInAddress() {
    try {
      await this.currentUser();
      return undefined;
    } catch (error) {
      if (error instanceof RelayError && error.redirectURL) return error.redirectURL;
      throw error;
    }
  }

  /**
   * Trades an identity token (JWT) of an issuer that the container trusts for a sign-in.
   * @param {string} identityToken
   */
  async signInWithIdentityToken(identityToken) {
    const answer = await this.call("public/users/signin", { identityToken });
    this.setWebAuthToken(answer.ckWebAuthToken);
    return answer;
  }

  /** Ends the sign-in, on the relay too. */
  async signOut() {
    try {
      if (this.webAuthToken && !this.webAuthToken.startsWith("dev-")) await this.call("public/users/signout", {});
    } finally {
      this.setWebAuthToken(undefined);
    }
  }

  // Pushes

  /**
   * Has the relay wake this browser through its push service while no page of it listens; in a service worker the `push`
   * event then has CloudKit's payload: `readJSON(event.data.text())`. To be called in answer to a click.
   * @param {ServiceWorkerRegistration} registration
   */
  async registerPush(registration) {
    const keys = (await this.call("push/keys", {}, { of: "device" })).webPush;
    const applicationServerKey = keys?.applicationServerKey;
    if (!applicationServerKey) throw new RelayError({ serverErrorCode: "NOT_FOUND", reason: "This relay sends no Web Push." }, 404);
    const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
    return this.call("push/register", { webPush: subscription.toJSON() }, { of: "device" });
  }

  /**
   * Wakes this browser no longer.
   * @param {ServiceWorkerRegistration} registration
   */
  async unregisterPush(registration) {
    await (await registration.pushManager.getSubscription())?.unsubscribe();
    await this.call("push/unregister", {}, { of: "device" });
  }

  // Shares of others

  /**
   * What links lead to, without joining.
   * @param {string[]} links Addresses of shares, or their last part.
   */
  resolveShares(links) { return this.#shares("resolve", links); }

  /**
   * Joins shares; each item is what the wire says, or a `RelayError`.
   * @param {string[]} links
   */
  async acceptShares(links) {
    const shares = await this.#shares("accept", links);
    this.arrivals += 1;
    return shares;
  }

  async #shares(verb, links) {
    const shortGUIDs = links.map((link) => ({ value: linkValue(link), shouldFetchRootRecord: true }));
    return (await this.call(`public/records/${verb}`, { shortGUIDs })).results.map(result);
  }
}

/** The JSON text of a body. Throws an error that names the field if a value has no JSON form. */
function sendable(body) {
  try {
    return writeJSON(body);
  } catch (error) {
    if (!(error instanceof UnwritableValue)) throw error;
    const at = error.path.indexOf("fields");
    const place = at < 0 ? error.path.join(".") : `Field "${error.path[at + 1]}"`;
    throw unsendable(`${place}: ${error.what} is not a value that a field can hold. Nothing was sent.`);
  }
}

/** The last part of a share's address. */
const linkValue = (link) => decodeURIComponent(link.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? "");

/** 32 digits; unlike `crypto.randomUUID` also there for pages that came without TLS. */
export const randomName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

/**
 * Writes whose answers were lost: the same call, within minutes, goes under the same name again, and what it did is not
 * done twice. Once the program has read a record it means it as it is now, and what is forced on it is another write.
 */
class LostWrites {
  /** @type {Map<string, { operationID: string, forced: string[], at: number }>} */
  #writes = new Map();

  /**
   * The name for a write that is about to be sent.
   * @param {string} content
   */
  name(content) {
    const known = this.#writes.get(content);
    return known && Date.now() - known.at < 600_000 ? known.operationID : randomName();
  }

  /**
   * It has been carried out, once.
   * @param {string} content
   */
  answered(content) { this.#writes.delete(content); }

  /**
   * It may or may not have been carried out.
   * @param {string} content
   * @param {string} operationID
   * @param {string[]} forced
   */
  lost(content, operationID, forced) {
    // More than anybody has waiting at once.
    if (this.#writes.size >= 64) this.#writes.clear();
    this.#writes.set(content, { operationID, forced, at: Date.now() });
  }

  /**
   * The program has read records, by a call that was made then.
   * @param {Record[]} records
   * @param {number} asked
   */
  seen(records, asked) {
    const names = new Set(["", ...records.map((record) => record.recordName)]);
    for (const [content, { forced, at }] of this.#writes) {
      if (at <= asked && forced.some((name) => names.has(name))) this.#writes.delete(content);
    }
  }
}

/** One database of a container: public, private, or what others have shared with the user. */
export class Database {
  #lostWrites = new LostWrites();

  /**
   * @param {Container} container
   * @param {"public" | "private" | "shared"} scope
   */
  constructor(container, scope) {
    this.container = container;
    this.scope = scope;
  }

  #call(operation, body) { return this.container.call(`${this.scope}/${operation}`, body); }

  /**
   * Sends a write under a name of its own.
   * @param {string} operation
   * @param {any} body
   * @param {string[]} forced Records that it writes to whatever their version; "" stands for those without a name.
   */
  async #write(operation, body, forced = []) {
    // Who has left a share without hearing so, and come in again, may leave it again.
    const arrivals = this.scope === "shared" ? this.container.arrivals : 0;
    const content = `${arrivals} ${operation} ${sendable(body)}`;
    const operationID = this.#lostWrites.name(content);
    try {
      const answer = await this.#call(operation, { ...body, operationID });
      this.#lostWrites.answered(content);
      return answer;
    } catch (error) {
      const isOpen = !(error instanceof RelayError) || error.leavesOutcomeOpen;
      if (isOpen) this.#lostWrites.lost(content, operationID, forced);
      throw error;
    }
  }

  /**
   * Calls for records that the program then has seen.
   * @param {(answer: any) => Record[]} recordsOf
   */
  async #read(operation, body, recordsOf) {
    const asked = Date.now();
    const answer = await this.#call(operation, body);
    const records = recordsOf(answer);
    this.#lostWrites.seen(records, asked);
    this.container.fieldForms.learn(records);
    return answer;
  }

  // Records

  /**
   * Creates a record, or updates it if it has a `recordChangeTag`, and returns it as it is now. Throws a `RelayError`;
   * with `CONFLICT` its `serverRecord` is what somebody else has saved meanwhile.
   * @param {Record} record
   * @param {RequestOptions} [options]
   * @returns {Promise<Record>}
   */
  async save(record, options) { return one((await this.modify([saveOperation(record)], options)).records); }

  /**
   * The same for up to 200; each item is a record or a `RelayError`.
   * @param {Record[]} records
   */
  async saveAll(records, options) { return (await this.modify(records.map(saveOperation), options)).records; }

  /**
   * Deletes a record: of the version named by its change tag, or whatever there is when it has none.
   * @param {Record | string} record
   * @param {RequestOptions} [options]
   */
  async delete(record, options) { return one((await this.modify([deleteOperation(record)], options)).records); }

  /**
   * Any operations: `{ operationType: "forceUpdate", record }` and its like, at most one for each record.
   * @param {{ operationType: string, record: Record }[]} operations
   * @param {RequestOptions} options With `atomic` all or none are applied; else each for itself.
   * @returns {Promise<{ records: (Record | RelayError)[], syncToken?: string }>}
   */
  async modify(operations, { zone, atomic = false, ...options } = {}) {
    const forced = operations
      .filter(({ operationType, record }) => operationType.startsWith("force") || !record.recordName)
      .map(({ record }) => record.recordName ?? "");
    const answer = await this.#write("records/modify", {
      operations: operations.map(({ operationType, record }) => ({ operationType, record: this.#written(record) })),
      ...(zone && { zoneID: zoneID(zone) }), atomic, ...options,
    }, forced);
    this.container.fieldForms.learn(answer.records);
    return { ...answer, records: answer.records.map(result) };
  }

  /** The record with its fields as the wire wants them. */
  #written(record) {
    const { created, modified, pluginFields, deleted, ...rest } = record;
    const fields = Object.entries(record.fields ?? {}).map(([name, value]) => {
      try {
        return [name, this.container.fieldForms.completed(field(value), record.recordType, name)];
      } catch (error) {
        throw error instanceof RelayError ? unsendable(`Field "${name}": ${error.reason} Nothing was sent.`) : error;
      }
    });
    return { ...rest, fields: Object.fromEntries(fields) };
  }

  /**
   * Throws `NOT_FOUND` if there is none.
   * @param {string} recordName
   * @param {RequestOptions} [options]
   */
  async fetch(recordName, options) { return one(await this.fetchAll([recordName], options)); }

  /**
   * In the order asked for; each item is a record or a `RelayError`.
   * @param {string[]} recordNames
   * @param {RequestOptions} options
   */
  async fetchAll(recordNames, { zone, ...options } = {}) {
    const records = recordNames.map((recordName) => ({ recordName }));
    const body = { records, ...(zone && { zoneID: zoneID(zone) }), ...options };
    return (await this.#read("records/lookup", body, (answer) => answer.records)).records.map(result);
  }

  /**
   * One page of what matches; `next()` is there while there is more.
   * @param {{ recordType: string, filterBy?: object[], sortBy?: object[] }} query As on the wire; `filter` makes filters.
   * @param {RequestOptions & { zoneWide?: boolean, resultsLimit?: number, continuationMarker?: string }} options
   * @returns {Promise<{ records: Record[], next?: () => Promise<any> }>}
   */
  async query(query, { zone, ...options } = {}) {
    const body = { query, ...(zone && { zoneID: zoneID(zone) }), ...options };
    const { records, continuationMarker } = await this.#read("records/query", body, (answer) => answer.records);
    if (!continuationMarker) return { records };
    return { records, next: () => this.query(query, { zone, ...options, continuationMarker }) };
  }

  /**
   * Uploads a file for a field of a record that is then saved with what is returned: its name, and the field.
   * @param {{ recordType: string, recordName?: string }} record
   * @param {string} fieldName
   * @param {Blob | Uint8Array} data
   * @param {{ zone?: Zone }} options
   */
  async uploadAsset({ recordType, recordName }, fieldName, data, { zone } = {}) {
    const tokens = [{ recordType, fieldName, ...(recordName && { recordName }) }];
    const answer = await this.#call("assets/upload", { tokens, ...(zone && { zoneID: zoneID(zone) }) });
    const [token] = answer.tokens;
    const headers = { "Content-Type": "application/octet-stream" };
    const lost = (error) => {
      throw new RelayError({ serverErrorCode: "NETWORK_ERROR", reason: `The file could not be sent: ${error.message}` });
    };
    const response = await this.container.fetch(token.url, { method: "POST", headers, body: data }).catch(lost);
    // A proxy's page is no answer either.
    const stored = await response.json().catch(lost);
    if (!response.ok) throw new RelayError(stored, response.status);
    return { recordName: token.recordName, field: { value: stored.singleFile, type: "ASSETID" } };
  }

  // Zones

  /** All zones, with their tokens. */
  async zones() { return (await this.#call("zones/list")).zones; }

  /**
   * Creates zones, or leaves them as they are.
   * @param {Zone[]} zones
   */
  async saveZones(zones) { return this.#modifyZones("create", zones); }

  /**
   * Deletes zones; in the shared database the caller leaves what others have shared with them there.
   * @param {Zone[]} zones
   */
  async deleteZones(zones) { return this.#modifyZones(this.scope === "shared" ? "leave" : "delete", zones); }

  async #modifyZones(operationType, zones) {
    const operations = zones.map((zone) => ({ operationType, zone: { zoneID: zoneID(zone) } }));
    return (await this.#write("zones/modify", { operations })).zones.map(result);
  }

  // Changes

  /**
   * One page of the zones that have changed since a token; without one, of all. Deleted ones, and those no longer shared,
   * are marked `deleted`.
   * @param {string} [syncToken]
   * @returns {Promise<{ zones: any[], syncToken: string, moreComing: boolean }>}
   */
  async databaseChanges(syncToken) {
    const answer = await this.#call("changes/database", syncToken ? { syncToken } : {});
    return { ...answer, zones: answer.zones.map(result) };
  }

  /**
   * One page of what has changed in a zone: records, and `{ recordName, deleted: true }` for those that have gone.
   * @param {Zone} zone
   * @param {string} [syncToken]
   * @param {{ resultsLimit?: number, desiredKeys?: string[], desiredRecordTypes?: string[] }} [options]
   * @returns {Promise<{ records: Record[], syncToken: string, moreComing: boolean }>}
   */
  async zoneChanges(zone, syncToken, options = {}) {
    const entry = { zoneID: zoneID(zone), ...(syncToken && { syncToken }), ...options };
    const { zones } = await this.#read("changes/zone", { zones: [entry] }, ({ zones: [page] }) => page.records ?? []);
    return one(zones.map(result));
  }

  // Subscriptions

  /** @returns {Promise<any[]>} */
  async subscriptions() { return (await this.#call("subscriptions/list")).subscriptions; }

  /**
   * Creates or replaces subscriptions, in the wire's own form.
   * @param {object[]} subscriptions
   */
  async saveSubscriptions(subscriptions) {
    const operations = subscriptions.map((subscription) => ({ operationType: "create", subscription }));
    return (await this.#call("subscriptions/modify", { operations })).subscriptions.map(result);
  }

  /** @param {string[]} ids */
  async deleteSubscriptions(ids) {
    const operations = ids.map((subscriptionID) => ({ operationType: "delete", subscription: { subscriptionID } }));
    return (await this.#call("subscriptions/modify", { operations })).subscriptions.map(result);
  }

  /** Asks for a notice of every change in this database. */
  async subscribe(subscriptionID = `${this.scope}-changes`) {
    const notificationInfo = { shouldSendContentAvailable: true };
    return one(await this.saveSubscriptions([{ subscriptionID, subscriptionType: "database", notificationInfo }]));
  }

  // Sharing what is one's own

  /**
   * Shares a whole zone, or a record with all below it, and returns the share record; its `shortGUID` is what others accept.
   * @param {Zone} zone
   * @param {{ record?: Record, publicPermission?: "NONE" | "READ_ONLY" | "READ_WRITE", participants?: object[],
   *   title?: string }} options
   */
  async share(zone, { record, publicPermission = "NONE", participants = [], title } = {}) {
    const fields = title ? { "cloudkit.title": title } : {};
    const share = { recordType: "cloudkit.share", fields, publicPermission, participants };
    if (!record) return this.save({ ...share, recordName: "cloudkit.zoneshare" }, { zone });
    const { recordName, recordType, recordChangeTag } = record;
    const root = { recordName, recordType, recordChangeTag, createShortGUID: true, fields: {} };
    const operations = [
      { operationType: "update", record: root },
      { operationType: "create", record: { ...share, forRecord: { recordName, recordChangeTag } } },
    ];
    const { records } = await this.modify(operations, { zone, atomic: true });
    return one(records.slice(1));
  }

  /**
   * A zone's own share; `undefined` if it has none.
   * @param {Zone} zone
   */
  async zoneShare(zone) {
    const [share] = await this.fetchAll(["cloudkit.zoneshare"], { zone });
    if (!(share instanceof RelayError)) return share;
    if (share.serverErrorCode === "NOT_FOUND") return undefined;
    throw share;
  }

  /**
   * Changes who may do what.
   * @param {Zone} zone
   * @param {Record} share
   * @param {{ publicPermission?: string, participants?: object[] }} change
   */
  async updateShare(zone, share, { publicPermission = share.publicPermission, participants = share.participants }) {
    const { recordName, recordChangeTag } = share;
    const record = { recordName, recordChangeTag, recordType: "cloudkit.share", publicPermission, participants };
    return one((await this.modify([{ operationType: "update", record: { ...record, fields: {} } }], { zone })).records);
  }

  /**
   * The owner stops sharing; in the shared database, the participant leaves.
   * @param {Zone} zone
   * @param {Record} share
   */
  async endShare(zone, share) { return this.delete(share, { zone }); }
}

/**
 * A filter of a query.
 * @param {string} fieldName
 * @param {string} comparator
 * @param {any} value
 */
export function filter(fieldName, comparator, value) {
  try {
    return { fieldName, comparator, fieldValue: listed(field(value)) };
  } catch (error) {
    throw error instanceof RelayError ? unsendable(`Field "${fieldName}": ${error.reason}`) : error;
  }
}

/** Lists of filters have to say what they are of. */
const listed = (made) =>
  Array.isArray(made.value) && made.value.length && !made.type ? { ...made, type: "INT64_LIST" } : made;

/**
 * The only one of a list, if it is no refusal.
 * @param {any[]} list
 */
function one([item]) {
  if (item instanceof RelayError) throw item;
  return item;
}

/**
 * What answers have told about fields and a plain value does not tell: a list's type, encryption, and that a text is a
 * number (with `numbersAsStrings`).
 */
class FieldForms {
  /** @type {Map<string, { type?: string, isEncrypted?: boolean, isNumber: boolean }>} By record type and field name. */
  #forms = new Map();

  /** @param {Record[] | undefined} records */
  learn(records) {
    for (const { recordType, fields } of records ?? []) {
      for (const [name, { value, type, isEncrypted }] of Object.entries(fields ?? {})) {
        const key = `${recordType}.${name}`;
        const isList = type?.endsWith("_LIST") && type !== "UNKNOWN_LIST";
        const isNumber = typeof [value].flat()[0] === "string" && /^(INT64|DOUBLE|TIMESTAMP)/.test(type ?? "");
        if (isEncrypted || isList || isNumber) this.#forms.set(key, { type, isEncrypted, isNumber });
        else this.#forms.delete(key);
      }
    }
  }

  /**
   * @param {Field} field
   * @param {string | undefined} recordType
   * @param {string} name
   */
  completed(field, recordType, name) {
    const form = this.#forms.get(`${recordType}.${name}`);
    if (!form || field.value === null) return field;
    const { type, isEncrypted, isNumber } = form;
    if (isNumber && field.type === (type?.endsWith("_LIST") ? "STRING_LIST" : "STRING")) field = { ...field, type };
    if (isEncrypted && field.isEncrypted === undefined) return { ...field, type: field.type ?? type, isEncrypted };
    const isEmptyList = Array.isArray(field.value) && !field.value.length;
    return isEmptyList && !field.type && type?.endsWith("_LIST") ? { ...field, type } : field;
  }
}

const saveOperation = (record) => ({ operationType: record.recordChangeTag ? "update" : "create", record });

/** @param {Record | string} record */
function deleteOperation(record) {
  const { recordName, recordChangeTag } = /** @type {Record} */ (typeof record === "string" ? { recordName: record } : record);
  if (!recordChangeTag) return { operationType: "forceDelete", record: { recordName } };
  return { operationType: "delete", record: { recordName, recordChangeTag } };
}

/**
 * What to do when a notice socket has closed; a pure function.
 * @param {number} code The close code.
 * @param {number} attempt How many connections have failed one after the other.
 * @param {number | undefined} promised Seconds, as the relay's goodbye said.
 * @param {number} chance 0 up to 1.
 * @returns {{ action: "reconnect" | "renew" | "stop", delay: number }} `delay` in milliseconds.
 */
export function afterClose(code, attempt, promised, chance) {
  // Half a second doubling to a minute, and any part of it.
  const backoff = Math.min(60_000, 500 * 2 ** Math.min(attempt, 10)) * chance;
  if (code >= 4400 && code <= 4449) return { action: "stop", delay: 0 };
  if (code === 4450) return { action: "renew", delay: backoff };
  // What we sent was not to be understood: sending it again soon would not help.
  if ([1002, 1007, 1008, 1009].includes(code)) return { action: "reconnect", delay: Math.max(60_000, backoff) };
  // At least half a second, so that a relay that promises to be back at once does not cause a tight loop.
  if (promised !== undefined) return { action: "reconnect", delay: Math.max(500, promised * 1000) * (1 + chance / 4) };
  return { action: "reconnect", delay: backoff };
}

/** Limit for connecting, and from the hello to its answer. In milliseconds, like the constants below. */
const PATIENCE = 10_000;
/** After this long without a frame the client sends a ping, since a half-open socket looks healthy. */
const SILENCE = 45_000;
/** Limit from a ping to the next frame. */
const PONG_PATIENCE = 15_000;
/** The end of a connection that lasted this long resets the back-off. */
const HEALTHY = 60_000;

/**
 * The state machine of a notice connection, without a socket and a clock. The SDK's `NoticeLine` follows the same table.
 *
 *     resting -> connecting --opened--> greeting --ready--> live --closed--> resting …
 *        any --4400…4449--> parked --credentialsChanged--> connecting
 *
 * Events: `started`, `opened`, `ready`, `heard` (any frame at all), `goodbye` (value: seconds until the relay is back),
 * `closed` (value: close code; `undefined` when the socket was cut), `credentialsChanged`, `networkReturned` (also: the page
 * is shown again), `timerFired`, `stopped`.
 *
 * Effects, in their order: `connect`, `sendHello`, `ping`, `drop` (give the socket up), `wake` (value: milliseconds until
 * `timerFired`, instead of any wake before; `undefined`: none), `live` (value: whether notices come from now on) and
 * `needsCredentials` (the relay will not have these; value: whether fresh ones of the same user will do).
 */
export class NoticeLine {
  /** @type {"stopped" | "connecting" | "greeting" | "live" | "resting" | "parked"} */
  state = "stopped";
  #failures = 0;
  #liveSince = 0;
  #isPinging = false;
  /** @type {number | undefined} */ #promised = undefined;
  #hasNewCredentials = false;

  /**
   * @param {string} event
   * @param {any} value
   * @param {number} now Milliseconds since any fixed moment.
   * @param {number} chance 0 up to 1.
   * @returns {any[][]}
   */
  handle(event, value, now, chance) {
    switch (event) {
      case "started": return this.state === "stopped" ? this.#connect() : [];
      case "opened":
        if (this.state !== "connecting") return [];
        this.state = "greeting";
        return [["sendHello"], ["wake", PATIENCE]];
      case "ready":
        if (this.state !== "greeting") return [];
        this.state = "live";
        this.#liveSince = now;
        return [["live", true], ["wake", SILENCE]];
      case "heard":
        if (this.state !== "live") return [];
        this.#isPinging = false;
        return [["wake", SILENCE]];
      case "goodbye":
        this.#promised = value;
        return [];
      case "closed": return this.#closed(value, now, chance);
      case "credentialsChanged":
        if (this.state === "parked") return this.#connect();
        this.#hasNewCredentials = true;
        return [];
      case "networkReturned":
        if (this.state === "resting") return this.#connect();
        return this.state === "live" && !this.#isPinging ? this.#ping() : [];
      case "timerFired": return this.#timerFired(now, chance);
      case "stopped": {
        const effects = this.state === "live" ? [["live", false]] : [];
        this.state = "stopped";
        return [...effects, ["drop"], ["wake"]];
      }
      default: return [];
    }
  }

  #connect() {
    this.state = "connecting";
    this.#promised = undefined;
    this.#isPinging = false;
    this.#hasNewCredentials = false;
    return [["connect"], ["wake", PATIENCE]];
  }

  #ping() {
    this.#isPinging = true;
    return [["ping"], ["wake", PONG_PATIENCE]];
  }

  #timerFired(now, chance) {
    switch (this.state) {
      case "resting": return this.#connect();
      case "connecting": case "greeting": return [["drop"], ...this.#rest(afterClose(1006, this.#failures, undefined, chance).delay)];
      case "live": return this.#isPinging ? [["drop"], ...this.#closed(undefined, now, chance)] : this.#ping();
      default: return [["wake"]];
    }
  }

  #closed(code, now, chance) {
    if (["stopped", "parked", "resting"].includes(this.state)) return [];
    const wasLive = this.state === "live";
    const effects = wasLive ? [["live", false]] : [];
    if (wasLive && now - this.#liveSince >= HEALTHY) this.#failures = 0;
    const { action, delay } = afterClose(code, this.#failures, this.#promised, chance);
    // A token that expired during the connection may have been renewed by a call. The token of a hello was the newest.
    if (action === "renew" && wasLive) return [...effects, ["needsCredentials", true], ...this.#rest(delay)];
    if (action === "reconnect") return [...effects, ...this.#rest(delay)];
    if (this.#hasNewCredentials) return [...effects, ...this.#rest(afterClose(1001, this.#failures, undefined, chance).delay)];
    this.state = "parked";
    return [...effects, ["needsCredentials", action === "renew"], ["wake"]];
  }

  #rest(delay) {
    this.#failures += 1;
    this.state = "resting";
    return [["wake", delay]];
  }
}

/** Whether a close code is about the web auth token. */
const isOfToken = (code) => code === 4401 || code === 4450;

/**
 * Hears that something has changed, over a WebSocket that is kept up for as long as it is wanted.
 *
 * Events: `ready` and `notice` (`detail` is the frame's content), and `down` (`detail` has `code`, `reason`, and the `delay` until
 * the next attempt in milliseconds). A final `down` has `isFinal` instead of `delay`; if the credentials were refused, also `error`
 * and its `redirectURL`, the sign-in page. After a final `down`, `setWebAuthToken` with another token or `start` connects again.
 *
 * A notice is a hint: fetch with the token you have. Whatever happened while there was no connection is told right after
 * `ready`, since each hello says how far one has come. A connection that is dead without having closed is noticed within a
 * minute, and at once when the network returns or the page is shown again.
 */
export class Notices extends EventTarget {
  #line = new NoticeLine();
  /** Requests for a fresh token since the last good connection. */
  #renewals = 0;
  /** @type {(() => void) | undefined} */ #endPause = undefined;

  /**
   * @param {Container} container
   * @param {() => { private?: string, shared?: string }} since The database tokens that are fully applied.
   */
  constructor(container, since) {
    super();
    this.container = container;
    this.since = since;
    this.isLive = false;
    /** @type {WebSocket | undefined} */ this.socket = undefined;
    this.probe = (event) => this.#probe(event);
    this.userChanged = () => this.#userChanged();
  }

  start() {
    this.container.userListeners.add(this.userChanged);
    globalThis.addEventListener?.("online", this.probe);
    globalThis.addEventListener?.("pageshow", this.probe);
    globalThis.document?.addEventListener?.("visibilitychange", this.probe);
    this.#perform("started");
    if (this.#line.state === "parked") this.#perform("credentialsChanged");
  }

  stop() {
    this.container.userListeners.delete(this.userChanged);
    globalThis.removeEventListener?.("online", this.probe);
    globalThis.removeEventListener?.("pageshow", this.probe);
    globalThis.document?.removeEventListener?.("visibilitychange", this.probe);
    this.#perform("stopped");
  }

  /** The network has returned or the page is shown again: ends a pause, and checks an open connection. */
  #probe(event) {
    if (event?.type === "visibilitychange" && globalThis.document?.visibilityState === "hidden") return;
    this.#endPause?.();
    // The browser may close the socket of a frozen page without an event.
    if (this.socket && this.socket.readyState > 1) this.#ended(1006, "The connection was closed.");
    this.#perform("networkReturned");
  }

  /** Replaces the connection of the former user. */
  #userChanged() {
    if (this.#line.state === "stopped") return;
    const wasParked = this.#line.state === "parked";
    this.#perform("stopped");
    this.#line = new NoticeLine();
    this.#renewals = 0;
    if (!this.container.webAuthToken) {
      // The next user's token starts it.
      this.#line.state = "parked";
      if (!wasParked) this.#tell("down", { code: 1000, reason: "No user is signed in.", isFinal: true });
      return;
    }
    if (!wasParked) this.#tell("down", { code: 1000, reason: "The user has changed.", delay: 0 });
    this.#perform("started");
  }

  /** @param {string} event @param {any} [value] */
  #perform(event, value) {
    const effects = this.#line.handle(event, value, Date.now(), Math.random());
    for (const [effect, value] of effects) {
      switch (effect) {
        case "connect": this.#connect(); break;
        case "sendHello": this.#send({ hello: this.#hello() }); break;
        case "ping": this.#send({ ping: {} }); break;
        case "drop": this.#drop(); break;
        case "wake": this.#wake(value); break;
        case "live": this.isLive = value; break;
        // A resting connection uses the new token at its next attempt. For a parked one see `#fallen`.
        case "needsCredentials": if (this.#line.state === "resting") this.#fresh(); break;
      }
    }
    return effects;
  }

  /** @param {number | undefined} delay */
  #wake(delay, act = () => this.#timerFired()) {
    clearTimeout(this.timer);
    if (delay !== undefined) this.timer = setTimeout(act, delay);
  }

  #timerFired() {
    const { socket } = this;
    const effects = this.#perform("timerFired");
    if (socket && !this.socket) this.#fallen(1006, "The relay did not answer.", effects);
  }

  #connect() {
    this.#drop();
    const { url, name, environment } = this.container;
    const address = `${url.replace(/^http/, "ws")}/push/1/${encodeURIComponent(name)}/${environment}`;
    const socket = new WebSocket(address, "zonecast.notices.1");
    this.socket = socket;
    this.spoken = this.container.webAuthToken;
    const turn = this.container.turns;
    // Ignore events of a socket that has been given up.
    const isCurrent = () => this.socket === socket && this.container.turns === turn;
    socket.onopen = () => { if (isCurrent()) this.#perform("opened"); };
    socket.onmessage = (event) => { if (isCurrent()) this.#take(event.data, turn); };
    socket.onclose = (event) => { if (isCurrent()) this.#ended(event.code, event.reason); };
  }

  /** Gives the socket up without waiting for its close event, which may never come. */
  #drop() {
    const { socket } = this;
    this.socket = undefined;
    socket?.close(1000);
  }

  #send(frame) {
    // A closing socket takes no frames.
    if (this.socket && !(this.socket.readyState > 1)) this.socket.send(JSON.stringify(frame));
  }

  #hello() {
    const { deviceID, apiToken: ckAPIToken, webAuthToken: ckWebAuthToken } = this.container;
    this.spoken = ckWebAuthToken;
    return { deviceID, ckAPIToken, ckWebAuthToken, since: this.since() };
  }

  #take(text, turn) {
    this.#perform("heard");
    let frame;
    // Ignore unreadable frames of a later protocol version; a fetch with the tokens brings the changes anyway.
    try { frame = readJSON(text) ?? {}; } catch { return; }
    if (frame.ready) {
      this.#perform("ready");
      this.#renewals = 0;
      this.#tell("ready", frame.ready);
    } else if (frame.notice) {
      this.#tell("notice", frame.notice);
    } else if (frame.renewed) {
      this.container.renew(frame.renewed.ckWebAuthToken, turn);
    } else if (frame.goodbye) {
      this.#perform("goodbye", frame.goodbye.retryAfter);
    }
  }

  #ended(code, reason) {
    this.socket = undefined;
    // The token has changed since the hello, so the refusal does not concern the current one.
    if (isOfToken(code) && this.spoken !== this.container.webAuthToken) this.#perform("credentialsChanged");
    this.#fallen(code, reason, this.#perform("closed", code));
  }

  /** Tells the program. @param {any[][]} effects The effects of the event that ended the connection. */
  #fallen(code, reason, effects) {
    if (this.#line.state !== "parked") {
      return this.#tell("down", { code, reason, delay: effects.find(([effect]) => effect === "wake")?.[1] });
    }
    if (isOfToken(code)) return this.#askForCredentials(code, reason);
    this.#tell("down", { code, reason, isFinal: true });
  }

  /** Makes a call, whose answer brings a fresh token. Returns the error if it fails. */
  async #fresh() {
    let timer;
    const tooLate = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new RelayError({ serverErrorCode: "NETWORK_ERROR" })), PATIENCE);
    });
    try {
      await Promise.race([this.container.currentUser(), tooLate]);
      return undefined;
    } catch (error) {
      return error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * The relay refuses the token. Connects again if a call brings a fresh one; ends with the call's error if it is refused too.
   * Repeats the call with the back-off of a connection while no answer comes.
   */
  async #askForCredentials(code, reason) {
    const line = this.#line;
    const asked = this.#renewals += 1;
    const isOver = () => this.#line !== line || line.state !== "parked" || this.#renewals !== asked;
    if (asked > 1) {
      const { delay } = afterClose(1006, asked - 2, undefined, Math.random());
      this.#tell("down", { code, reason, delay });
      await new Promise((resolve) => {
        this.#endPause = () => resolve(undefined);
        this.#wake(delay, this.#endPause);
      });
      this.#endPause = undefined;
      if (isOver()) return;
    }
    const error = await this.#fresh();
    if (isOver()) return;
    if (this.container.webAuthToken !== this.spoken) {
      this.#tell("down", { code, reason, delay: 0 });
      this.#perform("credentialsChanged");
    } else if (error && (!(error instanceof RelayError) || error.isPassing || error.status >= 500)) {
      await this.#askForCredentials(code, reason);
    } else {
      this.#tell("down", { code, reason, isFinal: true, ...(error && { error, redirectURL: error.redirectURL }) });
    }
  }

  #tell(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }
}
