extension DemoPages {
    /// The second part of `/zonecast.js`: databases.
    static let databaseModule = #"""

        /** One database of a container: public, private, or what others have shared with the user. */
        export class Database {
          #lostWrites = new LostWrites();

          /**
           * @param {Container} container
           * @param {"public" | "private" | "shared"} scope
           */
          constructor(container, scope) {
            this.container = container;
            this.scope = scope;
          }

          #call(operation, body) { return this.container.call(`${this.scope}/${operation}`, body); }

          /**
           * Sends a write under a name of its own.
           * @param {string} operation
           * @param {any} body
           * @param {string[]} forced Records that it writes to whatever their version; "" stands for those without a name.
           */
          async #write(operation, body, forced = []) {
            // Who has left a share without hearing so, and come in again, may leave it again.
            const arrivals = this.scope === "shared" ? this.container.arrivals : 0;
            const content = `${arrivals} ${operation} ${sendable(body)}`;
            const operationID = this.#lostWrites.name(content);
            try {
              const answer = await this.#call(operation, { ...body, operationID });
              this.#lostWrites.answered(content);
              return answer;
            } catch (error) {
              const isOpen = !(error instanceof RelayError) || error.leavesOutcomeOpen;
              if (isOpen) this.#lostWrites.lost(content, operationID, forced);
              throw error;
            }
          }

          /**
           * Calls for records that the program then has seen.
           * @param {(answer: any) => Record[]} recordsOf
           */
          async #read(operation, body, recordsOf) {
            const asked = Date.now();
            const answer = await this.#call(operation, body);
            const records = recordsOf(answer);
            this.#lostWrites.seen(records, asked);
            this.container.fieldForms.learn(records);
            return answer;
          }

          // Records

          /**
           * Creates a record, or updates it if it has a `recordChangeTag`, and returns it as it is now. Throws a `RelayError`;
           * with `CONFLICT` its `serverRecord` is what somebody else has saved meanwhile.
           * @param {Record} record
           * @param {RequestOptions} [options]
           * @returns {Promise<Record>}
           */
          async save(record, options) { return one((await this.modify([saveOperation(record)], options)).records); }

          /**
           * The same for up to 200; each item is a record or a `RelayError`.
           * @param {Record[]} records
           */
          async saveAll(records, options) { return (await this.modify(records.map(saveOperation), options)).records; }

          /**
           * Deletes a record: of the version named by its change tag, or whatever there is when it has none.
           * @param {Record | string} record
           * @param {RequestOptions} [options]
           */
          async delete(record, options) { return one((await this.modify([deleteOperation(record)], options)).records); }

          /**
           * Any operations: `{ operationType: "forceUpdate", record }` and its like, at most one for each record.
           * @param {{ operationType: string, record: Record }[]} operations
           * @param {RequestOptions} options With `atomic` all or none are applied; else each for itself.
           * @returns {Promise<{ records: (Record | RelayError)[], syncToken?: string }>}
           */
          async modify(operations, { zone, atomic = false, ...options } = {}) {
            const forced = operations
              .filter(({ operationType, record }) => operationType.startsWith("force") || !record.recordName)
              .map(({ record }) => record.recordName ?? "");
            const answer = await this.#write("records/modify", {
              operations: operations.map(({ operationType, record }) => ({ operationType, record: this.#written(record) })),
              ...(zone && { zoneID: zoneID(zone) }), atomic, ...options,
            }, forced);
            this.container.fieldForms.learn(answer.records);
            return { ...answer, records: answer.records.map(result) };
          }

          /** The record with its fields as the wire wants them. */
          #written(record) {
            const { created, modified, pluginFields, deleted, ...rest } = record;
            const fields = Object.entries(record.fields ?? {}).map(([name, value]) => {
              try {
                return [name, this.container.fieldForms.completed(field(value), record.recordType, name)];
              } catch (error) {
                throw error instanceof RelayError ? unsendable(`Field "${name}": ${error.reason} Nothing was sent.`) : error;
              }
            });
            return { ...rest, fields: Object.fromEntries(fields) };
          }

          /**
           * Throws `NOT_FOUND` if there is none.
           * @param {string} recordName
           * @param {RequestOptions} [options]
           */
          async fetch(recordName, options) { return one(await this.fetchAll([recordName], options)); }

          /**
           * In the order asked for; each item is a record or a `RelayError`.
           * @param {string[]} recordNames
           * @param {RequestOptions} options
           */
          async fetchAll(recordNames, { zone, ...options } = {}) {
            const records = recordNames.map((recordName) => ({ recordName }));
            const body = { records, ...(zone && { zoneID: zoneID(zone) }), ...options };
            return (await this.#read("records/lookup", body, (answer) => answer.records)).records.map(result);
          }

          /**
           * One page of what matches; `next()` is there while there is more.
           * @param {{ recordType: string, filterBy?: object[], sortBy?: object[] }} query As on the wire; `filter` makes filters.
           * @param {RequestOptions & { zoneWide?: boolean, resultsLimit?: number, continuationMarker?: string }} options
           * @returns {Promise<{ records: Record[], next?: () => Promise<any> }>}
           */
          async query(query, { zone, ...options } = {}) {
            const body = { query, ...(zone && { zoneID: zoneID(zone) }), ...options };
            const { records, continuationMarker } = await this.#read("records/query", body, (answer) => answer.records);
            if (!continuationMarker) return { records };
            return { records, next: () => this.query(query, { zone, ...options, continuationMarker }) };
          }

          /**
           * Uploads a file for a field of a record that is then saved with what is returned: its name, and the field.
           * @param {{ recordType: string, recordName?: string }} record
           * @param {string} fieldName
           * @param {Blob | Uint8Array} data
           * @param {{ zone?: Zone }} options
           */
          async uploadAsset({ recordType, recordName }, fieldName, data, { zone } = {}) {
            const tokens = [{ recordType, fieldName, ...(recordName && { recordName }) }];
            const answer = await this.#call("assets/upload", { tokens, ...(zone && { zoneID: zoneID(zone) }) });
            const [token] = answer.tokens;
            const headers = { "Content-Type": "application/octet-stream" };
            const lost = (error) => {
              throw new RelayError({ serverErrorCode: "NETWORK_ERROR", reason: `The file could not be sent: ${error.message}` });
            };
            const response = await this.container.fetch(token.url, { method: "POST", headers, body: data }).catch(lost);
            // A proxy's page is no answer either.
            const stored = await response.json().catch(lost);
            if (!response.ok) throw new RelayError(stored, response.status);
            return { recordName: token.recordName, field: { value: stored.singleFile, type: "ASSETID" } };
          }

          // Zones

          /** All zones, with their tokens. */
          async zones() { return (await this.#call("zones/list")).zones; }

          /**
           * Creates zones, or leaves them as they are.
           * @param {Zone[]} zones
           */
          async saveZones(zones) { return this.#modifyZones("create", zones); }

          /**
           * Deletes zones; in the shared database the caller leaves what others have shared with them there.
           * @param {Zone[]} zones
           */
          async deleteZones(zones) { return this.#modifyZones(this.scope === "shared" ? "leave" : "delete", zones); }

          async #modifyZones(operationType, zones) {
            const operations = zones.map((zone) => ({ operationType, zone: { zoneID: zoneID(zone) } }));
            return (await this.#write("zones/modify", { operations })).zones.map(result);
          }

          // Changes

          /**
           * One page of the zones that have changed since a token; without one, of all. Deleted ones, and those no longer shared,
           * are marked `deleted`.
           * @param {string} [syncToken]
           * @returns {Promise<{ zones: any[], syncToken: string, moreComing: boolean }>}
           */
          async databaseChanges(syncToken) {
            const answer = await this.#call("changes/database", syncToken ? { syncToken } : {});
            return { ...answer, zones: answer.zones.map(result) };
          }

          /**
           * One page of what has changed in a zone: records, and `{ recordName, deleted: true }` for those that have gone.
           * @param {Zone} zone
           * @param {string} [syncToken]
           * @param {{ resultsLimit?: number, desiredKeys?: string[], desiredRecordTypes?: string[] }} [options]
           * @returns {Promise<{ records: Record[], syncToken: string, moreComing: boolean }>}
           */
          async zoneChanges(zone, syncToken, options = {}) {
            const entry = { zoneID: zoneID(zone), ...(syncToken && { syncToken }), ...options };
            const { zones } = await this.#read("changes/zone", { zones: [entry] }, ({ zones: [page] }) => page.records ?? []);
            return one(zones.map(result));
          }

          // Subscriptions

          /** @returns {Promise<any[]>} */
          async subscriptions() { return (await this.#call("subscriptions/list")).subscriptions; }

          /**
           * Creates or replaces subscriptions, in the wire's own form.
           * @param {object[]} subscriptions
           */
          async saveSubscriptions(subscriptions) {
            const operations = subscriptions.map((subscription) => ({ operationType: "create", subscription }));
            return (await this.#call("subscriptions/modify", { operations })).subscriptions.map(result);
          }

          /** @param {string[]} ids */
          async deleteSubscriptions(ids) {
            const operations = ids.map((subscriptionID) => ({ operationType: "delete", subscription: { subscriptionID } }));
            return (await this.#call("subscriptions/modify", { operations })).subscriptions.map(result);
          }

          /** Asks for a notice of every change in this database. */
          async subscribe(subscriptionID = `${this.scope}-changes`) {
            const notificationInfo = { shouldSendContentAvailable: true };
            return one(await this.saveSubscriptions([{ subscriptionID, subscriptionType: "database", notificationInfo }]));
          }

          // Sharing what is one's own

          /**
           * Shares a whole zone, or a record with all below it, and returns the share record; its `shortGUID` is what others accept.
           * @param {Zone} zone
           * @param {{ record?: Record, publicPermission?: "NONE" | "READ_ONLY" | "READ_WRITE", participants?: object[],
           *   title?: string }} options
           */
          async share(zone, { record, publicPermission = "NONE", participants = [], title } = {}) {
            const fields = title ? { "cloudkit.title": title } : {};
            const share = { recordType: "cloudkit.share", fields, publicPermission, participants };
            if (!record) return this.save({ ...share, recordName: "cloudkit.zoneshare" }, { zone });
            const { recordName, recordType, recordChangeTag } = record;
            const root = { recordName, recordType, recordChangeTag, createShortGUID: true, fields: {} };
            const operations = [
              { operationType: "update", record: root },
              { operationType: "create", record: { ...share, forRecord: { recordName, recordChangeTag } } },
            ];
            const { records } = await this.modify(operations, { zone, atomic: true });
            return one(records.slice(1));
          }

          /**
           * A zone's own share; `undefined` if it has none.
           * @param {Zone} zone
           */
          async zoneShare(zone) {
            const [share] = await this.fetchAll(["cloudkit.zoneshare"], { zone });
            if (!(share instanceof RelayError)) return share;
            if (share.serverErrorCode === "NOT_FOUND") return undefined;
            throw share;
          }

          /**
           * Changes who may do what.
           * @param {Zone} zone
           * @param {Record} share
           * @param {{ publicPermission?: string, participants?: object[] }} change
           */
          async updateShare(zone, share, { publicPermission = share.publicPermission, participants = share.participants }) {
            const { recordName, recordChangeTag } = share;
            const record = { recordName, recordChangeTag, recordType: "cloudkit.share", publicPermission, participants };
            return one((await this.modify([{ operationType: "update", record: { ...record, fields: {} } }], { zone })).records);
          }

          /**
           * The owner stops sharing; in the shared database, the participant leaves.
           * @param {Zone} zone
           * @param {Record} share
           */
          async endShare(zone, share) { return this.delete(share, { zone }); }
        }

        /**
         * A filter of a query.
         * @param {string} fieldName
         * @param {string} comparator
         * @param {any} value
         */
        export function filter(fieldName, comparator, value) {
          try {
            return { fieldName, comparator, fieldValue: listed(field(value)) };
          } catch (error) {
            throw error instanceof RelayError ? unsendable(`Field "${fieldName}": ${error.reason}`) : error;
          }
        }

        /** Lists of filters have to say what they are of. */
        const listed = (made) =>
          Array.isArray(made.value) && made.value.length && !made.type ? { ...made, type: "INT64_LIST" } : made;

        /**
         * The only one of a list, if it is no refusal.
         * @param {any[]} list
         */
        function one([item]) {
          if (item instanceof RelayError) throw item;
          return item;
        }

        /**
         * What answers have told about fields and a plain value does not tell: a list's type, encryption, and that a text is a
         * number (with `numbersAsStrings`).
         */
        class FieldForms {
          /** @type {Map<string, { type?: string, isEncrypted?: boolean, isNumber: boolean }>} By record type and field name. */
          #forms = new Map();

          /** @param {Record[] | undefined} records */
          learn(records) {
            for (const { recordType, fields } of records ?? []) {
              for (const [name, { value, type, isEncrypted }] of Object.entries(fields ?? {})) {
                const key = `${recordType}.${name}`;
                const isList = type?.endsWith("_LIST") && type !== "UNKNOWN_LIST";
                const isNumber = typeof [value].flat()[0] === "string" && /^(INT64|DOUBLE|TIMESTAMP)/.test(type ?? "");
                if (isEncrypted || isList || isNumber) this.#forms.set(key, { type, isEncrypted, isNumber });
                else this.#forms.delete(key);
              }
            }
          }

          /**
           * @param {Field} field
           * @param {string | undefined} recordType
           * @param {string} name
           */
          completed(field, recordType, name) {
            const form = this.#forms.get(`${recordType}.${name}`);
            if (!form || field.value === null) return field;
            const { type, isEncrypted, isNumber } = form;
            if (isNumber && field.type === (type?.endsWith("_LIST") ? "STRING_LIST" : "STRING")) field = { ...field, type };
            if (isEncrypted && field.isEncrypted === undefined) return { ...field, type: field.type ?? type, isEncrypted };
            const isEmptyList = Array.isArray(field.value) && !field.value.length;
            return isEmptyList && !field.type && type?.endsWith("_LIST") ? { ...field, type } : field;
          }
        }

        const saveOperation = (record) => ({ operationType: record.recordChangeTag ? "update" : "create", record });

        /** @param {Record | string} record */
        function deleteOperation(record) {
          const { recordName, recordChangeTag } = /** @type {Record} */ (typeof record === "string" ? { recordName: record } : record);
          if (!recordChangeTag) return { operationType: "forceDelete", record: { recordName } };
          return { operationType: "delete", record: { recordName, recordChangeTag } };
        }

        """#
}
