// The store of one client: an IndexedDB database with rows and a few values.

/**
 * @typedef {{ key: string, zone: string, name: string, note: Note | null, server: Version | null, edit: number }} Row
 *   One note. `note` is its local state (`null`: deleted here). `server` is its last known state on the relay (`null`: none).
 *   `edit` is the number of the last edit that the relay has not confirmed (0: none).
 * @typedef {{ title: string, done: boolean }} Note
 * @typedef {Note & { tag: string }} Version
 */

const request = (made) => new Promise((resolve, reject) => {
  made.onsuccess = () => resolve(made.result);
  made.onerror = () => reject(made.error);
});

export class Store {
  /** @param {IDBDatabase} database */
  constructor(database) { this.database = database; }

  /** @param {string} name */
  static async open(name) {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore("rows", { keyPath: "key" });
      opening.result.createObjectStore("values");
    };
    return new Store(await request(opening));
  }

  static delete(name) { return request(indexedDB.deleteDatabase(name)); }

  /** @returns {Promise<{ rows: Row[], values: Object<string, any> }>} */
  async load() {
    const transaction = this.database.transaction(["rows", "values"]);
    const [rows, keys, values] = await Promise.all([
      request(transaction.objectStore("rows").getAll()),
      request(transaction.objectStore("values").getAllKeys()),
      request(transaction.objectStore("values").getAll()),
    ]);
    return { rows, values: Object.fromEntries(keys.map((key, index) => [key, values[index]])) };
  }

  /**
   * Writes a change in one transaction: an edit with its pending state, or fetched data with its sync token.
   * @param {{ rows?: Row[], gone?: string[], values?: Object<string, any> }} change
   */
  write({ rows = [], gone = [], values = {} }) {
    const transaction = this.database.transaction(["rows", "values"], "readwrite");
    for (const row of rows) transaction.objectStore("rows").put(row);
    for (const key of gone) transaction.objectStore("rows").delete(key);
    for (const [key, value] of Object.entries(values)) transaction.objectStore("values").put(value, key);
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(transaction.error);
    });
  }

  close() { this.database.close(); }
}
