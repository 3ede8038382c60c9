// The entry of a demo with an audience: guests enter with a PIN, the host's page with the secret of its link.

const KEY = "zonecast-demo-visit";

/**
 * @typedef {{ container: string, apiToken: string, users: Record<string, string>, pin?: string, hostSecret?: string }} Visit
 *   `users` has web auth tokens by user. Only the host has `pin` and `hostSecret`.
 */

const address = new URL(location.href);
export const isHost = address.searchParams.has("host");
export const isGuest = address.searchParams.has("join");

/** @returns {Visit | undefined} The visit of this window, which ends with the window. */
export function currentVisit() {
  if (!isHost && !isGuest) return undefined;
  const stored = sessionStorage.getItem(KEY);
  return stored ? JSON.parse(stored) : undefined;
}

/**
 * Enters the demo. Throws an error with a sentence for the user.
 * @param {{ pin?: string, host?: string, invitation?: string }} entry
 * @returns {Promise<Visit>}
 */
export async function enter(entry) {
  const headers = { "Content-Type": "application/json", "X-Zonecast-Demo": "join" };
  const answer = await fetch("join", { method: "POST", headers, body: JSON.stringify(entry) }).catch(() => {
    throw new Error("The demo does not answer. It may have ended.");
  });
  if (!answer.ok) throw new Error(answer.status === 404 ? "This demo has no audience." : await answer.text());
  const visit = { ...await answer.json(), hostSecret: entry.host };
  sessionStorage.setItem(KEY, JSON.stringify(visit));
  return visit;
}

/** Ends the visit of this window, whose demo has ended. */
export function leave() { sessionStorage.removeItem(KEY); }

/** The address for the audience; its QR code contains the PIN. */
export function audienceAddress(pin = "") {
  const link = new URL("?join", location.href.split(/[?#]/)[0]);
  link.hash = pin;
  return link.href;
}
