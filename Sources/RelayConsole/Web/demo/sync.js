// The sync of a client: sends local edits, and fetches what notices report as changed. Notices are hints; sync tokens decide
// what is fetched, so a client catches up after any absence. Steps run one at a time, so answers arrive in order.

import { RelayError } from "../zonecast.js";
import { OWN, merge, operation, same, version } from "./notes.js";

/** Updates a client's rows, zones and tokens, in memory and in its store. */
export class Sync {
  /** @param {import("./client.js").Client} client */
  constructor(client) { this.client = client; }

  /** Runs steps until no work is left or the client is offline. */
  async run() {
    while (this.client.isOpen && this.client.isOnline) {
      if (!this.client.isSetUp) await this.#setUp();
      else if (this.client.pending) await this.#push();
      else if (this.client.wantedZones.size) await this.#take(this.client.wantedZones, (key) => this.#pullZone(key));
      else if (this.client.wantedScopes.size) await this.#take(this.client.wantedScopes, (scope) => this.#pullDatabase(scope));
      else return;
      this.client.trouble = undefined;
      this.client.changed();
    }
  }

  /** Removes an entry before its pull, so that a notice during the pull adds it again. Restores it if the pull fails. */
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

  async #setUp() {
    this.client.userID = (await this.client.container.currentUser()).userRecordName;
    const [zone] = await this.client.container.privateDatabase.saveZones([OWN]);
    if (zone instanceof RelayError) throw zone;
    await this.client.container.privateDatabase.subscribe();
    await this.client.container.sharedDatabase.subscribe();
    this.client.zones.set(OWN, { key: OWN, scope: "private", zoneID: zone.zoneID, ...this.client.zones.get(OWN) });
    this.client.isSetUp = true;
    this.client.wantedScopes.add("private").add("shared");
    await this.client.store.write({ values: { isSetUp: true, userID: this.client.userID, zones: [...this.client.zones.values()] } });
  }

  #databaseOf(zone) {
    return zone.scope === "shared" ? this.client.container.sharedDatabase : this.client.container.privateDatabase;
  }

  async #push() {
    const first = [...this.client.rows.values()].filter((row) => row.edit).sort((one, other) => one.edit - other.edit)[0];
    const zone = this.client.zones.get(first.zone);
    const rows = [...this.client.rows.values()].filter((row) => row.edit && row.zone === first.zone).slice(0, 200);
    const sent = rows.map((row) => ({ key: row.key, edit: row.edit, note: row.note, operation: operation(row) }));
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
    await this.client.store.write(changes);
    if (passing) throw passing;
    // The relay sends no notice of this device's own changes, so a later fetch updates the token.
    clearTimeout(this.client.lookAgain);
    this.client.lookAgain = setTimeout(() => this.client.look(zone.scope), 400);
  }

  /** Applies the outcome of a sent edit. `note` is the note as it was sent. */
  #settle({ key, edit, note }, outcome, changes) {
    const row = this.client.rows.get(key);
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
      // The answer to a repeated write may contain later edits of others.
      if (row.note && row.server) row.note = merge(note, row.note, row.server).note;
      if (isSettled) row.edit = 0;
      changes.rows.push(row);
    }
  }

  /** Restores a note to the relay's version after a refused write. The sync goes on with the others. */
  #rollBack(row, error, changes) {
    this.client.journal("refused", { text: `${error.serverErrorCode}: the note is rolled back`, frame: { ...error } });
    const isGone = error.serverErrorCode === "NOT_FOUND" || !row.server;
    if (isGone) return this.#drop(row, changes);
    row.note = { title: row.server.title, done: row.server.done };
    row.edit = 0;
    changes.rows.push(row);
  }

  #drop(row, changes) {
    this.client.rows.delete(row.key);
    changes.gone.push(row.key);
  }

  #mergeInto(row, record, changes) {
    const theirs = version(record);
    if (row.note) {
      const { note, lost } = merge(row.server, row.note, theirs);
      const text = lost.length ? `both changed ${lost.join(", ")}: the local value is kept` : "different fields: both kept";
      this.client.journal("merge", { text, note, name: row.name });
      row.note = note;
      if (same(note, theirs)) row.edit = 0;
    }
    row.server = theirs;
    changes.rows.push(row);
  }

  async #pullDatabase(scope) {
    const database = scope === "shared" ? this.client.container.sharedDatabase : this.client.container.privateDatabase;
    let page;
    do {
      try {
        page = await database.databaseChanges(this.client.tokens[scope]);
      } catch (error) {
        if (!error.isTokenExpired) throw error;
        this.client.tokens = { ...this.client.tokens, [scope]: undefined };
        continue;
      }
      for (const { zoneID, deleted, syncToken } of page.zones) {
        const key = scope === "shared" ? `${zoneID.ownerRecordName}/${zoneID.zoneName}` : zoneID.zoneName;
        const known = this.client.zones.get(key);
        if (deleted) {
          if (known) await this.#lostZone(known);
        } else if (scope === "shared" || key === OWN) {
          if (!known) this.client.zones.set(key, { key, scope, zoneID });
          if (known?.token !== syncToken) await this.#pullZone(key);
        }
      }
      this.client.tokens = { ...this.client.tokens, [scope]: page.syncToken };
      await this.client.store.write({ values: { tokens: this.client.tokens, zones: [...this.client.zones.values()] } });
    } while (!page || page.moreComing);
  }

  async #pullZone(key) {
    const zone = this.client.zones.get(key);
    if (!zone) return;
    // A fetch without a token lists all records, so rows that it does not list are deleted.
    let unseen = zone.token ? undefined : new Set([...this.client.rows.values()].filter((row) => row.zone === key && row.server)
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
        for (const key of unseen ?? []) this.#drop(this.client.rows.get(key), changes);
      }
      zone.token = page.syncToken;
      await this.client.store.write({ ...changes, values: { zones: [...this.client.zones.values()] } });
    } while (page.moreComing);
  }

  #apply(zone, record, changes) {
    const key = `${zone.key}/${record.recordName}`;
    const row = this.client.rows.get(key);
    if (record.recordType === "cloudkit.share") {
      zone.share = record.deleted ? undefined : record;
    } else if (record.deleted) {
      if (!row) return;
      this.client.journal("shows", { name: row.name, text: "deleted", note: null, zone: this.client.owner(zone.key) });
      this.#drop(row, changes);
    } else if (row?.server?.tag === record.recordChangeTag) {
      return;
    } else if (row?.edit) {
      this.#mergeInto(row, record, changes);
    } else {
      const server = version(record);
      const note = { title: server.title, done: server.done };
      const made = { key, zone: zone.key, name: record.recordName, note, server, edit: 0 };
      this.client.rows.set(key, made);
      changes.rows.push(made);
      this.client.journal("shows", { name: made.name, note, text: note.title, zone: this.client.owner(zone.key) });
    }
  }

  /** Handles a deleted zone. The user's own zone is created again; a zone of another user is removed with its notes. */
  async #lostZone(zone) {
    const gone = [...this.client.rows.values()].filter((row) => row.zone === zone.key && (zone.key !== OWN || !row.edit));
    for (const row of gone) this.client.rows.delete(row.key);
    for (const row of this.client.rows.values()) if (row.zone === zone.key) row.server = null;
    this.client.zones.delete(zone.key);
    this.client.wantedZones.delete(zone.key);
    if (zone.key === OWN) this.client.isSetUp = false;
    else this.client.journal("lost", { text: "no longer shared; its notes are removed here" });
    const values = { zones: [...this.client.zones.values()], isSetUp: this.client.isSetUp };
    await this.client.store.write({ gone: gone.map((row) => row.key), values });
  }
}
