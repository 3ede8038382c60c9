// Follows all clients and checks that they equal the relay.

import { Container, RelayError } from "../zonecast.js";

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits for a condition. Throws an error that names it after a time limit. */
export async function until(what, condition, seconds = 120, every = 25) {
  const end = performance.now() + seconds * 1000;
  while (!await condition()) {
    if (performance.now() > end) throw new Error(`Waited ${seconds} s for ${what}.`);
    await pause(every);
  }
}

/** Returns the median. */
export const middle = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)] ?? 0;

/** @typedef {{ unequal: string[], lost: number, duplicated: number, pending: number, holds?: boolean }} Verdict */

/** All clients, with the notes that must exist. Checks whether every mirror equals the relay. */
export class World {
  /** @param {any} place @param {import("./client.js").Client[]} clients */
  constructor(place, clients) {
    this.place = place;
    this.clients = clients;
    /** Names of the notes that must exist, by user. */
    this.expected = new Map();
    /** Milliseconds from a save until another device showed it. */
    this.delays = [];
    this.saves = new Map();
    /** Whether `heed` adds to `delays`. */
    this.isCounting = false;
  }

  /** Matches saves with their display on other devices. Returns the delay in milliseconds of an entry that shows a save. */
  heed(entry) {
    if (!entry.name) return undefined;
    const key = JSON.stringify([entry.zone, entry.name, entry.note]);
    if (entry.kind === "save" || entry.kind === "delete") {
      this.saves.set(key, entry.at);
      if (this.saves.size > 500) this.saves.delete(this.saves.keys().next().value);
    } else if (entry.kind === "shows" && this.saves.has(key)) {
      const delay = entry.at - this.saves.get(key);
      if (this.isCounting) this.delays.push(delay);
      return delay;
    }
    return undefined;
  }

  add(title, client) {
    const { name } = client.add(title);
    if (!this.expected.has(client.user)) this.expected.set(client.user, new Set());
    this.expected.get(client.user).add(name);
    return name;
  }

  remove(name, client) {
    this.expected.get(client.user)?.delete(name);
    client.remove(name);
  }

  /** Fetches all notes from the relay, as a device without a store. */
  async #look(client) {
    const { container: name, environment, apiToken } = this.place;
    const { url, webAuthToken } = client.container;
    const observer = new Container({ url, container: name, environment, apiToken, webAuthToken, deviceID: "observer" });
    const notes = new Map();
    /** @type {any} */
    let page;
    do {
      page = await observer.privateDatabase.zoneChanges("Notes", page?.syncToken);
      for (const record of page.records) {
        if (record.deleted) notes.delete(record.recordName);
        else if (record.recordType === "Note") {
          notes.set(record.recordName, { title: record.fields.title?.value, done: record.fields.done?.value === 1 });
        }
      }
    } while (page.moreComing);
    return notes;
  }

  async judge() {
    /** @type {Verdict} */
    const verdict = { unequal: [], lost: 0, duplicated: 0, pending: 0 };
    const there = new Map();
    for (const client of this.clients) {
      if (!there.has(client.user)) there.set(client.user, { notes: await this.#look(client), id: client.userID });
    }
    for (const [user, { notes }] of there) {
      const names = this.expected.get(user) ?? new Set();
      verdict.lost += [...names].filter((name) => !notes.has(name)).length;
      verdict.duplicated += notes.size - new Set([...notes.values()].map((note) => note.title)).size;
    }
    for (const client of this.clients) {
      verdict.pending += client.pending;
      if (!equals(client.notes(), there.get(client.user).notes)) verdict.unequal.push(client.name);
      for (const zone of client.sharedZones) {
        const owner = [...there.values()].find(({ id }) => id === zone.zoneID.ownerRecordName);
        if (owner && !equals(client.notes(zone.key), owner.notes)) verdict.unequal.push(`${client.name}, shared`);
      }
    }
    verdict.holds = !verdict.unequal.length && !verdict.lost && !verdict.duplicated && !verdict.pending;
    return verdict;
  }

  /** Deletes all notes of all users. */
  async clear() {
    this.expected.clear();
    await until("every client to be connected", () => this.clients.every((one) => one.isLive && one.isSetUp), 30);
    // A client can delete only notes that it has fetched.
    const isWhole = async () => !this.clients.some((one) => one.pending) && !(await this.judge()).unequal.length;
    await until("every client to show what is on the relay", isWhole, 30, 100);
    const owners = new Map(this.clients.map((client) => [client.user, client]));
    for (const owner of owners.values()) for (const { name } of owner.notes()) owner.remove(name);
    await this.settle();
  }

  /** Waits until nothing is pending and every mirror equals the relay. */
  async settle(seconds = 180) {
    /** @type {Verdict | undefined} */
    let verdict;
    const isSettled = async () => {
      if (this.clients.some((client) => client.pending)) return false;
      try {
        verdict = await this.judge();
      } catch (error) {
        if (!(error instanceof RelayError)) throw error;
        return false;
      }
      return verdict.holds;
    };
    try {
      await until("every mirror to equal the relay", isSettled, seconds);
    } catch (error) {
      /** @type {Partial<Verdict>} */
      const known = verdict ?? {};
      const { pending = "?", lost = "?", duplicated = "?", unequal = [] } = known;
      const facts = `${pending} pending, ${lost} lost, ${duplicated} duplicated, different: ${unequal.join("; ") || "none"}`;
      throw new Error(`${error.message} ${facts}.`);
    }
    return verdict;
  }
}

function equals(notes, relay) {
  return notes.length === relay.size
    && notes.every(({ name, title, done }) => relay.get(name)?.title === title && relay.get(name)?.done === done);
}
