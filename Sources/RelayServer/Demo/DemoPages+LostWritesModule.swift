extension DemoPages {
    /// A part of `/zonecast.js`: how it knows a write again whose answer was lost.
    static let lostWritesModule = #"""

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

        """#
}
