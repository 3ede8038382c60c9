extension DemoPages {
    /// The client module for anybody begins with errors and values.
    ///
    /// Served with the other parts as `/zonecast.js`; see `DemoPages.files`.
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
        //
        // Numbers are exact. In answers, a whole number for which `Number.isSafeInteger` is false is a `BigInt`. Callers may pass
        // `BigInt` wherever they may pass numbers. `JSON.stringify` throws for `BigInt`; use `writeJSON` and `readJSON` instead.

        /**
         * @typedef {{ zoneName: string, ownerRecordName?: string }} ZoneID
         * @typedef {string | ZoneID} Zone  A zone of one's own may be named by its name alone.
         * @typedef {{ value: any, type?: string, isEncrypted?: boolean, exactSeconds?: any }} Field  As on the wire.
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
          get leavesOutcomeOpen() { return this.status >= 500 || this.serverErrorCode === "NETWORK_ERROR"; }

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

        /** The error for a value that no field can hold. It is thrown before anything is sent. */
        const unsendable = (reason) => new RelayError({ serverErrorCode: "BAD_REQUEST", reason });

        /**
         * A field for the wire: from a text, number, `BigInt`, boolean (1 or 0), `Date`, `Uint8Array`, list of these, reference or
         * location; `null` clears the field. A field in wire form (with a `value`) is kept. Whole numbers and empty lists get no type,
         * since a 2 may be meant for a DOUBLE field; the schema decides. Throws a `RelayError` for values that no field can hold:
         * `NaN`, infinities, invalid dates, and a `BigInt` of more than 64 bits.
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

        /** Removes `exactSeconds` from a field in wire form if its value has been changed to another millisecond since. */
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
         * A record's fields as plain values: `TIMESTAMP` as `Date`, `BYTES` as `Uint8Array`, other types as they came. A time outside
         * of `Date`'s range stays a number of milliseconds, and a field of an unknown type stays in wire form (value and type).
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

        """#
}
