// zonecast.js: a client for a Zonecast relay, without dependencies. MIT licence.
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
// Names follow CloudKit, and answers have the form of CloudKit Web Services. Runs in browsers of 2022 and later, and in every
// JavaScript runtime with `fetch` and `WebSocket`.
//
// Numbers are exact. In answers, a whole number for which `Number.isSafeInteger` is false is a `BigInt`. Callers may pass
// `BigInt` wherever they may pass numbers. `JSON.stringify` throws for `BigInt`; use `writeJSON` and `readJSON` instead.

import { readJSON, stringEnd, UnwritableValue, writeJSON } from "./json.js";

export { readJSON, stringEnd, UnwritableValue, writeJSON } from "./json.js";

/**
 * @typedef {{ zoneName: string, ownerRecordName?: string }} ZoneID
 * @typedef {string | ZoneID} Zone  A zone name alone means a zone of the user's own.
 * @typedef {{ value: any, type?: string, isEncrypted?: boolean, exactSeconds?: any }} Field  A field in wire form.
 * @typedef {{ recordName?: string, recordType?: string, recordChangeTag?: string, fields?: Object<string, any>,
 *   zoneID?: ZoneID, deleted?: boolean, [key: string]: any }} Record
 *   In requests a field may be a plain value: see `field`. In answers fields are in wire form: see `values`.
 * @typedef {{ zone?: Zone, atomic?: boolean, desiredKeys?: string[], numbersAsStrings?: boolean }} RequestOptions
 * @typedef {{ method: string, path: string, body?: any, status: number, answer: any, started: number, ended: number,
 *   error?: string }} Exchange  A request and its answer, without tokens; times are those of `performance.now()`.
 */

/** The error of a call that the relay refused, or whose answer did not arrive. */
export class RelayError extends Error {
  /**
   * @param {Object<string, any>} answer
   * @param {number} [status]
   */
  constructor(answer, status = 0) {
    super(`${answer.serverErrorCode ?? "UNKNOWN_ERROR"}: ${answer.reason ?? "no reason given"}`);
    this.name = "RelayError";
    /**
     * `CONFLICT`, `NOT_FOUND`, …; `NETWORK_ERROR` if no answer arrived.
     * @type {string}
     */
    this.serverErrorCode = answer.serverErrorCode ?? "UNKNOWN_ERROR";
    /**
     * A more precise code that CloudKit Web Services does not publish, such as `CHANGE_TOKEN_EXPIRED`.
     * @type {string | undefined}
     */
    this.ckErrorCode = answer.ckErrorCode;
    /** @type {string} */ this.reason = answer.reason ?? "";
    /**
     * Seconds to wait before a retry; `undefined` if a retry does not help.
     * @type {number | undefined}
     */
    this.retryAfter = answer.retryAfter === undefined ? undefined : Number(answer.retryAfter);
    /**
     * With `AUTHENTICATION_REQUIRED`: the address of the sign-in page.
     * @type {string | undefined}
     */
    this.redirectURL = answer.redirectURL;
    /** @type {string | undefined} */ this.uuid = answer.uuid;
    /** @type {number} */ this.status = status;
    /**
     * In an answer about several records: the record's name.
     * @type {string | undefined}
     */
    this.recordName = answer.recordName;
    /** @type {ZoneID | undefined} */ this.zoneID = answer.zoneID;
    /**
     * With `CONFLICT`: the relay's current record.
     * @type {Record | undefined}
     */
    this.serverRecord = answer.serverRecord;
    /**
     * With `ATOMIC_ERROR`: the outcome for each record.
     * @type {(Record | RelayError)[] | undefined}
     */
    this.records = answer.records?.map(result);
  }

  /** Whether the cause is temporary. The same call may be repeated, and takes effect once. */
  get isPassing() {
    return ["NETWORK_ERROR", "THROTTLED", "TRY_AGAIN_LATER"].includes(this.serverErrorCode);
  }

  /** Whether the relay may have carried out the call anyway: the answer was lost, or came from a proxy. */
  get leavesOutcomeOpen() { return this.status >= 500 || this.serverErrorCode === "NETWORK_ERROR"; }

  /** Whether the sync token is no longer valid. Discard it and fetch without one. */
  get isTokenExpired() { return this.ckErrorCode === "CHANGE_TOKEN_EXPIRED"; }
}

/**
 * Returns an item of an answer, or the error that it contains.
 * @returns {any}
 */
const result = (item) => (item.serverErrorCode ? new RelayError(item) : item);

/**
 * @param {Zone} zone
 * @returns {ZoneID}
 */
export const zoneID = (zone) => (typeof zone === "string" ? { zoneName: zone } : zone);

/** The error for a value that no field can hold, thrown before anything is sent. */
const unsendable = (reason) => new RelayError({ serverErrorCode: "BAD_REQUEST", reason });

/**
 * Converts a string, number, `BigInt`, boolean (1 or 0), `Date`, `Uint8Array`, array of these, reference or location into a
 * field in wire form. `null` clears the field. A field in wire form (with a `value`) is returned as it is. Whole numbers and
 * empty lists get no type, since a 2 may be meant for a DOUBLE field; the schema decides. Throws a `RelayError` for values
 * that no field can hold: `NaN`, infinities, invalid dates, and a `BigInt` of more than 64 bits.
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

/** Removes `exactSeconds` from a field in wire form if the program has changed its value to another millisecond. */
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
 * Returns a record's fields as plain values: `TIMESTAMP` as `Date`, `BYTES` as `Uint8Array`, other types unchanged. A time
 * outside of `Date`'s range stays a number of milliseconds, and a field of an unknown type stays in wire form.
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

/** A container on a relay, used by one signed-in user, or none, on one device. */
export class Container {
  /**
   * @param {object} settings
   * @param {string} [settings.url] The relay's address; by default the address from which this module was loaded.
   * @param {string} settings.container The container's name, such as `iCloud.org.example.notes`.
   * @param {"development" | "production"} [settings.environment]
   * @param {string} [settings.apiToken] Required, except by a relay in `--dev`.
   * @param {string} [settings.webAuthToken] The user's token; `dev-NAME` with a relay in `--dev`. Without it no user is
   *   signed in.
   * @param {string} [settings.deviceID] This device's name. A device gets no notices of its own changes.
   * @param {number} [settings.retries] The maximum number of retries, for errors with `retryAfter`.
   * @param {(token: string | undefined) => void} [settings.onToken] Called when the web auth token has changed. Store it.
   * @param {(exchange: Exchange) => void} [settings.onExchange] Called with every request and its answer.
   * @param {typeof fetch} [settings.fetch] Replaces the global `fetch`.
   */
  constructor(settings) {
    this.url = (settings.url ?? new URL(".", import.meta.url).href).replace(/\/$/, "");
    this.name = settings.container;
    this.environment = settings.environment ?? "development";
    this.apiToken = settings.apiToken;
    this.webAuthToken = settings.webAuthToken;
    /** Counts changes of the user. A call that began under an earlier user is not retried. */
    this.turns = 0;
    /**
     * Called when the user changes, by which `Notices` connects again.
     * @type {Set<() => void>}
     */
    this.userListeners = new Set();
    /** Counts accepted shares. */
    this.arrivals = 0;
    this.deviceID = settings.deviceID ?? randomName();
    this.retries = settings.retries ?? 3;
    this.onToken = settings.onToken ?? (() => {});
    this.onExchange = settings.onExchange ?? (() => {});
    this.fetch = settings.fetch ?? ((address, options) => fetch(address, options));
    this.publicDatabase = new Database(this, "public");
    /** Properties of fields that plain values lack, as seen in answers. */
    this.fieldForms = new FieldForms();
    this.privateDatabase = new Database(this, "private");
    this.sharedDatabase = new Database(this, "shared");
  }

  /**
   * Changes the user; `undefined` signs out on this device only.
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
   * Stores a fresh token of the same user, unless the user has changed meanwhile.
   * @param {string | null} token
   * @param {number} turn The value of `turns` when the request was sent.
   */
  renew(token, turn) {
    if (!token || !this.webAuthToken || turn !== this.turns || token === this.webAuthToken) return;
    this.webAuthToken = token;
    this.onToken(token);
  }

  /**
   * Calls an operation. Retries after errors with `retryAfter`. Throws a `RelayError`.
   * @param {string} operation Such as `private/records/modify`.
   * @param {any} [body] Without a body the request is a GET.
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
      const reason = `The relay at ${this.url} did not answer.`;
      throw new RelayError({ serverErrorCode: "NETWORK_ERROR", reason }, seen.status);
    } finally {
      this.onExchange({ ...seen, started, ended: performance.now() });
    }
    if (seen.status !== 200) throw new RelayError(seen.answer, seen.status);
    return seen.answer;
  }

  // Users

  /** Returns the signed-in user. Throws `AUTHENTICATION_REQUIRED` with a `redirectURL` if there is none. */
  currentUser() { return this.call("public/users/caller"); }

  /**
   * Returns the discoverable users among those looked up.
   * @param {{ emailAddress?: string, phoneNumber?: string, userRecordName?: string }[]} infos
   */
  async discoverUsers(infos) { return (await this.call("public/users/discover", { lookupInfos: infos })).users; }

  /**
   * Signs in by the relay's page in a new window. Must be called in a click handler, since browsers block other windows. The
   * API token must allow this page's origin (`--allowed-origin`). Resolves with the user after the sign-in.
   * @param {{ signal?: AbortSignal }} options
   */
  async signIn({ signal } = {}) {
    // Open the window before the first `await`. Afterwards the browser no longer connects it with the click.
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
        // The page's message arrives a moment after the page has closed itself.
        closedFor = page.closed ? closedFor + 1 : 0;
        if (closedFor > 4 || signal?.aborted) end(reject, signal?.reason ?? gone);
      }, 250);
      window.addEventListener("message", hear);
    });
    this.setWebAuthToken(token);
    return this.currentUser();
  }

  /**
   * Returns the address of the sign-in page; `undefined` if a user is signed in.
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
   * Signs in with an identity token (JWT) of an issuer that the container trusts.
   * @param {string} identityToken
   */
  async signInWithIdentityToken(identityToken) {
    const answer = await this.call("public/users/signin", { identityToken });
    this.setWebAuthToken(answer.ckWebAuthToken);
    return answer;
  }

  /** Signs out, on the relay too. */
  async signOut() {
    try {
      if (this.webAuthToken && !this.webAuthToken.startsWith("dev-")) await this.call("public/users/signout", {});
    } finally {
      this.setWebAuthToken(undefined);
    }
  }

  // Push notifications

  /**
   * Registers for Web Push: the relay wakes this browser while no page is connected. In the service worker, the `push` event
   * has CloudKit's payload: `readJSON(event.data.text())`. Must be called in a click handler.
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
   * Ends Web Push for this browser.
   * @param {ServiceWorkerRegistration} registration
   */
  async unregisterPush(registration) {
    await (await registration.pushManager.getSubscription())?.unsubscribe();
    await this.call("push/unregister", {}, { of: "device" });
  }

  // Shares of other users

  /**
   * Returns the shares of links without accepting them.
   * @param {string[]} links Addresses of shares, or their last path components.
   */
  resolveShares(links) { return this.#shares("resolve", links); }

  /**
   * Accepts shares. Each item of the result is in wire form or a `RelayError`.
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

/** Returns the JSON text of a body. Throws an error that names the field if a value has no JSON form. */
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

/** Returns the last path component of a share's address. */
const linkValue = (link) => decodeURIComponent(link.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? "");

/** Returns 32 random hex digits. Works without TLS, unlike `crypto.randomUUID`. */
export const randomName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const pause = (milliseconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, milliseconds);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

/**
 * Writes whose answers were lost. If the program repeats such a call within ten minutes, it gets the same operation ID, so the
 * relay does not carry it out twice. After the program has read a record, a forced write to it is a new write.
 */
class IdempotencyCache {
  /** @type {Map<string, { operationID: string, forced: string[], at: number }>} */
  #writes = new Map();

  /**
   * Returns the operation ID for a write.
   * @param {string} content
   */
  name(content) {
    const known = this.#writes.get(content);
    return known && Date.now() - known.at < 600_000 ? known.operationID : randomName();
  }

  /**
   * Forgets a write that the relay has answered.
   * @param {string} content
   */
  answered(content) { this.#writes.delete(content); }

  /**
   * Remembers a write whose outcome is unknown.
   * @param {string} content
   * @param {string} operationID
   * @param {string[]} forced
   */
  lost(content, operationID, forced) {
    // No program has that many writes waiting at once.
    if (this.#writes.size >= 64) this.#writes.clear();
    this.#writes.set(content, { operationID, forced, at: Date.now() });
  }

  /**
   * Forgets forced writes to records that the program has read since.
   * @param {Record[]} records
   * @param {number} asked When the read was sent.
   */
  seen(records, asked) {
    const names = new Set(["", ...records.map((record) => record.recordName)]);
    for (const [content, { forced, at }] of this.#writes) {
      if (at <= asked && forced.some((name) => names.has(name))) this.#writes.delete(content);
    }
  }
}

/** One database of a container: public, private or shared. */
export class Database {
  #idempotencyCache = new IdempotencyCache();

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
   * Sends a write with an operation ID.
   * @param {string} operation
   * @param {any} body
   * @param {string[]} forced Names of records that are written without a version check; "" for records without a name.
   */
  async #write(operation, body, forced = []) {
    // A repeated leave after the share was accepted again is a new write.
    const arrivals = this.scope === "shared" ? this.container.arrivals : 0;
    const content = `${arrivals} ${operation} ${sendable(body)}`;
    const operationID = this.#idempotencyCache.name(content);
    try {
      const answer = await this.#call(operation, { ...body, operationID });
      this.#idempotencyCache.answered(content);
      return answer;
    } catch (error) {
      const isOpen = !(error instanceof RelayError) || error.leavesOutcomeOpen;
      if (isOpen) this.#idempotencyCache.lost(content, operationID, forced);
      throw error;
    }
  }

  /**
   * Calls a read operation and notes the records that the program has seen by it.
   * @param {(answer: any) => Record[]} recordsOf
   */
  async #read(operation, body, recordsOf) {
    const asked = Date.now();
    const answer = await this.#call(operation, body);
    const records = recordsOf(answer);
    this.#idempotencyCache.seen(records, asked);
    this.container.fieldForms.learn(records);
    return answer;
  }

  // Records

  /**
   * Creates a record, or updates it if it has a `recordChangeTag`. Returns the saved record. Throws a `RelayError`; with
   * `CONFLICT` its `serverRecord` is the version that another device has saved.
   * @param {Record} record
   * @param {RequestOptions} [options]
   * @returns {Promise<Record>}
   */
  async save(record, options) { return one((await this.modify([saveOperation(record)], options)).records); }

  /**
   * Saves up to 200 records. Each item of the result is a record or a `RelayError`.
   * @param {Record[]} records
   */
  async saveAll(records, options) { return (await this.modify(records.map(saveOperation), options)).records; }

  /**
   * Deletes a record. With a change tag, only that version; without one, any version.
   * @param {Record | string} record
   * @param {RequestOptions} [options]
   */
  async delete(record, options) { return one((await this.modify([deleteOperation(record)], options)).records); }

  /**
   * Sends operations such as `{ operationType: "forceUpdate", record }`, at most one per record.
   * @param {{ operationType: string, record: Record }[]} operations
   * @param {RequestOptions} options With `atomic`, all operations are applied or none; otherwise each by itself.
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

  /** Returns the record with its fields in wire form. */
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
   * Returns a record. Throws `NOT_FOUND` if it does not exist.
   * @param {string} recordName
   * @param {RequestOptions} [options]
   */
  async fetch(recordName, options) { return one(await this.fetchAll([recordName], options)); }

  /**
   * Returns records in the order of their names in the call. Each item is a record or a `RelayError`.
   * @param {string[]} recordNames
   * @param {RequestOptions} options
   */
  async fetchAll(recordNames, { zone, ...options } = {}) {
    const records = recordNames.map((recordName) => ({ recordName }));
    const body = { records, ...(zone && { zoneID: zoneID(zone) }), ...options };
    return (await this.#read("records/lookup", body, (answer) => answer.records)).records.map(result);
  }

  /**
   * Returns one page of matching records. `next` is present if there are more.
   * @param {{ recordType: string, filterBy?: object[], sortBy?: object[] }} query In wire form; `filter` creates filters.
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
   * Uploads a file for a field of a record. Save the record with the returned record name and field afterwards.
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
    // An error page of a proxy is not JSON.
    const stored = await response.json().catch(lost);
    if (!response.ok) throw new RelayError(stored, response.status);
    return { recordName: token.recordName, field: { value: stored.singleFile, type: "ASSETID" } };
  }

  // Zones

  /** Returns all zones, with their sync tokens. */
  async zones() { return (await this.#call("zones/list")).zones; }

  /**
   * Creates zones. Existing ones are not changed.
   * @param {Zone[]} zones
   */
  async saveZones(zones) { return this.#modifyZones("create", zones); }

  /**
   * Deletes zones. In the shared database, leaves the shares of these zones instead.
   * @param {Zone[]} zones
   */
  async deleteZones(zones) { return this.#modifyZones(this.scope === "shared" ? "leave" : "delete", zones); }

  async #modifyZones(operationType, zones) {
    const operations = zones.map((zone) => ({ operationType, zone: { zoneID: zoneID(zone) } }));
    return (await this.#write("zones/modify", { operations })).zones.map(result);
  }

  // Changes

  /**
   * Returns one page of the zones that have changed since a token, or of all zones without one. Zones that were deleted or
   * are no longer shared are marked `deleted`.
   * @param {string} [syncToken]
   * @returns {Promise<{ zones: any[], syncToken: string, moreComing: boolean }>}
   */
  async databaseChanges(syncToken) {
    const answer = await this.#call("changes/database", syncToken ? { syncToken } : {});
    return { ...answer, zones: answer.zones.map(result) };
  }

  /**
   * Returns one page of a zone's changes: records, and `{ recordName, deleted: true }` for deleted ones.
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
   * Creates or replaces subscriptions, which are in wire form.
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

  /** Subscribes to notices of all changes in this database. */
  async subscribe(subscriptionID = `${this.scope}-changes`) {
    const notificationInfo = { shouldSendContentAvailable: true };
    return one(await this.saveSubscriptions([{ subscriptionID, subscriptionType: "database", notificationInfo }]));
  }

  // Shares of the user's own data

  /**
   * Shares a whole zone, or a record with its descendants. Returns the share record, whose `shortGUID` others accept.
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
   * Returns the share of a whole zone; `undefined` if it has none.
   * @param {Zone} zone
   */
  async zoneShare(zone) {
    const [share] = await this.fetchAll(["cloudkit.zoneshare"], { zone });
    if (!(share instanceof RelayError)) return share;
    if (share.serverErrorCode === "NOT_FOUND") return undefined;
    throw share;
  }

  /**
   * Changes the permissions and participants of a share.
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
   * Deletes a share. In the shared database, leaves it.
   * @param {Zone} zone
   * @param {Record} share
   */
  async endShare(zone, share) { return this.delete(share, { zone }); }
}

/**
 * Creates a filter for a query.
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

/** Adds the type that the wire requires of a list in a filter. */
const listed = (made) =>
  Array.isArray(made.value) && made.value.length && !made.type ? { ...made, type: "INT64_LIST" } : made;

/**
 * Returns the only item of a list. Throws it if it is an error.
 * @param {any[]} list
 */
function one([item]) {
  if (item instanceof RelayError) throw item;
  return item;
}

/**
 * Properties of fields that plain values lack, as seen in answers: a list's type, encryption, and whether a string is a number
 * (with `numbersAsStrings`).
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
   * Returns a field with the properties that its plain value lacks.
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
 * Decides what to do after a notice connection has closed. A pure function.
 * @param {number} code The close code.
 * @param {number} attempt The number of consecutive failed connections.
 * @param {number | undefined} promised Seconds, from the relay's goodbye.
 * @param {number} chance A random number from 0 up to 1.
 * @returns {{ action: "reconnect" | "renew" | "stop", delay: number }} `delay` in milliseconds.
 */
export function afterClose(code, attempt, promised, chance) {
  // Doubles from half a second to a minute, with full jitter.
  const backoff = Math.min(60_000, 500 * 2 ** Math.min(attempt, 10)) * chance;
  if (code >= 4400 && code <= 4449) return { action: "stop", delay: 0 };
  if (code === 4450) return { action: "renew", delay: backoff };
  // The relay did not understand a frame, so an early retry would fail again.
  if ([1002, 1007, 1008, 1009].includes(code)) return { action: "reconnect", delay: Math.max(60_000, backoff) };
  // At least half a second, so that a promise of 0 seconds does not cause a tight loop.
  if (promised !== undefined) return { action: "reconnect", delay: Math.max(500, promised * 1000) * (1 + chance / 4) };
  return { action: "reconnect", delay: backoff };
}

/** Time limit for connecting, and for the answer to the hello. In milliseconds, like the constants below. */
const PATIENCE = 10_000;
/** The client sends a ping after this long without a frame, since a half-open socket looks healthy. */
const SILENCE = 45_000;
/** Time limit from a ping to the next frame. */
const PONG_PATIENCE = 15_000;
/** The end of a connection that lasted this long resets the back-off. */
const HEALTHY = 60_000;

/**
 * The state machine of a notice connection, without a socket or a clock. The Swift client's `NoticeConnectionState` follows the same table.
 *
 *     resting -> connecting --opened--> greeting --ready--> live --closed--> resting …
 *        any --4400…4449--> parked --credentialsChanged--> connecting
 *
 * Events: `started`, `opened`, `ready`, `heard` (any frame), `goodbye` (value: seconds until the relay is back),
 * `closed` (value: close code; `undefined` when the socket was cut), `credentialsChanged`, `networkReturned` (also: the page
 * is shown again), `timerFired`, `stopped`.
 *
 * Effects, in order: `connect`, `sendHello`, `ping`, `drop` (discard the socket), `wake` (value: milliseconds until
 * `timerFired`, replacing an earlier wake; `undefined`: none), `live` (value: whether notices arrive from now on) and
 * `needsCredentials` (the relay refuses the current ones; value: whether fresh ones of the same user suffice).
 */
export class NoticeConnectionState {
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
   * @param {number} chance A random number from 0 up to 1.
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

/** Returns whether a close code concerns the web auth token. */
const isOfToken = (code) => code === 4401 || code === 4450;

/**
 * Receives notices of changes over a WebSocket, which reconnects until `stop` is called.
 *
 * Events: `ready` and `notice` (`detail` is the frame's content), and `down` (`detail` has `code`, `reason`, and the `delay` until
 * the next attempt in milliseconds). A final `down` has `isFinal` instead of `delay`; if the credentials were refused, also `error`
 * and its `redirectURL`, the sign-in page. After a final `down`, `setWebAuthToken` with another token or `start` connects again.
 *
 * A notice is a hint: fetch with the stored sync token. After `ready`, the relay sends notices for changes that happened while
 * there was no connection, since each hello contains the client's tokens. A dead connection is detected within a minute, or
 * immediately when the network returns or the page is shown again.
 */
export class Notices extends EventTarget {
  #line = new NoticeConnectionState();
  /** Requests for a fresh token since the last good connection. */
  #renewals = 0;
  /** @type {(() => void) | undefined} */ #endPause = undefined;

  /**
   * @param {Container} container
   * @param {() => { private?: string, shared?: string }} since Returns the database tokens whose changes are fully applied.
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

  /** Ends a pause and checks an open connection, when the network has returned or the page is shown again. */
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
    this.#line = new NoticeConnectionState();
    this.#renewals = 0;
    if (!this.container.webAuthToken) {
      // The next user's token starts the connection.
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
    // Ignore events of a discarded socket.
    const isCurrent = () => this.socket === socket && this.container.turns === turn;
    socket.onopen = () => { if (isCurrent()) this.#perform("opened"); };
    socket.onmessage = (event) => { if (isCurrent()) this.#take(event.data, turn); };
    socket.onclose = (event) => { if (isCurrent()) this.#ended(event.code, event.reason); };
  }

  /** Discards the socket without waiting for its close event, which may never come. */
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

  /**
   * Reports a lost connection to the program.
   * @param {any[][]} effects The effects of the event that ended the connection.
   */
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
   * Makes a call after the relay has refused the token. Connects again if the call brings a fresh token, and ends with the
   * call's error if it is refused too. Retries with the back-off of a connection while no answer arrives.
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
