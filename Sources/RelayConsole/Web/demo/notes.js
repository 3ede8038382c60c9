// Notes as values: what a record says, how two edits become one, what is to be sent.

import { randomName } from "../zonecast.js";

/** The name of everybody's own zone, which also is its key here; a zone of somebody else's is `owner/name`. */
export const OWN = "Notes";

/** Which of three sides has changed each field; where both have, ours stays. */
export function merge(base, ours, theirs) {
  const lost = [];
  const pick = (field) => {
    if (ours[field] === base?.[field]) return theirs[field];
    if (theirs[field] !== base?.[field] && theirs[field] !== ours[field]) lost.push(field);
    return ours[field];
  };
  return { note: { title: pick("title"), done: pick("done") }, lost };
}

/** A record as a note with its change tag. */
export const version = (record) => ({
  title: record.fields.title?.value ?? "", done: record.fields.done?.value === 1, tag: record.recordChangeTag,
});

export const same = (one, other) => one?.title === other?.title && one?.done === other?.done;

/** The change number inside a token, for people to compare; programs must not look inside. */
export function tokenNumber(token) {
  if (!token) return "–";
  const data = Uint8Array.from(atob(token), (letter) => letter.charCodeAt(0));
  return data.length < 25 ? "?" : String(new DataView(data.buffer).getBigUint64(17));
}

/** Sorts by age, and no two are alike. */
export const newName = () => `n${Date.now().toString(36)}${randomName().slice(0, 6)}`;

/** What to send for a row: only the fields that were changed here, so that edits of others to the rest stay. */
export function operation({ name, note, server }) {
  if (!note) return { operationType: "forceDelete", record: { recordName: name } };
  const record = { recordName: name, recordType: "Note" };
  if (!server) return { operationType: "create", record: { ...record, fields: { ...note } } };
  const fields = Object.fromEntries(Object.entries(note).filter(([field, value]) => server[field] !== value));
  return { operationType: "update", record: { ...record, recordChangeTag: server.tag, fields } };
}
