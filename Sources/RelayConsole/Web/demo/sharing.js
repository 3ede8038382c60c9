// Shares the user's zone of notes with another user, and accepts shares of others.

import { RelayError } from "../zonecast.js";
import { OWN } from "./notes.js";

/**
 * @typedef {import("./client.js").Client} Client
 * @typedef {"READ_ONLY" | "READ_WRITE"} Permission
 */

/**
 * Invites a user to the client's own zone.
 * @param {Client} client
 * @param {string} guest A user record name.
 */
export async function shareZone(client, guest, /** @type {Permission} */ permission) {
  const { privateDatabase } = client.container;
  const participant = { type: "USER", permission, userIdentity: { lookupInfo: { userRecordName: guest } } };
  const known = await privateDatabase.zoneShare(OWN);
  if (!known) {
    return client.keepShare(await privateDatabase.share(OWN, { title: "Notes", participants: [participant] }));
  }
  if (known.participants.some((one) => one.userIdentity.userRecordName === guest && one.type !== "OWNER")) {
    return setPermission(client, permission);
  }
  const participants = [...known.participants, participant];
  return client.keepShare(await privateDatabase.updateShare(OWN, known, { participants }));
}

/**
 * Sets the permission of all participants.
 * @param {Client} client
 * @param {Permission} permission
 */
export async function setPermission(client, permission) {
  const { privateDatabase } = client.container;
  const share = await privateDatabase.zoneShare(OWN);
  if (!share) return undefined;
  const participants = share.participants.map((one) => (one.type === "OWNER" ? one : { ...one, permission }));
  return client.keepShare(await privateDatabase.updateShare(OWN, share, { participants }));
}

/**
 * Removes a participant. The share continues.
 * @param {Client} client
 * @param {string} guest
 */
export async function removeParticipant(client, guest) {
  const { privateDatabase } = client.container;
  const share = await privateDatabase.zoneShare(OWN);
  if (!share) return undefined;
  const participants = share.participants.filter((one) => one.userIdentity.userRecordName !== guest);
  return client.keepShare(await privateDatabase.updateShare(OWN, share, { participants }));
}

/**
 * Deletes the share.
 * @param {Client} client
 */
export async function stopSharing(client) {
  const share = await client.container.privateDatabase.zoneShare(OWN);
  if (share) await client.container.privateDatabase.endShare(OWN, share);
  client.keepShare(undefined);
}

/**
 * Accepts the share of a link.
 * @param {Client} client
 * @param {string} link
 */
export async function acceptShare(client, link) {
  const [outcome] = await client.container.acceptShares([link]);
  if (outcome instanceof RelayError) throw outcome;
  client.look("shared");
}
