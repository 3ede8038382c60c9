// The public board. The public database has no notices and no change feed, so the client polls it.

import { RelayError, filter } from "../zonecast.js";
import { newName } from "./notes.js";

/** The name of the board's first record, which is never shown. */
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
    // A query does not report deletions, so a removed post is marked instead (a soft delete).
    const fields = { text, isGone, author: this.client.user };
    const record = { recordName: name, recordType: this.client.place.boardType, fields };
    const { publicDatabase } = this.client.container;
    const { records: [saved] } = await publicDatabase.modify([{ operationType: "forceUpdate", record }]);
    if (saved instanceof RelayError) throw saved;
    await this.#keep([saved]);
    return name;
  }

  /** Saves the first record. A relay in `--dev` creates the record type by it, and refuses queries for unknown types. */
  async #begin() {
    if (this.isBegun || !this.client.place.isDev) return;
    const record = { recordName: FIRST, recordType: this.client.place.boardType, fields: { text: "", isGone: true, author: "" } };
    await this.client.container.publicDatabase.modify([{ operationType: "forceUpdate", record }]);
    this.isBegun = true;
  }

  /** Fetches posts that are at least as new as the newest one here. */
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
      // The record type does not exist before the first post.
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
