// One device of one user, with its own store, sign-in and socket. This file holds the device's state and edits, and decides
// when to sync; sync.js does the sync.

import { Container, Notices, randomName } from "../zonecast.js";
import { Board } from "./board.js";
import { OWN, newName, same, tokenNumber } from "./notes.js";
import { Store } from "./store.js";
import { Sync } from "./sync.js";

/** @typedef {import("./store.js").Row} Row @typedef {import("./store.js").Note} Note */

/** Paths of calls that the timeline omits. */
const QUIET = /users\/caller|zones\/modify|subscriptions\//;

/** Sends the event `change` whenever displayed state has changed. */
export class Client extends EventTarget {
  /**
   * @param {{ container: string, environment: "development" | "production", apiToken?: string, isDev: boolean, boardType: string,
   *   users?: Record<string, string> }} place `users` has web auth tokens by user.
   * @param {string} user
   * @param {string} device
   * @param {(entry: object) => void} journal Called with every step.
   */
  constructor(place, user, device, journal) {
    super();
    this.place = place;
    this.user = user;
    this.device = device;
    /** @type {string | undefined} The user record name in this container. */ this.userID = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */ this.lookAgain = undefined;
    this.name = `${user}/${device}`;
    this.sync = new Sync(this);
    this.database = `zonecast-demo/${place.container}/${this.name}`;
    this.isOnline = true;
    this.journal = (kind, detail = {}) => journal({ kind, who: this.name, at: performance.now(), ...detail });
    this.#forget();
  }

  #forget() {
    /** @type {Map<string, Row>} */ this.rows = new Map();
    /** @type {Map<string, any>} The zone ID, scope, token and any share record, by key. */
    this.zones = new Map();
    this.board = new Board(this);
    /** @type {{ private?: string, shared?: string }} */ this.tokens = {};
    this.edits = 0;
    this.isSetUp = false;
    this.lastNotice = undefined;
    this.trouble = undefined;
    this.needsSignIn = false;
    /** Whether the relay knows neither the container nor its API token. */
    this.isUnknown = false;
    this.wantedScopes = new Set();
    this.wantedZones = new Set();
  }

  // Life cycle

  async open() {
    this.store = await Store.open(this.database);
    const { rows, values } = await this.store.load();
    for (const row of rows) this.rows.set(row.key, row);
    for (const zone of values.zones ?? []) this.zones.set(zone.key, zone);
    for (const post of values.board ?? []) this.board.posts.set(post.name, post);
    this.tokens = values.tokens ?? {};
    this.isSetUp = values.isSetUp ?? false;
    this.userID = values.userID;
    this.edits = Math.max(0, ...rows.map((row) => row.edit));
    const deviceID = values.deviceID ?? `demo-${this.user}-${this.device}-${randomName().slice(0, 8)}`;
    await this.store.write({ values: { deviceID } });
    this.container = new Container({
      container: this.place.container, environment: this.place.environment, apiToken: this.place.apiToken, deviceID,
      webAuthToken: this.place.isDev ? `dev-${this.user}` : this.place.users?.[this.user] ?? values.webAuthToken, retries: 0,
      url: new URL("..", import.meta.url).href,
      fetch: (address, options) => this.#fetch(address, options),
      onToken: (webAuthToken) => this.store.write({ values: { webAuthToken } }).catch(() => {}),
      onExchange: (exchange) => this.#seen(exchange),
    });
    this.notices = new Notices(this.container, () => this.tokens);
    this.notices.addEventListener("ready", () => this.#isReady());
    this.notices.addEventListener("notice", (event) => this.#hear(/** @type {CustomEvent} */ (event).detail));
    this.notices.addEventListener("down", (event) => this.#down(/** @type {CustomEvent} */ (event).detail));
    this.isOpen = true;
    if (this.isOnline) this.#connect();
    this.changed();
  }

  async close() {
    this.isOpen = false;
    this.#disconnect();
    clearTimeout(this.retry);
    clearTimeout(this.lookAgain);
    await this.running?.catch(() => {});
    this.store.close();
  }

  /** Closes the client and opens it again from its store, like an app that is closed and launched. */
  async restart() {
    this.journal("restart", { text: `restarted from its own store, ${this.pending} pending` });
    await this.close();
    this.#forget();
    await this.open();
  }

  /** Deletes the store and opens the client again, like an app that is reinstalled. */
  async reset() {
    await this.close();
    await Store.delete(this.database);
    this.#forget();
    await this.open();
  }

  goOffline() {
    this.isOnline = false;
    this.#disconnect();
    this.journal("offline");
    this.changed();
  }

  goOnline() {
    this.isOnline = true;
    this.journal("online");
    this.#connect();
    this.changed();
  }

  #connect() {
    this.abort = new AbortController();
    this.notices.start();
    this.#wake();
  }

  #disconnect() {
    this.abort?.abort(new TypeError("offline"));
    this.notices.stop();
  }

  #fetch(address, options) {
    if (!this.isOnline) return Promise.reject(new TypeError("offline"));
    return fetch(address, { ...options, signal: this.abort.signal });
  }

  async signIn() {
    await this.container.signIn();
    this.needsSignIn = false;
    this.trouble = undefined;
    this.notices.stop();
    this.#connect();
  }

  /** Connects again after another window with the same device has replaced this connection. */
  takeOver() {
    this.isReplaced = false;
    this.trouble = undefined;
    this.#connect();
  }

  // Displayed state

  /** Whether the client has fetched everything that it knows of. */
  get isSettled() { return Boolean(this.isLive) && !this.running && !this.#hasWork; }
  get isLive() { return this.isOnline && this.notices?.isLive; }
  get pending() { return [...this.rows.values()].filter((row) => row.edit).length; }
  /**
   * @param {string} [zone] A zone's key.
   * @returns {{ name: string, title: string, done: boolean, isPending: boolean }[]}
   */
  notes(zone = OWN) {
    return [...this.rows.values()]
      .filter((row) => row.zone === zone && row.note)
      .map((row) => ({ name: row.name, ...row.note, isPending: row.edit > 0 }))
      .sort((one, other) => (one.name < other.name ? -1 : 1));
  }
  get sharedZones() { return [...this.zones.values()].filter((zone) => zone.scope === "shared"); }
  token(zone = OWN) { return tokenNumber(this.zones.get(zone)?.token); }
  isReadOnly(zone) { return this.zones.get(zone)?.share?.currentUserParticipant?.permission === "READ_ONLY"; }

  // Edits

  add(title, { zone = OWN, name = newName() } = {}) { return this.#edit(zone, name, { title, done: false }); }
  /** @param {string} name @param {Partial<Note>} change */
  change(name, change, zone = OWN) {
    const row = this.rows.get(`${zone}/${name}`);
    return row?.note ? this.#edit(zone, name, { ...row.note, ...change }) : undefined;
  }
  remove(name, zone = OWN) { return this.#edit(zone, name, null); }

  #edit(zone, name, note) {
    const key = `${zone}/${name}`;
    const known = this.rows.get(key);
    if (known && same(known.note, note) && known.note) return known;
    const row = { key, zone, name, note, server: known?.server ?? null, edit: ++this.edits };
    this.rows.set(key, row);
    this.store.write({ rows: [row] }).catch((error) => this.#stumble(error));
    this.journal(note ? "save" : "delete", { note: note && { ...note }, name, zone: this.owner(zone) });
    this.changed();
    // While the client waits to retry, the retry sends this edit too.
    if (!this.isWaiting) this.#wake();
    return row;
  }

  /** Returns the owner of a zone, with the same name on all devices. */
  owner(zone) { return zone === OWN ? this.userID ?? this.user : zone.split("/")[0]; }

  // Notices

  #isReady() {
    this.trouble = undefined;
    this.isReplaced = false;
    this.journal("ready");
    this.#wake();
    this.changed();
  }

  #hear(notice) {
    this.lastNotice = performance.now();
    const { dbs, zid, zoid } = notice.ck.met ?? notice.ck.fet ?? notice.ck.qry ?? {};
    const scope = dbs === 3 ? "shared" : "private";
    this.journal("notice", { frame: notice, text: zid ? `${zid} changed` : "something changed" });
    const key = scope === "private" ? zid : `${zoid}/${zid}`;
    const zone = this.zones.get(key);
    if (!zid || !zone || !notice.syncToken) {
      this.wantedScopes.add(scope);
    } else if (zone.token !== notice.syncToken) {
      this.wantedZones.add(key);
    }
    this.#wake();
    this.changed();
  }

  #down({ code, delay, isFinal }) {
    if (code === 4409) {
      this.isReplaced = true;
      this.trouble = "This device is also open in another window, which has taken over the connection.";
    } else if (isFinal) {
      if (this.place.isDev || this.isUnknown) this.isUnknown = true;
      else this.needsSignIn = true;
      this.trouble = undefined;
    } else if (this.isOnline) {
      this.trouble = "No connection to the relay. Edits are stored and sent later.";
    }
    this.journal("down", { text: isFinal ? `closed: ${code}` : `closed: ${code}, retry in ${Math.round(delay)} ms` });
    this.changed();
  }

  // When it syncs

  #wake() {
    if (this.running || !this.isOpen || !this.isOnline || this.needsSignIn || this.isUnknown) return;
    clearTimeout(this.retry);
    this.isWaiting = false;
    const steps = this.sync.run().catch((error) => this.#stumble(error));
    this.running = steps.finally(() => {
      this.running = undefined;
      this.changed();
      // Work may have arrived between the loop's last check and its end.
      if (this.#hasWork && !this.isWaiting) this.#wake();
    });
  }

  get #hasWork() {
    return !this.isSetUp || this.pending > 0 || this.wantedZones.size > 0 || this.wantedScopes.size > 0;
  }

  #stumble(error) {
    if (!this.isOpen || !this.isOnline) return;
    const code = error.serverErrorCode;
    if (["AUTHENTICATION_REQUIRED", "AUTHENTICATION_FAILED"].includes(code)) {
      // With a sign-in, the relay may refuse that or the API token. Without one, it is the API token.
      this.isUnknown = this.place.isDev || (code === "AUTHENTICATION_FAILED" && !this.container.webAuthToken);
      this.needsSignIn = !this.isUnknown;
      this.trouble = undefined;
      if (this.isUnknown) this.notices.stop();
    } else {
      this.trouble = error.isPassing ? "No connection to the relay. Edits are stored and sent later." : String(error.message);
      this.isWaiting = true;
      this.retry = setTimeout(() => this.#wake(), Math.max(1000, (error.retryAfter ?? 2) * 1000));
    }
    this.changed();
  }

  // For sharing and board

  /** @param {any} share The current share of the user's own zone. */
  keepShare(share) {
    const zone = this.zones.get(OWN);
    if (zone) zone.share = share;
    this.changed();
    return share;
  }

  /**
   * Fetches the changes of a database.
   * @param {"private" | "shared"} scope
   */
  look(scope) {
    this.wantedScopes.add(scope);
    this.#wake();
  }

  /** @param {Object<string, any>} values */
  async keep(values) {
    await this.store.write({ values });
    this.changed();
  }

  // For the page

  #seen(exchange) {
    if (QUIET.test(exchange.path) || exchange.error === "TypeError: offline") return;
    this.journal("exchange", { at: exchange.started, exchange });
  }

  changed() { this.dispatchEvent(new Event("change")); }
}
