extension DemoPages {
    /// The client module for anybody begins with errors and values.
    ///
    /// Served with `containerModule`, `lostWritesModule`, `databaseModule` and `noticesModule` as `/zonecast.js`.
    static let clientModule = #"""
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

        /**
         * @typedef {{ zoneName: string, ownerRecordName?: string }} ZoneID
         * @typedef {string | ZoneID} Zone  A zone of one's own may be named by its name alone.
         * @typedef {{ value: any, type?: string, isEncrypted?: boolean }} Field  As on the wire.
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
          get leavesOutcomeOpen() { return this.status === 0 || this.status >= 500 || this.serverErrorCode === "NETWORK_ERROR"; }

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

        /**
         * A field for the wire: from a text, number, boolean (1 or 0), `Date`, `Uint8Array`, list of these, reference or
         * location; `null` clears the field. What has a `value` already is left as it is. Whole numbers say no type: a 2 may be
         * meant for a field of fractions as well, and the schema knows.
         * @param {any} value
         * @returns {Field}
         */
        export function field(value) {
          if (value === null || value === undefined) return { value: null };
          if (typeof value === "string") return { value, type: "STRING" };
          if (typeof value === "boolean") return { value: value ? 1 : 0, type: "INT64" };
          if (typeof value === "bigint") return { value: value.toString(), type: "INT64" };
          if (typeof value === "number") return isWhole(value) ? { value } : { value, type: "DOUBLE" };
          if (value instanceof Date) return { value: value.getTime(), type: "TIMESTAMP" };
          if (value instanceof Uint8Array) return { value: base64(value), type: "BYTES" };
          if (Array.isArray(value)) {
            const items = value.map(field);
            const type = items.some((item) => item.type === "DOUBLE") ? "DOUBLE" : items[0]?.type;
            return { value: items.map((item) => item.value), ...(type && { type: `${type}_LIST` }) };
          }
          if ("value" in value) return value;
          if ("recordName" in value) return { value: { action: "NONE", ...value }, type: "REFERENCE" };
          if ("latitude" in value) return { value, type: "LOCATION" };
          return { value, type: "ASSETID" };
        }

        /**
         * A record's fields as plain values: `TIMESTAMP` as `Date`, `BYTES` as `Uint8Array`, all else as it came.
         * @param {Record} record
         * @returns {Object<string, any>}
         */
        export function values(record) {
          const plain = (value, type) =>
            type === "TIMESTAMP" ? new Date(Number(value)) : type === "BYTES" ? bytes(value) : value;
          const read = ({ value, type }) =>
            Array.isArray(value) ? value.map((item) => plain(item, type?.replace(/_LIST$/, ""))) : plain(value, type);
          return Object.fromEntries(Object.entries(record.fields ?? {}).map(([name, field]) => [name, read(field)]));
        }

        const isWhole = (value) => Number.isInteger(value) && Math.abs(value) < 2 ** 63;
        const base64 = (data) => btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join(""));
        const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

        """#
}
