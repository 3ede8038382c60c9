// Notes as values: conversion from records, merging of edits, and operations to send.

import { randomName } from "../zonecast.js";

/** The name and key of the user's own zone. The key of a zone of another user is `owner/name`. */
export const OWN = "Notes";

/** Merges two edits of a note field by field. If both changed a field, keeps ours and lists the field in `lost`. */
export function merge(base, ours, theirs) {
  const lost = [];
  const pick = (field) => {
    if (ours[field] === base?.[field]) return theirs[field];
    if (theirs[field] !== base?.[field] && theirs[field] !== ours[field]) lost.push(field);
    return ours[field];
  };
  return { note: { title: pick("title"), done: pick("done") }, lost };
}

/** Returns a record as a note with its change tag. */
export const version = (record) => ({
  title: record.fields.title?.value ?? "", done: record.fields.done?.value === 1, tag: record.recordChangeTag,
});

export const same = (one, other) => one?.title === other?.title && one?.done === other?.done;

/** Returns the change number inside a token, for display. Apps must treat tokens as opaque. */
export function tokenNumber(token) {
  if (!token) return "–";
  const data = Uint8Array.from(atob(token), (letter) => letter.charCodeAt(0));
  return data.length < 25 ? "?" : String(new DataView(data.buffer).getBigUint64(17));
}

/** Returns a unique record name. Names sort by time of creation. */
export const newName = () => `n${Date.now().toString(36)}${randomName().slice(0, 6)}`;

/** Returns the operation for a row. It contains only the fields changed here, so that edits of others to the rest are kept. */
export function operation({ name, note, server }) {
  if (!note) return { operationType: "forceDelete", record: { recordName: name } };
  const record = { recordName: name, recordType: "Note" };
  if (!server) return { operationType: "create", record: { ...record, fields: { ...note } } };
  const fields = Object.fromEntries(Object.entries(note).filter(([field, value]) => server[field] !== value));
  return { operationType: "update", record: { ...record, recordChangeTag: server.tag, fields } };
}
