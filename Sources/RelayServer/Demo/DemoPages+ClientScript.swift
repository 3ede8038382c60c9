extension DemoPages {
    /// One client of the demo: what it sends, fetches, merges and takes back.
    static let clientScript = #"""
        // One device of one user: its own store, its own sign-in, its own socket. Sends what was edited here, fetches what a notice
        // says has changed, and is right again after any absence, because tokens decide and notices only hint.

        import { Container, Notices, RelayError, randomName } from "../zonecast.js";
        import { Board } from "./board.js";
        import { OWN, merge, newName, operation, same, tokenNumber, version } from "./notes.js";
        import { Store } from "./store.js";

        /** @typedef {import("./store.js").Row} Row @typedef {import("./store.js").Note} Note */

        /** Calls that a viewer of the timeline has no use for. */
        const QUIET = /users\/caller|zones\/modify|subscriptions\//;

        /** Events: `change` whenever something that is shown has changed. */
        export class Client extends EventTarget {
          /**
           * @param {{ container: string, environment: string, apiToken?: string, isDev: boolean, boardType: string }} place
           * @param {string} user @param {string} device
           * @param {(entry: object) => void} journal Hears of every step.
           */
          constructor(place, user, device, journal) {
            super();
            Object.assign(this, { place, user, device });
            this.name = `${user}/${device}`;
            this.database = `zonecast-demo/${place.container}/${this.name}`;
            this.isOnline = true;
            this.journal = (kind, detail = {}) => journal({ kind, who: this.name, at: performance.now(), ...detail });
            this.#forget();
          }

          #forget() {
            /** @type {Map<string, Row>} */ this.rows = new Map();
            /** @type {Map<string, any>} By key: zone ID, scope, token, and the share record if there is one. */
            this.zones = new Map();
            this.board = new Board(this);
            this.tokens = {};
            this.edits = 0;
            this.isSetUp = false;
            this.lastNotice = undefined;
            this.trouble = undefined;
            this.needsSignIn = false;
            this.wantedScopes = new Set();
            this.wantedZones = new Set();
          }

          // Life

          async open() {
            this.store = await Store.open(this.database);
            const { rows, values } = await this.store.load();
            for (const row of rows) this.rows.set(row.key, row);
            for (const zone of values.zones ?? []) this.zones.set(zone.key, zone);
            for (const post of values.board ?? []) this.board.posts.set(post.name, post);
            Object.assign(this, { tokens: values.tokens ?? {}, isSetUp: values.isSetUp ?? false, userID: values.userID });
            this.edits = Math.max(0, ...rows.map((row) => row.edit));
            const deviceID = values.deviceID ?? `demo-${this.user}-${this.device}-${randomName().slice(0, 8)}`;
            await this.store.write({ values: { deviceID } });
            this.container = new Container({
              container: this.place.container, environment: this.place.environment, apiToken: this.place.apiToken, deviceID,
              webAuthToken: this.place.isDev ? `dev-${this.user}` : values.webAuthToken, retries: 0,
              url: new URL("..", import.meta.url).href,
              fetch: (address, options) => this.#fetch(address, options),
              onToken: (webAuthToken) => this.store.write({ values: { webAuthToken } }).catch(() => {}),
              onExchange: (exchange) => this.#seen(exchange),
            });
            this.notices = new Notices(this.container, () => this.tokens);
            this.notices.addEventListener("ready", () => this.#isReady());
            this.notices.addEventListener("notice", (event) => this.#hear(event.detail));
            this.notices.addEventListener("down", (event) => this.#down(event.detail));
            this.isOpen = true;
            if (this.isOnline) this.#connect();
            this.#changed();
          }

          async close() {
            this.isOpen = false;
            this.#disconnect();
            clearTimeout(this.retry);
            clearTimeout(this.lookAgain);
            await this.running?.catch(() => {});
            this.store.close();
          }

          /** Ends the client as closing an app does, and starts it anew from its store. */
          async restart() {
            this.journal("restart", { text: `restarted from its own store, ${this.pending} pending` });
            await this.close();
            this.#forget();
            await this.open();
          }

          /** As after installing anew: everything it kept is gone. */
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
            this.#changed();
          }

          goOnline() {
            this.isOnline = true;
            this.journal("online");
            this.#connect();
            this.#changed();
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

          /** Where the same device is open elsewhere too, this one takes over. */
          takeOver() {
            this.isReplaced = false;
            this.trouble = undefined;
            this.#connect();
          }

          // What it shows

          get isLive() { return this.isOnline && this.notices?.isLive; }
          get pending() { return [...this.rows.values()].filter((row) => row.edit).length; }
          /** @param {string} [zone] A zone's key. @returns {{ name: string, title: string, done: boolean, isPending: boolean }[]} */
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
            this.journal(note ? "save" : "delete", { note: note && { ...note }, name, zone: this.#owner(zone) });
            this.#changed();
            // With no connection to be had, everything goes when there is one again.
            if (!this.isWaiting) this.#wake();
            return row;
          }

          /** Who a zone belongs to, the same for all devices. */
          #owner(zone) { return zone === OWN ? this.userID ?? this.user : zone.split("/")[0]; }

          // Notices

          #isReady() {
            this.trouble = undefined;
            this.isReplaced = false;
            this.journal("ready");
            this.#wake();
            this.#changed();
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
            this.#changed();
          }

          #down({ code, delay, isFinal }) {
            if (code === 4409) {
              this.isReplaced = true;
              this.trouble = "This device is open in another window too, which has taken over.";
            } else if (isFinal) {
              this.needsSignIn = !this.place.isDev;
              this.trouble = `The relay closed the connection (${code}).`;
            } else if (this.isOnline) {
              this.trouble = "No connection to the relay. Edits are kept and sent later.";
            }
            this.journal("down", { text: isFinal ? `closed: ${code}` : `closed: ${code}, next try in ${Math.round(delay)} ms` });
            this.#changed();
          }

          // Syncing: one step after the other, so that no answer overtakes another.

          #wake() {
            if (this.running || !this.isOpen || !this.isOnline || this.needsSignIn) return;
            clearTimeout(this.retry);
            this.isWaiting = false;
            const steps = this.#steps().catch((error) => this.#stumble(error));
            this.running = steps.finally(() => {
              this.running = undefined;
              this.#changed();
              // Something may have come up after the last look and before the end.
              if (this.#hasWork && !this.isWaiting) this.#wake();
            });
          }

          get #hasWork() {
            return !this.isSetUp || this.pending > 0 || this.wantedZones.size > 0 || this.wantedScopes.size > 0;
          }

          async #steps() {
            while (this.isOpen && this.isOnline) {
              if (!this.isSetUp) await this.#setUp();
              else if (this.pending) await this.#push();
              else if (this.wantedZones.size) await this.#take(this.wantedZones, (key) => this.#pullZone(key));
              else if (this.wantedScopes.size) await this.#take(this.wantedScopes, (scope) => this.#pullDatabase(scope));
              else return;
              this.trouble = undefined;
              this.#changed();
            }
          }

          /** Taken off before it is done: what is wanted meanwhile is wanted again. */
          async #take(wanted, pull) {
            const [next] = wanted;
            wanted.delete(next);
            try {
              await pull(next);
            } catch (error) {
              wanted.add(next);
              throw error;
            }
          }

          #stumble(error) {
            if (!this.isOpen || !this.isOnline) return;
            if (["AUTHENTICATION_REQUIRED", "AUTHENTICATION_FAILED"].includes(error.serverErrorCode) && !this.place.isDev) {
              this.needsSignIn = true;
              this.trouble = undefined;
            } else {
              this.trouble = error.isPassing ? "No connection to the relay. Edits are kept and sent later." : String(error.message);
              this.isWaiting = true;
              this.retry = setTimeout(() => this.#wake(), Math.max(1000, (error.retryAfter ?? 2) * 1000));
            }
            this.#changed();
          }

          async #setUp() {
            this.userID = (await this.container.currentUser()).userRecordName;
            const [zone] = await this.container.privateDatabase.saveZones([OWN]);
            if (zone instanceof RelayError) throw zone;
            await this.container.privateDatabase.subscribe();
            await this.container.sharedDatabase.subscribe();
            this.zones.set(OWN, { key: OWN, scope: "private", zoneID: zone.zoneID, ...this.zones.get(OWN) });
            this.isSetUp = true;
            this.wantedScopes.add("private").add("shared");
            await this.store.write({ values: { isSetUp: true, userID: this.userID, zones: [...this.zones.values()] } });
          }

          #databaseOf(zone) {
            return zone.scope === "shared" ? this.container.sharedDatabase : this.container.privateDatabase;
          }

          async #push() {
            const first = [...this.rows.values()].filter((row) => row.edit).sort((one, other) => one.edit - other.edit)[0];
            const zone = this.zones.get(first.zone);
            const rows = [...this.rows.values()].filter((row) => row.edit && row.zone === first.zone).slice(0, 200);
            const sent = rows.map((row) => ({ key: row.key, edit: row.edit, operation: operation(row) }));
            let answer;
            try {
              answer = await this.#databaseOf(zone).modify(sent.map((item) => item.operation), { zone: zone.zoneID });
            } catch (error) {
              if (error.serverErrorCode !== "ZONE_NOT_FOUND") throw error;
              return this.#lostZone(zone);
            }
            const changes = { rows: [], gone: [] };
            let passing;
            sent.forEach((item, index) => {
              const outcome = answer.records[index];
              if (outcome.isPassing) passing = outcome;
              else this.#settle(item, outcome, changes);
            });
            await this.store.write(changes);
            if (passing) throw passing;
            // Our own changes come with the next fetch; a quiet one brings the token up to date.
            clearTimeout(this.lookAgain);
            this.lookAgain = setTimeout(() => { this.wantedScopes.add(zone.scope); this.#wake(); }, 400);
          }

          /** What became of an edit that was sent. */
          #settle({ key, edit }, outcome, changes) {
            const row = this.rows.get(key);
            if (!row) return;
            const isSettled = row.edit === edit;
            if (outcome instanceof RelayError) {
              if (outcome.serverErrorCode === "CONFLICT" && outcome.serverRecord) {
                return this.#mergeInto(row, outcome.serverRecord, changes);
              }
              return this.#rollBack(row, outcome, changes);
            }
            if (outcome.deleted && isSettled) {
              this.#drop(row, changes);
            } else {
              row.server = outcome.deleted ? null : version(outcome);
              if (isSettled) row.edit = 0;
              changes.rows.push(row);
            }
          }

          /** A refused write never stops the sync: the one note goes back to what the relay has. */
          #rollBack(row, error, changes) {
            this.journal("refused", { text: `${error.serverErrorCode}: the note is as it was`, frame: { ...error } });
            const isGone = error.serverErrorCode === "NOT_FOUND" || !row.server;
            if (isGone) return this.#drop(row, changes);
            row.note = { title: row.server.title, done: row.server.done };
            row.edit = 0;
            changes.rows.push(row);
          }

          #drop(row, changes) {
            this.rows.delete(row.key);
            changes.gone.push(row.key);
          }

          #mergeInto(row, record, changes) {
            const theirs = version(record);
            if (row.note) {
              const { note, lost } = merge(row.server, row.note, theirs);
              const text = lost.length ? `both changed ${lost.join(", ")}: ours stays` : "different fields: both kept";
              this.journal("merge", { text, note, name: row.name });
              row.note = note;
              if (same(note, theirs)) row.edit = 0;
            }
            row.server = theirs;
            changes.rows.push(row);
          }

          async #pullDatabase(scope) {
            const database = scope === "shared" ? this.container.sharedDatabase : this.container.privateDatabase;
            let page;
            do {
              try {
                page = await database.databaseChanges(this.tokens[scope]);
              } catch (error) {
                if (!error.isTokenExpired) throw error;
                this.tokens = { ...this.tokens, [scope]: undefined };
                continue;
              }
              for (const { zoneID, deleted, syncToken } of page.zones) {
                const key = scope === "shared" ? `${zoneID.ownerRecordName}/${zoneID.zoneName}` : zoneID.zoneName;
                const known = this.zones.get(key);
                if (deleted) {
                  if (known) await this.#lostZone(known);
                } else if (scope === "shared" || key === OWN) {
                  if (!known) this.zones.set(key, { key, scope, zoneID });
                  if (known?.token !== syncToken) await this.#pullZone(key);
                }
              }
              this.tokens = { ...this.tokens, [scope]: page.syncToken };
              await this.store.write({ values: { tokens: this.tokens, zones: [...this.zones.values()] } });
            } while (!page || page.moreComing);
          }

          async #pullZone(key) {
            const zone = this.zones.get(key);
            if (!zone) return;
            // From the start, whatever is not told again has gone.
            let unseen = zone.token ? undefined : new Set([...this.rows.values()].filter((row) => row.zone === key && row.server)
              .map((row) => row.key));
            let page;
            do {
              try {
                page = await this.#databaseOf(zone).zoneChanges(zone.zoneID, zone.token);
              } catch (error) {
                if (error.serverErrorCode === "ZONE_NOT_FOUND") return this.#lostZone(zone);
                if (!error.isTokenExpired) throw error;
                zone.token = undefined;
                return this.#pullZone(key);
              }
              const changes = { rows: [], gone: [] };
              for (const record of page.records) {
                unseen?.delete(`${key}/${record.recordName}`);
                this.#apply(zone, record, changes);
              }
              if (!page.moreComing) {
                for (const key of unseen ?? []) this.#drop(this.rows.get(key), changes);
              }
              zone.token = page.syncToken;
              await this.store.write({ ...changes, values: { zones: [...this.zones.values()] } });
            } while (page.moreComing);
          }

          #apply(zone, record, changes) {
            const key = `${zone.key}/${record.recordName}`;
            const row = this.rows.get(key);
            if (record.recordType === "cloudkit.share") {
              zone.share = record.deleted ? undefined : record;
            } else if (record.deleted) {
              if (!row) return;
              this.journal("shows", { name: row.name, text: "gone", note: null, zone: this.#owner(zone.key) });
              this.#drop(row, changes);
            } else if (row?.server?.tag === record.recordChangeTag) {
              return;
            } else if (row?.edit) {
              this.#mergeInto(row, record, changes);
            } else {
              const server = version(record);
              const note = { title: server.title, done: server.done };
              const made = { key, zone: zone.key, name: record.recordName, note, server, edit: 0 };
              this.rows.set(key, made);
              changes.rows.push(made);
              this.journal("shows", { name: made.name, note, text: note.title, zone: this.#owner(zone.key) });
            }
          }

          /** A zone that is there no longer: our own is made anew, what was somebody else's goes with all it held. */
          async #lostZone(zone) {
            const gone = [...this.rows.values()].filter((row) => row.zone === zone.key && (zone.key !== OWN || !row.edit));
            for (const row of gone) this.rows.delete(row.key);
            for (const row of this.rows.values()) if (row.zone === zone.key) row.server = null;
            this.zones.delete(zone.key);
            this.wantedZones.delete(zone.key);
            if (zone.key === OWN) this.isSetUp = false;
            else this.journal("lost", { text: "no longer shared; its notes are gone from here" });
            const values = { zones: [...this.zones.values()], isSetUp: this.isSetUp };
            await this.store.write({ gone: gone.map((row) => row.key), values });
          }

          // For sharing and board

          /** @param {any} share The share of the own zone, as it is now. */
          keepShare(share) {
            const zone = this.zones.get(OWN);
            if (zone) zone.share = share;
            this.#changed();
            return share;
          }

          /** Asks what is new in a database. @param {"private" | "shared"} scope */
          look(scope) {
            this.wantedScopes.add(scope);
            this.#wake();
          }

          /** @param {Object<string, any>} values */
          async keep(values) {
            await this.store.write({ values });
            this.#changed();
          }

          // For the page

          #seen(exchange) {
            if (QUIET.test(exchange.path) || exchange.error === "TypeError: offline") return;
            this.journal("exchange", { at: exchange.started, exchange });
          }

          #changed() { this.dispatchEvent(new Event("change")); }
        }

        """#
}
