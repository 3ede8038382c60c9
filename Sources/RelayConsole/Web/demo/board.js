// The public board. There are no notices and no change feed in the public database, so it is asked again and again.

import { RelayError, filter } from "../zonecast.js";
import { newName } from "./notes.js";

/** The record that is there before anybody has posted. */
const FIRST = "board";

export class Board {
  /** @param {import("./client.js").Client} client */
  constructor(client) {
    this.client = client;
    /** @type {Map<string, any>} */ this.posts = new Map();
    this.isBegun = false;
  }

  get shown() { return [...this.posts.values()].filter((post) => !post.isGone); }

  /** @param {string} text @param {{ name?: string, isGone?: boolean }} options */
  async post(text, { name = newName(), isGone = false } = {}) {
    // Deletions do not travel to those who poll; a post that has gone says so instead.
    const fields = { text, isGone, author: this.client.user };
    const record = { recordName: name, recordType: this.client.place.boardType, fields };
    const { publicDatabase } = this.client.container;
    const { records: [saved] } = await publicDatabase.modify([{ operationType: "forceUpdate", record }]);
    if (saved instanceof RelayError) throw saved;
    await this.#keep([saved]);
    return name;
  }

  /** A relay refuses to be asked for a type that it has never seen: so there is one post from the start, which nobody sees. */
  async #begin() {
    if (this.isBegun || !this.client.place.isDev) return;
    const record = { recordName: FIRST, recordType: this.client.place.boardType, fields: { text: "", isGone: true, author: "" } };
    await this.client.container.publicDatabase.modify([{ operationType: "forceUpdate", record }]);
    this.isBegun = true;
  }

  /** Asks for what is as new as the newest post here, or newer. */
  async poll() {
    await this.#begin();
    const latest = Math.max(0, ...[...this.posts.values()].map((post) => post.modified));
    const query = {
      recordType: this.client.place.boardType,
      sortBy: [{ fieldName: "___modTime", ascending: true }],
      filterBy: [filter("___modTime", "GREATER_THAN_OR_EQUALS", new Date(latest))],
    };
    /** @type {{ records: any[], next?: () => Promise<any> }} */
    let page = await this.client.container.publicDatabase.query(query).catch((error) => {
      // Nobody has posted yet, so the relay knows no such type.
      if (["NOT_FOUND", "BAD_REQUEST"].includes(error.serverErrorCode)) return { records: [] };
      throw error;
    });
    for (;;) {
      await this.#keep(page.records);
      if (!page.next) return;
      page = await page.next();
    }
  }

  async #keep(records) {
    for (const { recordName: name, fields, modified: { timestamp: modified } } of records) {
      if (name === FIRST || this.posts.get(name)?.modified === modified) continue;
      const [text, author, isGone] = [fields.text?.value ?? "", fields.author?.value ?? "", fields.isGone?.value === 1];
      this.posts.set(name, { name, text, author, isGone, modified });
      this.client.journal("polled", { text: `${isGone ? "hides" : "shows"} “${text}”` });
    }
    await this.client.keep({ board: [...this.posts.values()] });
  }
}
